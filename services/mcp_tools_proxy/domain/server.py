"""A downstream MCP server: its configuration, and its status."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime
from enum import Enum, StrEnum

from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.networks import Proxy

DEFAULT_SUBJECT_TOKEN = "access_token"  # noqa: S105 - a name of RFC 8693
"""Default subject token type in the exchange of a caller's JWT."""


SCOPE_CHARACTER = r"[!#-\[\]-~]"
"""Pattern for one character of a scope's name (RFC 6749 §3.3)."""


def is_same_issuer(one: str, other: str) -> bool:
    """Return whether two identifiers name the same issuer.

    They are compared exactly, except for a slash that is the whole path: Google, JumpCloud and
    servers of the Python SDK 1.x write it inconsistently.
    """
    return one == other or _without_root(one) == _without_root(other)


def _without_root(issuer: str) -> str:
    """Return an issuer without the slash that is its whole path."""
    bare = issuer.removesuffix("/")
    return bare if _ORIGIN.fullmatch(bare) else issuer


_ORIGIN = re.compile(r"[A-Za-z]+://[^/?#]+")


class Grant(Enum):
    """The OAuth grant for tokens."""

    AUTHORIZATION_CODE = "authorization_code"
    """A person has signed in; the login is stored."""
    CLIENT_CREDENTIALS = "client_credentials"
    TOKEN_EXCHANGE = "token_exchange"  # noqa: S105 - a name of RFC 8693
    """The caller's JWT is exchanged at its issuer (RFC 8693)."""
    ID_JAG = "id_jag"
    """The caller's JWT is exchanged for an assertion, and that for a token at its audience."""

    @property
    def needs_person(self) -> bool:
        """Whether a person must sign in first."""
        return self is Grant.AUTHORIZATION_CODE

    @property
    def needs_jwt(self) -> bool:
        """Whether tokens are obtained with the caller's JWT."""
        return self in (Grant.TOKEN_EXCHANGE, Grant.ID_JAG)


class LoginFor(Enum):
    """The owner of a token; calls of one tenant or user never use another's."""

    DEPLOYMENT = "deployment"
    TENANT = "tenant"
    USER = "user"

    def mismatch(self, tenant_id: str | None, user_id: str | None) -> tuple[str, bool] | None:
        """Return the argument that does not fit this kind, and whether it is missing; or None.

        A tenant's login requires a tenant, a user's login both, a deployment's neither.
        """
        parts = (
            ("tenant", tenant_id, self is not LoginFor.DEPLOYMENT),
            ("user", user_id, self is LoginFor.USER),
        )
        for part, value, is_needed in parts:
            if (value is not None) is not is_needed:
                return part, is_needed
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """The gateway's client identity at an issuer; a template is filled in for each tenant."""

    client_id: str | CallerTemplate | None = None
    client_secret: str | CallerTemplate | None = field(default=None, repr=False)
    metadata_url: str | None = None
    """URL of a client ID metadata document, used as the id if the issuer supports that."""
    name: str | None = None
    """The name shown to people at sign-in."""
    token_endpoint_auth_method: str | None = None
    """How the client authenticates itself; None leaves it to the issuer's metadata."""
    may_register: bool = True
    """Whether a gateway without an id may register itself (RFC 7591)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAuth:
    """OAuth for one server; ``issuer`` and ``resource`` are discovered unless set."""

    grant: Grant = Grant.AUTHORIZATION_CODE
    login_for: LoginFor = LoginFor.DEPLOYMENT
    client: OAuthClient = field(default_factory=OAuthClient)
    idp_client: OAuthClient | None = None
    """The client at the issuer of callers' JWTs (id_jag)."""
    issuer: str | None = None
    resource: str | None = None
    scopes: tuple[str, ...] | None = None
    """The maximum of requested scopes; None requests the challenged ones if a person confirms
    them."""
    subject_token_type: str = DEFAULT_SUBJECT_TOKEN
    """The token type of a caller's JWT at the exchange: the last part of RFC 8693's name."""
    knows_pkce: bool = False
    """Whether the operator states that the issuer checks PKCE, which its metadata can omit."""
    redirect_uri: str | None = None
    """The address that the ``login`` command listens on; None uses a free local port."""
    discovery: "ServerAuth | None" = None
    """Authentication for discovery, if the server refuses requests without a token."""


DEFAULT_APP_BYTES = 4_194_304
"""MCP Apps of real servers have up to 1.3 MB of HTML, which is more as JSON."""

DEFAULT_BREAKER_PAUSE_S = 10.0
DEFAULT_CALLS_IN_FLIGHT = 100
DEFAULT_START_TIMEOUT_S = 120.0

DEFAULT_SESSIONS = 50
DEFAULT_PROCESSES = 10
"""Default limits of sessions per tenant or user, for connections and for processes."""

DEFAULT_SESSION_IDLE_S = 300.0


class Transport(Enum):
    """Transport to a server; HTTP detects streamable HTTP or SSE."""

    STDIO = "stdio"
    HTTP = "http"
    STREAMABLE_HTTP = "streamable-http"
    SSE = "sse"
    WEBSOCKET = "websocket"


