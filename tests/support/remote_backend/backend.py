"""The peer that the gateway's connector dials, with sessions and faults on demand."""

import asyncio
import json
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web
from mcp import Client

from tests.support.bounds import BOUND_S
from tests.support.remote_backend.handshakes import (
    NEVER,
    TOKEN,
    Answer,
    Handshake,
    Manner,
    RawAnswer,
    Refusal,
    Tokens,
    handshake_of,
    with_ends,
)
from tests.support.remote_backend.http_server import ListenStreams
from tests.support.remote_backend.inbox import KEPT, Inbox
from tests.support.remote_backend.link import Link, new_socket
from tests.support.remote_backend.sdk_client import ClientStreams
from tests.support.remote_backend.session import MODERN, Session
from tests.support.remote_backend.waits import Changes, bounded

EVICTED = 4409
TOKEN_ENDED = 4401


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    token: str = TOKEN
    host: str = "127.0.0.1"
    port: int = 0
    """0 is any free port."""
    tls: ssl.SSLContext | None = None
    evict_code: int | None = EVICTED
    max_frame_bytes: int = 0
    """A larger frame costs the link, with 1009; 0 is unlimited."""
    report: Callable[[str], None] = lambda _: None
    """Called with a line for each gateway that connects, disconnects or is refused."""


