import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mcp_tools_proxy.domain.errors import (
    ResultTooLarge,
    ServerBusy,
    ServerUnavailable,
    ToolTimeout,
)
from mcp_tools_proxy.downstream.connection import ConnectionFailure, ResponseTooLarge
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from tests.support.virtual_time import clock
from tests.unit.downstream.fake_server import (
    DONE,
    FakeServer,
    after,
    answering,
    failing_with,
    hang,
    in_turn,
    tool,
)
from tests.unit.downstream.observed_session import call, running, until


async def test_a_call_returns_the_raw_result() -> None:
    async with running(FakeServer(tool("add"))) as watched:
        assert await call(watched.session) == DONE


async def test_a_call_waits_for_a_running_connection_attempt() -> None:
    server = FakeServer(tool("add"))
    server.dial_takes_s = 5
    async with running(server, ready=False) as watched:
        assert await call(watched.session) == DONE


async def test_waiting_for_a_connection_counts_against_the_call_timeout() -> None:
    server = FakeServer(tool("add"))
    server.dial_takes_s = 20
    async with running(server, ready=False, call_timeout_s=8) as watched:
        started = clock()
        with pytest.raises(ToolTimeout):
            await call(watched.session)
        assert clock() - started == pytest.approx(8.0)


async def test_the_request_timeout_is_the_remaining_time_of_the_call() -> None:
    server = FakeServer(tool("add"))
    server.dial_takes_s = 5
    async with running(server, ready=False, call_timeout_s=8) as watched:
        await call(watched.session)
        assert server.timeouts[-1] == pytest.approx(3.0)


async def test_a_call_after_a_failed_attempt_fails_with_the_reason_and_retry_time() -> None:
    server = FakeServer()
    server.refuses_with = ConnectionFailure("connection refused")
    async with running(server, ready=False) as watched:
        await until(lambda: len(server.dials) == 4)
        started = clock()
        with pytest.raises(ServerUnavailable, match="connection refused") as caught:
            await call(watched.session)
        assert (clock() - started, caught.value.retry_after_s) == (0, 1.2)


async def test_a_connection_noticed_as_lost_between_calls_does_not_fail_a_call() -> None:
    server = FakeServer(tool("add"))
    async with running(server) as watched:
        await call(watched.session)
        server.link.lose()
        await asyncio.sleep(0.01)
        assert await call(watched.session) == DONE


async def test_a_server_killed_between_calls_fails_at_most_one_call() -> None:
    server = FakeServer(tool("add"))
    async with running(server) as watched:
        await call(watched.session)
        server.link.lose()
        with pytest.raises(ServerUnavailable):  # the loss is not noticed yet
            await call(watched.session)
        assert await call(watched.session) == DONE


async def test_calls_wait_while_an_interrupted_connection_is_checked() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = in_turn(
        failing_with(ConnectionFailure("cut off")), answering(DONE)
    )
    server.ping = _pong_after(2.0)
    async with running(server) as watched:
        with pytest.raises(ServerUnavailable):
            await call(watched.session)
        started = clock()
        await call(watched.session)
        assert clock() - started == pytest.approx(2.0)


async def test_calls_do_not_wait_while_a_slow_connection_is_checked() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = in_turn(hang, answering(DONE))
    server.ping = _pong_after(2.0)
    async with running(server) as watched:
        with pytest.raises(ToolTimeout):
            await call(watched.session)
        started = clock()
        await call(watched.session)
        assert clock() - started == 0


async def test_the_error_of_an_interrupted_call_names_server_and_reason() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = failing_with(ConnectionFailure("connection reset"))
    async with running(server) as watched:
        with pytest.raises(ServerUnavailable, match="notes is unavailable: connection reset"):
            await call(watched.session)


async def test_a_call_with_side_effects_is_never_sent_twice() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = failing_with(ConnectionFailure("connection reset"))
    async with running(server) as watched:
        with pytest.raises(ServerUnavailable):
            await call(watched.session)
    assert len(server.calls()) == 1


