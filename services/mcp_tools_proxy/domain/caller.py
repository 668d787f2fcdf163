"""Who calls, and what for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from mcp_tools_proxy.domain.client import NULL_CLIENT, Client

NO_TENANT = ""
"""The tenant of a caller that has none: it owns no documents, and no request can name it."""

ANY_TENANT = "-"
"""Stands for a tenant where it does not matter which: a list is the same for every one of them."""


class Kind(Enum):
    """The three kinds of component that MCP knows."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The tenant (owner of data and budgets) and the user a call is made for.

    ``agent`` names the agent profile that narrows what the caller may use; None means no agent.
    A caller with ``NO_TENANT`` is not offered what belongs to tenants; the ``user_id`` of one that
    nobody told is empty. ``proof`` is what the log says of the token that proves all this, empty
    where none does; it is no part of who the caller is.
    """

    tenant_id: str
    user_id: str
    roles: tuple[str, ...] = ()
    agent: str | None = None
    proof: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputResponses:
    """What a call brings back that was answered with ``input_required`` before."""

    responses: Mapping[str, object]
    """The client's answers, by the keys that the server gave its questions."""
    state: str | None = None
    """The server's ``requestState``, as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to use one component, as received: ``arguments`` is unchecked JSON.

    ``name`` is a tool's or prompt's name as the caller spells it, or a resource's URI.
    """

    name: str
    caller: Caller
    trace_id: str
    kind: Kind = Kind.TOOL
    arguments: Mapping[str, object] = field(default_factory=dict)
    trace_context: Mapping[str, str] = field(default_factory=dict)
    """W3C headers of the request (``traceparent``, ``tracestate``, ``baggage``), passed on."""
    meta: Mapping[str, object] = field(default_factory=dict)
    """The request's ``_meta``; its server gets what MCP does not reserve of it (W-12)."""
    client: Client = NULL_CLIENT
    input_responses: InputResponses | None = None
    waited_s: float = 0.0
    """Seconds that it waited for a server's first attempt; they count towards its time-out."""
