"""Outgoing connections: address checks, TCP options and proxies.

Without a proxy, addresses are checked when dialled (``checked_sockets``). A proxy resolves names,
so the target is checked before each request.
"""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp import AddrInfoType
from yarl import URL

from mcp_tools_proxy.domain.networks import is_this_machine, literal_address

SocketFactory = Callable[[AddrInfoType], socket.socket]

LONGEST_MS = 2**31 - 1
"""Maximum TCP_USER_TIMEOUT in milliseconds."""

# seconds, seconds, probes
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


NOT_DIALLED = "has an address that is not allowed"
"""Text of the OSError that ``checked_sockets`` raises. aiohttp joins the texts of several
addresses."""


def checked_sockets(allows: Callable[[str], bool], open_socket: SocketFactory) -> SocketFactory:
    """Return a factory that raises OSError for addresses that ``allows`` refuses.

    It is called for each connection after DNS, because names can resolve differently each time.
    """

    def open_checked(address: AddrInfoType) -> socket.socket:
        if not allows(str(address[4][0])):
            raise OSError(errno.EACCES, NOT_DIALLED)
        return open_socket(address)

    return open_checked


def plain_socket(address: AddrInfoType) -> socket.socket:
    """Return a socket without options."""
    return socket.socket(*address[:3])


def keepalive_sockets() -> SocketFactory:
    """Return a factory of sockets with TCP keep-alive.

    Event streams can be silent for hours; without keep-alive, a lost peer is never detected.
    """
    return _sockets_with({"SO_KEEPALIVE": 1, **_KEEP_ALIVE})


def timeout_sockets(unconfirmed_s: float) -> SocketFactory:
    """Return a factory of sockets that fail if sent data is unconfirmed for this time.

    Otherwise the system resends for minutes to a lost peer. Linux only.
    """
    return _sockets_with({"TCP_USER_TIMEOUT": min(int(unconfirmed_s * 1000), LONGEST_MS)})


def _sockets_with(options: Mapping[str, int]) -> SocketFactory:
    def open_socket(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        opened = socket.socket(family, kind, protocol)
        for option, value in options.items():
            level = socket.SOL_SOCKET if option.startswith("SO_") else socket.IPPROTO_TCP
            if hasattr(socket, option):
                opened.setsockopt(level, getattr(socket, option), value)
        return opened

    return open_socket


CONNECT_S = 15.0
"""Seconds for the connection to a proxy, its response to CONNECT, and the TLS handshake."""

_RESOLVE_S = 5.0
_CHECKED_S = 60.0
_MAX_CHECKED = 1_000
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog"})
"""Metadata services' names that resolve only within the cloud."""

Allows = Callable[[str], bool]


def session_options(proxy: str, allows: Allows, *, allows_unresolved: bool) -> dict[str, Any]:
    """Return ClientSession arguments that send all requests through a proxy.

    A request raises OSError with NOT_DIALLED if its target has an address that ``allows`` refuses.
    Names that cannot be resolved here require ``allows_unresolved``, because in many networks only
    the proxy can resolve names.
    """
    url = URL(proxy)
    auth = None if url.user is None else aiohttp.BasicAuth(url.user, url.password or "")
    targets = _Targets(allows, allows_unresolved=allows_unresolved)
    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(targets.check)
    return {"proxy": url.with_user(None), "proxy_auth": auth, "trace_configs": [trace]}


class _Targets:
    """Checked hosts with the expiry times of the checks."""

    def __init__(self, allows: Allows, *, allows_unresolved: bool) -> None:
        self._allows = allows
        self._allows_unresolved = allows_unresolved
        self._checked: dict[str, float] = {}

    async def check(
        self,
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        request: aiohttp.TraceRequestStartParams,
    ) -> None:
        host = (request.url.host or "").rstrip(".").lower()
        if self._checked.get(host, 0.0) > time.monotonic():
            return
        if not await self._is_allowed(host):
            raise OSError(errno.EACCES, NOT_DIALLED)
        if len(self._checked) >= _MAX_CHECKED:
            self._checked.clear()
        self._checked[host] = time.monotonic() + _CHECKED_S

    async def _is_allowed(self, host: str) -> bool:
        if is_this_machine(host) or host in _METADATA_NAMES:
            return False
        literal = literal_address(host)
        addresses = [literal] if literal is not None else await _resolve(host)
        if not addresses:
            return self._allows_unresolved
        return all(self._allows(it) and not ip_address(it).is_loopback for it in addresses)


async def _resolve(host: str) -> list[str]:
    """Return the addresses of a name; empty if it cannot be resolved here."""
    try:
        async with asyncio.timeout(_RESOLVE_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return []
    return [str(address[4][0]).partition("%")[0] for address in found]
