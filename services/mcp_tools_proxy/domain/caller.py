"""The caller of a component, and the call."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from mcp_tools_proxy.domain.audit import UNKNOWN_ORIGIN, Origin
from mcp_tools_proxy.domain.client import NULL_CLIENT, Client
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import CallerJwt

NO_TENANT = ""
"""``tenant_id`` of a caller without a tenant: it owns no documents, and no request can name it."""

ANY_TENANT = "-"
"""``tenant_id`` for a list that is the same for every tenant."""


def narrow_documents(
    one: frozenset[str] | None, other: frozenset[str] | None
) -> frozenset[str] | None:
    """Return the documents that both sets have; None is every document."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


class Kind(StrEnum):
    """The three kinds of component that MCP knows."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """An operator who makes a call as somebody else: no server is given anything of that one."""

    reads_documents: bool
    """Whether the operator may read the documents of that tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The tenant (owner of data and budgets) and the user a call is made for.

    ``agent`` names the agent profile that narrows what the caller may use; None means no agent.
    A caller with ``NO_TENANT`` is not offered components that need one; an unknown ``user_id`` is
    empty. ``token_log_fields`` identify the verified token in records, empty without one, and
    ``origin`` is where the request came from. ``documents`` are the only ones of its tenant that
    the caller may use, None for no such limit; each request of a session may have others. Equality
    and hashes leave these out. With ``stand_in`` the token is an operator's, who is not the user.
    """

    tenant_id: str
    user_id: str
    roles: tuple[str, ...] = ()
    agent: str | None = None
    token_log_fields: Mapping[str, str] = field(default_factory=dict, compare=False)
    origin: Origin = field(default=UNKNOWN_ORIGIN, compare=False)
    documents: frozenset[str] | None = field(default=None, compare=False)
    jwt: CallerJwt | None = field(default=None, compare=False, repr=False)
    """What proves tenant and user in this very request; None where they were only said."""
    jwt_claims: str = field(default="", compare=False, repr=False)
    """Digest of the JWT's claims, the same for a renewed JWT; empty without a JWT.

    A token that the JWT is exchanged for has the rights of these claims: one that was kept by
    tenant and user alone gave a JWT of fewer roles what one of more had got.
    """
    stand_in: StandIn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputResponses:
    """The input of a call that is sent again after an ``input_required`` result."""

    responses: Mapping[str, object]
    """The client's responses, under the keys of the server's ``inputRequests``."""
    state: str | None = None
    """The server's ``requestState``, unchanged."""


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
    filled_in: tuple[tuple[str, ...], ...] = ()
    """The paths of the arguments that the gateway filled in, and no caller chose."""
    trace_context: Mapping[str, str] = field(default_factory=dict)
    """W3C headers of the request (``traceparent``, ``tracestate``, ``baggage``), forwarded."""
    meta: Mapping[str, object] = field(default_factory=dict)
    """The request's ``_meta``; keys that MCP does not reserve are forwarded (W-12)."""
    client: Client = NULL_CLIENT
    route: str = ""
    """The route of the HTTP API, or the method of MCP, by which it came; for its record."""
    client_name: str | None = None
    """What an MCP client calls itself; for the call's record."""
    input_responses: InputResponses | None = None
    sources: bool | None = None
    """Whether an answer of a document tool has sources; None for what profile or setting say."""
    idempotency_key: str | None = None
    """The same call of the same caller under this key has the same outcome, and is made once."""
    waited_s: float = 0.0
    """Seconds spent waiting for a server's first connection; they count towards the time-out."""
    refusal: ProxyError | None = None
    """Why the arguments cannot be read; raised where they would be checked."""
