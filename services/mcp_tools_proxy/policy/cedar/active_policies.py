"""The active set of policies: which are valid, which wait for servers, and their decisions."""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime
from itertools import chain

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import Label
from mcp_tools_proxy.policy.cedar.call_facts import PolicyCall
from mcp_tools_proxy.policy.cedar.condition_facts import InvalidPolicy, Path
from mcp_tools_proxy.policy.cedar.fact_schema import PolicyAction
from mcp_tools_proxy.policy.cedar.policy_set import PolicyVerdict, ToolPolicies
from mcp_tools_proxy.policy.cedar.vocabulary import PolicyVocabulary
from mcp_tools_proxy.policy.cedar.written_policy import PolicyMode, WrittenPolicy
from mcp_tools_proxy.policy.runs.run_memory import RunMemory
from mcp_tools_proxy.wire.json_digest import json_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePolicies:
    """The last valid set of policies, prepared for the known tools.

    ``loaded`` is False until a set was valid since the start: every call is unavailable.
    ``waiting`` are policies that name tools of servers not discovered yet, by id, with the servers.
    """

    loaded: bool = False
    written: tuple[WrittenPolicy, ...] = ()
    waiting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    actions: Mapping[str, PolicyAction] = field(default_factory=dict)
    """The known tools and other ways to read."""
    by_action: Mapping[str, ToolPolicies] = field(default_factory=dict)
    unavailable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tool → the ids of waiting policies whose scope includes it."""
    digest: bytes = b""
    """SHA-256 of all policies: another set needs another approval."""
    problems: tuple[InvalidPolicy, ...] = ()
    """The problems of the current files, which are not active if there is one."""

    def seen(self, action: str, call: Call, now: datetime) -> PolicyCall | None:
        """Return the call for policies; None for a tool that is not known yet."""
        known = self.actions.get(action)
        if known is None:
            return None
        caller = call.caller
        return PolicyCall(
            caller=caller,
            entry=caller.origin.entry.value,
            action=known,
            arguments=call.arguments,
            now=now,
        )

    def reads_embedded(self, action: str) -> bool:
        """Return whether a policy for a tool reads ``context.embedded``."""
        policies = self.by_action.get(action)
        return policies is not None and ("embedded",) in policies.whole.paths

    def decide(self, call: PolicyCall, memory: RunMemory | None) -> PolicyVerdict:
        """Return the policies that stop a call; ``memory`` is that before the call, if any.

        A tool that is newer than this object is unavailable until ``load_policies`` knows it.
        """
        name = call.action.name
        policies = self.by_action.get(name)
        if not self.loaded or policies is None:
            return PolicyVerdict(unavailable=("no policies are loaded for this tool yet",))
        if waiting := self.unavailable.get(name):
            return PolicyVerdict(unavailable=waiting)
        return policies.decide(call, memory)


def load_policies(
    before: ActivePolicies,
    written: Iterable[WrittenPolicy] | None,
    *,
    actions: Iterable[PolicyAction],
    servers: Iterable[str],
    undiscovered: Iterable[str],
) -> ActivePolicies:
    """Return the state after a change of policies or tools. Blocks: call it in a thread.

    ``written`` are the policies of all files, None if a file is invalid: the last valid set is
    prepared for the current tools. Policies that were valid before are not validated again, so that
    a tool's changed schema leaves them active.

    A tool with the name of a group, such as ``gateway`` of a server that is called ``server``, is
    left out, so that its calls are unavailable: Cedar refuses a schema with both.
    """
    every = list(actions)
    groups = {*(f"label:{it}" for it in Label), *chain(*(it.groups for it in every))}
    known = [it for it in every if it.name not in groups]
    accepted = {it.policy_id: it for it in before.written if it.policy_id not in before.waiting}
    policies = before.written if written is None else tuple(written)
    paths = frozenset[Path]().union(*(it.facts.paths for it in policies))
    vocabulary = PolicyVocabulary.of(known, servers, undiscovered, paths)
    problems: list[InvalidPolicy] = []
    waiting: dict[str, tuple[str, ...]] = {}
    for it in policies:
        if accepted.get(it.policy_id) == it:
            continue
        found = vocabulary.check(it)
        problems += (InvalidPolicy(it.policy_id, problem, it.file) for problem in found.problems)
        if found.waits_for:
            waiting[it.policy_id] = tuple(dict.fromkeys(found.waits_for))
    if written is not None and problems:
        return replace(
            load_policies(before, None, actions=known, servers=servers, undiscovered=undiscovered),
            problems=tuple(problems),
        )
    # A waiting policy of the last valid set can turn out to be wrong once its server is known. It
    # keeps waiting, because to drop it would permit calls.
    for problem in problems:
        waiting.setdefault(problem.policy_id, ())
    if written is None and not before.loaded:
        return ActivePolicies(problems=tuple(problems))
    return _prepared(policies, waiting, known, tuple(problems))


def _prepared(
    policies: tuple[WrittenPolicy, ...],
    waiting: Mapping[str, tuple[str, ...]],
    actions: Iterable[PolicyAction],
    problems: tuple[InvalidPolicy, ...],
) -> ActivePolicies:
    prepared: dict[tuple[str, ...], ToolPolicies] = {}
    by_action: dict[str, ToolPolicies] = {}
    unavailable: dict[str, tuple[str, ...]] = {}
    known = {it.name: it for it in actions}
    for action in known.values():
        applicable = [it for it in policies if it.applies_to(action)]
        active = [it for it in applicable if it.policy_id not in waiting]
        ids = tuple(it.policy_id for it in active)
        if ids not in prepared:
            prepared[ids] = ToolPolicies.of(active)
        by_action[action.name] = prepared[ids]
        if blocked := tuple(
            it.policy_id
            for it in applicable
            if it.policy_id in waiting and it.mode is not PolicyMode.LOG_ONLY
        ):
            unavailable[action.name] = blocked
    return ActivePolicies(
        loaded=True,
        written=policies,
        waiting=waiting,
        actions=known,
        by_action=by_action,
        unavailable=unavailable,
        digest=json_digest([it.as_json for it in policies]),
        problems=problems,
    )
