"""The connector: MCP sessions over a link that is redialled when it breaks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.mcp.connector.backend_dialer import BackendDialer, Token
from mcp_tools_proxy.mcp.connector.frame_router import FrameRouter
from mcp_tools_proxy.mcp.connector.remote_sessions import McpSession
from mcp_tools_proxy.mcp.connector.websocket_link import Link, LinkFault, LinkRules, open_link
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.json_rpc import SendMessage

LEFTOVER_S = 1.0
"""Seconds for sending pending responses when the service stops."""

STALL_POLL_S = 0.5
"""Seconds between checks whether a link is still open while reading is paused.

Reading stops while the outbox is full, and an unread link does not report its loss.
"""


class McpSessions(Protocol):
    """Opens MCP sessions; implemented by ``mcp.server.message_session``."""

    def open(self, send: SendMessage) -> McpSession:
        """Open a session that sends its messages with ``send``."""
        ...

    def end_streams(self) -> None:
        """End every ``subscriptions/listen`` stream with its result."""
        ...

    async def run(self) -> None:
        """Send change notifications until cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRules:
    """Settings of a connector; times are in seconds.

    ``max_items`` limits the JSON values of a frame. ``drop_grace_s`` is how long sessions outlive a
    link, ``retry_max_s`` the longest pause before a lost link is redialled.
    """

    server_identifier: str
    link: LinkRules
    max_items: int
    max_sessions: int
    session_idle_s: float
    drop_grace_s: float
    retry_max_s: float


class Connector:
    """Serves ``mcp_sessions`` to a backend while ``lifespan`` is open.

    Sessions outlive a link by ``drop_grace_s``: their calls continue, and their messages are sent
    over the next link. Then they end, and their calls are cancelled. Frames that a broken link had
    accepted can be lost.
    """

    def __init__(
        self,
        rules: ConnectorRules,
        token: Token,
        mcp_sessions: McpSessions,
        *,
        ready: Callable[[], Awaitable[object]],
        on_frame_ignored: Callable[[str], None],
        metrics: Metrics,
    ) -> None:
        """Create a connector; it awaits ``ready`` before the first dial.

        ``on_frame_ignored`` receives the reason for each ignored frame.
        """
        self._rules = rules
        self._mcp_sessions = mcp_sessions
        self._router = FrameRouter(
            mcp_sessions.open,
            server_identifier=rules.server_identifier,
            max_frame_bytes=rules.link.max_frame_bytes,
            max_items=rules.max_items,
            max_sessions=rules.max_sessions,
            session_idle_s=rules.session_idle_s,
            on_ignored=on_frame_ignored,
            metrics=metrics,
        )
        self._sessions, self._outbox = self._router.sessions, self._router.outbox
        self._dialer = BackendDialer(
            partial(open_link, rules.link),
            token,
            self._serve,
            ready=ready,
            metrics=metrics,
            retry_max_s=rules.retry_max_s,
        )
        self._ending: asyncio.TimerHandle | None = None
        metrics.remote_sessions.set_function(lambda: len(self._sessions))
        metrics.remote_waiting_bytes.set_function(lambda: self._outbox.waiting_bytes)

    def __repr__(self) -> str:
        return f"<Connector {self._dialer.state.value}, {len(self._sessions)} sessions>"

    def status(self) -> RemoteStatus:
        """Return the state of the link and its counts for operators."""
        url = urlsplit(self._rules.link.url)
        return RemoteStatus(
            state=self._dialer.state,
            since=self._dialer.since,
            server_identifier=self._rules.server_identifier,
            backend=f"{url.scheme}://{url.netloc}",
            last_error=self._dialer.last_error,
            attempts=self._dialer.attempts,
            next_attempt_s=self._dialer.next_attempt_s,
            links=self._dialer.links,
            sessions=len(self._sessions),
            open_requests=self._sessions.open_requests,
            waiting_bytes=self._outbox.waiting_bytes,
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Serve while open; on exit, send pending responses if a link is up.

        The calls have finished or were cancelled before the exit.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(one.run())
                    for one in (self._sessions, self._mcp_sessions, self._dialer)
                ]
                try:
                    yield
                    await self._flush()
                finally:
                    self._sessions.end_all()
                    for task in running:
                        task.cancel()
        finally:
            self._stop_waiting()

    async def _flush(self) -> None:
        self._mcp_sessions.end_streams()
        if self._dialer.state is not RemoteState.ONLINE:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LEFTOVER_S):
                await self._sessions.wait_until_answered()
                await self._outbox.empty()

    async def _serve(self, link: Link) -> None:
        self._stop_waiting()
        try:
            async with asyncio.TaskGroup() as tasks:
                directions = (self._read_from(link), self._send_to(link))
                transfers = {tasks.create_task(direction) for direction in directions}
                await asyncio.wait(transfers, return_when=asyncio.FIRST_COMPLETED)
                for transfer in transfers:
                    transfer.cancel()
        finally:
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(self._rules.drop_grace_s, self._router.expire_all)

    async def _read_from(self, link: Link) -> None:
        async for data in link.receive():
            # back-pressure
            while not await self._outbox.wait_for_capacity(STALL_POLL_S):
                if link.closed:
                    return
            await self._sessions.wait_for_capacity()
            await self._router.receive(data)

    async def _send_to(self, link: Link) -> None:
        with suppress(LinkFault):
            await self._outbox.drain(link.send)

    def _stop_waiting(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
