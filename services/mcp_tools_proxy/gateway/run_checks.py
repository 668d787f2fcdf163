"""Checks calls against their runs and the policies, and updates the memory of runs.

A run's memory is changed twice for each call: together with the decision, before the call is sent,
and before its answer leaves. So one order of the calls explains all decisions, also those of a
batch and of several replicas.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog
from pydantic_core import from_json

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec, JsonObject, ResourceSpec, ToolSpec
from mcp_tools_proxy.domain.errors import (
    AgentNotFound,
    AgentRequired,
    IdentityRequired,
    InternalError,
    LoginRequired,
    LoopStopped,
    PolicyDenied,
    PolicyUnavailable,
    ProxyError,
    RateLimitExceeded,
    RetrievalNotConfigured,
    RunExpired,
    RunRefused,
    RunRequired,
    ServerBusy,
    ToolFailed,
    ToolTimeout,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import Ok, PolicyNote, RunNote
from mcp_tools_proxy.domain.run import CHANGING_LABELS, Label, RunRequest
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules, RunRules
from mcp_tools_proxy.policy.cedar.fact_schema import LOCAL_SERVER
from mcp_tools_proxy.policy.runs.run_memory import (
    MAX_FAILURES,
    RunCall,
    RunFull,
    RunMemory,
    last_values,
    values_in,
)
from mcp_tools_proxy.policy.runs.tool_labels import action_name
from mcp_tools_proxy.policy.runs.values import scalars
from mcp_tools_proxy.storage.runs.run_store import RunStore, run_key
from mcp_tools_proxy.wire.json_digest import json_digest
from mcp_tools_proxy.wire.text import quote
from mcp_tools_proxy.wire.uris import percent_decode_repeatedly

LONG_CHARS = 65_536
"""Characters of arguments from which addresses in them are looked for in a thread, and bytes of
results for their values."""

RETRY_S = 5.0
"""Seconds after which a policy that waits for a server may be ready."""

READ_ONLY_RULE, TOOLS_RULE = "run.read_only", "run.tools"
"""The rules of a run itself, in ``policy_ids``."""

_NOT_READY = re.compile(
    r"not (?:yet )?(?:ready|available|finished|complete)|still (?:running|processing|pending)|"
    r"in progress|(?:try|retry|again) (?:again|later|in )|too many requests|rate.?limit|"
    r"time[sd]?.?out|temporar|\b(?:429|503)\b",
    re.IGNORECASE,
)
"""Error texts after which the same call can succeed: polling is not a loop."""

if TYPE_CHECKING:
    from mcp_tools_proxy.gateway.approvals import Approvals, UsableApproval, WantedApproval
    from mcp_tools_proxy.policy.cedar.written_policy import WrittenPolicy

log = structlog.get_logger()

Make = Callable[[Call], Awaitable[Ok]]
"""Makes a call that was admitted. Raises ProxyError."""


class RunChecks:
    """Makes calls if their runs and the policies permit it (contract §1, order of checks).

    ``open_approvals`` opens the approvals on first use, because ciphers are slow to import. ``now``
    returns the time in the zone in which policies read the clock.
    """

    def __init__(
        self,
        store: RunStore,
        rules: ActiveRunRules,
        open_approvals: "Callable[[], Awaitable[Approvals]]",
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._rules = rules
        self.now = now
        self._open_approvals = open_approvals

    def apply_to(self, call: Call) -> bool:
        """Return whether there is anything to check: a run, or policies."""
        return call.run is not None or self._rules.current.has_policies

    async def call(
        self, call: Call, spec: ComponentSpec, note: RunNote, make: Make, *, completes: bool = False
    ) -> Ok:
        """Make a call that its run and the policies permit; ``completes`` for a completion.

        Raises PolicyDenied, PolicyUnavailable, RunRequired, RunExpired, LoopStopped,
        ApprovalPending, StateUnavailable, and what ``make`` raises.
        """
        checked = await self._begun(call, spec, note, completes=completes)
        if call.run is None and checked.grant is None:
            return await make(call)
        try:
            made = await make(call if checked.grant is None else replace(call, is_sent_once=True))
        except Exception as error:
            await self._end(checked, error if isinstance(error, ProxyError) else InternalError())
            raise
        await self._end(checked, made)
        return made

    async def replayed(self, call: Call) -> None:
        """Keep the declarations of a replayed call; its run has read the outcome before.

        Raises RunExpired, LoopStopped, StateUnavailable.
        """
        run = call.run
        if run is None:
            return

        def declare(memory: RunMemory) -> ProxyError | None:
            try:
                memory.declare(run)
            except RunFull as full:
                return _full(full)
            return None

        refusal = await self._store.update(run_key(call.caller, run.run_id), declare)
        if refusal is not None:
            raise refusal

    async def refused(self, call: Call, error: ProxyError) -> ProxyError:
        """Count a call that failed before its run was asked, and return the error to show.

        The fourth identical one is stopped, like any other loop. The request's declarations are
        kept, because the next one may omit them. If those that narrow the run cannot be kept, that
        is the error, unless the run has ended. A call over its budget is not counted.
        """
        run = call.run
        if run is None or isinstance(error, RunRefused):
            return error
        is_counted = not isinstance(error, RateLimitExceeded)
        narrows = run.tools is not None or run.read_only
        if not (is_counted or narrows or run.task):
            return error
        digest = _digest(call, call.name)

        def count(memory: RunMemory) -> ProxyError:
            try:
                memory.declare(run)
            except RunFull as full:
                return _full(full)
            if not is_counted:
                return error
            is_loop = memory.is_loop(digest)
            memory.refuse(digest, may_be_repeated=is_loop or _may_be_repeated(error))
            return _loop_stopped() if is_loop else error

        try:
            return await self._store.update(run_key(call.caller, run.run_id), count)
        except RunExpired:
            return error
        except ProxyError as lost:
            return lost if narrows else error

    async def decide(self, call: Call, spec: ComponentSpec) -> None:
        """Decide on a call that is not made. Raises like ``call``."""
        checked = await self._checked(call, spec, RunNote())
        refusal = await self._peeked(checked)
        while isinstance(refusal, _ApprovalNeeded):
            approvals = await self._open_approvals()
            with _decided_by(refusal.policies):
                checked.grant = await approvals.peek(checked.wanted(approvals, refusal))
            refusal = await self._peeked(checked)
        if refusal is not None:
            raise refusal

    async def _peeked(self, checked: "_CheckedCall") -> "_Refusal":
        """Return the refusal of a call, without counting it."""
        call = checked.call
        if call.run is None:
            return checked.decide(None)
        key = run_key(call.caller, call.run.run_id)
        return await self._store.peek(key, partial(checked.begin, call.run))

    async def _begun(
        self, call: Call, spec: ComponentSpec, note: RunNote, *, completes: bool = False
    ) -> "_CheckedCall":
        """Decide on a call, and count it before it is sent.

        With an approval the decision is made again, because other calls of the run can have changed
        it. The approval is taken last: a call that is refused does not use it.
        """
        checked = await self._checked(call, spec, note, completes=completes)
        refusal = await self._counted(checked)
        while isinstance(refusal, _ApprovalNeeded):
            approvals = await self._open_approvals()
            wanted = checked.wanted(approvals, refusal)
            with _decided_by(refusal.policies):
                checked.grant = await approvals.granted(wanted)
            policies, refusal = refusal.policies, await self._counted(checked)
            if refusal is None:
                with _decided_by(policies):
                    await self._use(checked, approvals, wanted)
                note.approval_id = checked.grant.facts.approval_id
        if refusal is not None:
            raise refusal
        return checked

    async def _counted(self, checked: "_CheckedCall") -> "_Refusal":
        """Return the refusal of a call, if any; its run counts the refusal or the call."""
        call = checked.call
        if call.run is None:
            return checked.decide(None)
        key = run_key(call.caller, call.run.run_id)
        return await self._store.update(key, partial(checked.begin, call.run))

    async def _use(
        self, checked: "_CheckedCall", approvals: "Approvals", wanted: "WantedApproval"
    ) -> None:
        """Take the approval of a call that is counted."""
        grant, checked.grant = checked.grant, None
        assert grant is not None  # noqa: S101 - for mypy
        try:
            await approvals.use(grant, wanted)
        except ProxyError as error:
            error.nothing_ran = True  # another repetition may have used the approval
            await self._end(checked, error)
            raise
        checked.grant = grant

    async def _checked(
        self, call: Call, spec: ComponentSpec, note: RunNote, *, completes: bool = False
    ) -> "_CheckedCall":
        checked = _CheckedCall(
            call, spec, self._rules.current, note, self.now(), completes=completes
        )
        if checked.is_long:
            await asyncio.to_thread(checked.find_embedded)
        return checked

    async def _end(self, checked: "_CheckedCall", made: Ok | ProxyError) -> None:
        """Keep the outcome of a call. If that fails, later calls may be refused, but not permitted.

        Only kept values vouch, and the labels of the call were kept before it was sent. The label
        of an untrusted document is known only after the call: the answer leaves after its run has
        the label. Raises RunExpired, LoopStopped, StateUnavailable.
        """
        if checked.grant is not None:
            code = "OK" if isinstance(made, Ok) else made.code
            await (await self._open_approvals()).end(checked.grant, code)
        run = checked.call.run
        if run is None:
            return
        if isinstance(made, Ok) and len(made.result_json) > LONG_CHARS:
            await asyncio.to_thread(checked.find_values, made)
        elif isinstance(made, Ok):
            checked.find_values(made)
        try:
            refusal = await self._store.update(
                run_key(checked.call.caller, run.run_id),
                lambda memory: checked.end(memory, made),
                may_begin=False,
            )
        except ProxyError as error:
            if made.reads_untrusted:
                raise
            log.warning(
                "run.outcome_not_kept",
                trace_id=checked.call.trace_id,
                code=error.code,
                reason=error.reason,
            )
            return
        if refusal is not None:
            raise refusal


@dataclass(frozen=True, slots=True)
class _ApprovalNeeded:
    """The decision that only these policies stop a call, and that people can approve it."""

    policies: "Sequence[WrittenPolicy]"


_Refusal = ProxyError | _ApprovalNeeded | None


class _CheckedCall:
    """One call: its facts for policies, and its changes to the memory of its run."""

    def __init__(
        self,
        call: Call,
        spec: ComponentSpec,
        rules: RunRules,
        note: RunNote,
        now: datetime,
        *,
        completes: bool,
    ) -> None:
        self.call = call
        self.grant: UsableApproval | None = None
        """An approval, whose policies are waived."""
        self._spec = spec
        self._note = note
        self._policies = rules.policies
        self._has_policies = rules.has_policies
        self._labels = rules.labels_of(spec, completion=completes)
        self._quota = rules.quota_of(call.caller.agent)
        name = action_name(spec, completion=completes)
        self._counted = RunCall(
            tool=name,
            labels=self._labels.labels,
            server=spec.server_id or LOCAL_SERVER,
            digest=_digest(call, name if spec.kind is Kind.TOOL else call.name),
            amounts=_amounts(call.arguments),
        )
        self._values: Sequence[tuple[object, str]] = ()
        """Values in the result, with their origins."""
        self._seen = None
        if rules.policies is not None:
            shown = call if completes else _with_uri(call, spec)
            self._seen = rules.policies.seen(name, shown, now)
        note.run_id = None if call.run is None else call.run.run_id
        note.labels = tuple(sorted(self._labels.labels))

    @property
    def is_long(self) -> bool:
        """Whether policies look for addresses in long arguments."""
        return (
            self._policies is not None
            and self._policies.reads_embedded(self._counted.tool)
            and sum(
                len(it) for it in scalars(self.call.arguments, keys=True) if isinstance(it, str)
            )
            > LONG_CHARS
        )

    def find_embedded(self) -> None:
        """Find the addresses in arguments; slow."""
        if self._seen is not None:
            self._seen = self._seen.with_embedded()

    def wanted(self, approvals: "Approvals", needed: _ApprovalNeeded) -> "WantedApproval":
        """Return the approval that the call needs."""
        policy_set = b"" if self._policies is None else self._policies.digest
        return approvals.wanted(
            self.call, self._spec, self._counted.tool, needed.policies, policy_set
        )

    def begin(self, run: RunRequest, memory: RunMemory) -> _Refusal:
        """Decide on the call, and count it; return the refusal, which the run counts as well.

        A call that waits for an approval is not counted: it is repeated. A store over several
        replicas can ask again, after a call of another one.
        """
        self._note.number = None
        try:
            memory.declare(run)
            refusal = self._refusal(memory)
            if refusal is None:
                self._note.number = memory.reserve(self._counted)
        except RunFull as full:
            return _full(full)
        if isinstance(refusal, ProxyError):
            memory.refuse(self._counted.digest, may_be_repeated=True)
        return refusal

    def _refusal(self, memory: RunMemory) -> _Refusal:
        self._note.policies = ()
        if memory.read_only and not CHANGING_LABELS.isdisjoint(self._labels.labels):
            return self._denied_by(
                READ_ONLY_RULE, "this run only reads, and the tool may change things"
            )
        if memory.tools is not None and self._names and self._names.isdisjoint(memory.tools):
            return self._denied_by(TOOLS_RULE, "this run has not declared the tool")
        if memory.is_loop(self._counted.digest):
            return _loop_stopped()
        return self._over_quota(memory) or self.decide(memory)

    def _denied_by(self, rule: str, message: str) -> PolicyDenied:
        """Refuse the call by a rule of the run itself."""
        self._note.policies = (PolicyNote(rule, "enforce", message),)
        return _denied((rule,), message)

    def _over_quota(self, memory: RunMemory) -> LoopStopped | None:
        repeats = memory.repeats if memory.was_made(self._counted.digest) else 0
        for name, used, limit in (
            ("calls", memory.calls, self._quota.calls),
            ("tokens", memory.tokens, self._quota.tokens),
            ("errors", memory.errors, self._quota.errors),
            ("repeats", repeats, self._quota.repeats),
        ):
            if limit and used >= limit:
                return LoopStopped(
                    f"this run has reached its limit of {limit:,} {name}; tell the user, who can "
                    "go on in another run",
                    details={"limit": name, "max": limit},
                )
        return None

    @property
    def _names(self) -> frozenset[str]:
        """The names under which a tool can be declared; empty for other components."""
        spec = self._spec
        if not isinstance(spec, ToolSpec):
            return frozenset()
        own = (spec.name, spec.listed_name, spec.alias, spec.model_name, spec.gemini_name)
        return frozenset((self.call.name, *own))

    def decide(self, memory: RunMemory | None) -> _Refusal:
        """Return the refusal of the policies; ``memory`` is that before the call, if any."""
        if not self._has_policies:
            return None
        if self._policies is None or self._seen is None:
            return _unavailable(("the policies are not prepared for this tool yet",))
        verdict = self._policies.decide(self._seen, memory)
        stopping = (*verdict.failing, *verdict.enforced)
        fired = (*stopping, *verdict.approve, *verdict.logged, *verdict.run_required)
        self._note.policies = tuple(
            PolicyNote(it.policy_id, it.mode.value, it.message) for it in fired
        )
        if verdict.unavailable:
            return _unavailable(verdict.unavailable)
        if verdict.run_required:
            ids = [it.policy_id for it in verdict.run_required]
            needed = RunRequired(
                "a policy needs the run of this call; send run.id with it",
                details={"policy_ids": ids},
            )
            return _by(verdict.run_required, needed)
        if verdict.failed:
            failed = PolicyDenied(
                "a policy could not be evaluated for this call; tell an operator",
                details={"policy_ids": [it.policy_id for it in stopping]},
                reason="; ".join(verdict.failed)[:1_000],
            )
            return _by(stopping, failed)
        if verdict.enforced:
            messages = (it.message for it in verdict.enforced)
            shown = "; ".join(dict.fromkeys(filter(None, messages)))
            denied = _denied(
                [it.policy_id for it in verdict.enforced], shown or "a policy forbids this call"
            )
            return _by(verdict.enforced, denied)
        waived = () if self.grant is None else self.grant.facts.policy_ids
        if any(it.policy_id not in waived for it in verdict.approve):
            return _ApprovalNeeded(verdict.approve)
        return None

    def end(self, memory: RunMemory, made: Ok | ProxyError) -> ProxyError | None:
        """Keep the outcome of the call; return the refusal of an answer that cannot be given."""
        if made.reads_untrusted:
            self._note.labels = tuple(sorted({*self._labels.labels, Label.READS_UNTRUSTED}))
            try:
                memory.see(Label.READS_UNTRUSTED)
            except RunFull as full:
                return _full(full)
        if isinstance(made, Ok):
            self._note.read = made.read
            if not made.input_required:
                memory.succeed(self._counted, made.tokens, self._values)
        else:
            if _was_not_sent(made):
                memory.withdraw(self._counted)
            memory.fail(self._counted, may_be_repeated=_may_be_repeated(made))
        return None

    def find_values(self, made: Ok) -> None:
        """Find the identifiers and claimed values in a result; slow."""
        self._values = last_values(self._found(made))

    def _found(self, made: Ok) -> Iterator[tuple[object, str]]:
        labels = self._labels
        if labels.identifiers or labels.claimed:
            for part in _structured(made.result, is_local=self._spec.server_id is None):
                yield from values_in(part, self._counted.tool, labels)


def _by(policies: "Sequence[WrittenPolicy]", error: ProxyError) -> ProxyError:
    """Return an error whose rule is the first policy, for records and explanations."""
    if policies:
        error.rule = RuleSource(policies[0].file, f"@id({quote(policies[0].policy_id)})")
    return error


@contextmanager
def _decided_by(policies: "Sequence[WrittenPolicy]") -> Iterator[None]:
    """Set the rule of refusals by policies and by people; other errors keep theirs."""
    try:
        yield
    except RunRefused as error:
        _by(policies, error)
        raise


def _with_uri(call: Call, spec: ComponentSpec) -> Call:
    """Return a call for policies, which see what its URI adds to a server's template.

    Reading a page through ``https://{+page}`` sends its address, as the argument of a tool does. A
    listed resource has the URI that its server chose.
    """
    template = spec.as_mcp.get("uriTemplate") if isinstance(spec, ResourceSpec) else None
    if spec.server_id is None or not isinstance(template, str):
        return call
    begin = template.partition("{")[0]
    added = call.name.split(begin, 1)[-1] if begin else call.name
    return replace(call, arguments={"uri": [added, percent_decode_repeatedly(added)]})


def _digest(call: Call, name: str) -> bytes:
    return json_digest((call.kind.value, name, call.arguments))


def _amounts(arguments: JsonObject) -> dict[str, int]:
    """Return the integers among the arguments, for totals."""
    found: dict[str, int] = {}
    for name, value in arguments.items():
        if isinstance(value, float) and value.is_integer():
            found[name] = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            found[name] = value
    return found


def _structured(result: JsonObject, *, is_local: bool) -> Iterator[object]:
    """Yield the structured content of a result; without it, its text blocks that are wholly JSON.

    Other text can say anything, so nothing in it is an identifier.
    """
    if is_local:
        yield result
        return
    structured = result.get("structured_content")
    if structured is not None:
        yield structured
        return
    blocks = result.get("content")
    for block in blocks if isinstance(blocks, list | tuple) else ():
        text = block.get("text") if isinstance(block, Mapping) else None
        if isinstance(text, str) and text.strip()[:1] in ("{", "["):
            try:
                yield from_json(text)
            except ValueError:
                continue


_NOT_OF_THE_CALL = (
    *(AgentNotFound, AgentRequired, IdentityRequired, LoginRequired),
    *(RetrievalNotConfigured, RunRefused, ToolTimeout),
)
"""Errors after which the same tool and arguments can succeed."""


def _was_not_sent(error: ProxyError) -> bool:
    """Return whether a call surely had no effect; the connection may break after it was sent."""
    return error.nothing_ran or (isinstance(error, ServerBusy) and error.retryable)


def _may_be_repeated(error: ProxyError) -> bool:
    """Return whether the same call can succeed later, so that a repetition is not a loop."""
    if error.retryable or isinstance(error, _NOT_OF_THE_CALL):
        return True
    return isinstance(error, ToolFailed) and _NOT_READY.search(error.message) is not None


def _denied(policy_ids: Sequence[str], message: str) -> PolicyDenied:
    return PolicyDenied(message, details={"policy_ids": [*policy_ids]})


def _unavailable(reasons: Sequence[str]) -> PolicyUnavailable:
    return PolicyUnavailable(
        "the policies of this call cannot be evaluated yet; try again later",
        retry_after_s=RETRY_S,
        reason="; ".join(reasons)[:1_000],
    )


def _full(problem: RunFull) -> LoopStopped:
    return LoopStopped(str(problem), details={"limit": "memory"})


def _loop_stopped() -> LoopStopped:
    return LoopStopped(
        f"the same call failed {MAX_FAILURES} times in this run, so it was not made again; change "
        "its arguments, use another tool, or tell the user"
    )
