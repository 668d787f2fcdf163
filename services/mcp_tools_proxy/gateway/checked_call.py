"""One call as its run and the policies see it, and its changes to the memory of the run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic_core import from_json

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec, JsonObject, ResourceSpec, ToolSpec
from mcp_tools_proxy.domain.errors import (
    AgentNotFound,
    AgentRequired,
    IdentityRequired,
    LoginRequired,
    LoopStopped,
    PolicyDenied,
    PolicyUnavailable,
    ProxyError,
    RetrievalNotConfigured,
    RunRefused,
    RunRequired,
    ServerBusy,
    ToolFailed,
    ToolTimeout,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.outcome import Ok, PolicyNote, RunNote
from mcp_tools_proxy.domain.run import CHANGING_LABELS, Label, RunRequest
from mcp_tools_proxy.gateway.run_rules import RunRules
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


@dataclass(frozen=True, slots=True)
class ApprovalNeeded:
    """The decision that only these policies stop a call, and that people can approve it."""

    policies: "Sequence[WrittenPolicy]"


Refusal = ProxyError | ApprovalNeeded | None


class CheckedCall:
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
            digest=digest_of_call(call, name if spec.kind is Kind.TOOL else call.name),
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

    def wanted(self, approvals: "Approvals", needed: ApprovalNeeded) -> "WantedApproval":
        """Return the approval that the call needs."""
        policy_set = b"" if self._policies is None else self._policies.digest
        return approvals.wanted(
            self.call, self._spec, self._counted.tool, needed.policies, policy_set
        )

    def begin(self, run: RunRequest, memory: RunMemory) -> Refusal:
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
            return run_is_full(full)
        if isinstance(refusal, ProxyError):
            memory.refuse(self._counted.digest, may_be_repeated=True)
        return refusal

    def _refusal(self, memory: RunMemory) -> Refusal:
        self._note.policies = ()
        if memory.read_only and not CHANGING_LABELS.isdisjoint(self._labels.labels):
            return self._denied_by(
                READ_ONLY_RULE, "this run only reads, and the tool may change things"
            )
        if memory.tools is not None and self._names and self._names.isdisjoint(memory.tools):
            return self._denied_by(TOOLS_RULE, "this run has not declared the tool")
        if memory.is_loop(self._counted.digest):
            return loop_stopped()
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

    def decide(self, memory: RunMemory | None) -> Refusal:
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
            return ApprovalNeeded(verdict.approve)
        return None

    def end(self, memory: RunMemory, made: Ok | ProxyError) -> ProxyError | None:
        """Keep the outcome of the call; return the refusal of an answer that cannot be given."""
        if made.reads_untrusted:
            self._note.labels = tuple(sorted({*self._labels.labels, Label.READS_UNTRUSTED}))
            try:
                memory.see(Label.READS_UNTRUSTED)
            except RunFull as full:
                return run_is_full(full)
        if isinstance(made, Ok):
            self._note.read = made.read
            if not made.input_required:
                memory.succeed(self._counted, made.tokens, self._values)
        else:
            if _was_not_sent(made):
                memory.withdraw(self._counted)
            memory.fail(self._counted, may_be_repeated=may_be_repeated(made))
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
def decided_by(policies: "Sequence[WrittenPolicy]") -> Iterator[None]:
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


def digest_of_call(call: Call, name: str) -> bytes:
    """Return the digest of a call: identical calls have the same one."""
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


def may_be_repeated(error: ProxyError) -> bool:
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


def run_is_full(problem: RunFull) -> LoopStopped:
    """Return the refusal of a request for which the run's memory has no space."""
    return LoopStopped(str(problem), details={"limit": "memory"})


def loop_stopped() -> LoopStopped:
    """Return the refusal of a call that failed too often."""
    return LoopStopped(
        f"the same call failed {MAX_FAILURES} times in this run, so it was not made again; change "
        "its arguments, use another tool, or tell the user"
    )
