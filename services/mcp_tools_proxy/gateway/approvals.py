"""Approvals of calls by a second person: requested, found again by the same call, used once.

People decide in ``approval_desk``.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import structlog

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import (
    ApprovalPending,
    InternalError,
    OutcomeUnknown,
    PolicyDenied,
    ProxyError,
    RateLimitExceeded,
    ResultTooLarge,
    ServerUnavailable,
    ShuttingDown,
    ToolTimeout,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.approval_records import MAX_LISTED, ApprovalRecords
from mcp_tools_proxy.gateway.asked_calls import (
    AskedArguments,
    AskedCall,
    AskedFacts,
    AskedPolicy,
    BoundApproval,
    Decision,
    RefusedCall,
    Use,
    UsedApprovals,
)
from mcp_tools_proxy.storage.runs.run_store import run_key
from mcp_tools_proxy.telemetry.recorder import Recorder, caller_fields
from mcp_tools_proxy.wire.json_digest import json_digest

if TYPE_CHECKING:
    from mcp_tools_proxy.policy.cedar.written_policy import WrittenPolicy

ASKED, USED = "approval.asked", "approval.used"
"""Events."""

APPROVE_MODE = "approve"
"""The mode of the policies, as in records of calls."""

MAX_PER_RUN = 5
"""Calls of a run that can wait at the same time."""

MAX_PER_USER = 20
"""Calls of a user, or of a token without a user, that can wait at the same time."""

MAX_ARGUMENT_BYTES = 65_536
"""Maximum size of arguments as JSON: a person has to read them."""

KEPT_S = 86_400.0
"""Seconds for which a decision and its use are shown."""

MAX_MESSAGE_CHARS, MAX_MESSAGES_CHARS = 500, 2_000
"""Maximum characters of a policy's message, and of all, in the answer to a call that waits."""

MAX_EARLIER = 5
"""Used approvals of one call that are looked up when it is asked for again, the latest ones."""

UNCERTAIN_CODES = frozenset(
    it.code
    for it in (
        InternalError,
        OutcomeUnknown,
        ResultTooLarge,
        ServerUnavailable,
        ShuttingDown,
        ToolTimeout,
    )
)
"""Outcomes of calls that may have been carried out although their caller got no result."""

MAX_REMEMBERED = 50_000
"""Used approvals that a process remembers: a Redis that restarts from an older copy of its data
would offer them again."""

log = structlog.get_logger()

