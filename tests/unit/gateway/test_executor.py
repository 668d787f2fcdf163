import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace

import pytest

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.components import ComponentSpec, Result
from mcp_tools_proxy.domain.errors import DocumentNotFound, ProxyError, ServerUnavailable
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok, Outcome
from mcp_tools_proxy.gateway.check_processes import CheckProcesses
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.policy.blocklist import Blocked, Blocklist, Path
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import build_limiter
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import until
from tests.support.builders import make_call, make_idempotent_calls, make_run_checks
from tests.support.captured_logs import capture_logs
from tests.support.fakes import FakePool, FakePrompt, FakeResource, FakeTemplate, FakeTool
from tests.support.tables import each_row


class ObservedBlocklist(Blocklist):
    """A blocklist that records the threads of its searches."""

    def __init__(self) -> None:
        super().__init__(["leak"])
        self.threads: list[threading.Thread] = []

    def find(
        self, arguments: Mapping[str, object], filled_in: Collection[Path] = ()
    ) -> Blocked | None:
        self.threads.append(threading.current_thread())
        return super().find(arguments, filled_in)


class Fixture:
    """An executor with one tool, its lifecycle, and the recorded calls."""

    def __init__(self, tool: FakeTool, **budgets: int) -> None:
        self.now = 100.0
        self.blocklist = ObservedBlocklist()
        self.records: list[CallRecord] = []
        self.entered: list[str] = []
        self.lifecycle = Lifecycle()
        limits = dict.fromkeys(
            ("document_calls", "document_tokens", "tenant_calls", "tenant_tokens"), 0
        )
        self.executor = Executor(
            first_attempts=FirstAttempts(
                RegistryHolder(
                    Registry.build(
                        [tool],
                        prompts=[FakePrompt("hello", arguments=("doc_id",))],
                        resources=[FakeResource("u://1")],
                        templates=[FakeTemplate("u://")],
                    )
                ),
                FakePool(),
            ),
            limiter=build_limiter(
                BudgetLimits(**(limits | budgets), window_s=60), storage_url=None, metrics=Metrics()
            ),
            blocklist=self.blocklist,
            lifecycle=self.lifecycle,
            idempotent_calls=make_idempotent_calls(),
            check_processes=CheckProcesses(),
            run_checks=make_run_checks(),
            max_result_bytes=100,
            on_finish=self.records.append,
            on_start=self._enter,
            clock=lambda: self.now,
        )

    def _enter(self, _call: Call, spec: ComponentSpec) -> None:
        self.entered.append(spec.name)

    async def execute(self, call: Call | None = None) -> Outcome:
        return await self.executor.execute(call or make_call())


def raising(error: Exception) -> Callable[[Call], Awaitable[Result]]:
    async def run(_: Call) -> Result:
        raise error

    return run


def code_of(outcome: Outcome | None) -> str:
    assert isinstance(outcome, Failed)
    return outcome.error.code


async def test_a_call_returns_the_answer_of_the_tool() -> None:
    tool = FakeTool(answer={"a": 1}, tokens=3)
    outcome = await Fixture(tool).execute()
    assert outcome == Ok(spec=tool.spec, result={"a": 1}, result_json=b'{"a":1}', tokens=3)


class RemovedWhileRunning(FakeTool):
    """A tool whose document is removed while its first call runs, which then fails."""

    def __init__(self) -> None:
        super().__init__(properties=("doc_id",), run=self._fail)
        self.is_removed = False
        self.calls = 0
        self.go_on = asyncio.Event()

    async def check_document(self, parsed: object, call: Call) -> None:
        if self.is_removed:
            raise DocumentNotFound("gone")

    async def _fail(self, _: Call) -> Result:
        self.calls += 1
        await self.go_on.wait()
        self.is_removed = True
        raise ServerUnavailable("not now")


async def test_a_call_that_waited_for_an_idempotency_key_is_checked_again() -> None:
    tool = RemovedWhileRunning()
    fixture = Fixture(tool)
    call = replace(make_call(arguments={"doc_id": "d"}), idempotency_key="k")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(fixture.execute(call)) for _ in range(2)]
        await until(lambda: fixture.lifecycle.in_flight == 2)
        tool.go_on.set()
    assert [code_of(it.result()) for it in tasks] == ["SERVER_UNAVAILABLE", "DOCUMENT_NOT_FOUND"]
    assert tool.calls == 1


async def test_a_domain_error_is_a_failed_outcome() -> None:
    error = DocumentNotFound("no")
    outcome = await Fixture(FakeTool(run=raising(error))).execute()
    assert isinstance(outcome, Failed)
    assert outcome.error is error


