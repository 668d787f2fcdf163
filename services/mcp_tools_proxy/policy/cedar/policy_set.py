"""Valid policies, prepared for each tool, and their decision on a call."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import cedarpy

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.cedar.call_facts import (
    FactUnavailable,
    PolicyCall,
    entities_of,
    request_of,
)
from mcp_tools_proxy.policy.cedar.condition_facts import Path
from mcp_tools_proxy.policy.cedar.written_policy import PolicyMode, WrittenPolicy
from mcp_tools_proxy.policy.runs.run_memory import RunMemory

_PERMIT = ""
"""The id of the base policy; no ``@id`` is empty."""
_ALL = {"op": "All"}
_BASE = {
    "effect": "permit",
    "principal": _ALL,
    "action": _ALL,
    "resource": _ALL,
    "conditions": [],
}


class PolicyVerdict(NamedTuple):
    """The policies that forbid a call, by their mode, in the order of their ids.

    ``failed`` has the errors of the ``failing`` policies: such a call is refused, because Cedar
    skips a policy that fails and would permit the call. ``run_required`` are policies that need a
    run, which the call does not name. ``logged`` also has the ``log_only`` policies that could not
    be evaluated: enforced, they would refuse the call.
    """

    enforced: Sequence[WrittenPolicy] = ()
    approve: Sequence[WrittenPolicy] = ()
    logged: Sequence[WrittenPolicy] = ()
    failed: Sequence[str] = ()
    run_required: Sequence[WrittenPolicy] = ()
    unavailable: Sequence[str] = ()
    """Why policies cannot be evaluated yet; the call can be repeated later."""
    failing: Sequence[WrittenPolicy] = ()


PERMITTED = PolicyVerdict()


@dataclass(frozen=True, slots=True)
class _PreparedPolicies:
    """Policies that are evaluated together; ``paths`` are the facts that they need."""

    policies: Mapping[str, WrittenPolicy]
    paths: frozenset[Path]
    compiled: cedarpy.PolicySet

    @classmethod
    def of(
        cls, policies: Iterable[WrittenPolicy], *, scope_only: bool = False
    ) -> "_PreparedPolicies":
        known = {it.policy_id: it for it in policies}
        written = {
            policy_id: {**it.as_json, "conditions": []} if scope_only else it.as_json
            for policy_id, it in known.items()
        }
        whole = {
            "templates": {},
            "templateLinks": [],
            "staticPolicies": {**written, _PERMIT: _BASE},
        }
        paths = (it.facts.paths for it in known.values())
        return cls(
            known,
            frozenset() if scope_only else frozenset().union(*paths),
            cedarpy.PolicySet.from_json_str(json.dumps(whole), release_gil=True),
        )

    def fired(
        self, call: PolicyCall, memory: RunMemory | None, entities: cedarpy.Entities
    ) -> tuple[list[WrittenPolicy], list[str]]:
        """Return the policies that forbid a call, and why others could not be evaluated."""
        if not self.policies:
            return [], []
        try:
            request = request_of(call, memory, self.paths)
        except FactUnavailable as error:
            return [], [str(error)]
        result = cedarpy.is_authorized(dict(request), self.compiled, entities)
        reasons = sorted(it for it in result.diagnostics.reasons if it != _PERMIT)
        failed = list(result.diagnostics.errors)
        if result.decision is cedarpy.Decision.NoDecision and not failed:
            failed = ["no decision"]
        if not reasons and not failed and not result.allowed:
            failed = ["a refusal without a policy"]
        return [self.policies[it] for it in reasons], failed

    def failing(
        self, call: PolicyCall, memory: RunMemory | None, failed: Iterable[str]
    ) -> list[WrittenPolicy]:
        """Return the policies that could not be evaluated; ``failed`` are Cedar's errors."""
        return [
            it
            for policy_id, it in sorted(self.policies.items())
            if any(f"policy `{policy_id}`:" in error for error in failed)
            or not _has_facts(it, call, memory)
        ]


def _has_facts(policy: WrittenPolicy, call: PolicyCall, memory: RunMemory | None) -> bool:
    try:
        request_of(call, memory, policy.facts.paths)
    except FactUnavailable:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ToolPolicies:
    """The policies whose scope includes one tool.

    ``binding`` are those that are not ``log_only``, evaluated alone if the whole set fails.
    ``scopes`` are the scopes of policies that need a run, for calls without one.
    """

    whole: _PreparedPolicies
    binding: _PreparedPolicies
    scopes: _PreparedPolicies

    @classmethod
    def of(cls, policies: Iterable[WrittenPolicy]) -> "ToolPolicies":
        """Prepare policies of one tool."""
        known = list(policies)
        binding = [it for it in known if it.mode is not PolicyMode.LOG_ONLY]
        whole = _PreparedPolicies.of(known)
        return cls(
            whole,
            whole if len(binding) == len(known) else _PreparedPolicies.of(binding),
            _PreparedPolicies.of((it for it in binding if it.needs_run), scope_only=True),
        )

    def decide(self, call: PolicyCall, memory: RunMemory | None) -> PolicyVerdict:
        """Return the policies that stop a call; ``memory`` is that before the call, if any."""
        if not self.whole.policies:
            return PERMITTED
        try:
            entities = entities_of(call)
        except ValueError as error:
            unknown = [*self.binding.policies.values()]
            return PolicyVerdict(failed=[str(error)], failing=unknown)
        if memory is None and self.scopes.policies:
            required, failed = self.scopes.fired(call, memory, entities)
            if failed or required:
                return PolicyVerdict(failed=failed, run_required=required)
        fired, failed = self.whole.fired(call, memory, entities)
        logged = _of_mode(PolicyMode.LOG_ONLY, fired)
        if failed and self.binding is not self.whole:
            logged += _of_mode(PolicyMode.LOG_ONLY, self.whole.failing(call, memory, failed))
            fired, failed = self.binding.fired(call, memory, entities)
        if not fired and not failed and not logged:
            return PERMITTED
        return PolicyVerdict(
            _of_mode(PolicyMode.ENFORCE, fired),
            _of_mode(PolicyMode.APPROVE, fired),
            logged,
            failed,
            failing=self.binding.failing(call, memory, failed) if failed else (),
        )


def _of_mode(mode: PolicyMode, policies: Iterable[WrittenPolicy]) -> list[WrittenPolicy]:
    return [it for it in policies if it.mode is mode]