class StdioMode(StrEnum):
    """The programs that mcp.json may start as stdio servers."""

    ON = "on"
    LISTED = "listed"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCommand:
    """A program that mcp.json may start."""

    command: str
    args: tuple[str, ...] = ()
    """All its arguments in order; ``*`` matches any text that is not an option."""
    env: tuple[str, ...] = ()
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """Restrictions on the processes of a stdio server; None means unrestricted."""

    network: bool = True
    read: tuple[str | CallerTemplate, ...] | None = None
    write: tuple[str | CallerTemplate, ...] | None = None
    memory: int | None = None
    """Bytes of each process."""
    cpu: int | None = None
    """Cores."""

    @property
    def templates(self) -> tuple[CallerTemplate, ...]:
        """The paths with parts of the caller."""
        paths = (*(self.read or ()), *(self.write or ()))
        return tuple(path for path in paths if isinstance(path, CallerTemplate))

    def filled(self, fill: Callable[[CallerTemplate], str]) -> "Sandbox":
        """Return a copy with all templates filled in."""

        def texts(paths: tuple[str | CallerTemplate, ...] | None) -> tuple[str, ...] | None:
            if paths is None:
                return None
            return tuple(path if isinstance(path, str) else fill(path) for path in paths)

        return replace(self, read=texts(self.read), write=texts(self.write))


class Isolation(Enum):
    """The callers that share a session with a server."""

    SHARED = "shared"
    TENANT = "tenant"
    USER = "user"
    """The pair of tenant and user: two tenants may have users of one id."""

    @property
    def separates(self) -> frozenset[CallerPart]:
        """The parts of the caller that are the same in all calls of one session."""
        return _SEPARATES[self]