async def test_an_unknown_exception_is_an_internal_error() -> None:
    outcome = await Fixture(FakeTool(run=raising(RuntimeError("secret")))).execute()
    assert isinstance(outcome, Failed)
    assert outcome.error.as_json == {
        "code": "INTERNAL_ERROR",
        "message": "internal error; tell the operator the trace_id: the log has it",
    }


async def test_an_unknown_exception_is_logged_with_its_trace_id() -> None:
    with capture_logs() as lines:
        await Fixture(FakeTool(run=raising(RuntimeError("secret")))).execute()
    assert (lines[0]["event"], lines[0]["trace_id"], lines[0]["exc_info"]) == (
        "call.crashed",
        "trace-1",
        True,
    )


async def test_a_result_over_the_limit_fails() -> None:
    outcome = await Fixture(FakeTool(answer={"a": "x" * 100})).execute()
    assert code_of(outcome) == "RESULT_TOO_LARGE"


@each_row(("server_id", "hint"), [(None, "read_doc_pages"), ("s", "ask for less at a time")])
async def test_the_error_for_an_oversized_result_states_the_next_step(
    server_id: str | None, hint: str
) -> None:
    outcome = await Fixture(FakeTool(answer={"a": "x" * 100}, server_id=server_id)).execute()
    assert isinstance(outcome, Failed)
    assert outcome.error.message.endswith(hint)


@pytest.mark.requirement("F-13")
@each_row(
    ("call", "value"),
    [
        (make_call("hello", kind=Kind.PROMPT), {"messages": []}),
        (make_call("u://1", kind=Kind.RESOURCE), {"contents": [{"uri": "u://1"}]}),
        (make_call("u://leak", kind=Kind.RESOURCE), {"contents": [{"uri": "u://leak"}]}),
    ],
    ids=["prompt", "resource", "template"],
)
async def test_prompts_and_resources_use_the_same_call_path(call: Call, value: object) -> None:
    fixture = Fixture(FakeTool())
    outcome = await fixture.execute(call)
    assert isinstance(outcome, Ok)
    assert (outcome.result, len(fixture.records)) == (value, 1)


@pytest.mark.requirement("T-06")
async def test_a_blocked_keyword_in_a_prompts_arguments_is_refused() -> None:
    call = make_call("hello", {"q": "leak"}, kind=Kind.PROMPT)
    assert code_of(await Fixture(FakeTool()).execute(call)) == "CONTENT_BLOCKED"


@each_row(("chars", "in_thread"), [(10, False), (30_000, True)])
async def test_a_long_text_is_searched_off_the_event_loop(chars: int, *, in_thread: bool) -> None:
    fixture = Fixture(FakeTool())
    await fixture.execute(make_call(arguments={"q": "x" * chars}))
    (thread,) = fixture.blocklist.threads
    assert (thread is not threading.current_thread()) is in_thread


@pytest.mark.requirement("F-15")
@each_row(
    ("kind", "code"), [(Kind.PROMPT, "PROMPT_NOT_FOUND"), (Kind.RESOURCE, "RESOURCE_NOT_FOUND")]
)
async def test_an_unknown_prompt_or_resource_is_a_failed_outcome(kind: Kind, code: str) -> None:
    assert code_of(await Fixture(FakeTool()).execute(make_call("nope", kind=kind))) == code


@pytest.mark.requirement("F-20")
async def test_only_calls_to_a_server_are_reported_on_entry() -> None:
    local, remote = Fixture(FakeTool()), Fixture(FakeTool(name="s:t", server_id="s"))
    await local.execute()
    await remote.execute(make_call("s:t"))
    await remote.execute(make_call("hello", kind=Kind.PROMPT))
    await remote.execute(make_call("s:other"))
    assert (local.entered, remote.entered) == ([], ["s:t", "hello"])


async def test_a_stopping_gateway_refuses_calls() -> None:
    fixture = Fixture(FakeTool())
    fixture.lifecycle.phase = Phase.STOPPING
    assert code_of(await fixture.execute()) == "SHUTTING_DOWN"


@each_row(
    ("tool", "call", "code"),
    [
        (FakeTool(), make_call(), "OK"),
        (FakeTool(), make_call("nope"), "TOOL_NOT_FOUND"),
        (FakeTool(), make_call(arguments={"q": "leak"}), "CONTENT_BLOCKED"),
        (FakeTool(run=raising(DocumentNotFound("no"))), make_call(), "DOCUMENT_NOT_FOUND"),
        (FakeTool(run=raising(KeyError("x"))), make_call(), "INTERNAL_ERROR"),
    ],
    ids=["ok", "unknown", "blocked", "failed", "crashed"],
)
async def test_every_call_is_recorded_once(tool: FakeTool, call: Call, code: str) -> None:
    fixture = Fixture(tool)
    await fixture.execute(call)
    (record,) = fixture.records
    assert ("OK" if isinstance(record.outcome, Ok) else code_of(record.outcome)) == code


