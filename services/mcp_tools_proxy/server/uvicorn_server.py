"""Runs the service with uvicorn on duplicated sockets, and stops it gracefully."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv6Address, ip_address
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import structlog
import uvicorn

from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.app.start_checks import warn_of_exposure
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.http.api.document_routes import UPLOADS
from mcp_tools_proxy.http.request_refusals import CONSOLE_UPLOAD
from mcp_tools_proxy.server.connection_limit import ConnectionLimit, LimitedProtocol
from mcp_tools_proxy.server.garbage_collector import tune_garbage_collector
from mcp_tools_proxy.server.http_protocol import BoundedProtocol
from mcp_tools_proxy.server.listener import copies_of, drain_listener
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from mcp_tools_proxy.telemetry.logging import flush_logs

if TYPE_CHECKING:
    from mcp_tools_proxy.console.console_app import Console


_WHO = {"user_id": "me", "tenant_id": "tenant_1"}


def greeting(settings: Settings, host: str, port: int) -> str:
    """Return the startup message; ``host`` and ``port`` are the listening address."""
    url = f"http://{_dialled(host)}:{port}"
    lines = [f"Ready on {url}"]
    if settings.console:
        lines.append(f"Console: {url}/console")
    lines.append(f"Try: {_command(settings, url)}")
    return "\n" + "".join(f"  {line}\n" for line in lines) + "\n"


def _command(settings: Settings, url: str) -> str:
    """Return a command that lists the tools; it includes a token if required."""
    body: dict[str, object] = {"tool_name": "list_available_tools", "user": _WHO}
    header = ""
    if settings.auth_mode != "none":
        body["user"] = {"user_id": _WHO["user_id"]}
        header = ' -H "Authorization: Bearer $TOKEN"'
    return f"curl -s {url}/internal/mcp/execute{header} -d '{json.dumps(body)}'"


def _dialled(host: str) -> str:
    """Return the host to reach a listener on ``host`` from this machine."""
    address = ip_address(host)
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return f"[{host}]" if isinstance(address, IPv6Address) else host


log = structlog.get_logger()

TICK_S = 0.02
"""Seconds between two checks whether all connections are closed."""

LEFTOVER_GRACE_S = 1
"""Seconds to finish sending responses after all calls have ended."""


class GracefulServer(uvicorn.Server):
    """On the first signal, refuses new calls and waits for calls in flight, within the grace.

    The listener stays open, so that new calls receive SHUTTING_DOWN instead of a refused
    connection. Each further response closes its connection. A second signal stops immediately.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        lifecycle: Lifecycle,
        *,
        grace_s: float,
        drain_s: float = 0.0,
        audit: AuditTrail | None = None,
        announce: Callable[[str, int], None] | None = None,
    ) -> None:
        """Initialize; ``announce`` is called with host and port when the server listens."""
        super().__init__(config)
        self._announce = announce
        self.audit = AuditTrail() if audit is None else audit
        """Opened before listening, so that a start without it fails."""
        self.lifecycle = lifecycle
        self.grace_s = grace_s
        self.drain_s = drain_s
        self.stop_by: float | None = None
        self._copies: list[socket.socket] = []
        """Duplicates of the listeners, see ``copies_of``."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and log the address."""
        self._copies = [copy for listener in sockets or () for copy in copies_of(listener)]
        await super().startup([*sockets, *self._copies] if sockets else sockets)
        tune_garbage_collector()
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self.announce_start(host, port)

    def announce_start(self, host: str, port: int) -> None:
        """Log and announce the address."""
        log.info("service.started", host=host, port=port)
        if self._announce is not None:
            self._announce(host, port)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Write the last log lines before uvicorn raises the captured signal again.

        That signal ends the process without running ``finally`` blocks or ``atexit``.
        """
        with super().capture_signals():
            try:
                yield
            finally:
                flush_logs()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; uvicorn installs this for SIGINT and SIGTERM."""
        if self.stop_by is not None or not self.started:
            self.drain_s = 0
            super().handle_exit(sig, frame)
            return
        self._captured_signals.append(sig)
        self.stop()

    def stop(self) -> None:
        """Refuse new calls, and exit when no call is in flight or the grace is over."""
        self.lifecycle.phase = Phase.STOPPING
        self.stop_by = time.monotonic() + self.grace_s
        self.announce_closing()

    def announce_closing(self) -> None:
        """Close each connection after its next response."""
        for connection in self.server_state.connections:
            if isinstance(connection, BoundedProtocol):
                connection.close_after_response()

    async def on_tick(self, counter: int) -> bool:
        """Return whether uvicorn should exit."""
        if self.stop_by is None and self.lifecycle.phase is Phase.STOPPING:
            self.should_exit = True  # background work of the gateway failed; a restart helps
        if self.is_done():
            self.should_exit = True
        return await super().on_tick(counter)

    def is_done(self) -> bool:
        """Return whether it stops, and no call is in flight, or the grace is over."""
        if self.stop_by is None:
            return False
        if time.monotonic() >= self.stop_by:
            self.lifecycle.cancel_in_flight()
            return True
        return not self.lifecycle.in_flight

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listener, then the connections, without losing requests.

        Closing them immediately lost requests sent over idle connections and connections not yet
        accepted: six requests in six replacements with 40 callers.
        """
        begun = time.monotonic()
        if self.server_state.connections:
            for listener in sockets or ():
                await drain_listener(listener)
        for server in self.servers:
            server.close()
        for listener in (*(sockets or ()), *self._copies):
            listener.close()
        await self._answer_last_requests(begun)
        await super().shutdown(sockets)

    async def _answer_last_requests(self, begun: float) -> None:
        """Wait until responses have closed all connections, at most for the drain time."""
        while self.server_state.connections:
            if time.monotonic() >= begun + self.drain_s:
                return
            await asyncio.sleep(TICK_S)


ServerT = TypeVar("ServerT", bound=GracefulServer)


def build_server(settings: Settings, *, greets: bool = False) -> GracefulServer:
    """Build the service and its server. Raises ValueError for an invalid setting.

    With ``greets``, it prints the addresses and an example command when it listens.
    """
    return build_server_of(GracefulServer, settings, WorkerGroup(), greets=greets)


def build_server_of(
    kind: Callable[..., ServerT], settings: Settings, workers: WorkerGroup, *, greets: bool
) -> ServerT:
    """Build the service as a process of ``workers``, and its server of a kind."""
    settings.check_listener()
    app = create_app(settings, workers=workers)
    if workers.is_first:
        warn_of_exposure(settings)
    gateway: Gateway = app.state.gateway
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # http/request_headers.py reads them, from trusted proxies only
        ws="none",
        http=partial(  # type: ignore[arg-type]
            LimitedProtocol,
            limit=ConnectionLimit(),
            is_stopping=lambda: gateway.lifecycle.is_draining,
            uploads=UPLOADS if app.state.console is None else (*UPLOADS, CONSOLE_UPLOAD),
        ),
        server_header=False,
        timeout_keep_alive=settings.keep_alive_s,  # type: ignore[arg-type] # floats are accepted
        timeout_graceful_shutdown=LEFTOVER_GRACE_S,
    )
    return kind(
        config,
        gateway.lifecycle,
        grace_s=settings.shutdown_grace_s,
        drain_s=settings.shutdown_drain_s,
        audit=gateway.audit,
        announce=partial(
            _announce, settings if greets else None, app.state.console, workers.is_first
        ),
    )


def _announce(
    greeted: Settings | None, console: "Console | None", is_first: bool, host: str, port: int
) -> None:
    address = None if console is None else console.open_address(host, port)
    if greeted is not None:
        flush_logs()  # print the greeting after all log lines
        sys.stdout.write(greeting(greeted, host, port))
        sys.stdout.flush()
    if address is not None and is_first and sys.stderr.isatty():
        sys.stderr.write(f"Sign in to the console, within ten minutes: {address}\n")
        sys.stderr.flush()
