"""What a page is given, and what it returns."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from mcp_tools_proxy.console.api_client import ApiClient
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.name_directory import AgentChoice, NameDirectory
from mcp_tools_proxy.console.sessions import Session, Sessions
from mcp_tools_proxy.domain.identity import OperatorRight, Principal


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
