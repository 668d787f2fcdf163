"""Runs the service with uvicorn on duplicated sockets, and stops it gracefully."""

import asyncio
import ctypes
import errno
import json
import resource
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv6Address, ip_address
from types import FrameType
from typing import TYPE_CHECKING

import structlog
import uvicorn

from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.app.start_checks import warn_of_exposure
from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.http.api.document_routes import UPLOADS
from mcp_tools_proxy.http.request_refusals import CONSOLE_UPLOAD
from mcp_tools_proxy.server.connection_limit import ConnectionLimit, LimitedProtocol
from mcp_tools_proxy.server.garbage_collector import tune_garbage_collector
from mcp_tools_proxy.server.http_protocol import BoundedProtocol
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
        self._lifecycle = lifecycle
        self._grace_s = grace_s
        self._drain_s = drain_s
        self._stop_by: float | None = None
        self._copies: list[socket.socket] = []
        """Duplicates of the listeners, see ``copies_of``."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and log the address."""
        self._copies = [copy for listener in sockets or () for copy in copies_of(listener)]
        await super().startup([*sockets, *self._copies] if sockets else sockets)
        tune_garbage_collector()
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
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
        if self._stop_by is not None or not self.started:
            self._drain_s = 0
            super().handle_exit(sig, frame)
            return
        self._captured_signals.append(sig)
        self._lifecycle.phase = Phase.STOPPING
        self._stop_by = time.monotonic() + self._grace_s
        for connection in self.server_state.connections:
            if isinstance(connection, BoundedProtocol):
                connection.close_after_response()

    async def on_tick(self, counter: int) -> bool:
        """Return whether uvicorn should exit: no call is in flight, or the grace is over."""
        if self._stop_by is None and self._lifecycle.phase is Phase.STOPPING:
            self.should_exit = True  # background work of the gateway failed; a restart helps
        if self._stop_by is not None:
            if time.monotonic() >= self._stop_by:
                self._lifecycle.cancel_in_flight()
                self.should_exit = True
            elif not self._lifecycle.in_flight:
                self.should_exit = True
        return await super().on_tick(counter)

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
            if time.monotonic() >= begun + self._drain_s:
                return
            await asyncio.sleep(TICK_S)


def build_server(settings: Settings, *, greets: bool = False) -> GracefulServer:
    """Build the service and its server. Raises ValueError for an invalid setting.

    With ``greets``, it prints the addresses and an example command when it listens.
    """
    settings.check_listener()
    app = create_app(settings)
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
            is_stopping=lambda: gateway.lifecycle.phase is Phase.STOPPING,
            uploads=UPLOADS if app.state.console is None else (*UPLOADS, CONSOLE_UPLOAD),
        ),
        server_header=False,
        timeout_keep_alive=settings.keep_alive_s,  # type: ignore[arg-type] # floats are accepted
        timeout_graceful_shutdown=LEFTOVER_GRACE_S,
    )
    return GracefulServer(
        config,
        gateway.lifecycle,
        grace_s=settings.shutdown_grace_s,
        drain_s=settings.shutdown_drain_s,
        audit=gateway.audit,
        announce=partial(_announce, settings if greets else None, app.state.console),
    )


def _announce(greeted: Settings | None, console: "Console | None", host: str, port: int) -> None:
    if greeted is not None:
        flush_logs()  # print the greeting after all log lines
        sys.stdout.write(greeting(greeted, host, port))
        sys.stdout.flush()
    _print_address(console, host, port)


def _print_address(console: "Console | None", host: str, port: int) -> None:
    """Print the console's one-time sign-in address, only on a terminal."""
    address = None if console is None else console.open_address(host, port)
    if address is not None and sys.stderr.isatty():
        sys.stderr.write(f"Sign in to the console, within ten minutes: {address}\n")
        sys.stderr.flush()


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket. Raises OSError if the address is unknown or in use."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:  # a name invalid in DNS
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


MAX_LISTENERS = 16
"""Sockets per address, and so connections accepted per turn."""

DESCRIPTORS_PER_LISTENER = 64
"""Fewer copies with few descriptors: 256 allow 4 sockets."""


def copies_of(listener: socket.socket) -> list[socket.socket]:
    """Duplicate a listener; the copies share its connection queue and socket options."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    listeners = MAX_LISTENERS
    if descriptors != resource.RLIM_INFINITY:
        listeners = min(listeners, descriptors // DESCRIPTORS_PER_LISTENER)
    return [listener.dup() for _ in range(listeners - 1)]


ACCEPT_S = 0.05
"""Seconds to complete started handshakes."""

MAX_BACKLOG = 4096
"""Maximum connections to wait for if further ones cannot be kept out."""

_SO_ATTACH_FILTER = 26
_LOAD_BYTE, _JUMP_IF_SET, _RETURN = 0x30, 0x45, 0x06
_FLAGS_OFFSET, _SYN = 13, 0x02
_NO_SYN = (
    (_LOAD_BYTE, 0, 0, _FLAGS_OFFSET),
    (_JUMP_IF_SET, 0, 1, _SYN),
    (_RETURN, 0, 0, 0),
    (_RETURN, 0, 0, 0xFFFFFFFF),
)
"""Classic BPF program, run on the TCP header and payload, that drops segments with SYN."""


async def drain_listener(listener: socket.socket) -> None:
    """Wait until the event loop has accepted all established connections.

    Closing a listener resets connections that are not accepted, and their clients cannot know
    whether a request was read. If the system allows it, SYNs of new ones are dropped: the client's
    system repeats them after a second, and is then refused before sending data.
    """
    drop_new_connections(listener)
    await asyncio.sleep(ACCEPT_S)
    backlog = select.poll()
    backlog.register(listener.fileno(), select.POLLIN)
    for _ in range(MAX_BACKLOG):
        if not backlog.poll(0):
            return
        await asyncio.sleep(0)  # the loop accepts at least one per turn


def drop_new_connections(listener: socket.socket) -> bool:
    """Attach the filter; return whether the system allows it: Linux may require CAP_NET_ADMIN."""
    if sys.platform != "linux":
        return False
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *it) for it in _NO_SYN))
    filter_ = struct.pack("HL", len(_NO_SYN), ctypes.addressof(program))
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)
    except OSError:
        return False
    return True
