"""Waiting calls at the console: shown to people, who approve or refuse them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple
from unicodedata import normalize

from mcp_tools_proxy.auth.authenticator import proven_of
from mcp_tools_proxy.domain.audit import Origin
from mcp_tools_proxy.domain.errors import Forbidden, InvalidRequest, ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.gateway.approval_records import ApprovalRecords
from mcp_tools_proxy.gateway.approvals import (
    ApprovalTimes,
    Notify,
    approval_fields,
    erase_asked,
    uncertain_approval,
)
from mcp_tools_proxy.gateway.asked_calls import (
    AskedArguments,
    AskedCall,
    AskedFacts,
    AskedPolicy,
    Decision,
    RefusedCall,
    Use,
)
from mcp_tools_proxy.policy.runs.approvers import OWN, role_of
from mcp_tools_proxy.telemetry.recorder import Recorder
from mcp_tools_proxy.telemetry.request_events import origin_fields

SEEN, DECIDED = "approval.seen", "approval.decided"
"""Events."""

MAX_NOTE_CHARS = 500

REFUSED_S = 7 * 86_400.0
"""Seconds for which a refusal holds in its run: the default of MCP_PROXY_RUNS_MARK_S."""


class Approver(NamedTuple):
    """A person at the console, and the origin of the request."""

    person: Principal
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedCall:
    """A decision, and the use of the approval, if any.

    ``has_expired`` means that it can no longer be used.
    """

    decision: Decision
    use: Use | None
    has_expired: bool


class ApprovalDesk:
    """Lists, shows and decides on waiting calls for proved people of their tenant.

    ``check_audit`` raises AuditUnavailable if records cannot be kept. Methods raise Forbidden for
    others, and StateUnavailable if the store fails.
    """

    def __init__(
        self,
        records: ApprovalRecords,
        times: ApprovalTimes,
        *,
        recorder: Recorder,
        check_audit: Callable[[], None],
        notify: Notify,
        now: Callable[[], datetime],
    ) -> None:
        self._records = records
        self._times = times
        self._recorder = recorder
        self._check_audit = check_audit
        self._notify = notify
        self._now = now

    async def waiting(self, person: Principal) -> Sequence[AskedFacts]:
        """Return the calls of the person's tenant that wait, the first to expire first."""
        found = await self._records.of_tenant(AskedCall, _tenant_of(person))
        return sorted((it.facts for it in found), key=attrgetter("expires_at", "approval_id"))

    async def decisions(self, person: Principal) -> Sequence[Decision]:
        """Return the latest decisions of the person's tenant, the newest first."""
        found = await self._records.of_tenant(Decision, _tenant_of(person))
        return sorted(found, key=attrgetter("decided_at"), reverse=True)

    async def with_use(self, decision: Decision) -> DecidedCall:
        """Return a decision with the use of the approval."""
        use = None
        if decision.approved:
            use = await self._records.find(Use, decision.facts.approval_id)
        has_expired = self._now() >= decision.valid_until
        return DecidedCall(decision=decision, use=use, has_expired=has_expired)

    async def find(self, person: Principal, approval_id: str) -> AskedFacts | DecidedCall | None:
        """Return a call of the person's tenant that waits or was decided on, without arguments."""
        tenant_id = _tenant_of(person)
        decision = await self._records.find(Decision, approval_id)
        if decision is None:
            asked = await self._records.find(AskedCall, approval_id)
            if asked is not None:
                return asked.facts if asked.facts.tenant_id == tenant_id else None
            decision = await self._records.find(Decision, approval_id)  # decided meanwhile
        if decision is None or decision.facts.tenant_id != tenant_id:
            return None
        asked = await self._records.find(AskedCall, approval_id)
        if asked is not None:  # the replica that decided has stopped, or lost its store
            await self._finish(asked, decision)
        return await self.with_use(decision)

    async def earlier(self, person: Principal, approval_id: str) -> str | None:
        """Return the approval that the same call used before, if it may have been carried out.

        Its decision may already have been removed.
        """
        asked = await self._asked(person, approval_id)
        return None if asked is None else await uncertain_approval(self._records, asked.call_key)

    async def arguments(self, approver: Approver, approval_id: str) -> str | None:
        """Return the arguments of a waiting call as JSON, for a person who may decide on it.

        Each look is recorded. None for a call that no longer waits.
        """
        asked = await self._asked(approver.person, approval_id)
        if asked is None or await self._records.find(Decision, approval_id) is not None:
            return None
        check_may_decide(approver.person, asked.facts)
        self._check_audit()
        found = await self._records.find(AskedArguments, approval_id)
        if found is None:
            return None
        self._record(SEEN, asked.facts, approver)
        return found.arguments

    async def decide(
        self, approver: Approver, approval_id: str, *, approved: bool, note: str = ""
    ) -> Decision:
        """Decide on a waiting call; its arguments are erased.

        The first decision is valid: a later one raises InvalidRequest, except the same one of the
        same person, who got no answer because the store failed.
        """
        person = approver.person
        asked = await self._asked(person, approval_id)
        if asked is None:
            raise _not_waiting()
        facts = asked.facts
        check_may_decide(person, facts)
        if len(note) > MAX_NOTE_CHARS:
            raise InvalidRequest(f"note: has more than {MAX_NOTE_CHARS} characters")
        self._check_audit()
        now = self._now()
        decision = Decision(
            facts=facts,
            approved=approved,
            decided_by=person.user_id or "",
            decided_at=now,
            valid_until=now + timedelta(seconds=self._times.valid_s),
            note=note,
        )
        first = await self._records.add(
            approval_id, decision, self._times.kept_s, tenant_id=facts.tenant_id
        )
        is_own = first.model_copy(update=_times_of(decision)) == decision
        if is_own:  # recorded at once: the next requests to the store can fail
            self._record(DECIDED, facts, approver, decision="approved" if approved else "refused")
            self._notify(DECIDED, facts, {"approved": approved, "decided_by": decision.decided_by})
        await self._finish(asked, first)
        if not is_own:
            raise _not_waiting()
        return first

    async def _finish(self, asked: AskedCall, decision: Decision) -> None:
        """Keep a refusal for the call's run, and erase the arguments."""
        facts = decision.facts
        if not decision.approved:
            refusal = RefusedCall(approval_id=facts.approval_id, note=decision.note)
            holds_s = self._times.valid_s if facts.run_id is None else REFUSED_S
            await self._records.add(asked.refusal_key, refusal, holds_s, tenant_id=facts.tenant_id)
        await erase_asked(self._records, facts.approval_id)

    async def _asked(self, person: Principal, approval_id: str) -> AskedCall | None:
        asked = await self._records.find(AskedCall, approval_id)
        is_own_tenant = asked is not None and asked.facts.tenant_id == _tenant_of(person)
        return asked if is_own_tenant else None

    def _record(self, event: str, facts: AskedFacts, approver: Approver, **more: object) -> None:
        person = approver.person
        payload: Mapping[str, object] = {
            "code": "OK",
            **approval_fields(facts),
            **proven_of(person),
            "user_id": person.user_id,
            **origin_fields(approver.origin),
            **more,
        }
        self._recorder.record("info", event, None, payload)


