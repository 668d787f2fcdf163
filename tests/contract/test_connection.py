"""What every Link does, over each transport and in both eras."""

import asyncio

import pytest

from mcp_tools_proxy.downstream.connection import ConnectionFailure, JsonRpcError
from tests.downstream.connections import SPOKEN, WAYS, line_to, until
from tests.support.bounds import BOUND_S

DUPLEX = [way for way in WAYS if not way.startswith("http")]
TELLING = [way for way in WAYS if way != "http-legacy-stateless"]
"""Where a server can tell of changes; without a session it has nobody to tell."""

every_way = pytest.mark.parametrize("way", WAYS)


@every_way
async def test_a_link_tells_the_era_and_the_transport_that_were_agreed_on(way: str) -> None:
    async with line_to(way) as line:
        era = "2026-07-28" if WAYS[way]["era"] == "modern" else "2025-11-25"
        assert (line.link.era, line.link.transport) == (era, SPOKEN[WAYS[way]["transport"]])
        assert line.link.capabilities["tools"] == {"listChanged": True}


@every_way
async def test_results_come_raw_with_fields_that_nobody_knows(way: str) -> None:
    async with line_to(way) as line:
        result = await line.call("undecodable", result={"answer": 42, "x-new": [None, {"a": 1.5}]})
        assert (result["answer"], result["x-new"]) == (42, [None, {"a": 1.5}])


@every_way
async def test_the_caller_s_meta_reaches_the_server(way: str) -> None:
    async with line_to(way) as line:
        params = {"name": "meta", "arguments": {}, "_meta": {"traceparent": "00-a-b-01"}}
        result = await line.link.request("tools/call", params, timeout_s=5)
        assert result["structuredContent"]["traceparent"] == "00-a-b-01"


@every_way
async def test_many_calls_at_once_each_get_their_own_answer(way: str) -> None:
    async with line_to(way) as line:
        results = await asyncio.gather(*(line.call("echo", text=str(n)) for n in range(100)))
        assert [result["structuredContent"]["text"] for result in results] == [
            str(number) for number in range(100)
        ]


@every_way
async def test_the_server_s_error_is_a_peer_error(way: str) -> None:
    async with line_to(way) as line:
        with pytest.raises(JsonRpcError) as caught:
            await line.call("error", code=-32077, message="No.")
        assert (caught.value.code, caught.value.message) == (-32077, "No.")


@every_way
async def test_a_call_out_of_time_is_cancelled_at_the_server_and_the_next_one_works(
    way: str,
) -> None:
    async with line_to(way) as line:
        with pytest.raises(TimeoutError):
            await line.call("hang", 0.1)
        await line.until_cancelled(1)


@every_way
async def test_cancelling_a_call_cancels_it_at_the_server(way: str) -> None:
    async with line_to(way) as line, asyncio.timeout(BOUND_S):
        task = asyncio.ensure_future(line.call("hang"))
        await line.until_running(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await line.until_cancelled(1)


@pytest.mark.parametrize("way", TELLING)
async def test_a_changed_list_is_told(way: str) -> None:
    async with line_to(way) as line:
        async with asyncio.timeout(BOUND_S):
            while not line.changes:  # the stream for it may not be open yet
                await line.call("tools_swap")


@every_way
async def test_a_flood_of_changes_does_not_hold_up_calls(way: str) -> None:
    async with line_to(way) as line:
        async with asyncio.timeout(BOUND_S):
            await asyncio.gather(line.call("flood", count=2000), line.call("echo", text="x"))


@every_way
async def test_an_answer_of_ten_megabytes_comes_whole(way: str) -> None:
    async with line_to(way) as line:
        result = await line.call("big", bytes=10_000_000)
        assert len(result["content"][0]["text"]) == 10_000_000


@every_way
async def test_garbage_fails_no_other_call(way: str) -> None:
    async with line_to(way) as line:
        slow = asyncio.ensure_future(line.call("sleep", seconds=0.3))
        with pytest.raises((ConnectionFailure, TimeoutError)):
            await line.call("garbage", 0.1)
        assert (await slow)["content"][0]["text"] == "slept"


@every_way
async def test_a_ping_is_answered(way: str) -> None:
    async with line_to(way) as line:
        await line.link.ping(timeout_s=5)


@every_way
@pytest.mark.parametrize("fault", ["crash", "half"])
async def test_a_server_that_dies_in_a_call_fails_it_at_once(way: str, fault: str) -> None:
    async with line_to(way) as line:
        with pytest.raises(ConnectionFailure):  # not TimeoutError
            await line.call(fault)


@pytest.mark.parametrize("way", DUPLEX)
async def test_a_lost_connection_is_told_with_a_reason(way: str) -> None:
    async with line_to(way) as line:
        with pytest.raises(ConnectionFailure):
            await line.call("crash")
        assert await asyncio.wait_for(line.link.wait_lost(), BOUND_S)


@every_way
async def test_leaving_does_not_wait_for_calls_that_hang(way: str) -> None:
    async with asyncio.timeout(BOUND_S):
        async with line_to(way) as line:
            calls = [asyncio.ensure_future(line.call("hang")) for _ in range(5)]
            await line.until_running(5)
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, ConnectionFailure) for result in results)


@every_way
async def test_a_thousand_cancelled_calls_leave_nothing_behind(way: str) -> None:
    async with line_to(way) as line:
        await line.call("echo", text="x")
        before = count_of_tasks()
        for _ in range(10):
            calls = [asyncio.ensure_future(line.call("hang")) for _ in range(100)]
            await asyncio.sleep(0.01)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        server = line.server
        if server is not None:
            await until(lambda: server.script.running_count == 0, "no call runs at the server")
        await until(lambda: count_of_tasks() <= before + 5, "the tasks are gone")
        await line.call("echo", text="x")


def count_of_tasks() -> int:
    """Count the tasks, but for those of the test's server, which has one a connection."""
    return sum("RequestHandler" not in repr(task) for task in asyncio.all_tasks())
