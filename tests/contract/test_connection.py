"""Common behaviour of every Link, over each transport in both eras."""

import asyncio

import pytest

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from tests.downstream.connections import SERVER_KINDS, SPOKEN, connection_to
from tests.support import leak_checks
from tests.support.bounds import BOUND_S, until

DUPLEX = [kind for kind in SERVER_KINDS if not kind.startswith("http")]
NOTIFYING = [kind for kind in SERVER_KINDS if kind != "http-legacy-stateless"]
"""Transports over which a server can notify of changes; without a session it cannot."""

every_kind = pytest.mark.parametrize("kind", SERVER_KINDS)


@every_kind
async def test_a_link_reports_the_negotiated_era_and_transport(kind: str) -> None:
    async with connection_to(kind) as line:
        era = "2026-07-28" if SERVER_KINDS[kind]["era"] == "modern" else "2025-11-25"
        assert (line.link.era, line.link.transport) == (
            era,
            SPOKEN[SERVER_KINDS[kind]["transport"]],
        )
        assert line.link.capabilities["tools"] == {"listChanged": True}


@every_kind
async def test_results_keep_unknown_fields(kind: str) -> None:
    async with connection_to(kind) as line:
        result = await line.call("undecodable", result={"answer": 42, "x-new": [None, {"a": 1.5}]})
        assert (result["answer"], result["x-new"]) == (42, [None, {"a": 1.5}])


@every_kind
async def test_the_callers_meta_reaches_the_server(kind: str) -> None:
    async with connection_to(kind) as line:
        params = {"name": "meta", "arguments": {}, "_meta": {"traceparent": "00-a-b-01"}}
        result = await line.link.request("tools/call", params, timeout_s=BOUND_S)
        assert result["structuredContent"]["traceparent"] == "00-a-b-01"


@every_kind
async def test_many_parallel_calls_each_get_their_answer(kind: str) -> None:
    async with connection_to(kind) as line:
        results = await asyncio.gather(*(line.call("echo", text=str(n)) for n in range(100)))
        assert [result["structuredContent"]["text"] for result in results] == [
            str(number) for number in range(100)
        ]


@every_kind
async def test_the_servers_error_is_a_peer_error(kind: str) -> None:
    async with connection_to(kind) as line:
        with pytest.raises(JsonRpcError) as caught:
            await line.call("error", code=-32077, message="No.")
        assert (caught.value.code, caught.value.message) == (-32077, "No.")


@every_kind
async def test_a_call_that_times_out_is_cancelled_at_the_server_and_the_next_one_works(
    kind: str,
) -> None:
    async with connection_to(kind) as line, asyncio.timeout(BOUND_S):
        while not await line.counted("count"):
            with pytest.raises(TimeoutError):  # on a busy machine often before the request is sent
                await line.call("hang", 0.1)


@every_kind
async def test_cancelling_a_call_cancels_it_at_the_server(kind: str) -> None:
    async with connection_to(kind) as line, asyncio.timeout(BOUND_S):
        task = asyncio.ensure_future(line.call("hang"))
        await line.until_running(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await line.until_cancelled(1)


@pytest.mark.parametrize("kind", NOTIFYING)
async def test_a_changed_list_is_notified(kind: str) -> None:
    async with connection_to(kind) as line:
        async with asyncio.timeout(BOUND_S):
            while not line.changes:  # its stream may not be open yet
                await line.call("tools_swap")


@every_kind
async def test_a_flood_of_changes_does_not_delay_calls(kind: str) -> None:
    async with connection_to(kind) as line:
        async with asyncio.timeout(BOUND_S):
            flood, answer = await asyncio.gather(
                line.call("flood", count=2000), line.call("echo", text="x")
            )
        assert [it["content"][0]["text"] for it in (flood, answer)] == ["flooded", '{"text": "x"}']


@every_kind
async def test_an_answer_of_ten_megabytes_arrives_complete(kind: str) -> None:
    async with connection_to(kind) as line:
        result = await line.call("big", bytes=10_000_000)
        assert len(result["content"][0]["text"]) == 10_000_000


@every_kind
async def test_garbage_fails_no_other_call(kind: str) -> None:
    async with connection_to(kind) as line:
        slow = asyncio.ensure_future(line.call("sleep", seconds=0.3))
        with pytest.raises((ConnectionFailure, TimeoutError)):
            await line.call("garbage", 0.1)
        assert (await slow)["content"][0]["text"] == "slept"


@every_kind
async def test_a_ping_is_answered(kind: str) -> None:
    async with connection_to(kind) as line:
        await line.link.ping(timeout_s=BOUND_S)


@every_kind
@pytest.mark.parametrize("fault", ["crash", "half"])
async def test_a_server_that_dies_during_a_call_fails_it_immediately(kind: str, fault: str) -> None:
    async with connection_to(kind) as line:
        with pytest.raises(ConnectionFailure):  # not TimeoutError
            await line.call(fault)


@pytest.mark.parametrize("kind", DUPLEX)
async def test_a_lost_connection_is_reported_with_a_reason(kind: str) -> None:
    async with connection_to(kind) as line:
        with pytest.raises(ConnectionFailure):
            await line.call("crash")
        assert await asyncio.wait_for(line.link.wait_lost(), BOUND_S)


@every_kind
async def test_closing_does_not_wait_for_hanging_calls(kind: str) -> None:
    async with asyncio.timeout(BOUND_S):
        async with connection_to(kind) as line:
            calls = [asyncio.ensure_future(line.call("hang")) for _ in range(5)]
            await line.until_running(5)
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, ConnectionFailure) for result in results)


@every_kind
async def test_hundreds_of_cancelled_calls_leak_nothing(kind: str) -> None:
    async with connection_to(kind) as line:
        await line.call("echo", text="x")
        before = leak_checks.tasks()
        for _ in range(2):
            calls = [asyncio.ensure_future(line.call("hang")) for _ in range(100)]
            await asyncio.sleep(0.01)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        server = line.server
        if server is not None:
            await until(lambda: server.script.running_count == 0, "no call runs at the server")
        await until(lambda: leak_checks.tasks() <= before + 5, "the tasks are gone")
        await line.call("echo", text="x")