class Backend:
    """A running backend as controlled by a test; created by ``running_backend``."""

    def __init__(self, options: Options) -> None:
        self.handshakes: deque[Handshake] = deque(maxlen=KEPT)
        """All received handshakes, answered in any way."""
        self.links: deque[Link] = deque(maxlen=KEPT)
        """All links so far, oldest first."""
        self.gateways: dict[str, Link] = {}
        """The links that are up, by server identifier, oldest first."""
        self.evict_code = options.evict_code
        """Close code for a link when its identifier connects again; None aborts it."""
        self.clock_s = 0.0
        """Changed only by ``pass_time``."""
        self.drop_every = 0
        """Abort the link that receives each n-th frame, counted over all links."""
        self._inbox = Inbox()
        self.frames = self._inbox.frames
        """All received frames, raw, over all links."""
        self.strays = self._inbox.strays
        """Those of ``frames`` that are for unknown sessions."""
        self._tokens = with_ends({options.token: NEVER})
        self._manner: Answer = Manner.WELCOME
        self._made: Counter[str] = Counter()
        self._changes = Changes()
        self._max_frame_bytes = options.max_frame_bytes
        self._print = options.report
        self._listening = ListenStreams(self._handle, options.host, options.port, options.tls)

    @property
    def url(self) -> str:
        return self._listening.url

    @property
    def is_shut(self) -> bool:
        return not self._listening.is_open

    async def shut(self) -> None:
        """Go down: abort every connection and stop listening on the port."""
        await self._listening.shut()

    async def reopen(self) -> None:
        """Listen again on the same port (at first: start)."""
        await self._listening.open()

    async def close(self) -> None:
        """Go down permanently."""
        await self.shut()
        self._listening.close()

    # Admission

    @property
    def tokens(self) -> dict[str, float]:
        """The accepted tokens and their expiry by ``clock_s``; assign to change them."""
        return self._tokens

    @tokens.setter
    def tokens(self, tokens: Tokens) -> None:
        self._tokens = with_ends(tokens)

    @property
    def manner(self) -> Answer:
        """The answer to handshakes; assign to change it."""
        return self._manner

    @manner.setter
    def manner(self, manner: Answer) -> None:
        self._manner = manner
        self._changes.notify()

    async def pass_time(self, seconds: float = 0.0) -> None:
        """Move the clock, and close with 4401 each link whose token expired."""
        self.clock_s += seconds
        for link in list(self.gateways.values()):
            if not self._is_good(link.handshake.token):
                await link.close(TOKEN_ENDED, "token ended")

    # Links

    def is_connected(self, server_identifier: str | None = None) -> bool:
        return self._up(server_identifier) is not None

    def link(self, server_identifier: str | None = None) -> Link:
        link = self._up(server_identifier)
        assert link is not None, f"no link is up: {server_identifier or 'any'}"
        return link

    async def connected(
        self,
        server_identifier: str | None = None,
        count: int = 1,
        bound_s: float | None = BOUND_S,
    ) -> Link:
        """Wait until a link is up and there were at least ``count`` (with that identifier).

        A reconnecting gateway is waited for with count=2. Returns the link.
        """

        def holds() -> bool:
            made = self._made
            total = made.total() if server_identifier is None else made[server_identifier]
            return total >= count and self.is_connected(server_identifier)

        what = f"{count} links of {server_identifier or 'any'}, one of them up"
        async with bounded(what, bound_s):
            await self._changes.until(holds)
        return self.link(server_identifier)

    async def disconnected(self, server_identifier: str | None = None) -> None:
        async with bounded(f"no link of {server_identifier or 'any'}"):
            await self._changes.until(lambda: not self.is_connected(server_identifier))

    async def dialled(self, count: int = 1) -> Handshake:
        """Wait for at least ``count`` handshakes, and return the latest."""
        async with bounded(f"{count} handshakes"):
            await self._changes.until(lambda: len(self.handshakes) >= count)
        return self.handshakes[-1]

    # Sessions

    def session(
        self,
        identifier: str | None = None,
        *,
        era: str = MODERN,
        server_identifier: str | None = None,
    ) -> Session:
        async def send(session_identifier: str, message: object) -> None:
            await self.send(session_identifier, message, server_identifier)

        session = Session(identifier, era, send)
        self._inbox.handlers[session.identifier] = session.on_message
        return session

    @asynccontextmanager
    async def client(
        self, mode: str = "auto", *, server_identifier: str | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        """Connect the SDK's client over a new session; ``options`` are Client's."""
        session = self.session(server_identifier=server_identifier)
        streams = ClientStreams(session.send)
        self._inbox.handlers[session.identifier] = streams.on_message
        options = {"read_timeout_seconds": BOUND_S, "cache": None} | options
        try:
            async with Client(streams.opened(), mode=mode, **options) as client:
                yield client
        finally:
            self.forget(session)

    def forget(self, session: Session) -> None:
        """Remove the session; its later frames are strays."""
        self._inbox.handlers.pop(session.identifier, None)

    async def send(
        self, session_identifier: str, message: object, server_identifier: str | None = None
    ) -> None:
        """Send one frame over the link that is up, waiting for one if necessary."""
        text = json.dumps({"session_identifier": session_identifier, "message": message})
        while True:
            link = await self.connected(server_identifier)
            try:
                return await link.send_raw(text)
            except ConnectionError:
                link.leave()

    # Received frames

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        handshake = handshake_of(request)
        self.handshakes.append(handshake)
        self._changes.notify()
        await self._changes.until(lambda: self._manner is not Manner.SILENT)
        transport = request.transport
        if transport is None:  # the gateway has already disconnected
            return web.Response()
        if isinstance(self._manner, RawAnswer):
            return self._manner.write(transport)
        if (refusal := self._refusal(handshake)) is not None:
            self._print(f"refused {handshake.server_identifier}: HTTP {refusal.status}")
            return refusal.response()
        protocols = () if self._manner is Manner.NO_SUBPROTOCOL else ("mcp",)
        socket = new_socket(protocols, self._max_frame_bytes)
        await socket.prepare(request)
        link = Link(handshake, socket, transport, self._on_disconnect)
        async with asyncio.TaskGroup() as tasks:
            if (former := self.gateways.pop(link.server_identifier, None)) is not None:
                tasks.create_task(self._evict(former))
            self._on_connect(link)
            try:
                await self._read(link)
            finally:
                link.leave()
        return socket

    async def _read(self, link: Link) -> None:
        async for frame in link.socket:
            if frame.type == WSMsgType.PING:
                await link.pong(frame.data)
            elif frame.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                self._inbox.on_message(frame.data)
                if self.drop_every and self._inbox.count % self.drop_every == 0:
                    link.drop()
                    return

    def _refusal(self, handshake: Handshake) -> Refusal | None:
        if isinstance(self._manner, Refusal):
            return self._manner
        return None if self._is_good(handshake.token) else Refusal(401)

    def _is_good(self, token: str | None) -> bool:
        return token is not None and self.clock_s < self._tokens.get(token, self.clock_s)

    def _up(self, server_identifier: str | None) -> Link | None:
        if server_identifier is not None:
            return self.gateways.get(server_identifier)
        return next(reversed(self.gateways.values()), None)

    def _on_connect(self, link: Link) -> None:
        self.links.append(link)
        self.gateways[link.server_identifier] = link
        self._made[link.server_identifier] += 1
        self._print(f"connected: {link.server_identifier}")
        self._changes.notify()

    async def _evict(self, link: Link) -> None:
        if self.evict_code is None:
            link.drop()
        else:
            await link.close(self.evict_code, "evicted")

    def _on_disconnect(self, link: Link) -> None:
        if self.gateways.get(link.server_identifier) is link:
            del self.gateways[link.server_identifier]
        self._print(f"disconnected: {link.server_identifier}")
        self._changes.notify()


@asynccontextmanager
async def running_backend(**options: Any) -> AsyncIterator[Backend]:
    """Serve in this event loop; ``options`` are those of Options."""
    backend = Backend(Options(**options))
    try:
        await backend.reopen()
        yield backend
    finally:
        await backend.close()
