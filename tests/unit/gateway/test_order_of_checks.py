"""Explainer and executor refuse a call for the same reason if several reasons apply."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from typing import NoReturn

from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, Check, RuleSource
from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.domain.caller import Call, Caller, StandIn
from mcp_tools_proxy.domain.components import JsonObject, Result
from mcp_tools_proxy.domain.errors import (
    AuditUnavailable,
    DocumentNotFound,
    InvalidArguments,
    RetrievalNotConfigured,
    ServerUnavailable,
)
from mcp_tools_proxy.domain.guards import GuardAction, GuardName, GuardRule
from mcp_tools_proxy.domain.outcome import Failed
from mcp_tools_proxy.domain.run import RunRequest
from mcp_tools_proxy.gateway.check_processes import CheckProcesses
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.explainer import ORDER, PASS, Destinations, Explainer
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules
from mcp_tools_proxy.policy.blocklist import Blocklist
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.guards.screen import GuardSet
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import build_limiter
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.storage.runs.run_store import (
    Change,
    RunKey,
    T,
    UnusableRunStore,
    ended_run,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import (
    make_call,
    make_caller,
    make_idempotent_calls,
    make_run_checks,
    no_approvals,
)
from tests.support.fakes import FakePool, FakeTool
from tests.support.tables import each_row

WINDOWS = "read_chunk_window"
REMOTE = "s:search"

CODES = (
    *("AUDIT_UNAVAILABLE", "SHUTTING_DOWN", "AGENT_NOT_FOUND", "TOOL_NOT_ALLOWED", "FORBIDDEN"),
    *("INVALID_ARGUMENTS", "CONTENT_BLOCKED", "RATE_LIMIT_EXCEEDED", "DOCUMENT_NOT_FOUND"),
    *("RUN_EXPIRED", "POLICY_DENIED", "GUARD_REFUSED", "RETRIEVAL_NOT_CONFIGURED"),
    "SERVER_UNAVAILABLE",
)
"""One code of each check that can refuse a call, in order. A missing document is refused after the
tenant's budgets."""

OF_DOCUMENTS = ("FORBIDDEN", "DOCUMENT_NOT_FOUND", "RETRIEVAL_NOT_CONFIGURED")
"""Codes of the gateway's own tools only."""


@dataclass
class GatewayFixture:
    """A gateway in which a call is refused for each code of a set."""

    name: str
    codes: frozenset[str]

    async def decisions(self) -> tuple[str, str]:
        """Explain a call and make it; return both decisions."""
        lifecycle = Lifecycle()
        attempts = FirstAttempts(RegistryHolder(self._registry()), FakePool())
        limiter = build_limiter(
            BudgetLimits(
                document_calls=0, document_tokens=0, tenant_calls=1, tenant_tokens=0, window_s=60
            ),
            storage_url=None,
            metrics=Metrics(),
        )
        explainer = Explainer(
            first_attempts=attempts,
            limiter=limiter,
            blocklist=Blocklist(["leak"]),
            lifecycle=lifecycle,
            check_audit=self._check_audit,
            run_checks=self._run_checks(),
            destinations=Destinations(
                servers=tuple,
                check_call=self._check_call,
                windows_configured="RETRIEVAL_NOT_CONFIGURED" not in self.codes,
                windows_are_local=False,
            ),
        )
        executor = Executor(
            first_attempts=attempts,
            limiter=limiter,
            blocklist=Blocklist(["leak"]),
            lifecycle=lifecycle,
            idempotent_calls=make_idempotent_calls(),
            check_processes=CheckProcesses(),
            run_checks=self._run_checks(),
            max_result_bytes=100,
            on_finish=lambda _: None,
            reserve_record=self._reserve_record,
        )
        if "RATE_LIMIT_EXCEEDED" in self.codes:
            await limiter.admit(ChargedCall("tenant_1", "user_1", None, None, "other", None))
        lifecycle.phase = Phase.STOPPING if "SHUTTING_DOWN" in self.codes else Phase.SERVING
        explained = await explainer.explain(self._call())
        outcome = await executor.execute(self._call())
        return explained.decision, outcome.error.code if isinstance(outcome, Failed) else PASS

    def _call(self) -> Call:
        words = "a leak" if "CONTENT_BLOCKED" in self.codes else "words"
        hidden = "\u202e" if "GUARD_REFUSED" in self.codes else ""
        agent = "narrow" if "TOOL_NOT_ALLOWED" in self.codes else None
        caller = make_caller(agent="nobody" if "AGENT_NOT_FOUND" in self.codes else agent)
        if "FORBIDDEN" in self.codes:
            caller = replace(caller, stand_in=StandIn(reads_documents=False))
        call = make_call(self.name, {"query": words + hidden, "doc_id": "d"})
        run = RunRequest(run_id="r") if "RUN_EXPIRED" in self.codes else None
        if "POLICY_DENIED" in self.codes:
            run = RunRequest(run_id="r", tools=frozenset({"other"}))
        return replace(call, caller=caller, run=run)

    def _run_checks(self) -> RunChecks:
        if "RUN_EXPIRED" not in self.codes:
            return make_run_checks()
        return RunChecks(
            EndedRuns(), ActiveRunRules(()), no_approvals, now=lambda: datetime.now(UTC)
        )

    def _registry(self) -> Registry:
        rule = GuardRule(GuardAction.REFUSE, RuleSource("preset", "$.guards"))
        excluded = Exclusions([WINDOWS, REMOTE])
        return Registry.build(
            [Tool(self)],
            access_rules=AccessRules(agents={"narrow": Visibility(excluded=excluded)}),
            guards=GuardSet(preset={GuardName.HIDDEN_CHARACTERS: rule}),
        )

    def _check_audit(self) -> None:
        if "AUDIT_UNAVAILABLE" in self.codes:
            raise AuditUnavailable("no")

    def _reserve_record(self) -> bool:
        self._check_audit()
        return False

    async def _check_call(self, _server_id: str, _caller: Caller) -> str | None:
        if "SERVER_UNAVAILABLE" in self.codes:
            raise ServerUnavailable("no")
        return None


