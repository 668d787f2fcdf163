"""Argument completion counts as a call: same visibility, budgets and records."""

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.configuration import AgentProfile
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok, Outcome
from mcp_tools_proxy.gateway.check_processes import CheckProcesses
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.policy.blocklist import Blocklist
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import build_limiter
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_call, make_idempotent_calls, make_run_checks
from tests.support.fakes import FakePool, FakePrompt, FakeTemplate
from tests.support.tables import each_row

ARGUMENT = {"argument": {"name": "rest", "value": "x"}}


class Fixture:
    """An executor with a prompt of server ``s``, and a template of ``s`` and one of ``other``."""

    def __init__(self, *, calls: int = 0, excluded: tuple[str, ...] = ()) -> None:
        self.records: list[CallRecord] = []
        self.lifecycle = Lifecycle()
        budgets = BudgetLimits(
            document_calls=0, document_tokens=0, tenant_calls=calls, tenant_tokens=0, window_s=60
        )
        profile = AgentProfile(name="a", exclude_components=excluded)
        registry = Registry.build(
            [],
            prompts=[FakePrompt("hello")],
            templates=[FakeTemplate("u://"), FakeTemplate("o://", server_id="other")],
            access_rules=AccessRules(agents={"a": Visibility.of(profile, None)}),
        )
        self.executor = Executor(
            first_attempts=FirstAttempts(RegistryHolder(registry), FakePool()),
            limiter=build_limiter(budgets, storage_url=None, metrics=Metrics()),
            blocklist=Blocklist(["leak"]),
            lifecycle=self.lifecycle,
            idempotent_calls=make_idempotent_calls(),
            check_processes=CheckProcesses(),
            run_checks=make_run_checks(),
            max_result_bytes=1000,
            on_finish=self.records.append,
        )

    async def complete(self, call: Call) -> Outcome:
        return await self.executor.complete(call)


def code_of(outcome: Outcome) -> str:
    return outcome.error.code if isinstance(outcome, Failed) else "OK"


def prompt(name: str = "hello", **caller: str) -> Call:
    return make_call(name, ARGUMENT, kind=Kind.PROMPT, **caller)


def template(name: str, **caller: str) -> Call:
    return make_call(name, ARGUMENT, kind=Kind.RESOURCE, **caller)


@each_row(
    ("call", "values"),
    [
        (prompt(), ["hello"]),
        (prompt("s:hello"), ["hello"]),
        (template("u://{rest}"), ["u://{rest}"]),
        (template("other:o://{rest}"), ["o://{rest}"]),
    ],
    ids=["prompt", "prompt-of-server", "template", "template-of-server"],
)
async def test_arguments_of_visible_items_can_be_completed(call: Call, values: list[str]) -> None:
    outcome = await Fixture().complete(call)
    assert isinstance(outcome, Ok)
    assert outcome.result == {"completion": {"values": values}}


@each_row(
    ("call", "code"),
    [
        (prompt("nobody"), "PROMPT_NOT_FOUND"),
        (template("u://1"), "RESOURCE_NOT_FOUND"),
        (prompt(agent="a"), "PROMPT_NOT_ALLOWED"),
        (template("u://{rest}", agent="a"), "RESOURCE_NOT_ALLOWED"),
        (template("o://{rest}", agent="a"), "OK"),
        (prompt(agent="b"), "AGENT_NOT_FOUND"),
    ],
    ids=["no-prompt", "no-template", "excluded", "excluded-template", "left", "no-agent"],
)
async def test_arguments_of_hidden_items_cannot_be_completed(call: Call, code: str) -> None:
    fixture = Fixture(excluded=("prompt:hello", "resource:u://{rest}"))
    assert code_of(await fixture.complete(call)) == code


async def test_a_completion_is_charged_as_one_call() -> None:
    fixture = Fixture(calls=2)
    codes = [code_of(await fixture.complete(prompt())) for _ in range(3)]
    assert codes == ["OK", "OK", "RATE_LIMIT_EXCEEDED"]


async def test_a_completion_is_recorded() -> None:
    fixture = Fixture()
    outcome = await fixture.complete(prompt())
    assert [(r.call.name, r.outcome) for r in fixture.records] == [("hello", outcome)]


async def test_a_blocked_keyword_in_the_completed_value_is_refused() -> None:
    call = make_call("hello", {"argument": {"name": "n", "value": "a leak"}}, kind=Kind.PROMPT)
    assert code_of(await Fixture().complete(call)) == "CONTENT_BLOCKED"


async def test_completion_is_refused_while_the_process_stops() -> None:
    fixture = Fixture()
    fixture.lifecycle.phase = Phase.STOPPING
    assert code_of(await fixture.complete(prompt())) == "SHUTTING_DOWN"
