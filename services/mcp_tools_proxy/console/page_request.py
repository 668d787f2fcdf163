"""Requests and results of pages, security headers, and the origin check of forms."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from ipaddress import ip_address
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.console.api_client import ApiClient
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.name_directory import AgentChoice, NameDirectory
from mcp_tools_proxy.console.sessions import Session, Sessions
from mcp_tools_proxy.domain.audit import Origin
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk
from mcp_tools_proxy.wire.identifiers import is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Values shared by all pages.

    ``public_url`` is the gateway's address, None if unknown. ``trace_url`` is the URL of a trace in
    a trace viewer, with the placeholder ``{trace_id}``. ``large_reads`` limits how many whole
    documents are read and parsed concurrently. ``open_approvals`` opens the calls that wait for a
    person: unlike all other data, they cannot be reached with a bearer token.
    """

    render: Callable[..., str]
    public_url: str | None
    trace_url: str | None
    large_reads: asyncio.Semaphore
    open_approvals: Callable[[], Awaitable[ApprovalDesk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request of a signed-in browser, with its operator and an API client for them."""

    request: Request
    session: Session
    sessions: Sessions
    operator: Principal
    api: ApiClient
    names: NameDirectory
    agents: AgentChoice
    """The agents that fields offer."""
    site: Site
    origin: Origin
    form: Form = field(default_factory=Form)

    def query(self, name: str) -> str:
        """Return a query parameter without surrounding blanks; "" if it is missing."""
        return (self.request.query_params.get(name) or "").strip()

    def number(self, name: str) -> int:
        """Return a query parameter as a whole number below a million; otherwise 0."""
        text = self.query(name)
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether another site triggered this request (Fetch Metadata).

        Browsers send the cookie with requests from other hosts of the same site, so such requests
        run no tool until the user clicks.
        """
        return self.request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")

    def agent(self, field_name: str = "agent") -> str:
        """Return the agent of the form or query, or the first one if an agent is required."""
        named = self.form.text(field_name) or self.query(field_name)
        return self.agents.chosen(named)

    def may(self, right: OperatorRight) -> bool:
        """Return whether the user has a right, for all tenants or for their own."""
        return right in self.operator.rights

    @property
    def tenant_id(self) -> str | None:
        """The tenant of the user's rights; None for all."""
        return self.operator.tenant_id

    def tenant(self, field_name: str = "tenant_id") -> str:
        """Return the user's tenant, otherwise that of the query, or ""."""
        return self.tenant_id or self.query(field_name)


def page_address(path: str, query: Mapping[str, object]) -> str:
    """Return the address of a page; empty parameters are omitted."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


RowT = TypeVar("RowT")

Address = Callable[..., str]
"""Returns the address of a list with additional parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage(Generic[RowT]):
    """One page of a list, with the addresses of adjacent pages."""

    rows: Sequence[RowT]
    total: int = 0
    first: int = 0
    """Index of the first row if the whole list is known."""
    start: str | None = None
    """The first page; None if this is it."""
    before: str | None = None
    after: str | None = None

    @classmethod
    def part(
        cls, rows: Sequence[RowT], page: PageRequest, size: int, address: Address
    ) -> "ListPage[RowT]":
        """Return the page at the query parameter ``first`` of a complete list."""
        first = page.number("first")
        first = first - first % size if first < len(rows) else 0
        end = first + size
        return cls(
            rows=rows[first:end],
            total=len(rows),
            first=first,
            before=address(first=first - size) if first else None,
            after=address(first=end) if end < len(rows) else None,
        )

    @classmethod
    def after_cursor(
        cls, rows: Sequence[RowT], page: PageRequest, following: str | None, address: Address
    ) -> "ListPage[RowT]":
        """Return a page of an API list; ``following`` is the cursor of the next page."""
        return cls(
            rows=rows,
            start=address() if page.query("cursor") else None,
            after=None if following is None else address(cursor=following),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """A page to render."""

    template: str
    context: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    suggests: bool = False
    """Whether its fields suggest names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Redirects to ``path`` after an action; the page shows ``message`` once."""

    path: str
    message: str


PageResult = PageView | Done | Response

PageHandler = Callable[[PageRequest], Awaitable[PageResult]]
"""Serves one method of a page. Raises ApiRefused, or ProxyError for an invalid form."""

Routes = Mapping[str, Mapping[str, PageHandler]]
"""Page handlers by path and method."""


_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",  # no-referrer would set the Origin of our forms to "null"
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
}
"""Headers of all pages and static files; they forbid inline and cross-origin content."""

PAGE_HEADERS: Mapping[str, str] = {**SECURITY_HEADERS, "Cache-Control": "no-store"}


class OwnOrigin:
    """Distinguishes our forms from those of other sites.

    The expected origin is that of ``public_url`` if it is set. Otherwise, and for loopback
    addresses (a browser on this machine or behind a forwarded port), it is the ``Host`` header.
    """

    def __init__(self, public_url: str | None) -> None:
        self.public_url = public_url
        self._origin = None if public_url is None else _origin_of(public_url)

    def sent(self, request: Request) -> bool:
        """Return whether a form was sent by our page; browsers set ``Origin`` themselves."""
        origins, hosts = request.headers.getlist("origin"), request.headers.getlist("host")
        if len(origins) != 1 or len(hosts) != 1:
            return False
        origin, host = origins[0].lower(), hosts[0].lower()
        if self._origin is not None and origin == self._origin:
            return True
        if self._origin is not None and not is_loopback(_name_of(host)):
            return False
        return origin in (f"http://{host}", f"https://{host}")


_DEFAULT_PORTS = {"http": 80, "https": 443}


def _origin_of(url: str) -> str:
    """Return the origin of a URL in the form that browsers send.

    Default ports are omitted, and non-ASCII host names are encoded with ``xn--``.
    """
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port
        name = f"[{ip_address(host)}]" if ":" in host else host.encode("idna").decode()
    except ValueError:  # an invalid URL, which no browser uses
        return f"{parts.scheme}://{parts.netloc}".lower()
    shown = "" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{name}{shown}"


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
