"""The caller of a component, and the call."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from mcp_tools_proxy.domain.audit import UNKNOWN_ORIGIN, Origin
from mcp_tools_proxy.domain.client import NULL_CLIENT, Client
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import CallerJwt
from mcp_tools_proxy.domain.run import RunRequest

NO_TENANT = ""
"""``tenant_id`` of a caller without a tenant: it owns no documents, and requests cannot name it."""

ANY_TENANT = "-"
"""``tenant_id`` for a list that is the same for all tenants."""


def narrow_documents(
    one: frozenset[str] | None, other: frozenset[str] | None
) -> frozenset[str] | None:
    """Return the intersection; None represents all documents."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


class Kind(StrEnum):
    """The kinds of component in MCP."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """An operator who makes a call as another user; servers receive none of that user's data.

    ``user_id`` is the operator, empty if the token belongs to no user.
    """

    reads_documents: bool
    user_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The tenant (owner of data and budgets) and the user of a call.

    ``agent`` names the restricting agent profile, if any. Callers with ``NO_TENANT`` are not
    offered components that need a tenant; ``user_id`` is empty if unknown. ``token_log_fields``
    identify the verified token in records. ``documents`` limits the tenant's documents, None to
    all; requests of a session can differ in it. Equality and hashes ignore these two and
    ``origin``. With ``stand_in``, the token belongs to an operator and not to the user.
    """

    tenant_id: str
    user_id: str
    roles: tuple[str, ...] = ()
    agent: str | None = None
    token_log_fields: Mapping[str, str] = field(default_factory=dict, compare=False)
    origin: Origin = field(default=UNKNOWN_ORIGIN, compare=False)
    documents: frozenset[str] | None = field(default=None, compare=False)
    jwt: CallerJwt | None = field(default=None, compare=False, repr=False)
    """The JWT that proves tenant and user in this request; None if they were only asserted."""
    jwt_claims: str = field(default="", compare=False, repr=False)
    """Digest of the JWT's claims, equal for a renewed JWT; empty without a JWT.

    A token exchanged for the JWT has the rights of these claims. A cache keyed only by tenant and
    user gave a JWT with fewer roles the token of one with more.
    """
    stand_in: StandIn | None = None
    user_is_unproved: bool = False
    """Whether the request names a user whom its token neither proves nor may assert."""
    may_call: bool = True
    """False for a token that makes no calls, such as an approver's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputResponses:
    """The input of a call that is repeated after an ``input_required`` result."""

    responses: Mapping[str, object]
    """The client's responses, keyed as in the server's ``inputRequests``."""
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to use one component, as received: ``arguments`` is unchecked JSON.

    ``name`` is a tool's or prompt's name as the caller writes it, or a resource's URI.
    """

    name: str
    caller: Caller
    trace_id: str
    kind: Kind = Kind.TOOL
    arguments: Mapping[str, object] = field(default_factory=dict)
    filled_in: tuple[tuple[str, ...], ...] = ()
    """The paths of the arguments that the gateway filled in."""
    trace_context: Mapping[str, str] = field(default_factory=dict)
    """W3C headers of the request (``traceparent``, ``tracestate``, ``baggage``), forwarded."""
    meta: Mapping[str, object] = field(default_factory=dict)
    """The request's ``_meta``; keys that MCP does not reserve are forwarded (W-12)."""
    client: Client = NULL_CLIENT
    route: str = ""
    """The route of the HTTP API or the MCP method; for the audit record."""
    client_name: str | None = None
    """The MCP client's self-reported name; for the audit record."""
    input_responses: InputResponses | None = None
    sources: bool | None = None
    """Whether answers of document tools include sources; None for the profile's or global
    setting."""
    idempotency_key: str | None = None
    """Calls of one caller with the same key are executed once and have the same outcome."""
    run: RunRequest | None = None
    """The run that the call belongs to."""
    is_sent_once: bool = False
    """Whether the request is never repeated, even to an idempotent tool: it uses an approval."""
    waited_s: float = 0.0
    """Seconds spent waiting for a server's first connection; they count towards the timeout."""
    refusal: ProxyError | None = None
    """Why the arguments cannot be read; raised when they would be checked."""
