"""A downstream MCP server: its configuration, and its status."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, StrEnum

from mcp_tools_proxy.domain.caller import Caller, Kind
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.networks import Proxy

DEFAULT_SUBJECT_TOKEN = "access_token"  # noqa: S105 - a name of RFC 8693
"""What a caller's JWT is exchanged as, where the entry does not say."""


SCOPE_CHARACTER = r"[!#-\[\]-~]"
"""What the name of a scope consists of (RFC 6749 §3.3), as a part of a pattern."""


def is_same_issuer(one: str, other: str) -> bool:
    """Return whether two identifiers name one issuer.

    They are compared character by character, but for one slash that is the whole path: Google,
    JumpCloud and servers of the Python SDK 1.x write it in one place and not in the other.
    """
    return one == other or _without_root(one) == _without_root(other)


def _without_root(issuer: str) -> str:
    """Return an issuer without the slash that is its whole path."""
    bare = issuer.removesuffix("/")
    return bare if _ORIGIN.fullmatch(bare) else issuer


_ORIGIN = re.compile(r"[A-Za-z]+://[^/?#]+")


class Grant(Enum):
    """How a token is got."""

    AUTHORIZATION_CODE = "authorization_code"
    """A person has signed in; the login is stored."""
    CLIENT_CREDENTIALS = "client_credentials"
    TOKEN_EXCHANGE = "token_exchange"  # noqa: S105 - a name of RFC 8693
    """The caller's JWT is exchanged at its issuer (RFC 8693)."""
    ID_JAG = "id_jag"
    """The caller's JWT is exchanged for an assertion, which its audience exchanges for a token."""

    @property
    def needs_person(self) -> bool:
        """Whether somebody has to sign in before."""
        return self is Grant.AUTHORIZATION_CODE

    @property
    def needs_jwt(self) -> bool:
        """Whether tokens are got by the JWT of who calls."""
        return self in (Grant.TOKEN_EXCHANGE, Grant.ID_JAG)


class LoginFor(Enum):
    """In whose name a token is got: calls of one tenant or user never use another's."""

    DEPLOYMENT = "deployment"
    TENANT = "tenant"
    USER = "user"

    def mismatch(self, tenant_id: str | None, user_id: str | None) -> tuple[str, bool] | None:
        """Return the part that does not fit such a login, and whether it is missing; else None.

        A tenant's login has a tenant, a user's has both, and no other has one.
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
    """What the gateway is known by at an issuer; a template is filled in for each tenant."""

    client_id: str | CallerTemplate | None = None
    client_secret: str | CallerTemplate | None = field(default=None, repr=False)
    metadata_url: str | None = None
    """The address of a client ID metadata document, which is the id where the issuer knows such."""
    name: str | None = None
    """What people are shown at a sign-in."""
    token_endpoint_auth_method: str | None = None
    """How the client authenticates itself; None leaves it to the issuer's metadata."""
    may_register: bool = True
    """Whether the gateway may register itself where there is no id (RFC 7591)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAuth:
    """OAuth towards one server. ``issuer`` and ``resource`` are found out where they are None."""

    grant: Grant = Grant.AUTHORIZATION_CODE
    login_for: LoginFor = LoginFor.DEPLOYMENT
    client: OAuthClient = field(default_factory=OAuthClient)
    idp_client: OAuthClient | None = None
    """The client at the issuer of callers' JWTs (id_jag)."""
    issuer: str | None = None
    resource: str | None = None
    scopes: tuple[str, ...] | None = None
    """The most that is ever requested; None takes what is challenged, where a person sees it."""
    subject_token_type: str = DEFAULT_SUBJECT_TOKEN
    """What a caller's JWT is to the issuer that exchanges it: the last part of RFC 8693's name."""
    knows_pkce: bool = False
    """Whether the operator says that the issuer checks PKCE, which its metadata need not say."""
    redirect_uri: str | None = None
    """Where the command ``login`` listens; None takes a free port of this machine."""
    discovery: "ServerAuth | None" = None
    """By what the server is discovered, if it lets nobody without a token."""


DEFAULT_APP_BYTES = 4_194_304
"""MCP Apps of real servers have up to 1.3 MB of HTML, which is more as JSON."""

DEFAULT_BREAKER_PAUSE_S = 10.0
DEFAULT_CALLS_IN_FLIGHT = 100
DEFAULT_START_TIMEOUT_S = 120.0

DEFAULT_SESSIONS = 50
DEFAULT_PROCESSES = 10
"""How many sessions of tenants or users a server has, and one that is a process for each."""

