"""What a page is given and what it returns: the headers of each, and where a form comes from."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.console.api_client import ApiClient
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.name_directory import AgentChoice, NameDirectory
from mcp_tools_proxy.console.sessions import Session, Sessions
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.wire.identifiers import is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What all pages of a gateway share.

    ``public_url`` is the gateway's address, None where it is not known. ``trace_url`` is the
    address of a trace in a trace viewer, with ``{trace_id}`` for its id. ``large_reads`` is held
    while a whole document is read and parsed.
    """

    render: Callable[..., str]
    public_url: str | None
    trace_url: str | None
    large_reads: asyncio.Semaphore


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request of a signed-in browser: who it is, and the API as that person."""

    request: Request
    session: Session
    sessions: Sessions
    operator: Principal
    api: ApiClient
    names: NameDirectory
    agents: AgentChoice
    """The agents to choose from."""
    site: Site
    form: Form = field(default_factory=Form)

    def query(self, name: str) -> str:
        """Return a parameter of the address without blanks around it; "" if it is not there."""
        return (self.request.query_params.get(name) or "").strip()

    def number(self, name: str) -> int:
        """Return a whole number of the address; 0 if it is not there, or no such number."""
        text = self.query(name)
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether a page of another host has made the browser send this (Fetch Metadata).

        The cookie comes along from hosts of the same site. So what would run a tool waits for a
        click of the person.
        """
        return self.request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")

    def agent(self, field_name: str = "agent") -> str:
        """Return the agent of the form or the address, the first one if one is required."""
        named = self.form.text(field_name) or self.query(field_name)
        return self.agents.chosen(named)

    def may(self, right: OperatorRight) -> bool:
        """Return whether the person has a right: for all tenants, or for the own one."""
        return right in self.operator.rights

    @property
    def tenant_id(self) -> str | None:
        """The only tenant that the person's rights are for; None for all."""
        return self.operator.tenant_id

    def tenant(self, field_name: str = "tenant_id") -> str:
        """Return the tenant to look at: the person's own, else that of the address, or ""."""
        return self.tenant_id or self.query(field_name)


def page_address(path: str, query: Mapping[str, object]) -> str:
    """Return the address of a page; what is empty is left out of its query."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


RowT = TypeVar("RowT")

Address = Callable[..., str]
"""Returns the address of a list with more parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage(Generic[RowT]):
    """One page of a list, and the addresses of others; None where there are none."""

    rows: Sequence[RowT]
    total: int = 0
    first: int = 0
    """The place of the first row, where the whole list is known."""
    start: str | None = None
    """The first page, on any other."""
    before: str | None = None
    after: str | None = None

    @classmethod
    def part(
        cls, rows: Sequence[RowT], page: PageRequest, size: int, address: Address
    ) -> "ListPage[RowT]":
        """Return the page of a whole list that the parameter ``first`` of the address names."""
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
        """Return a page of a list of the API, which names the cursor of the ``following`` one."""
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
    """Something was done: the browser goes on to ``path``, which shows ``message`` once."""

    path: str
    message: str


PageResult = PageView | Done | Response

PageHandler = Callable[[PageRequest], Awaitable[PageResult]]
"""Serves one method of a page; may raise ApiRefused, or ProxyError for a form that is no good."""

Routes = Mapping[str, Mapping[str, PageHandler]]
"""The handlers of a part of the console, by path and method."""


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
    "Referrer-Policy": "same-origin",  # no-referrer would make the Origin of our forms "null"
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
}
"""Of every page and every file; nothing inline runs, and nothing is of another origin."""

PAGE_HEADERS: Mapping[str, str] = {**SECURITY_HEADERS, "Cache-Control": "no-store"}


class OwnOrigin:
    """Tells the forms of our own pages from those of others.

    The origin is that of ``public_url``, where it is set. Else, and for a browser on this machine
    or behind a forwarded port, it is what the browser itself says that it asks (``Host``).
    """

    def __init__(self, public_url: str | None) -> None:
        self.public_url = public_url
        self._origin = None if public_url is None else _origin_of(public_url)

    def sent(self, request: Request) -> bool:
        """Return whether a form was sent by a page of ours; browsers name its origin themselves."""
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
    """Return the origin of a URL as browsers write it.

    They leave the usual port out, and write names of other letters than ASCII with ``xn--``.
    """
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port
        name = f"[{ip_address(host)}]" if ":" in host else host.encode("idna").decode()
    except ValueError:  # no browser has been led there
        return f"{parts.scheme}://{parts.netloc}".lower()
    shown = "" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{name}{shown}"


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
