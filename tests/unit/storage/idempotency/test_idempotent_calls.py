import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from mcp_tools_proxy.domain.caller import Call, Caller, InputResponses
from mcp_tools_proxy.domain.components import ToolSpec
from mcp_tools_proxy.domain.errors import (
    IdempotencyConflict,
    OutcomeUnknown,
    ProxyError,
    RateLimitExceeded,
    RetrievalNotConfigured,
    ShuttingDown,
    ToolFailed,
)
from mcp_tools_proxy.domain.outcome import Ok, Outcome
from mcp_tools_proxy.domain.run import RunRequest
from mcp_tools_proxy.storage.idempotency.idempotent_calls import IdempotentCalls
from mcp_tools_proxy.storage.idempotency.records import (
    MemoryRecordStore,
    Record,
    RecordKey,
    RecordState,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_call
from tests.support.fakes import FakeTool
from tests.support.tables import each_row

SPEC = replace(FakeTool().spec, idempotent=False)


class CountingStore(MemoryRecordStore):
    """A store in memory that counts claims."""

    def __init__(self) -> None:
        super().__init__(ttl_s=600, max_bytes=100_000)
        self.claims = 0
        self.is_running_elsewhere = False

    async def claim(self, key: RecordKey, request: bytes) -> Record:
        self.claims += 1
        if self.is_running_elsewhere:
            return Record(RecordState.RUNNING, request)
        return await super().claim(key, request)


class Calls:
    """Calls of one tool; counts executions."""

    def __init__(self, spec: ToolSpec = SPEC) -> None:
        self.made = 0
        self.store = CountingStore()
        self._spec = spec
        self._calls = IdempotentCalls(self.store, Metrics())

    async def make(self, work: Callable[[], Awaitable[Ok]], call: Call | None = None) -> Outcome:
        async def counted() -> Ok:
            self.made += 1
            return await work()

        return await self._calls.call(call or make_call(), "k", self._spec, counted)


def ending(outcome: Ok | BaseException) -> Callable[[], Awaitable[Ok]]:
    """Return work that ends with this outcome."""

    async def work() -> Ok:
        if isinstance(outcome, Ok):
            return outcome
        raise outcome

    return work


def ok(*, input_required: bool = False) -> Ok:
    return Ok(spec=SPEC, result={}, result_json=b"{}", tokens=1, input_required=input_required)


CLIENT_ERROR = ToolFailed("open a page first", details={"code": -32042})
CLIENT_ERROR.nothing_ran = True
CLIENT_S_OWN_ERROR = ToolFailed("the client said no", details={"code": -32042})
LONE_SURROGATE = ToolFailed("\ud800")


@each_row(
    "error",
    [RateLimitExceeded("later"), RetrievalNotConfigured("no"), CLIENT_ERROR],
    ids=["retryable", "nothing ran", "for the client"],
)
async def test_a_key_is_free_after_a_call_that_was_not_executed(error: ProxyError) -> None:
    calls = Calls()
    with pytest.raises(type(error)):
        await calls.make(ending(error))
    assert await calls.make(ending(ok())) == ok()


@each_row(
    "end",
    [ShuttingDown("stopped"), ZeroDivisionError(), LONE_SURROGATE],
    ids=["cut off", "a defect", "an error that cannot be kept"],
)
async def test_a_call_that_may_have_been_executed_is_not_repeated(end: Exception) -> None:
    calls = Calls()
    with pytest.raises((type(end), ValueError)):
        await calls.make(ending(end))
    with pytest.raises(OutcomeUnknown):
        await calls.make(ending(ok()))
    assert calls.made == 1


async def test_an_error_of_the_client_is_an_outcome() -> None:
    """The server has started the call: it sent a request to the client."""
    calls = Calls()
    for _ in range(2):
        with suppress(ToolFailed):
            outcome = await calls.make(ending(CLIENT_S_OWN_ERROR))
            assert outcome.replayed
    assert calls.made == 1


async def test_an_interrupted_read_can_be_repeated() -> None:
    calls = Calls(replace(SPEC, idempotent=True))
    with pytest.raises(ShuttingDown):
        await calls.make(ending(ShuttingDown("stopped")))
    assert await calls.make(ending(ok())) == ok()


async def test_a_conflict_is_returned_while_another_replica_executes_the_call() -> None:
    calls, other = Calls(), replace(make_call(), arguments={"other": 1})
    calls.store.is_running_elsewhere = True
    first = asyncio.ensure_future(calls.make(ending(ok())))
    await asyncio.sleep(0.01)
    with pytest.raises(IdempotencyConflict):
        await calls.make(ending(ok()), other)
    first.cancel()


async def test_many_waiters_for_one_call_query_the_store_once() -> None:
    """With one query per waiter, each waking all others, 2,000 waiters took 7 s."""
    calls = Calls()
    begin = asyncio.Event()

    async def work() -> Ok:
        await begin.wait()
        return ok()

    waiting = [asyncio.ensure_future(calls.make(work)) for _ in range(50)]
    await asyncio.sleep(0)
    begin.set()
    outcomes = await asyncio.gather(*waiting)
    assert [it.replayed for it in outcomes] == [False, *[True] * 49]
    assert (calls.made, calls.store.claims) == (1, 1)


async def test_waiters_for_a_refused_call_retry_one_at_a_time() -> None:
    calls = Calls()
    refusals = iter([True, True, False])

    async def work() -> Ok:
        await asyncio.sleep(0)
        if next(refusals):
            raise RateLimitExceeded("later")
        return ok()

    ends = await asyncio.gather(*(calls.make(work) for _ in range(5)), return_exceptions=True)
    assert [type(it) for it in ends] == [RateLimitExceeded, RateLimitExceeded, Ok, Ok, Ok]
    assert calls.made == 3


async def test_each_round_of_a_call_that_requires_input_is_executed_once() -> None:
    calls = Calls()
    begun = [await calls.make(ending(ok(input_required=True))) for _ in range(2)]
    assert [(it.replayed, isinstance(it, Ok) and it.input_required) for it in begun] == [
        (False, True),
        (True, True),
    ]
    brought = InputResponses(responses={"q": {"action": "accept"}}, state="s")
    second = replace(make_call(), input_responses=brought)
    ends = [await calls.make(ending(ok()), second) for _ in range(2)]
    assert [it.replayed for it in ends] == [False, True]
    assert calls.made == 2
    other = replace(second, input_responses=replace(brought, responses={"q": {"action": "cancel"}}))
    with pytest.raises(IdempotencyConflict):
        await calls.make(ending(ok()), other)


async def test_a_run_without_a_user_gets_no_outcome_of_another_token() -> None:
    """It has not read the outcome."""
    calls = Calls()
    first, other = (
        replace(
            make_call(),
            caller=Caller(tenant_id="t", user_id="", token_log_fields={"token_id": token_id}),
            run=RunRequest(run_id="r"),
        )
        for token_id in ("a", "b")
    )
    for call in (first, other, first, other):
        await calls.make(ending(ok()), call)
    assert calls.made == 2
