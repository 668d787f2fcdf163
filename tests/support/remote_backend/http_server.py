"""The backend's HTTP server, which can stop and restart on the same port."""

import socket
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.support.aborted_connections import abort_all
from tests.support.held_port import hold_port

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PATH = "/ws/{server_identifier}"


class ListenStreams:
    """Serves one handler of handshakes."""

    def __init__(
        self, handler: Handler, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self.host = host
        self.port = port
        """0 for any port, until the first start."""
        self._handler = handler
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self._port_holder: socket.socket | None = None

    @property
    def url(self) -> str:
        scheme = "ws" if self._tls is None else "wss"
        return f"{scheme}://{self.host}:{self.port}{PATH}"

    @property
    def is_open(self) -> bool:
        return self._runner is not None

    async def open(self) -> None:
        """Listen; OSError if the port is taken."""
        if self.port == 0:
            self._port_holder = hold_port(self.host)
            self.port = self._port_holder.getsockname()[1]
        app = web.Application()
        app.router.add_get(PATH, self._handler, allow_head=False)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(
            self._runner,
            self.host,
            self.port,
            ssl_context=self._tls,
            reuse_port=self._port_holder is not None,
        )
        await site.start()

    async def shut(self) -> None:
        """Abort every connection and stop listening, like a killed process."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        for site in list(runner.sites):
            await site.stop()
        abort_all(runner)
        await runner.cleanup()

    def close(self) -> None:
        """Release a port that was chosen here, permanently."""
        if self._port_holder is not None:
            self._port_holder.close()