DEFAULT_SESSION_IDLE_S = 300.0


class Transport(Enum):
    """How to connect to a server; HTTP detects whether it speaks streamable HTTP or SSE."""

    STDIO = "stdio"
    HTTP = "http"
    STREAMABLE_HTTP = "streamable-http"
    SSE = "sse"
    WEBSOCKET = "websocket"


class StdioMode(StrEnum):
    """Which programs mcp.json may start as stdio servers."""

    ON = "on"
    """All."""
    LISTED = "listed"
    OFF = "off"
    """None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCommand:
    """A program that mcp.json may start."""

    command: str
    args: tuple[str, ...] = ()
    """All its arguments, in their order; ``*`` is one of any text that is not an option."""
    env: tuple[str, ...] = ()
    """Names of the variables that the entry may set."""
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What the processes of a stdio server may use of the machine; None restricts nothing."""

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
        """Return this with each template filled in."""

        def texts(paths: tuple[str | CallerTemplate, ...] | None) -> tuple[str, ...] | None:
            if paths is None:
                return None
            return tuple(path if isinstance(path, str) else fill(path) for path in paths)

        return replace(self, read=texts(self.read), write=texts(self.write))


class Isolation(Enum):
    """Which callers share a session with a server."""

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

    They are not among ``args``, ``env``, ``cwd`` and ``headers`` of the ServerConfig until a
    session fills them in.
    """

    args: tuple[str | CallerTemplate, ...] = ()
    """All arguments, those without a part of the caller included; none if all are without."""
    env: Mapping[str, CallerTemplate] = field(default_factory=dict)
    cwd: CallerTemplate | None = None
    headers: Mapping[str, CallerTemplate] = field(default_factory=dict)
    sandbox: Sandbox | None = None
    """The whole sandbox, if a path of it has a part of the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """A signed token of who calls, sent with each call: for whom, and in which header."""

    audience: str
    header: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One entry of ``mcpServers``, its variables resolved.

    A reload that leaves the entry equal keeps the session. ``command``, ``args``, ``env``, ``cwd``
    and ``sandbox`` are for STDIO, ``url`` and ``headers`` for the others. Fields that may hold a
    secret are left out of ``repr``.
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
    """The command, or the URL without credentials, query and what came from variables in its path:
    for operators."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts that replaced variables in the entry of a program."""
    proxy: Proxy | None = None
    """The proxy that requests to the server go through."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    call_timeout_s: float = 60.0
    """Seconds for one call in total, waiting for a connection included."""
    connect_timeout_s: float = 30.0
    """Seconds for one attempt to connect, and for each list; of a process from its first byte."""
    start_timeout_s: float = DEFAULT_START_TIMEOUT_S
    """Seconds for the first start of a process, until its first byte on stdout."""
    refresh_interval_s: float = 300.0
    """Seconds between two discoveries; 0 switches refreshing off."""
    max_calls_in_flight: int = DEFAULT_CALLS_IN_FLIGHT
    """Concurrent calls; one more is SERVER_BUSY."""
    max_calls_in_flight_per_tenant: int | None = None
    """Concurrent calls of one tenant; None means ``tenant_share`` of all."""
    max_result_bytes: int = 1_048_576
    """Bytes of one result as JSON; larger is RESULT_TOO_LARGE."""
    max_app_bytes: int = DEFAULT_APP_BYTES
    """The same of a resource with the scheme ``ui://``."""
    max_text_bytes: int | None = None
    """Bytes of UTF-8 text in one result, where it is cut; None means the gateway's own limit."""
    structured_in_messages: bool = True
    """Whether models are shown structured content beside a text that does not hold it."""
    breaker_failures: int = 0
    """Calls in a row without an answer after which calls are refused for a while; 0 is never."""
    breaker_pause_s: float = DEFAULT_BREAKER_PAUSE_S
    """Seconds until one call is let through again; twice as long after each one that fails."""
    isolation: Isolation = Isolation.SHARED
    max_sessions: int | None = None
    """Sessions of tenants or users; None means DEFAULT_SESSIONS, or DEFAULT_PROCESSES."""
    session_idle_s: float = DEFAULT_SESSION_IDLE_S
    """Seconds without use after which such a session ends."""
    discovery_caller: Caller | None = None
    """For whom the session is that discovers what the server offers; None is for nobody."""
    caller_texts: CallerTexts | None = field(default=None, repr=False)
    """The values that are filled in for a session or a call; None if there is none."""
    forward: tuple[CallerPart, ...] = ()
    """The parts of the caller that each of its calls carries in ``_meta``."""
    assertion: Assertion | None = None
    auth: ServerAuth | None = field(default=None, repr=False)
    """How tokens for the server are got; None where none are, or headers have one."""

    @property
    def label(self) -> str:
        """The server's id, with its name in mcp.json if that is another one."""
        return labelled(self.server_id, self.original_id)

    @property
    def exchanges_jwt(self) -> bool:
        """Whether calls have a token that their caller's JWT is exchanged for."""
        return self.auth is not None and self.auth.grant.needs_jwt

    @property
    def session_limit(self) -> int:
        """How many sessions tenants or users may have at once."""
        if self.max_sessions is not None:
            return self.max_sessions
        return DEFAULT_PROCESSES if self.transport is Transport.STDIO else DEFAULT_SESSIONS

    @property
    def needs_caller(self) -> bool:
        """Whether a call carries something of its caller, or of the caller's credentials."""
        return (
            self.caller_texts is not None
            or bool(self.forward)
            or self.assertion is not None
            or self.auth is not None
        )