class EndedRuns(UnusableRunStore):
    """A store in which every run has ended."""

    def __init__(self) -> None:
        super().__init__("", is_wanted=False)

    async def update(self, key: RunKey, change: Change[T], *, may_begin: bool = True) -> NoReturn:
        raise ended_run()


class Tool(FakeTool):
    """A tool that refuses with the codes of its gateway."""

    def __init__(self, gateway: GatewayFixture) -> None:
        server_id = "s" if gateway.name == REMOTE else None
        super().__init__(
            name=gateway.name,
            server_id=server_id,
            needs_tenant=server_id is None,
            properties=("query", "doc_id"),
        )
        self._codes = gateway.codes

    def parse(self, arguments: JsonObject) -> object:
        if "INVALID_ARGUMENTS" in self._codes:
            raise InvalidArguments("no")
        return arguments

    async def check_document(self, parsed: object, call: Call) -> None:
        if "DOCUMENT_NOT_FOUND" in self._codes:
            raise DocumentNotFound("no")

    async def call(self, parsed: object, call: Call) -> Result:
        if "RETRIEVAL_NOT_CONFIGURED" in self._codes:
            raise RetrievalNotConfigured("no")
        if "SERVER_UNAVAILABLE" in self._codes:
            raise ServerUnavailable("no")
        return await super().call(parsed, call)


def codes_of(name: str) -> tuple[str, ...]:
    left_out = OF_DOCUMENTS if name == REMOTE else ("SERVER_UNAVAILABLE",)
    return tuple(it for it in CODES if it not in left_out)


@each_row("name", [WINDOWS, REMOTE])
async def test_the_earlier_of_two_refusals_decides_for_both(name: str) -> None:
    codes = codes_of(name)
    for first, second in (*zip(codes, codes, strict=True), *combinations(codes, 2)):
        found = await GatewayFixture(name, frozenset({first, second})).decisions()
        assert found == (first, first), (first, second)


@each_row("name", [WINDOWS, REMOTE])
async def test_an_admitted_call_passes_both(name: str) -> None:
    assert await GatewayFixture(name, frozenset()).decisions() == (PASS, PASS)


def test_every_check_of_a_call_is_compared() -> None:
    compared = {CHECK_OF_CODE[code] for code in CODES}
    apart = {Check.AUTHENTICATION, Check.REQUEST, Check.IDEMPOTENCY}
    assert compared - {Check.AUTHORIZATION} == set(ORDER) - apart