_SEPARATES: Mapping[Isolation, frozenset[CallerPart]] = {
    Isolation.SHARED: frozenset(),
    Isolation.TENANT: frozenset({CallerPart.TENANT_ID}),
    Isolation.USER: frozenset({CallerPart.TENANT_ID, CallerPart.USER_ID}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerTexts:
    """The values of an entry that depend on the caller, or on secrets.

    They are added to ``args``, ``env``, ``cwd`` and ``headers`` of the ServerConfig for each
    session.
    """

    args: tuple[str | CallerTemplate, ...] = ()
    """All arguments, including constant ones; empty if all are constant."""
    env: Mapping[str, CallerTemplate] = field(default_factory=dict)
    cwd: CallerTemplate | None = None
    headers: Mapping[str, CallerTemplate] = field(default_factory=dict)
    sandbox: Sandbox | None = None
    """The whole sandbox, if a path of it has a part of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """A signed token about the caller, sent with each call in ``header`` for ``audience``."""

    audience: str
    header: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One entry of ``mcpServers``, its variables resolved.

    A reload that leaves the entry equal keeps the session. ``command``, ``args``, ``env``, ``cwd``
    and ``sandbox`` are for STDIO, ``url`` and ``headers`` for other transports. ``repr`` omits
    possible secrets.
    """

    server_id: str
    transport: Transport
    name: str = ""
    original_id: str | None = None
    """The server's name in mcp.json, if its id is derived from that."""
    enabled: bool = True
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    sandbox: Sandbox | None = None
    url: str = field(default="", repr=False)
    address: str = ""
    """For operators: the command, or the URL without credentials, query and path values from
    variables."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    proxy: Proxy | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    call_timeout_s: float = 60.0
    """Seconds for one call in total, including the wait for a connection."""
    connect_timeout_s: float = 30.0
    """Seconds per connection attempt and per list; for a process, from its first byte."""
    start_timeout_s: float = DEFAULT_START_TIMEOUT_S
    """Seconds for the first start of a process, until its first byte on stdout."""
    refresh_interval_s: float = 300.0
    """Seconds between two discoveries; 0 disables refreshing."""
    max_calls_in_flight: int = DEFAULT_CALLS_IN_FLIGHT
    """Concurrent calls; one more fails with SERVER_BUSY."""
    max_calls_in_flight_per_tenant: int | None = None
    """Concurrent calls of one tenant; None means ``tenant_share`` of all."""
    max_result_bytes: int = 1_048_576
    """Bytes of one result as JSON; a larger one fails with RESULT_TOO_LARGE."""
    max_app_bytes: int = DEFAULT_APP_BYTES
    """The same for a resource with the scheme ``ui://``."""
    max_text_bytes: int | None = None
    """Bytes of UTF-8 text in one result before truncation; None means the gateway's own limit."""
    structured_in_messages: bool = True
    """Whether models receive structured content in addition to a text that does not contain it."""
    breaker_failures: int = 0
    """Consecutive unanswered calls that open the circuit breaker; 0 disables it."""
    breaker_pause_s: float = DEFAULT_BREAKER_PAUSE_S
    """Seconds until a trial call; doubled after each failed one."""
    isolation: Isolation = Isolation.SHARED
    max_sessions: int | None = None
    """Sessions of tenants or users; None means DEFAULT_SESSIONS, or DEFAULT_PROCESSES."""
    session_idle_s: float = DEFAULT_SESSION_IDLE_S
    """Idle seconds after which such a session ends."""
    discovery_caller: Caller | None = None
    """The caller of the session that discovers the server's items; None for no caller."""
    caller_texts: CallerTexts | None = field(default=None, repr=False)
    """The values that are filled in for a session or a call, if any."""
    forward: tuple[CallerPart, ...] = ()
    """The parts of the caller that each of its calls carries in ``_meta``."""
    assertion: Assertion | None = None
    auth: ServerAuth | None = field(default=None, repr=False)
    """OAuth for the server; None for servers without tokens, or with one in the headers."""

    @property
    def label(self) -> str:
        """The server's id, with its name in mcp.json if that differs."""
        return labelled(self.server_id, self.original_id)

    @property
    def exchanges_jwt(self) -> bool:
        """Whether calls use a token obtained in exchange for the caller's JWT."""
        return self.auth is not None and self.auth.grant.needs_jwt

    @property
    def session_limit(self) -> int:
        """Maximum number of concurrent sessions of tenants or users."""
        if self.max_sessions is not None:
            return self.max_sessions
        return DEFAULT_PROCESSES if self.transport is Transport.STDIO else DEFAULT_SESSIONS

    @property
    def needs_caller(self) -> bool:
        """Whether calls carry data or credentials of the caller."""
        return (
            self.caller_texts is not None
            or bool(self.forward)
            or self.assertion is not None
            or self.auth is not None
        )


class OutputSchemaCheck(StrEnum):
    """Handling of results that do not match the tool's ``outputSchema``."""

    OFF = "off"
    WARN = "warn"
    """The mismatch is logged and counted."""
    ENFORCE = "enforce"
    """The mismatch is logged and counted, and the call fails."""


class ServerState(Enum):
    """State of a server's session."""

    CONNECTING = "connecting"
    """The first attempt since the start or a change of the entry is not finished."""
    READY = "ready"
    RECONNECTING = "reconnecting"
    UNREACHABLE = "unreachable"
    """All attempts since the start or a change of the entry have failed; retries continue."""
    DISABLED = "disabled"
    FAILED = "failed"
    """It can be reached, but not used as configured; retried every few minutes."""
    LOGIN_REQUIRED = "login_required"
    """A person must sign in before discovery."""
    INVALID = "invalid"
    """Its entry in mcp.json is invalid, and no earlier valid one is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCounts:
    """The number and the limit of a server's sessions of tenants or users."""

    open: int
    """Sessions that have not ended, connected or not."""
    busy: int
    """Open sessions with a call or a subscription."""
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """A server's status, for operators."""

    server_id: str
    state: ServerState
    transport: Transport | None
    """None if the server's entry is invalid and names none."""
    era: str | None = None
    """The negotiated protocol version."""
    last_error: str | None = None
    """The last connection or discovery error, for operators.

    It contains the URL or command, and a stdio server's last output on stderr, but no secret.
    """
    sign_in_command: str | None = None
    """The command with which an operator signs in to the server; None unless that is required."""
    reason: str | None = None
    """Why the server is disconnected, in words for callers; None while connected."""
    attempts: int = 0
    """Connection attempts since the last connection or the start."""
    next_attempt_at: datetime | None = None
    """Start of the next attempt; None during a connection or an attempt."""
    discovered_at: datetime | None = None
    stale: bool = False
    """Whether its listed items can be out of date: it is down, or its last refresh failed."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Numbers of offered ``tools``, ``prompts``, ``resources``, ``resource_templates``."""
    connect_s: float | None = None
    """Duration of the last successful connect and discovery, in seconds."""
    reconnects: int = 0
    sessions: SessionCounts | None = None
    """None if all callers share one session."""
    problems: tuple[str, ...] = ()
    """Problems of its entry in mcp.json; the last valid entry, if any, stays active."""
    original_id: str | None = None
    """Its name in mcp.json, if its id is derived from that."""

    @property
    def unavailable(self) -> str:
        """The reason why calls fail while it is disconnected, for callers and operators."""
        match self.state:
            case ServerState.DISABLED:
                why = "it is disabled in mcp.json"
            case ServerState.INVALID:
                why = INVALID_ENTRY
            case _:
                why = self.reason or STILL_CONNECTING
        return unavailable_text(self.label, why)

    @property
    def label(self) -> str:
        """The server's id, with its name in mcp.json if that differs."""
        return labelled(self.server_id, self.original_id)


INVALID_ENTRY = "its entry in mcp.json is invalid"
STILL_CONNECTING = "the gateway is still connecting to it"


def not_listed(kind: Kind) -> str:
    """Return the reason why items of a kind are unavailable before the first list."""
    return f"it has not returned its list of {kind.value}s yet"


def labelled(server_id: str, original_id: str | None) -> str:
    """Return a server's id for a message, with its name in mcp.json if that differs."""
    return server_id if original_id is None else f'{server_id} ("{original_id}")'


def unavailable_text(label: str, why: str) -> str:
    """Return the common sentence for a server that cannot be called."""
    return f"server {label} is unavailable: {why}"
