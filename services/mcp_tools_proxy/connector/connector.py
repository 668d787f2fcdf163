"""The connector as one thing: sessions over a link that comes and goes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

from mcp_tools_proxy.connector.dialer import Dialer
from mcp_tools_proxy.connector.frame_router import FrameRouter
from mcp_tools_proxy.connector.remote_sessions import McpSession, Send
from mcp_tools_proxy.connector.token import Token
from mcp_tools_proxy.connector.websocket_link import Link, LinkFault, LinkRules, open_link
from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.telemetry.metrics import Metrics

LEFTOVER_S = 1.0
"""How long answers may take to go out when the service stops, in seconds."""

STALL_POLL_S = 0.5
"""How often a link that is not read from, since too much waits to be sent, is looked at."""


class McpSessions(Protocol):
    """Where conversations are begun."""

    def open(self, send: Send) -> McpSession:
        """Begin one whose messages go to ``send``."""
        ...

    def end_streams(self) -> None:
        """End every stream of changes in the protocol's own way."""
        ...

    async def run(self) -> None:
        """Tell them of changes until cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRules:
    """What one connector keeps to; times are in seconds.

    ``max_items`` is how many JSON values one frame may hold, ``drop_grace_s`` how long sessions
    outlive a link, ``retry_max_s`` the longest pause before a link that was lost is dialled again.
    """

    server_identifier: str
    link: LinkRules
    max_items: int
    max_sessions: int
    session_idle_s: float
    drop_grace_s: float
    retry_max_s: float


class Connector:
    """Serves ``mcp_sessions`` to a backend while ``run`` runs.

    Sessions outlive a link by ``drop_grace_s``: their calls go on, and what they say meanwhile goes
    out over the next link. After that they end, and their calls are cancelled. What a link had
    taken when it broke may be lost.
    """

    def __init__(
        self,
        rules: ConnectorRules,
        token: Token,
        mcp_sessions: McpSessions,
        *,
        ready: Callable[[], Awaitable[object]],
        metrics: Metrics,
    ) -> None:
        """``ready`` is waited for before the backend is dialled for the first time."""
        self._rules = rules
        self._mcp_sessions = mcp_sessions
        self._router = FrameRouter(
            mcp_sessions.open,
            server_identifier=rules.server_identifier,
            max_frame_bytes=rules.link.max_frame_bytes,
            max_items=rules.max_items,
            max_sessions=rules.max_sessions,
            session_idle_s=rules.session_idle_s,
            metrics=metrics,
        )
        self._sessions, self._outbox = self._router.sessions, self._router.outbox
        self._dialer = Dialer(
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
        """Tell how it is."""
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
        """Serve until left; then what is being answered may still go out, over a link that is up.

        The calls themselves are over by then, or cut off.
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
                await self._sessions.answered()
                await self._outbox.empty()

    async def _serve(self, link: Link) -> None:
        """Take what the backend sends, in order, and send what there is, until the link ends."""
        self._stop_waiting()
        try:
            async with asyncio.TaskGroup() as tasks:
                transfers = {
                    tasks.create_task(transfer(link))
                    for transfer in (self._read_from, self._send_to)
                }
                await asyncio.wait(transfers, return_when=asyncio.FIRST_COMPLETED)
                for transfer in transfers:
                    transfer.cancel()
        finally:
            loop = asyncio.get_running_loop()
            self._ending = loop.call_later(self._rules.drop_grace_s, self._router.expire_all)

    async def _read_from(self, link: Link) -> None:
        async for data in link.receive():
            while not await self._outbox.wait_for_capacity(
                STALL_POLL_S
            ):  # who does not read is not heard
                if link.closed:
                    return
            await self._router.receive(data)

    async def _send_to(self, link: Link) -> None:
        with suppress(LinkFault):
            await self._outbox.drain(link.send)

    def _stop_waiting(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