async def test_the_record_contains_the_duration_of_the_call() -> None:
    async def work(_: Call) -> Result:
        fixture.now += 2.5
        return Result(value={}, tokens=0)

    fixture = Fixture(FakeTool(run=work))
    await fixture.execute()
    assert fixture.records[0].duration_s == 2.5


def hanging(started: asyncio.Event) -> Callable[[Call], Awaitable[Result]]:
    """Return the work of a tool that sets ``started`` and never ends."""

    async def hang(_: Call) -> Result:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    return hang


async def test_the_record_of_a_cancelled_call_lacks_an_outcome() -> None:
    started = asyncio.Event()
    fixture = Fixture(FakeTool(run=hanging(started)))
    async with asyncio.TaskGroup() as group:
        call = group.create_task(fixture.execute())
        await started.wait()
        call.cancel()
    assert [record.outcome for record in fixture.records] == [None]


async def test_a_call_stopped_at_the_end_of_the_grace_period_is_answered() -> None:
    started = asyncio.Event()
    fixture = Fixture(FakeTool(run=hanging(started)))
    async with asyncio.TaskGroup() as group:
        call = group.create_task(fixture.execute())
        await started.wait()
        fixture.lifecycle.cancel_in_flight()
    assert code_of(call.result()) == "SHUTTING_DOWN"


async def test_calls_in_flight_are_counted() -> None:
    seen: list[int] = []
    fixture: Fixture

    async def inspect(_: Call) -> Result:
        seen.append(fixture.lifecycle.in_flight)
        return Result(value={}, tokens=0)

    fixture = Fixture(FakeTool(run=inspect))
    await fixture.execute()
    assert [*seen, fixture.lifecycle.in_flight] == [1, 0]


async def codes(fixture: Fixture, *calls: Call) -> list[str]:
    outcomes = [await fixture.execute(call) for call in calls]
    return ["OK" if isinstance(outcome, Ok) else code_of(outcome) for outcome in outcomes]


@pytest.mark.requirement("T-08")
async def test_a_tool_with_doc_id_uses_document_budgets() -> None:
    fixture = Fixture(FakeTool(properties=("doc_id",)), document_calls=1)
    one, two = make_call(arguments={"doc_id": "1"}), make_call(arguments={"doc_id": "2"})
    assert await codes(fixture, one, one, two) == ["OK", "RATE_LIMIT_EXCEEDED", "OK"]


@pytest.mark.requirement("T-08")
async def test_a_tool_without_doc_id_does_not_use_document_budgets() -> None:
    fixture = Fixture(FakeTool(), document_calls=1)
    call = make_call(arguments={"doc_id": "1"})
    assert await codes(fixture, call, call) == ["OK", "OK"]


@pytest.mark.requirement("T-08")
async def test_a_server_tool_with_doc_id_uses_document_budgets() -> None:
    fixture = Fixture(FakeTool(), document_calls=1)
    one = make_call("hello", {"doc_id": "1"}, kind=Kind.PROMPT)
    two = make_call("hello", {"doc_id": "2"}, kind=Kind.PROMPT)
    assert await codes(fixture, one, one, two) == ["OK", "RATE_LIMIT_EXCEEDED", "OK"]


@pytest.mark.requirement("T-09")
async def test_a_token_budget_refuses_calls_after_being_overdrawn() -> None:
    fixture = Fixture(FakeTool(tokens=50), tenant_tokens=60)
    call = make_call()
    assert await codes(fixture, call, call, call) == ["OK", "OK", "RATE_LIMIT_EXCEEDED"]


@pytest.mark.requirement("T-09")
@each_row("error", [DocumentNotFound("no"), RuntimeError("crash")], ids=["failed", "crashed"])
async def test_a_call_that_fails_is_charged(error: Exception) -> None:
    fixture = Fixture(FakeTool(run=raising(error)), tenant_calls=1)
    await fixture.execute()
    assert await codes(fixture, make_call()) == ["RATE_LIMIT_EXCEEDED"]


@pytest.mark.requirement("T-06", "T-09")
async def test_a_blocked_call_is_not_charged() -> None:
    fixture = Fixture(FakeTool(), tenant_calls=1)
    await fixture.execute(make_call(arguments={"q": "leak"}))
    assert await codes(fixture, make_call()) == ["OK"]


def test_errors_display_their_message() -> None:
    assert str(ProxyError("what to do")) == "what to do"
