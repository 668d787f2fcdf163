import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn

from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.raw_tools import Json
from tests.support.mcp_servers.sdk_server import Extras, build_server
from tests.support.mcp_servers.sdk_web import build_app, configured, url_of

TRANSPORTS = {"http": "streamable-http", "sse": "sse", "ws": "websocket"}
PATH = "/mcp"


class ThreadedServer:
    """The SDK's server over http, sse or ws in a thread; it keeps its port when restarted."""

    def __init__(
        self, mode: str, *, path: str, era: str, json_response: bool, extras: Extras
    ) -> None:
        self.mode = mode
        self._path = path
        self.port = 0
        self._era = era
        self._json_response = json_response
        self._extras = extras
        self._uvicorn: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        return url_of(self.mode, "127.0.0.1", self.port, self._path)

    @property
    def entry(self) -> Json:
        return {"transport": TRANSPORTS[self.mode], "url": self.url}

    async def start(self) -> None:
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        server = build_server(self.mode, self._extras)
        app = build_app(
            self.mode, server, path=self._path, era=self._era, json_response=self._json_response
        )
        self._uvicorn = configured(app)
        self._thread = threading.Thread(target=self._run, args=(listening,), daemon=True)
        self._thread.start()
        ends = time.monotonic() + BOUND_S
        while not self._uvicorn.started:
            if not self._thread.is_alive() or time.monotonic() > ends:
                raise AssertionError(f"the {self.mode} server did not start")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        if self._thread is not None:
            thread, self._thread = self._thread, None
            await asyncio.to_thread(self._end, thread)
            assert not thread.is_alive(), f"the {self.mode} server did not stop"

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def _run(self, listening: socket.socket) -> None:
        async def serve() -> None:
            assert self._uvicorn is not None
            self._loop = asyncio.get_running_loop()
            await self._uvicorn.serve(sockets=[listening])

        asyncio.run(serve())

    def _end(self, thread: threading.Thread) -> None:
        assert self._uvicorn is not None
        self._uvicorn.should_exit = True
        ends = time.monotonic() + BOUND_S
        while thread.is_alive() and time.monotonic() < ends:
            with suppress(RuntimeError):  # its loop may have just closed
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._disconnect_all)
            thread.join(0.02)

    def _disconnect_all(self) -> None:
        assert self._uvicorn is not None
        for connection in list(self._uvicorn.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()


@asynccontextmanager
async def running_server(
    mode: str, *, path: str = PATH, era: str = "both", json_response: bool = False, **extras: Any
) -> AsyncIterator[ThreadedServer]:
    """Run the SDK's server (http, sse, ws; for stdio see stdio_entry); ``extras`` are Extras'."""
    server = ThreadedServer(
        mode, path=path, era=era, json_response=json_response, extras=Extras(**extras)
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