Notify = Callable[[str, AskedFacts, Mapping[str, object]], None]
"""Notifies an external service of an event, with further facts. Never raises or blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTimes:
    """Seconds after which a call no longer waits, and an approval can no longer be used."""

    waits_s: float = 3600.0
    valid_s: float = 3600.0

    @property
    def kept_s(self) -> float:
        """Seconds for which a decision is kept."""
        return max(KEPT_S, self.valid_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedApproval:
    """A call that policies stop.

    ``binding`` is a digest of everything that must be equal when the call is repeated,
    ``refusal_key`` one of the call in its run. With input for a repeated call, ``refusal_keys``
    also has that of the call without it. ``call_key`` is a digest of the asker, the tool and the
    arguments: equal in all runs and for all agents.
    """

    call: Call
    tool: str
    server_id: str | None
    policies: tuple[AskedPolicy, ...]
    binding: str
    refusal_keys: tuple[str, ...]
    call_key: str

    @property
    def refusal_key(self) -> str:
        """The key of a refusal of this call."""
        return self.refusal_keys[-1]

    @property
    def policy_ids(self) -> list[str]:
        """The ids of the policies."""
        return [it.policy_id for it in self.policies]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableApproval:
    """An approval that was not used when it was read."""

    facts: AskedFacts
    binding: str


class Approvals:
    """Asks for approvals and uses them.

    ``server_entry`` returns the entry of a server. Methods raise StateUnavailable if the store
    fails: then nothing is sent.
    """

    def __init__(
        self,
        records: ApprovalRecords,
        times: ApprovalTimes,
        *,
        server_entry: Callable[[str], object],
        recorder: Recorder,
        notify: Notify,
        now: Callable[[], datetime],
    ) -> None:
        self._records = records
        self._times = times
        self._server_entry = server_entry
        self._recorder = recorder
        self._notify = notify
        self._now = now
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._used: dict[str, None] = {}
        """The ids of approvals used by this process, oldest first."""

    def wanted(
        self,
        call: Call,
        spec: ComponentSpec,
        tool: str,
        policies: "Iterable[WrittenPolicy]",
        policy_set: bytes,
    ) -> WantedApproval:
        """Return the approval that a call needs; ``policy_set`` is the digest of all policies.

        The binding has everything that a person decides on, so a call that differs in any of it
        needs another approval. Input of the client for a repeated call is a part of its arguments.
        """
        caller = call.caller
        asked = tuple(
            AskedPolicy(policy_id=it.policy_id, message=it.message, approvers=it.approvers)
            for it in policies
        )
        entry = None if spec.server_id is None else self._server_entry(spec.server_id)
        more = call.input_responses
        asker = (caller.tenant_id, run_key(caller, "").owner.hex())
        asked_for = (
            call.kind.value,
            tool,
            "" if call.kind is Kind.TOOL else call.name,
            json_digest(call.arguments).hex(),
        )
        in_run = (*asker, _optional(None if call.run is None else call.run.run_id), *asked_for)
        inputs = [""]
        if more is not None:
            inputs.append(json_digest((_plain(more.responses), more.state)).hex())
        return WantedApproval(
            call=call,
            tool=tool,
            server_id=spec.server_id,
            policies=asked,
            binding=self._records.key_of(
                "binding",
                *in_run,
                inputs[-1],
                _optional(caller.agent),
                ascii((sorted({*caller.roles}), caller.documents and sorted(caller.documents))),
                json_digest(_plain(spec.as_mcp)).hex(),
                json_digest(_plain(entry)).hex(),
                policy_set.hex(),
                *sorted(it.policy_id for it in asked),
            ),
            refusal_keys=tuple(self._records.key_of("refusal", *in_run, it) for it in inputs),
            call_key=self._records.key_of("call", *asker, *asked_for),
        )

    async def granted(self, wanted: WantedApproval) -> UsableApproval:
        """Return the unused approval of a call; ask for one if it is missing.

        Raises ApprovalPending while it waits, PolicyDenied if a person refused it, and
        RateLimitExceeded if too many calls wait.
        """
        found = await self._find(wanted) or await self._ask(wanted)
        if isinstance(found, UsableApproval):
            return found
        raise await self._pending(found, wanted)

    async def peek(self, wanted: WantedApproval) -> UsableApproval:
        """Return the unused approval of a call; without one raise ApprovalPending or PolicyDenied.

        Nothing is asked for.
        """
        found = await self._find(wanted)
        if isinstance(found, UsableApproval):
            return found
        if found is not None:
            raise await self._pending(found, wanted)
        raise ApprovalPending(
            "a call would wait for the approval of a second person" + _messages(wanted.policies),
            details={"policy_ids": wanted.policy_ids},
        )

    async def use(self, grant: UsableApproval, wanted: WantedApproval) -> None:
        """Take an approval for the call that is sent next.

        Of concurrent calls, also of other replicas, one takes it; the others ask for another one,
        and get ApprovalPending.
        """
        facts = grant.facts
        claim = Use(claim=secrets.token_hex(16), used_at=self._now())
        is_first = facts.approval_id not in self._used
        if is_first:
            await self._keep_used(wanted.call_key, facts)
            is_first = (
                await self._unbind(grant.binding, facts)
                and await self._claimed_by(facts, claim) == claim.claim
            )
        if not is_first:
            found = await self._ask(wanted)
            facts = found.facts if isinstance(found, UsableApproval) else found
            raise await self._pending(facts, wanted)
        self._used[facts.approval_id] = None
        if len(self._used) > MAX_REMEMBERED:
            del self._used[next(iter(self._used))]
        self._record(USED, facts, wanted.call)

    async def end(self, grant: UsableApproval, code: str) -> None:
        """Keep the outcome of the call beside its use. If that fails, it stays unknown."""
        approval_id = grant.facts.approval_id
        try:
            use = await self._records.find(Use, approval_id)
            if use is not None:
                await self._records.replace(approval_id, use.model_copy(update={"code": code}))
        except ProxyError as error:
            log.warning("approval.outcome_not_kept", approval_id=approval_id, reason=error.reason)

    async def _keep_used(self, call_key: str, facts: AskedFacts) -> None:
        """Keep the approval's id with its call, before its use: later requests name it."""
        tenant_id = facts.tenant_id
        ids: tuple[str, ...] = (facts.approval_id,)
        known = await self._records.find(UsedApprovals, call_key)
        if known is not None and facts.approval_id in known.approval_ids:
            return
        if known is not None:  # removed and added again, so that it is kept for longer
            taken = await self._records.take(UsedApprovals, call_key) or known
            ids = (*taken.approval_ids, *ids)[-MAX_EARLIER:]
        used, kept_s = UsedApprovals(approval_ids=ids), self._times.kept_s
        held = await self._records.add(call_key, used, kept_s, tenant_id=tenant_id)
        if held != used:  # another replica uses another approval of the call at the same time
            merged = dict.fromkeys((*held.approval_ids, *ids))
            both = UsedApprovals(approval_ids=tuple(merged)[-MAX_EARLIER:])
            await self._records.replace(call_key, both)

    async def _claimed_by(self, facts: AskedFacts, claim: Use) -> str:
        """Write the use of an approval, and return the claim of the first one.

        The record outlives that of the decision: it is written later, for as long.
        """
        found = await self._records.add(
            facts.approval_id, claim, self._times.kept_s, tenant_id=facts.tenant_id
        )
        return found.claim

    async def _find(self, wanted: WantedApproval) -> AskedFacts | UsableApproval | None:
        """Return the waiting call or the unused approval. Raises PolicyDenied."""
        for key in wanted.refusal_keys:
            refusal = await self._records.find(RefusedCall, key)
            if refusal is not None:
                raise _refused(wanted, refusal.approval_id, refusal.note)
        bound = await self._records.find(BoundApproval, wanted.binding)
        return None if bound is None else await self._state(wanted, bound.approval_id)

    async def _state(
        self, wanted: WantedApproval, approval_id: str
    ) -> AskedFacts | UsableApproval | None:
        decision = await self._records.find(Decision, approval_id)
        if decision is None:
            asked = await self._records.find(AskedCall, approval_id)
            if asked is not None:
                return asked.facts
            decision = await self._records.find(Decision, approval_id)  # decided meanwhile
        if decision is None:
            return None
        if not decision.approved:
            raise _refused(wanted, approval_id, decision.note)
        is_used = approval_id in self._used or await self._records.find(Use, approval_id)
        if is_used or self._now() >= decision.valid_until:
            return None
        return UsableApproval(facts=decision.facts, binding=wanted.binding)

    async def _ask(self, wanted: WantedApproval) -> AskedFacts | UsableApproval:
        """Ask for an approval, or join the same call of another request.

        Limits are exact in one process. Two replicas that ask at the same moment can exceed them by
        one call each.
        """
        tenant_id = wanted.call.caller.tenant_id
        async with self._asking.setdefault(tenant_id, asyncio.Lock()):
            found = await self._find(wanted)
            if found is not None:
                return found
            asked, arguments = self._asked(wanted), _asked_arguments(wanted)
            await self._check_limits(asked)
            facts, waits_s = asked.facts, self._times.waits_s
            try:
                for record in (arguments, asked):
                    await self._records.add(facts.approval_id, record, waits_s, tenant_id=tenant_id)
                found = await self._bind(wanted, facts)
            except ProxyError:  # people would decide on a call that cannot find its approval
                with suppress(ProxyError):
                    await erase_asked(self._records, facts.approval_id)
                raise
            if found is not None:
                await erase_asked(self._records, facts.approval_id)
                return found
        self._record(ASKED, facts, wanted.call)
        self._notify(ASKED, facts, {})
        return facts

    async def _bind(
        self, wanted: WantedApproval, facts: AskedFacts
    ) -> AskedFacts | UsableApproval | None:
        """Bind a new approval; return another one that was bound first and can be used or waits."""
        own, tenant_id = BoundApproval(approval_id=facts.approval_id), facts.tenant_id
        ttl_s = self._times.waits_s + self._times.valid_s
        while True:
            held = await self._records.add(wanted.binding, own, ttl_s, tenant_id=tenant_id)
            if held == own:
                return None
            found = await self._state(wanted, held.approval_id)
            if found is not None:
                return found
            await self._unbind_id(wanted.binding, held.approval_id, tenant_id)

    async def _unbind(self, binding: str, facts: AskedFacts) -> bool:
        return await self._unbind_id(binding, facts.approval_id, facts.tenant_id)

    async def _unbind_id(self, binding: str, approval_id: str, tenant_id: str) -> bool:
        """Remove an approval from its binding; return whether this call did it.

        If another approval was bound meanwhile, it is bound again.
        """
        taken = await self._records.take(BoundApproval, binding)
        if taken is not None and taken.approval_id != approval_id:
            ttl_s = self._times.waits_s + self._times.valid_s
            await self._records.add(binding, taken, ttl_s, tenant_id=tenant_id)
            return False
        return taken is not None

    def _asked(self, wanted: WantedApproval) -> AskedCall:
        """Return the record of a new approval."""
        call, caller, now = wanted.call, wanted.call.caller, self._now()
        key = None if call.run is None else run_key(caller, call.run.run_id)
        return AskedCall(
            facts=AskedFacts(
                approval_id=secrets.token_hex(16),
                tenant_id=caller.tenant_id,
                user_id=caller.user_id,
                token=dict(caller.token_log_fields),
                is_stand_in=caller.stand_in is not None,
                user_is_unproved=caller.user_is_unproved,
                operator_id="" if caller.stand_in is None else caller.stand_in.user_id,
                agent=caller.agent,
                run_id=None if call.run is None else call.run.run_id,
                tool=wanted.tool,
                server_id=wanted.server_id,
                policies=wanted.policies,
                asked_at=now,
                expires_at=now + timedelta(seconds=self._times.waits_s),
            ),
            refusal_key=wanted.refusal_key,
            call_key=wanted.call_key,
            owner=run_key(caller, "").owner.hex(),
            run=None if key is None else key.digest.hex(),
        )

    async def _check_limits(self, asked: AskedCall) -> None:
        waiting = await self._records.of_tenant(AskedCall, asked.facts.tenant_id)
        own = [it for it in waiting if it.owner == asked.owner]
        of_run = [it for it in own if asked.run is not None and it.run == asked.run]
        for calls, most, whose in (
            (of_run, MAX_PER_RUN, "this run"),
            (own, MAX_PER_USER, "this user"),
            (waiting, MAX_LISTED, "this tenant"),
        ):
            if len(calls) >= most:
                ends = min(it.facts.expires_at for it in calls)
                raise RateLimitExceeded(
                    f"{len(calls)} calls of {whose} wait for an approval, which is the limit; wait "
                    "until a person has decided on one of them",
                    retry_after_s=max(1.0, round((ends - self._now()).total_seconds(), 1)),
                )

    async def _pending(self, facts: AskedFacts, wanted: WantedApproval) -> ApprovalPending:
        """Return the error of a call that waits."""
        earlier_id = await uncertain_approval(self._records, wanted.call_key)
        details: dict[str, object] = {
            "approval_id": facts.approval_id,
            "policy_ids": facts.policy_ids,
            "expires_at": facts.expires_at.isoformat(timespec="seconds"),
        }
        text = (
            "a second person has to approve this call, so it was not made; do not change it, and "
            "repeat it after the approval"
        )
        if earlier_id is not None:
            details["earlier_approval_id"] = earlier_id
            text = (
                "a second person has to approve this call, so it was not made again; but the same "
                "call was approved earlier and may have been carried out: check this first, tell "
                "the user, and repeat the call unchanged after the approval only if it was not"
            )
        return ApprovalPending(text + _messages(facts.policies), details=details)

    def _record(self, event: str, facts: AskedFacts, call: Call) -> None:
        payload = {"code": "OK", **caller_fields(call.caller), **approval_fields(facts)}
        self._recorder.record("info", event, call.trace_id, payload)


