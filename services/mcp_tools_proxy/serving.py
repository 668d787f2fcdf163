"""Runs the service under uvicorn and stops it gracefully."""

import socket
import time
from types import FrameType

import structlog
import uvicorn

from mcp_tools_proxy.app import Gateway, create_app
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.settings import Settings

log = structlog.get_logger()

LEFTOVER_GRACE_S = 1
"""Seconds for answers still being sent when the calls themselves are over."""


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
        server_header=False,
        timeout_graceful_shutdown=LEFTOVER_GRACE_S,
    )
    return GracefulServer(config, gateway.lifecycle, grace_s=settings.shutdown_grace_s)


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket. Raises OSError when the address is unknown or in use."""
    family, kind, proto, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
