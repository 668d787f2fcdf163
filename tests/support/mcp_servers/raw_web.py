"""The raw server over streamable HTTP, legacy SSE and WebSocket, in process or as a program."""

import asyncio
import json
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler

from tests.support.aborted_connections import abort_all
from tests.support.held_port import hold_port
from tests.support.mcp_servers.raw_duplex import Conversation
from tests.support.mcp_servers.raw_http import StreamableHttp
from tests.support.mcp_servers.raw_output import (
    SESSION,
    Crash,
    Outbox,
    commit,
    event_stream,
    headers_of,
)
from tests.support.mcp_servers.raw_script import Options, Script, die
from tests.support.mcp_servers.raw_tools import GARBAGE, HALF, Fault, Json

TRANSPORTS = {"http": "streamable-http", "sse": "sse", "ws": "websocket"}
PATH = "/mcp"
MOVED_PATH = "/moved"
"""Another address of the server."""
HALF_FRAME = b"\x81\x7e" + (1000).to_bytes(2, "big") + HALF.encode()
"""A text frame that announces 1000 bytes and has fewer."""
MAX_BODY_BYTES = 64 * 1024 * 1024


class RawServer:
    """One server on 127.0.0.1, controlled by the test; it keeps its port when restarted.

    ``crash`` runs on a crash, in addition to aborting the connection.
    """

    def __init__(
        self,
        script: Script,
        transport: str = "http",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        crash: Crash = lambda: None,
    ) -> None:
        self.script = script
        self.transport = transport
        self.port = port
        self._host = host
        self._tls = tls
        self._crash = crash
        self.instead: Callable[[web.Request], web.Response | None] = lambda _: None
        self.on_response: Callable[[web.Request, web.StreamResponse], None] = lambda *_: None
        """Answers a request before the server sees it."""
        self._runner: web.AppRunner | None = None
        self._port_holder: socket.socket | None = None
        self._http = StreamableHttp(script, crash)
        self._streams: dict[str, Conversation] = {}
        """The open event streams of the legacy SSE transport."""

    @property
    def url(self) -> str:
        scheme = ("ws" if self.transport == "ws" else "http") + ("s" if self._tls else "")
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self.port}{PATH}"

    @property
    def entry(self) -> Json:
        return {"transport": TRANSPORTS[self.transport], "url": self.url}

    @property
    def connection_count(self) -> int:
        server = None if self._runner is None else self._runner.server
        return 0 if server is None else len(server.connections)

    async def start(self) -> None:
        """Serve on the port of the first start; ``close`` releases the port."""

        @web.middleware
        async def instead(request: web.Request, handler: Handler) -> web.StreamResponse:
            return self.instead(request) or await handler(request)

        async def prepared(request: web.Request, response: web.StreamResponse) -> None:
            self.on_response(request, response)

        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[instead])
        app.on_response_prepare.append(prepared)
        for path in (PATH, MOVED_PATH):
            app.router.add_routes(self._routes(path))
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        self._hold_port()
        await web.TCPSite(
            self._runner, self._host, self.port, ssl_context=self._tls, reuse_port=True
        ).start()

    async def stop(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            for site in list(runner.sites):
                await site.stop()
            abort_all(runner)
            await runner.cleanup()
        self.lose_sessions()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def close(self) -> None:
        """Release the port: the server does not start again."""
        if self._port_holder is not None:
            self._port_holder.close()

    def _hold_port(self) -> None:
        if self._port_holder is None:
            self._port_holder = hold_port(self._host, self.port)
            self.port = self._port_holder.getsockname()[1]

    def lose_sessions(self) -> None:
        self._http.sessions.clear()
        self._streams.clear()

    def drop_connections(self) -> None:
        if self._runner is not None:
            abort_all(self._runner)

    def _routes(self, path: str) -> list[web.RouteDef]:
        match self.transport:
            case "sse":
                message = web.post(f"{path}/message", self._sse_message)
                return [web.get(path, self._sse, allow_head=False), message]
            case "ws":
                return [web.get(path, self._websocket, allow_head=False)]
        return [
            web.post(path, self._http.post),
            web.get(path, self._http.get, allow_head=False),
            web.delete(path, self._http.delete),
        ]

    # Legacy HTTP+SSE

    async def _sse(self, request: web.Request) -> web.StreamResponse:
        session_id, outbox = uuid.uuid4().hex, Outbox()
        first = f"event: endpoint\ndata: {PATH}/message?sessionId={session_id}\n\n"
        async with asyncio.TaskGroup() as tasks:
            conversation = Conversation(self.script, tasks, outbox.put_nowait, headers_of(request))
            self._streams[session_id] = conversation
            try:
                return await event_stream(request, outbox, self._crash, headers={}, first=first)
            finally:
                self._streams.pop(session_id, None)
                conversation.close()

    async def _sse_message(self, request: web.Request) -> web.Response:
        conversation = self._streams.get(request.query.get("sessionId", ""))
        if conversation is None:
            return web.Response(status=404 if "sessionId" in request.query else 400)
        own = headers_of(request) | {SESSION: request.query["sessionId"]}
        conversation.take(await request.read(), own)
        return web.Response(status=202, text="Accepted")

    # WebSocket

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("mcp",), max_msg_size=0, timeout=0.1)
        await socket.prepare(request)
        outbox: Outbox = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            conversation = Conversation(self.script, tasks, outbox.put_nowait, headers_of(request))
            writer = tasks.create_task(self._send_all(request, socket, outbox))
            try:
                async for message in socket:
                    if message.type == WSMsgType.TEXT:
                        conversation.take(message.data)
            finally:
                conversation.close()
                writer.cancel()
        return socket

    async def _send_all(
        self, request: web.Request, socket: web.WebSocketResponse, outbox: Outbox
    ) -> None:
        while (item := await outbox.get()) is not None:
            if item is Fault.GARBAGE:
                await socket.send_str(GARBAGE)
            elif isinstance(item, Fault):
                await commit(item, request, self._crash, HALF_FRAME, partial(_write, request))
            else:
                await socket.send_str(json.dumps(item))


async def _write(request: web.Request, data: bytes) -> None:
    if isinstance(request.transport, asyncio.Transport):
        request.transport.write(data)


@asynccontextmanager
async def running_raw(
    transport: str = "http",
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[RawServer]:
    """Serve in this event loop; ``options`` are those of Options."""
    server = RawServer(Script(Options(**options)), transport, host=host, port=port, tls=tls)
    with closing(server):
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


async def serve(script: Script, transport: str, host: str, port: int) -> None:
    """Serve as a program until a signal ends it; prints the URL as its first line."""
    server = RawServer(script, transport, host=host, port=port, crash=die)
    await server.start()
    print(server.url, flush=True)  # noqa: T201 - read by the parent process
    await asyncio.Event().wait()