async def test_a_repeatable_call_is_retried_once() -> None:
    server = FakeServer(tool("add"))
    fault = failing_with(ConnectionFailure("connection reset"))
    server.answers["tools/call"] = in_turn(fault, answering(DONE))
    async with running(server) as watched:
        assert await call(watched.session, repeatable=True) == DONE


async def test_a_repeatable_call_is_not_retried_twice() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = failing_with(ConnectionFailure("connection reset"))
    async with running(server) as watched:
        with pytest.raises(ServerUnavailable):
            await call(watched.session, repeatable=True)
    assert len(server.calls()) == 2


async def test_a_repeatable_call_in_flight_moves_to_the_new_connection() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = in_turn(hang, answering(DONE))
    async with running(server) as watched, asyncio.TaskGroup() as tasks:
        answer = tasks.create_task(call(watched.session, repeatable=True))
        await until(server.calls)
        server.link.lose()
        assert (await answer, len(server.links)) == (DONE, 2)


async def test_a_repeatable_call_is_not_retried_after_its_timeout() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = hang
    async with running(server, call_timeout_s=3) as watched:
        with pytest.raises(ToolTimeout, match="within 3 s"):
            await call(watched.session, repeatable=True)
    assert len(server.calls()) == 1


async def test_a_call_over_the_limit_is_refused_immediately() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = hang
    async with running(server, max_calls_in_flight=2) as watched, asyncio.TaskGroup() as tasks:
        calls = [
            tasks.create_task(watched.session.sender.send("tools/call", {}, tenant_id=tenant_id))
            for tenant_id in ("tenant_1", "tenant_2")
        ]
        await until(lambda: len(server.calls()) == 2)
        with pytest.raises(ServerBusy) as caught:
            await call(watched.session)
        for one in calls:
            one.cancel()
    assert caught.value.details == {"server_id": "notes", "max_calls_in_flight": 2}


async def test_a_cancelled_caller_cancels_its_request_and_frees_its_slot() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = in_turn(hang, answering(DONE))
    async with running(server, max_calls_in_flight=1) as watched, asyncio.TaskGroup() as tasks:
        caller = tasks.create_task(call(watched.session))
        await until(server.calls)
        caller.cancel()
        await asyncio.wait([caller])
        assert (await call(watched.session), server.cancelled) == (DONE, 1)


async def test_the_error_for_an_oversized_answer_names_the_limit() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = failing_with(ResponseTooLarge(1000))
    async with running(server) as watched:
        with pytest.raises(ResultTooLarge, match="over 1000 bytes"):
            await call(watched.session)


async def test_an_error_of_the_server_is_passed_on_without_a_connection_check() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = failing_with(JsonRpcError(-32603, "boom"))
    async with running(server) as watched:
        with pytest.raises(JsonRpcError):
            await call(watched.session)
        await asyncio.sleep(1)
    assert server.pings == 0


async def test_draining_waits_for_calls_in_flight() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = after(3.0)
    async with running(server) as watched, asyncio.TaskGroup() as tasks:
        answer = tasks.create_task(call(watched.session))
        await until(server.calls)
        await watched.session.sender.drain(10)
        assert answer.done()


async def test_draining_ends_at_its_timeout() -> None:
    server = FakeServer(tool("add"))
    server.answers["tools/call"] = hang
    async with running(server) as watched, asyncio.TaskGroup() as tasks:
        answer = tasks.create_task(call(watched.session))
        await until(server.calls)
        await watched.session.sender.drain(10)
        assert not answer.done()
        answer.cancel()


async def test_calls_on_a_closed_session_fail_immediately() -> None:
    async with running(FakeServer(tool("add"))) as watched:
        pass
    with pytest.raises(ServerUnavailable, match="closed"):
        await call(watched.session)


def _pong_after(seconds: float) -> Callable[[], Awaitable[None]]:
    async def pong() -> None:
        await asyncio.sleep(seconds)

    return pong


async def test_earlier_waiting_counts_against_the_call_timeout() -> None:
    server = FakeServer(tool("add"))
    async with running(server, call_timeout_s=8) as watched:
        await watched.session.sender.send("tools/call", {"name": "add"}, waited_s=6)
        assert server.timeouts[-1] == pytest.approx(2.0)