class OutputSchemaCheck(StrEnum):
    """What happens to a tool's result that does not match its ``outputSchema``."""

    OFF = "off"
    """Results are not compared."""
    WARN = "warn"
    """It is logged and counted."""
    ENFORCE = "enforce"
    """It is logged and counted, and the call fails."""


class ServerState(Enum):
    """State of a server's session."""

    CONNECTING = "connecting"
    """The first attempt since the start, or since its entry changed, is not over."""
    READY = "ready"
    RECONNECTING = "reconnecting"
    """The connection was lost and is being opened again."""
    UNREACHABLE = "unreachable"
    """No attempt since the start, or since its entry changed, has succeeded; it is retried."""
    DISABLED = "disabled"
    FAILED = "failed"
    """It can be reached and not be used as its entry says; tried again every few minutes."""
    LOGIN_REQUIRED = "login_required"
    """Somebody has to sign in, so that it can be discovered."""
    INVALID = "invalid"
    """Its entry in mcp.json cannot be used, and no earlier good one is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCounts:
    """The sessions of a server's tenants or users: how many there are, and may be."""

    open: int
    """Those that were not ended, connected or not."""
    busy: int
    """Those of them with a call or a subscription."""
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """A server's status, as operators see it."""

    server_id: str
    state: ServerState
    transport: Transport | None
    """None where the server's entry is invalid and names none."""
    era: str | None = None
    """The negotiated protocol version."""
    last_error: str | None = None
    """Why it is not ready, or why its last discovery failed, for operators.

    It has the URL or the command, and what a stdio server wrote last to its stderr; no secret.
    """
    reason: str | None = None
    """Why there is no connection, as callers may read it; None while there is one."""
    attempts: int = 0
    """Attempts to connect since it was connected last, or since the start."""
    next_attempt_at: datetime | None = None
    """When the next attempt begins; None while there is a connection or an attempt."""
    discovered_at: datetime | None = None
    stale: bool = False
    """Whether its listed items may be out of date: it is down, or its last refresh failed."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many ``tools``, ``prompts``, ``resources``, ``resource_templates`` it offers."""
    connect_s: float | None = None
    """Seconds that the last successful connect and discovery took."""
    reconnects: int = 0
    sessions: SessionCounts | None = None
    """None where all callers share one session."""
    problems: tuple[str, ...] = ()
    """Problems of its entry in mcp.json; the last good entry stays in force, if there is one."""
    original_id: str | None = None
    """Its name in mcp.json, if its id is derived from that."""

    @property
    def unavailable(self) -> str:
        """Why calls to it fail while it is not connected, as callers and operators read it."""
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
        """The server's id, with its name in mcp.json if that is another one."""
        return labelled(self.server_id, self.original_id)


INVALID_ENTRY = "its entry in mcp.json is invalid"
STILL_CONNECTING = "the gateway is still connecting to it"


def not_listed(kind: Kind) -> str:
    """Return why items of a kind are unavailable whose list the server never answered."""
    return f"it has not returned its list of {kind.value}s yet"


def labelled(server_id: str, original_id: str | None) -> str:
    """Return a server's id for a message, with its name in mcp.json if that is another one."""
    return server_id if original_id is None else f'{server_id} ("{original_id}")'


def unavailable_text(label: str, why: str) -> str:
    """Return the sentence by which every surface says that a server cannot be called."""
    return f"server {label} is unavailable: {why}"