def _times_of(decision: Decision) -> Mapping[str, object]:
    """Return the fields in which repeated decisions differ."""
    return {"decided_at": decision.decided_at, "valid_until": decision.valid_until}


def check_may_decide(person: Principal, facts: AskedFacts) -> None:
    """Raise Forbidden, with the reason, for a person who may not decide on a call."""
    _tenant_of(person)
    is_own = _is_own(person, facts)
    for policy in facts.policies:
        if not _allows(policy, person, is_own=is_own):
            raise Forbidden(
                "you asked for this call yourself; another person has to decide"
                if is_own
                else "a policy of this call allows only other people to decide; its approvers are "
                + ", ".join(policy.approvers)
            )


def may_decide(person: Principal, facts: AskedFacts) -> bool:
    """Return whether a person may decide on a call, and so read its arguments."""
    try:
        check_may_decide(person, facts)
    except ProxyError:
        return False
    return True


def _allows(policy: AskedPolicy, person: Principal, *, is_own: bool) -> bool:
    """Return whether a policy lets a person decide.

    Without approvers, all who may approve can, but not the user who asked.
    """
    if is_own:
        return OWN in policy.approvers
    roles = {role_of(it) for it in policy.approvers} - {None}
    return not policy.approvers or not roles.isdisjoint(person.roles)


def _is_own(person: Principal, facts: AskedFacts) -> bool:
    """Return whether a person asked for a call, also as an operator who acted for another user."""
    is_same_token = bool(facts.token) and dict(person.token_log_fields) == dict(facts.token)
    asked_by = {_folded(it) for it in (facts.user_id, facts.operator_id) if it}
    return is_same_token or _folded(person.user_id or "") in asked_by


def _folded(user_id: str) -> str:
    """Return a user's id as issuers compare it: a service may write it in another case."""
    return normalize("NFKC", user_id).casefold().strip()


def _tenant_of(person: Principal) -> str:
    """Return the tenant of a person who may approve. Raises Forbidden for others."""
    if person.tenant_id is None or not person.may_approve:
        raise Forbidden(
            'approvals are for people with the operator right "approve": sign in at the issuer, or '
            "with a token that has a tenant, a user, this right, and execute false"
        )
    return person.tenant_id


def _not_waiting() -> InvalidRequest:
    return InvalidRequest("the call no longer waits: it expired, or another person has decided")
