import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support.bounds import BOUND_S
from tests.support.leak_checks import ResourcesInUse, tasks
from tests.support.mcp_endpoint import BOTH, LEGACY, MODERN, TENANT, Served, serving
from tests.support.raw_mcp_client import ERAS, in_front_of_one, raw_client
from tests.support.service import eventually

SESSIONS = 200
SLACK_OBJECTS = 1000
"""For 200 sessions; each leaked session would hold dozens."""


def holds(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def request() -> bool:
        return condition()

    return request


@asynccontextmanager
async def begun(served: Served, body: object, headers: dict[str, str]) -> AsyncIterator[None]:
    """Send a request, and cut the connection at the end of the block, before the answer."""
    sending = asyncio.ensure_future(served.http.post("/mcp", json=body, headers=headers))
    try:
        yield
    finally:
        sending.cancel()
        await asyncio.wait({sending})


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["body", "stream"])
async def test_a_call_of_the_newer_era_is_cancelled_when_its_client_vanishes(
    meta: dict[str, int],
) -> None:
    async with in_front_of_one(("hang",)) as (served, server):
        client = await raw_client(served, MODERN)
        before = ResourcesInUse.now()
        body, headers = client.build("tools/call", {"name": "s1:hang", "_meta": meta})
        async with begun(served, body, headers):
            await eventually(holds(lambda: server.script.running_count == 1))
        await eventually(holds(lambda: server.script.cancelled_count == 1))
        await eventually(before.is_not_exceeded)


@pytest.mark.parametrize("accept", [BOTH["Accept"], "application/json"], ids=["stream", "body"])
async def test_a_call_of_a_session_whose_client_vanishes_ends_at_its_timeout(accept: str) -> None:
    async with in_front_of_one(("hang",), config={"requestTimeoutSeconds": 0.5}) as (
        served,
        server,
    ):
        session_id = await served.open_session(accept={"Accept": accept})
        headers = {**TENANT, "Accept": accept, "Mcp-Session-Id": session_id}
        before = ResourcesInUse.now()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "s1:hang"}}
        async with begun(served, body, headers):
            await eventually(holds(lambda: server.script.running_count == 1))
        await eventually(holds(lambda: server.script.running_count == 0))
        await eventually(before.is_not_exceeded)


async def test_a_call_ends_with_its_session() -> None:
    async with in_front_of_one(("hang",)) as (served, server):
        client = await raw_client(served, LEGACY)
        body, headers = client.build("tools/call", {"name": "s1:hang"})
        async with begun(served, body, headers):
            await eventually(holds(lambda: server.script.running_count == 1))
            await served.http.delete("/mcp", headers=headers)
            await eventually(holds(lambda: server.script.cancelled_count == 1))


async def test_a_call_ends_with_its_legacy_stream() -> None:
    async with in_front_of_one(("hang",)) as (served, server):
        async with asyncio.timeout(BOUND_S):
            calling = asyncio.ensure_future(_hang_over_sse(served))
            await eventually(holds(lambda: server.script.running_count == 1))
            calling.cancel()
            await asyncio.wait({calling})
        await eventually(holds(lambda: server.script.cancelled_count == 1))
        await eventually(holds(lambda: served.facade.streams == 0))


async def _hang_over_sse(served: Served) -> None:
    async with served.client("/mcp/sse", mode="legacy") as client:
        await client.call_tool("s1:hang")


def open_things(served: Served) -> tuple[int, int, int]:
    """Count the clients' sessions, watchers and streams."""
    facade = served.facade
    return facade.sessions, facade.subscribers, facade.streams


async def open_and_drop(served: Served, count: int) -> None:
    """Open sessions, each with a stream; cut the streams, but end no session."""
    capacity = asyncio.Semaphore(8)

    async def one() -> None:
        async with capacity:
            session_id = await served.open_session()
            headers = {**TENANT, **BOTH, "Mcp-Session-Id": session_id}
            async with served.http.stream("GET", "/mcp", headers=headers) as stream:
                assert stream.status_code == 200

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())


def objects() -> int:
    """Count objects in memory: the allocator's sizes also depend on its behaviour."""
    gc.collect()
    return len(gc.get_objects())


async def test_hundreds_of_opened_and_dropped_sessions_leak_nothing() -> None:
    async with serving(session_idle_s=3, max_sessions=2 * SESSIONS) as served:

        async def nothing_is_open() -> bool:
            return open_things(served) == (0, 0, 0)

        await open_and_drop(served, 50)  # one-time allocations are done
        await eventually(nothing_is_open)
        tasks_before, objects_before = tasks(), objects()
        await open_and_drop(served, SESSIONS)
        await eventually(nothing_is_open)
        await eventually(holds(lambda: tasks() <= tasks_before))
        assert objects() - objects_before < SLACK_OBJECTS


async def test_cut_streams_of_changes_leave_nothing() -> None:
    wanted = {"notifications": {"toolsListChanged": True}}
    async with serving() as served:
        client = await raw_client(served, MODERN)

        async def cut() -> None:
            async with client.stream("subscriptions/listen", wanted) as messages:
                await anext(messages)
            await eventually(holds(lambda: open_things(served) == (0, 0, 0)))

        await cut()
        before = tasks()
        for _ in range(50):
            await cut()
        await eventually(holds(lambda: tasks() <= before))


@pytest.mark.parametrize("era", ERAS)
async def test_an_answered_call_leaves_only_its_session(era: str) -> None:
    async with in_front_of_one(("echo",)) as (served, _):
        client = await raw_client(served, era)
        await client.call("echo")
        before = ResourcesInUse.now()
        for _ in range(50):
            await client.call("echo")
        await eventually(before.is_not_exceeded)