def _asked_arguments(wanted: WantedApproval) -> AskedArguments:
    """Return the record of a call's arguments. Raises PolicyDenied for unreadable ones."""
    call, more = wanted.call, wanted.call.input_responses
    shown: Mapping[str, object] = call.arguments
    if call.kind is not Kind.TOOL:
        shown = {call.kind.value: call.name, "arguments": shown}
    if more is not None:
        shown = {"arguments": shown, "input_responses": more.responses, "state": more.state}
    try:
        arguments = json.dumps(shown)
    except (ValueError, TypeError, RecursionError):
        arguments = None
    if arguments is None or len(arguments) > MAX_ARGUMENT_BYTES:
        raise PolicyDenied(
            "a person has to approve this call, and its arguments are too long to read; the limit "
            f"is {MAX_ARGUMENT_BYTES} bytes as JSON",
            details={"policy_ids": wanted.policy_ids},
        )
    return AskedArguments(arguments=arguments)


async def uncertain_approval(records: ApprovalRecords, call_key: str) -> str | None:
    """Return the latest used approval of a call that may have been carried out.

    The call still runs, the gateway stopped during it, or its result was lost. None without one.
    Raises StateUnavailable.
    """
    used = await records.find(UsedApprovals, call_key)
    for approval_id in reversed(() if used is None else used.approval_ids):
        use = await records.find(Use, approval_id)
        if use is not None and (use.code is None or use.code in UNCERTAIN_CODES):
            return approval_id
    return None


