"""Refuses requests of web pages: only known ``Host`` and ``Origin`` headers pass.

Any web page in a browser can send requests to this machine. With DNS rebinding, its own host name
resolves to this machine, so the browser treats both as one site. ``Host`` is then the page's host
name, and ``Origin`` the page.
"""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_tools_proxy.domain.errors import Forbidden
from mcp_tools_proxy.http.request_headers import trace_id_from
from mcp_tools_proxy.http.request_refusals import (
    RequestRefusals,
    is_console_path,
    is_page_path,
)
from mcp_tools_proxy.http.responses import error_response
from mcp_tools_proxy.http.token_gate import OPEN_PATHS
from mcp_tools_proxy.wire.identifiers import ANY_HOST, is_loopback

MAX_REMEMBERED = 256
"""Limit of cached ``Host`` values that were accepted."""


_HOST, _ORIGIN = "Host", "Origin"
_SETTINGS = {_HOST: "MCP_PROXY_ALLOWED_HOSTS", _ORIGIN: "MCP_PROXY_ALLOWED_ORIGINS"}


class HostOriginGuard:
    """ASGI middleware that passes requests with a known ``Host`` and ``Origin``.

    ``hosts`` are names, with a port to allow only that port; ``ANY_HOST`` allows all. ``origins``
    are as browsers send them. With ``on_loopback``, this machine's names and origins are also
    allowed. ``pages_url`` is the address of the sign-in pages, if any. With ``has_console``, every
    origin can send to the console, which checks the origin. Requests without ``Origin`` are not
    from web pages.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str],
        on_loopback: bool,
        pages_url: str | None = None,
        has_console: bool = False,
        refusals: RequestRefusals,
    ) -> None:
        self._app = app
        self._refusals = refusals
        self._hosts = frozenset(_canonical_host(host.lower()) for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._on_loopback = on_loopback
        self._has_console = has_console
        self._page_origins = frozenset() if pages_url is None else _own_origins(pages_url)
        self._any_host = ANY_HOST in self._hosts or not (self._hosts or on_loopback)
        self._good_hosts: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer FORBIDDEN."""
        is_open = scope["type"] != "http" or scope["path"] in OPEN_PATHS
        header = None if is_open else self._refused_header(scope)
        if header is None:
            await self._app(scope, receive, send)
            return
        trace_id = trace_id_from(None, Headers(scope=scope))
        error = Forbidden(
            f"{header}: is not allowed here; an operator can add it to {_SETTINGS[header]}",
            details={"field": header},
        )
        self._refusals.record_refusal(scope, error, trace_id)
        await error_response(error, trace_id)(scope, receive, send)

    def _refused_header(self, scope: Scope) -> str | None:
        headers = scope["headers"]
        found = dict(headers)
        is_plain = len(found) == len(headers) and b"origin" not in found
        if is_plain and (self._any_host or found.get(b"host") in self._good_hosts):
            # a loop over the headers takes four times as long
            return None
        hosts = 0
        for name, value in headers:
            if name == b"host":
                hosts += 1
                if not (self._any_host or value in self._good_hosts or self._is_host(value)):
                    return _HOST
            elif name == b"origin" and not self._may_send(value, scope["path"]):
                return _ORIGIN
        return None if self._any_host or hosts == 1 else _HOST

    def _may_send(self, origin: bytes, path: str) -> bool:
        if self._has_console and is_console_path(path):
            return True
        is_own = origin in self._page_origins and is_page_path(path)
        return is_own or self._is_origin(origin)

    def _is_host(self, value: bytes) -> bool:
        host = _canonical_host(value.decode("latin-1").lower())
        name = _host_name(host)
        known = host in self._hosts or name in self._hosts
        if not known and not (self._on_loopback and is_loopback(name.strip("[]"))):
            return False
        if len(self._good_hosts) < MAX_REMEMBERED:
            self._good_hosts.add(value)
        return True

    def _is_origin(self, value: bytes) -> bool:
        origin = value.decode("latin-1").lower()
        if origin in self._origins:
            return True
        scheme, separator, host = origin.partition("://")
        if not self._on_loopback or scheme not in ("http", "https") or not separator:
            return False
        return is_loopback(_host_name(host).strip("[]"))


def _own_origins(pages_url: str) -> frozenset[bytes]:
    """Return the values of ``Origin`` that browsers send for forms of our pages.

    It is "null" for pages without a referrer; a form of another page lacks cookie and CSRF token.
    """
    parts = urlsplit(pages_url)
    return frozenset({b"null", f"{parts.scheme}://{parts.netloc}".lower().encode()})


def _canonical_host(host: str) -> str:
    """Return a host with an IPv6 address in canonical form."""
    address, bracket, port = host.removeprefix("[").partition("]")
    if not bracket or not host.startswith("["):
        return host
    try:
        return f"[{ip_address(address).compressed}]{port}"
    except ValueError:
        return host


def _host_name(host: str) -> str:
    """Return the part before the port; empty if the host cannot be parsed."""
    try:
        parts = urlsplit(f"//{host}")
        found = parts.hostname if parts.port is None or parts.port else None
    except ValueError:
        return ""
    if found is None:
        return ""
    name = f"[{found}]" if ":" in found else found
    return name if host in (name, f"{name}:{parts.port}") else ""
