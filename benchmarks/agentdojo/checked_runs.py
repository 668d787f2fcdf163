"""The checks of runs and policies as calls pass them in the gateway, in this process."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from uuid import uuid4

from pydantic_core import from_json, to_json

from benchmarks.agentdojo.suites import Situation, Suite
from mcp_tools_proxy.config.labels import load_labels
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.components import ToolSpec
from mcp_tools_proxy.domain.errors import ApprovalPending, ProxyError, ToolFailed
from mcp_tools_proxy.domain.outcome import Ok, RunNote
from mcp_tools_proxy.domain.run import RunRequest, ToolLabels
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules, RunRules
from mcp_tools_proxy.policy.cedar.active_policies import ActivePolicies, load_policies
from mcp_tools_proxy.policy.cedar.fact_schema import action_of
from mcp_tools_proxy.policy.cedar.written_policy import PolicyMode, WrittenPolicy, read_policies
from mcp_tools_proxy.policy.runs.values import embedded_values, scalars
from mcp_tools_proxy.storage.runs.run_store import MemoryRunStore, RunLimits

CALLER = Caller(tenant_id="bench", user_id="user")
NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
LIMITS = RunLimits(runs=10_000_000, new_runs=10_000_000)


class StoppedCall(NamedTuple):
    """A call that was not made, with the ids of the policies."""

    tool: str
    arguments: Mapping[str, Any]
    policy_ids: Sequence[str]


async def _no_approval() -> NoReturn:
    raise ApprovalPending("a second person has to approve this call")


class CheckedSuite:
    """A suite behind the gateway's checks, with its labels and one file of policies."""

    def __init__(self, suite: Suite, labels: Path, policies: Path) -> None:
        self.suite = suite
        self.labels: Mapping[str, ToolLabels] = load_labels(labels)
        self._specs = {
            name: ToolSpec(
                name=f"{suite.name}:{name}",
                alias=f"{suite.name}__{name}",
                description=description,
                input_schema=schema,
                server_id=suite.name,
            )
            for name, (description, schema) in suite.tools.items()
        }
        if missing := {it.name for it in self._specs.values()} - self.labels.keys():
            raise ValueError(f"tools without labels: {', '.join(sorted(missing))}")
        written = list(read_policies(policies.name, policies.read_text(encoding="utf-8")))
        self._rules = self._prepared(written)
        self._approved = self._prepared(it for it in written if it.mode is not PolicyMode.APPROVE)

    def _prepared(self, written: Iterable[WrittenPolicy]) -> ActiveRunRules:
        suite = self.suite
        active = load_policies(
            ActivePolicies(),
            written,
            actions=[
                action_of(it.name, suite.name, self.labels[it.name], it.input_schema)
                for it in self._specs.values()
            ],
            servers=[suite.name],
            undiscovered=[],
        )
        if active.problems:
            raise ValueError("\n".join(f"{it.policy_id} {it.problem}" for it in active.problems))
        rules = ActiveRunRules(())
        rules.current = RunRules(labels=self.labels, policies=active)
        return rules

    def run(
        self, task: str, tools: Iterable[str] | None, planted: Iterable[object] = ()
    ) -> "CheckedRun":
        """Begin a run with the user's words and the declared tools, if any."""
        names = None if tools is None else frozenset(self._specs[it].name for it in tools)
        request = RunRequest(run_id=uuid4().hex, task=task, tools=names)
        store = MemoryRunStore(LIMITS, max_bytes=10**9)
        checks, approved = (
            RunChecks(store, it, _no_approval, now=lambda: NOW)
            for it in (self._rules, self._approved)
        )
        return CheckedRun(self, self._specs, (checks, approved), request, list(planted))


class CheckedRun:
    """One run: makes the calls that its run and the policies permit.

    ``planted`` are values that the attacker wrote into all claimed fields. ``stopped`` are the
    calls that were not made, ``asked`` those for which a second person was asked.
    """

    def __init__(
        self,
        suite: CheckedSuite,
        specs: Mapping[str, ToolSpec],
        checks: tuple[RunChecks, RunChecks],
        request: RunRequest,
        planted: list[object],
    ) -> None:
        self.stopped: list[StoppedCall] = []
        self.asked: list[StoppedCall] = []
        self._suite = suite
        self._specs = specs
        self._checks, self._approved_checks = checks
        self._request = request
        self._planted = planted

    async def call(
        self, situation: Situation, tool: str, arguments: Mapping[str, Any], *, is_approved: bool
    ) -> object | None:
        """Make a call if it is permitted, and return its result; None if it was stopped or failed.

        A second person approves it if it ``is_approved``, and no policy forbids it outright.
        """
        spec = self._specs[tool]
        call = Call(
            name=spec.name,
            caller=CALLER,
            trace_id="0" * 32,
            arguments=from_json(to_json(arguments)),
            run=self._request,
        )
        results: list[object] = []

        async def make(_: Call) -> Ok:
            result, error = situation.make(tool, arguments)
            if error is not None:
                raise ToolFailed(error)
            results.append(result)
            shown = self._with_planted(spec.name, result)
            return Ok(spec=spec, result={"structured_content": shown}, result_json=b"", tokens=0)

        note = RunNote()
        try:
            try:
                await self._checks.call(call, spec, note, make)
            except ApprovalPending:
                asking = [it for it, mode, _ in note.policies if mode == PolicyMode.APPROVE]
                self.asked.append(StoppedCall(tool, arguments, asking))
                if not is_approved:
                    self.stopped.append(self.asked[-1])
                    return None
                await self._approved_checks.call(call, spec, RunNote(), make)
        except ToolFailed:
            return None
        except ProxyError as error:
            ids = (error.details or {}).get("policy_ids")
            named = list(map(str, ids)) if isinstance(ids, list) else [error.code]
            self.stopped.append(StoppedCall(tool, arguments, named))
            return None
        return results[0]

    def _with_planted(self, tool: str, result: object) -> object:
        """Return a result whose claimed fields contain the attacker's values as well."""
        if not self._planted:
            return result
        shown = deepcopy(result)
        for path in self._suite.labels[tool].claimed:
            above, _, key = path.rpartition(".")
            for item in _objects_at(shown, above):
                if key in item:
                    item[key] = [item[key], *self._planted]
        return shown


def values_of(calls: Iterable[tuple[str, Mapping[str, Any]]]) -> list[object]:
    """Return the values in arguments, also links, addresses and account numbers in texts."""
    found = [it for _, arguments in calls for it in scalars(arguments)]
    return list(dict.fromkeys((*found, *embedded_values(found))))


def _objects_at(value: Any, path: str) -> list[dict[str, Any]]:
    found = [value]
    for step in path.split(".") if path else ():
        key = step.removesuffix("[]")
        found = [it[key] for it in found if isinstance(it, dict) and key in it]
        if step.endswith("[]"):
            found = [item for it in found if isinstance(it, list) for item in it]
    return [it for it in found if isinstance(it, dict)]