async def erase_asked(records: ApprovalRecords, approval_id: str) -> None:
    """Remove a call that waits, its arguments first. Raises StateUnavailable."""
    await records.take(AskedArguments, approval_id)
    await records.take(AskedCall, approval_id)


def approval_fields(facts: AskedFacts) -> dict[str, object]:
    """Return the fields of a record that identify an approval, without arguments."""
    return without_none(
        {
            "approval_id": facts.approval_id,
            "run_id": facts.run_id,
            "tool": facts.tool,
            "server_id": facts.server_id,
            "policies": [{"id": it, "mode": APPROVE_MODE} for it in facts.policy_ids],
        }
    )


def _messages(policies: Iterable[AskedPolicy]) -> str:
    """Return the messages of policies as the end of an error's text, shortened."""
    messages = dict.fromkeys(it.message for it in policies if it.message)
    found = "; ".join(_shortened(it, MAX_MESSAGE_CHARS) for it in messages)
    return f". Policy: {_shortened(found, MAX_MESSAGES_CHARS)}" if found else ""


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _refused(wanted: WantedApproval, approval_id: str, note: str) -> PolicyDenied:
    return PolicyDenied(
        f"a person refused this call{f': {note}' if note else ''}; do not repeat it",
        details={"approval_id": approval_id, "policy_ids": wanted.policy_ids},
    )


def _optional(text: str | None) -> str:
    """Return a text that differs for None and ""."""
    return "" if text is None else f"={text}"


def _plain(value: object) -> object:
    """Return a value as JSON, for its digest; unlike ``repr`` with the secrets of an entry."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = {it.name: _plain(getattr(value, it.name)) for it in fields(value)}
        return {type(value).__name__: shown}
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(repr, map(_plain, value)))
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | None) else repr(value)
