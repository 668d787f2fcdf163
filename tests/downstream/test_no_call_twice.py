import asyncio

import pytest

from tests.downstream.faulty_servers import SERVER_KINDS, SHORT, Scene, scene
from tests.support.mcp_servers.raw_script import CANCELLED

every_kind = pytest.mark.parametrize("kind", SERVER_KINDS)
FAULTS = ("counter_crash", "crash", "half")


@every_kind
@pytest.mark.parametrize("tool", FAULTS)
async def test_a_tool_with_a_lost_answer_ran_once(kind: str, tool: str) -> None:
    async with scene(kind) as it:
        assert await it.call(tool) == "SERVER_UNAVAILABLE"
        await it.recovered()
        assert it.bad.seen(tool) == 1


@every_kind
async def test_a_timed_out_tool_ran_once_and_is_cancelled(kind: str) -> None:
    async with scene(kind, entry=SHORT) as it:
        assert await it.call("hang") == "TOOL_TIMEOUT"
        await it.has_seen(CANCELLED)
        await it.recovered()
        assert it.bad.seen("hang") == 1


@every_kind
async def test_each_call_runs_a_tool_at_most_once_while_its_server_is_killed(kind: str) -> None:
    async with scene(kind) as it:
        calls = asyncio.gather(*(_call_ten_times(it) for _ in range(4)))
        await it.has_seen("counter", 5)
        await it.bad.restart()
        codes = [code for each in await calls for code in each]
        assert codes.count("OK") <= it.bad.seen("counter") <= len(codes)
        assert set(codes) <= {"OK", "SERVER_UNAVAILABLE"}


@every_kind
async def test_a_safe_tool_with_a_lost_answer_is_retried_once(kind: str) -> None:
    async with scene(kind) as it:
        assert await it.call("crash_safe") == "SERVER_UNAVAILABLE"
        assert it.bad.seen("crash_safe") == 2


async def _call_ten_times(it: Scene) -> list[str]:
    return [await it.call("counter") for _ in range(10)]
