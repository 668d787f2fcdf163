"""Requests through a proxy: which one, and a check of the target before each request.

Without a proxy the address is checked as it is dialled (``checked_sockets``). Through one, the
proxy resolves the name, so the target is checked here: a proxy would otherwise reach what the
gateway may not dial.
"""

import asyncio
import errno
import time
from collections.abc import Callable
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import aiohttp
from yarl import URL

from mcp_tools_proxy.domain.proxies import is_this_machine
from mcp_tools_proxy.domain.server_networks import literal_address
from mcp_tools_proxy.web_client.tcp_sockets import NOT_DIALLED

CONNECT_S = 15.0
"""Seconds for the connection to a proxy, its answer to CONNECT, and the TLS handshake."""

_RESOLVE_S = 5.0
_CHECKED_S = 60.0
_MAX_CHECKED = 1_000
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog"})
"""Names of metadata services that only a machine of the cloud can resolve."""

Allows = Callable[[str], bool]


def session_options(proxy: str, allows: Allows, *, allows_unresolved: bool) -> dict[str, Any]:
    """Return the arguments of a ClientSession whose requests all go through a proxy.

    Each request raises OSError with NOT_DIALLED if its target has an address that ``allows``
    refuses. A name that cannot be resolved here needs ``allows_unresolved``: in many networks only
    the proxy resolves names.
    """
    url = URL(proxy)
    auth = None if url.user is None else aiohttp.BasicAuth(url.user, url.password or "")
    targets = _Targets(allows, allows_unresolved=allows_unresolved)
    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(targets.check)
    return {"proxy": url.with_user(None), "proxy_auth": auth, "trace_configs": [trace]}


class _Targets:
    """The hosts that were checked, each with the time until which the check applies."""

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
    """Return the addresses of a name; none if it cannot be resolved here."""
    try:
        async with asyncio.timeout(_RESOLVE_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return []
    return [str(address[4][0]).partition("%")[0] for address in found]
