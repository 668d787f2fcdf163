"""The checks of runs and policies as calls pass them in the gateway, in this process."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple
from uuid import uuid4

from pydantic_core import from_json, to_json

from benchmarks.agentdojo.suites import Situation, Suite
from mcp_tools_proxy.config.labels import load_labels
from mcp_tools_proxy.domain.audit import UNKNOWN_ORIGIN
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.components import ToolSpec
from mcp_tools_proxy.domain.errors import ApprovalPending, ProxyError, ToolFailed
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.domain.outcome import Ok, RunNote
from mcp_tools_proxy.domain.run import RunRequest, ToolLabels
from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk, Approver
from mcp_tools_proxy.gateway.approval_records import ApprovalRecords
from mcp_tools_proxy.gateway.approvals import Approvals, ApprovalTimes
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules, RunRules
from mcp_tools_proxy.policy.cedar.active_policies import ActivePolicies, load_policies
from mcp_tools_proxy.policy.cedar.fact_schema import action_of
from mcp_tools_proxy.policy.cedar.written_policy import read_policies
from mcp_tools_proxy.policy.runs.values import embedded_values, scalars
from mcp_tools_proxy.storage.logins.sign_in_store import MemorySignIns
from mcp_tools_proxy.storage.runs.run_store import MemoryRunStore, RunLimits

CALLER = Caller(tenant_id="bench", user_id="user")
COLLEAGUE = Principal(
    tenant_id="bench",
    user_id="colleague",
    rights=frozenset({OperatorRight.APPROVE}),
    executes=False,
)
NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
LIMITS = RunLimits(runs=10_000_000, new_runs=10_000_000)


class StoppedCall(NamedTuple):
    """A call that was not made, with the ids of the policies."""

    tool: str
    arguments: Mapping[str, Any]
    policy_ids: Sequence[str]


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
        active = load_policies(
            ActivePolicies(),
            read_policies(policies.name, policies.read_text()),
            actions=[
                action_of(it.name, suite.name, self.labels[it.name], it.input_schema)
                for it in self._specs.values()
            ],
            servers=[suite.name],
            undiscovered=[],
        )
        if active.problems:
            raise ValueError("\n".join(f"{it.policy_id} {it.problem}" for it in active.problems))
        self._rules = ActiveRunRules(())
        self._rules.current = RunRules(labels=self.labels, policies=active)

    def run(
        self, task: str, tools: Iterable[str] | None, planted: Iterable[object] = ()
    ) -> "CheckedRun":
        """Begin a run with the user's words and the declared tools, if any."""
        names = None if tools is None else frozenset(self._specs[it].name for it in tools)
        request = RunRequest(run_id=uuid4().hex, task=task, tools=names)
        store = MemoryRunStore(LIMITS, max_bytes=10**9)
        colleague = Colleague()
        checks = RunChecks(store, self._rules, colleague.open, now=lambda: NOW)
        return CheckedRun(self, self._specs, checks, colleague, request, list(planted))


class Colleague:
    """A second person, who approves calls as at the console."""

    def __init__(self) -> None:
        records, times = ApprovalRecords(MemorySignIns(), [token_bytes(32)]), ApprovalTimes()
        self._calls = Approvals(
            records,
            times,
            server_entry=lambda _: None,
            recorder=NoRecorder(),
            notify=lambda *_: None,
            now=lambda: NOW,
        )
        self._desk = ApprovalDesk(
            records,
            times,
            recorder=NoRecorder(),
            check_audit=lambda: None,
            notify=lambda *_: None,
            now=lambda: NOW,
        )

    async def open(self) -> Approvals:
        """Return the approvals that calls ask for."""
        return self._calls

    async def approve(self, approval_id: str) -> None:
        """Approve a waiting call."""
        await self._desk.decide(Approver(COLLEAGUE, UNKNOWN_ORIGIN), approval_id, approved=True)


class NoRecorder:
    """Keeps no records."""

    def record(self, *_: object, **__: object) -> None:
        """Do nothing."""


class CheckedRun:
    """One run: makes the calls that its run and the policies permit.

    ``planted`` are values that the attacker wrote into all claimed fields. ``stopped`` are the
    calls that were not made, ``asked`` those for which a second person was asked.
    """

    def __init__(
        self,
        suite: CheckedSuite,
        specs: Mapping[str, ToolSpec],
        checks: RunChecks,
        colleague: Colleague,
        request: RunRequest,
        planted: list[object],
    ) -> None:
        self.stopped: list[StoppedCall] = []
        self.asked: list[StoppedCall] = []
        self._suite = suite
        self._specs = specs
        self._checks = checks
        self._colleague = colleague
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

        try:
            try:
                await self._checks.call(call, spec, RunNote(), make)
            except ApprovalPending as pending:
                details = pending.details or {}
                self.asked.append(StoppedCall(tool, arguments, _texts(details["policy_ids"])))
                if not is_approved:
                    self.stopped.append(self.asked[-1])
                    return None
                await self._colleague.approve(str(details["approval_id"]))
                await self._checks.call(call, spec, RunNote(), make)
        except ToolFailed:
            return None
        except ProxyError as error:
            ids = _texts((error.details or {}).get("policy_ids"))
            self.stopped.append(StoppedCall(tool, arguments, ids or [error.code]))
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


def _texts(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []


def _objects_at(value: Any, path: str) -> list[dict[str, Any]]:
    found = [value]
    for step in path.split(".") if path else ():
        key = step.removesuffix("[]")
        found = [it[key] for it in found if isinstance(it, dict) and key in it]
        if step.endswith("[]"):
            found = [item for it in found if isinstance(it, list) for item in it]
    return [it for it in found if isinstance(it, dict)]
