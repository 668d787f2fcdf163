import asyncio
from collections.abc import Callable, Mapping

import pytest

from mcp_tools_proxy.mcp.connector.remote_sessions import MAX_ACTIVE_CALLS, RemoteSessions
from mcp_tools_proxy.mcp.server.message_session import MAX_OPEN_REQUESTS
from mcp_tools_proxy.system.websocket_client import FRAMES_PER_TURN
from tests.connector.backend_link import linked
from tests.connector.raw_frames import PING, TEXT, enveloped, frame, request

FRAMES = 800
FLOODS: Mapping[str, Callable[[int], bytes]] = {
    "pings of WebSocket": lambda _: frame(PING),
    "frames that are ignored": lambda _: frame(TEXT, "x"),
    "notifications": lambda _: frame(TEXT, enveloped({"jsonrpc": "2.0", "method": "x/y"})),
    "requests": lambda number: frame(TEXT, enveloped(request("ping", number))),
    "requests for one session each": lambda number: frame(
        TEXT, enveloped(request("tools/list", number), f"session {number}")
    ),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
async def test_other_work_is_done_between_the_frames_of_a_flood(
    flood: Callable[[int], bytes],
) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with linked() as (_, backend), asyncio.TaskGroup() as tasks:
        session = backend.session("last")
        await session.result("tools/list")
        counting = tasks.create_task(count_turns())
        backend.link().write(b"".join(map(flood, range(FRAMES))))
        await session.result("tools/list")
        counting.cancel()
    assert turns >= FRAMES // FRAMES_PER_TURN


class PendingSession:
    """A session whose requests are never answered."""

    def __init__(self) -> None:
        self.open_requests = self.active_calls = 0
        self._closed = asyncio.Event()

    async def wait_until_answered(self) -> None:
        await asyncio.Event().wait()

    async def run(self) -> None:
        await self._closed.wait()

    def close(self) -> None:
        self._closed.set()
        self.open_requests = self.active_calls = 0

    async def receive(self, content: object) -> None:
        self.open_requests += 1
        self.active_calls += 1


async def pauses(sessions: RemoteSessions) -> bool:
    """Return whether the next message would have to wait."""
    waiting = sessions.wait_for_capacity()
    try:
        waiting.send(None)
    except StopIteration:
        return False
    waiting.close()
    return True


async def test_a_backend_with_many_pending_requests_is_read_from_slowly() -> None:
    opened: list[PendingSession] = []

    def open_session(_send: object) -> PendingSession:
        opened.append(PendingSession())
        return opened[-1]

    async def send(_session: str, _message: Mapping[str, object]) -> None:
        raise AssertionError("nothing is answered")

    sessions = RemoteSessions(open_session, send, max_sessions=1000, idle_s=1000)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(sessions.run())
        await asyncio.sleep(0)
        for number in range(MAX_ACTIVE_CALLS):
            assert not await pauses(sessions)
            identifier = f"session {number // MAX_OPEN_REQUESTS}"
            await sessions.deliver(identifier, request("tools/call", number))
        assert await pauses(sessions)
        await sessions.wait_for_capacity()  # a pause only: an answer to a pending call may arrive
        opened[0].close()
        assert not await pauses(sessions)
        sessions.end_all()
        running.cancel()
