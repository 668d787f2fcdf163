"""What becomes of a key, by how the work of its call ends."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from mcp_tools_proxy.domain.caller import Call, InputResponses
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
from tests.support.builders import make_call, make_idempotent_calls
from tests.support.fakes import FakeTool

SPEC = FakeTool().spec


class Calls:
    """Calls of one tool, and how often its work was done."""

    def __init__(self) -> None:
        self.made = 0
        self._calls = make_idempotent_calls()

    async def make(self, work: Callable[[], Awaitable[Ok]], call: Call | None = None) -> Outcome:
        async def counted() -> Ok:
            self.made += 1
            return await work()

        return await self._calls.call(call or make_call(), "k", SPEC, counted)


def ending(outcome: Ok | BaseException) -> Callable[[], Awaitable[Ok]]:
    """Return work that ends so."""

    async def work() -> Ok:
        if isinstance(outcome, Ok):
            return outcome
        raise outcome

    return work


def ok(*, input_required: bool = False) -> Ok:
    return Ok(spec=SPEC, result={}, result_json=b"{}", tokens=1, input_required=input_required)


CLIENT_ERROR = ToolFailed("open a page first", details={"code": -32042})
LONE_SURROGATE = ToolFailed("\ud800")


@pytest.mark.parametrize(
    "error",
    [RateLimitExceeded("later"), RetrievalNotConfigured("no"), CLIENT_ERROR],
    ids=["retryable", "nothing ran", "for the client"],
)
async def test_a_key_is_free_after_what_is_no_outcome(error: ProxyError) -> None:
    calls = Calls()
    with pytest.raises(type(error)):
        await calls.make(ending(error))
    assert await calls.make(ending(ok())) == ok()


@pytest.mark.parametrize(
    "end",
    [ShuttingDown("stopped"), ZeroDivisionError(), LONE_SURROGATE],
    ids=["cut off", "a defect", "an error that cannot be kept"],
)
async def test_a_call_that_may_have_been_carried_out_is_not_made_again(end: Exception) -> None:
    calls = Calls()
    with pytest.raises((type(end), ValueError)):
        await calls.make(ending(end))
    with pytest.raises(OutcomeUnknown):
        await calls.make(ending(ok()))
    assert calls.made == 1


async def test_each_round_of_a_call_that_requires_input_is_made_once() -> None:
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
