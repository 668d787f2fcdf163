"""Runs the service under uvicorn and stops it gracefully."""

import errno
import socket
import sys
import time
from types import FrameType

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mcp_tools_proxy.app import Gateway, create_app
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.settings import Settings

log = structlog.get_logger()

MAX_HEAD_BYTES = 64 * 1024
"""Largest request line with its headers."""

LEFTOVER_GRACE_S = 1
"""Seconds for answers still being sent when the calls themselves are over."""


class BoundedHeadProtocol(HttpToolsProtocol):
    """Hangs up when a request line and its headers are over MAX_HEAD_BYTES: httptools would not."""

    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take what arrived; uvicorn's protocol does the rest."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            log.warning("request.head_too_large", limit=MAX_HEAD_BYTES)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Stop counting: what follows is a body, until the next request begins."""
        self._head_bytes = -sys.maxsize
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Count anew for the next request."""
        self._head_bytes = 0
        super().on_message_complete()


class GracefulServer(uvicorn.Server):
    """On the first signal refuses new calls but lets those in flight finish, within the grace.

    The listener stays open meanwhile, so that a new call is told SHUTTING_DOWN rather than cut
    off; a second signal stops at once. uvicorn asks ``on_tick`` ten times a second.
    """

    def __init__(self, config: uvicorn.Config, lifecycle: Lifecycle, *, grace_s: float) -> None:
        super().__init__(config)
        self._lifecycle = lifecycle
        self._grace_s = grace_s
        self._stop_by: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and tell where it listens."""
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            log.info("service.started", host=host, port=port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; uvicorn installs this for SIGINT and SIGTERM."""
        if self._stop_by is not None or not self.started:
            super().handle_exit(sig, frame)
            return
        self._captured_signals.append(sig)
        self._lifecycle.phase = Phase.STOPPING
        self._stop_by = time.monotonic() + self._grace_s

    async def on_tick(self, counter: int) -> bool:
        """Tell uvicorn to exit once no call is in flight, or when the grace is over."""
        if self._stop_by is None and self._lifecycle.phase is Phase.STOPPING:
            self.should_exit = True  # the gateway's background work failed: better a restart
        if self._stop_by is not None:
            if time.monotonic() >= self._stop_by:
                self._lifecycle.cut_off()
                self.should_exit = True
            elif not self._lifecycle.in_flight:
                self.should_exit = True
        return await super().on_tick(counter)


def build_server(settings: Settings) -> GracefulServer:
    """Build the service and the server around it. Raises ValueError for an unusable setting."""
    app = create_app(settings)
    gateway: Gateway = app.state.gateway
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        http=BoundedHeadProtocol,
        server_header=False,
        timeout_graceful_shutdown=LEFTOVER_GRACE_S,
    )
    return GracefulServer(config, gateway.lifecycle, grace_s=settings.shutdown_grace_s)


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket. Raises OSError when the address is unknown or in use."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:  # a name that DNS cannot carry
        raise OSError(errno.EADDRNOTAVAIL, "not a host name") from None
    family, kind, proto, _, address = found[0]
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
