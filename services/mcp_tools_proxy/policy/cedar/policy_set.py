"""Valid policies, prepared for each tool, and their decision on a call."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import cedarpy

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.cedar.written_policy import Path, PolicyMode, WrittenPolicy

_PERMIT = "(permit)"
_ALL = {"op": "All"}
_BASE = {
    "effect": "permit",
    "principal": _ALL,
    "action": _ALL,
    "resource": _ALL,
    "conditions": [],
}


class Verdict(NamedTuple):
    """The policies that forbid a call, by their mode.

    ``failed`` tells that a policy could not be evaluated: such a call is refused, because Cedar
    skips the policy and would permit it.
    """

    enforced: Sequence[WrittenPolicy] = ()
    approve: Sequence[WrittenPolicy] = ()
    logged: Sequence[WrittenPolicy] = ()
    failed: Sequence[str] = ()


PERMITTED = Verdict()


@dataclass(frozen=True, slots=True)
class ToolPolicies:
    """The policies whose scope includes one tool; ``reads`` are the facts that they need."""

    policies: Mapping[str, WrittenPolicy]
    reads: frozenset[Path]
    compiled: cedarpy.PolicySet

    @classmethod
    def of(cls, policies: Iterable[WrittenPolicy]) -> "ToolPolicies":
        """Prepare policies of one tool."""
        known = {it.policy_id: it for it in policies}
        written = {policy_id: it.as_json for policy_id, it in known.items()}
        whole = {
            "templates": {},
            "templateLinks": [],
            "staticPolicies": {**written, _PERMIT: _BASE},
        }
        return cls(
            known,
            frozenset().union(*(it.reads | it.tests for it in known.values())),
            cedarpy.PolicySet.from_json_str(json.dumps(whole)),
        )

    def decide(self, request: dict[str, Any], entities: str) -> Verdict:
        """Return the policies that forbid a request."""
        result = cedarpy.is_authorized(request, self.compiled, entities)
        fired = [self.policies[it] for it in result.diagnostics.reasons if it != _PERMIT]
        failed = list(result.diagnostics.errors)
        if result.decision is cedarpy.Decision.NoDecision and not failed:
            failed = ["no decision"]
        if not fired and not failed:
            return PERMITTED
        by_mode = {mode: [it for it in fired if it.mode is mode] for mode in PolicyMode}
        return Verdict(
            by_mode[PolicyMode.ENFORCE],
            by_mode[PolicyMode.APPROVE],
            by_mode[PolicyMode.LOG_ONLY],
            failed,
        )
