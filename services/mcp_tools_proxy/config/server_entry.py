"""The model of one entry of ``mcpServers``, with its sandbox and guards.

``auth_entry`` has the model of ``auth``. Rules between fields are written twice: for the loader as
a validator, for editors in ``_BETWEEN_KEYS``. A validator sees only valid fields before its own.
The docstrings of the model and its fields are published.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.auth_entry import AuthEntry
from mcp_tools_proxy.config.field_types import (
    ANY_URL_PATTERN,
    HEADER_NAME_PATTERN,
    HTTP_URL_PATTERN,
    VARIABLE_NAME_PATTERN,
    WEBSOCKET_URL_PATTERN,
    BoundText,
    CallerPartName,
    CallerText,
    Command,
    Count,
    FileModel,
    Filled,
    Folder,
    HeaderName,
    HeaderValue,
    Name,
    NotBlank,
    Seconds,
    ServerBind,
    SnakeCaseModel,
    VariableName,
    VariableValue,
    check_url,
    environment_for,
    key_rule,
    keys_of,
    never_null,
    read_into,
    refuse_null,
)
from mcp_tools_proxy.config.json_file import (
    Location,
)
from mcp_tools_proxy.config.variables import BOUND_PATTERN
from mcp_tools_proxy.domain.caller_template import CallerTemplate
from mcp_tools_proxy.domain.guards import GuardAction, GuardActions, GuardName
from mcp_tools_proxy.domain.networks import DIRECT
from mcp_tools_proxy.domain.server import Assertion, Isolation, Sandbox, Transport
from mcp_tools_proxy.policy.guards import secrets
from mcp_tools_proxy.policy.guards.secrets import scanner
from mcp_tools_proxy.wire.identifiers import Identifier
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.strict_json import whole_number

MIN_MEMORY_BYTES = 1024 * 1024
"""Below this, no program starts; most likely megabytes were meant."""

_ABSOLUTE = r"^(?:/|\$\{(?!caller\.))"
"""A path begins with ``/``, or with a variable whose value does."""

_PATHS: dict[str, object] = {
    "type": "array",
    "items": {"type": "string", "allOf": [{"pattern": BOUND_PATTERN}, {"pattern": _ABSOLUTE}]},
}

# keys can be omitted, but not null, which would be ambiguous: nothing, or everything
_Switch = Annotated[bool | None, Published({"type": "boolean"})]
_Paths = Annotated[list[BoundText] | None, Published(_PATHS)]
_Bytes = Annotated[
    Annotated[int, Field(ge=MIN_MEMORY_BYTES), BeforeValidator(whole_number)] | None,
    Published({"type": "integer", "minimum": MIN_MEMORY_BYTES}),
]
_Cores = Annotated[Count | None, Published({"type": "integer", "minimum": 1})]


class SandboxEntry(FileModel):
    """Limits for the processes of a stdio server.

    Omitted keys restrict nothing. Linux only."""

    model_config = ConfigDict(extra="forbid")

    network: _Switch = Field(default=None, examples=[False])
    """`false` blocks the network and this machine's sockets, such as Docker's or D-Bus's."""
    read: _Paths = Field(default=None, examples=[["/srv/notes", "/opt/notes-server"]])
    """Absolute paths of the files and folders that can be read, with everything below them. The
    program, the system's programs, libraries and certificates, and the paths in `write` are always
    readable. `${VAR}` is replaced; `${caller.…}` fills one path segment."""
    write: _Paths = Field(default=None, examples=[["/srv/notes/${caller.tenant_id}"]])
    """Absolute paths of the files and folders that can be changed, as in `read`. `/dev/null` can
    always be written."""
    memory: _Bytes = Field(default=None, examples=[536870912])
    """Maximum private memory of each process, in bytes, at least 1 MiB. Reserved address space,
    shared memory and files in memory (`/dev/shm`) do not count."""
    cpu: _Cores = Field(default=None, examples=[1])
    """Processor cores shared by all processes of one session."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_null(cls, entry: object) -> object:
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            if value is None:
                raise ValueError(f"has null in {key}: leave the key out, or give it a value")
        return entry

    @field_validator("read", "write")
    @classmethod
    def _absolute(
        cls, paths: list[str | CallerTemplate] | None, info: ValidationInfo
    ) -> list[str | CallerTemplate] | None:
        for path in paths or ():
            start = path if isinstance(path, str) else path.parts[0]
            is_unknown = environment_for(info) is None and str(start).startswith("${")
            if not is_unknown and not (isinstance(start, str) and start.startswith("/")):
                raise ValueError("has a path that is not absolute; begin it with /")
        return paths


def _sandbox_of(entry: SandboxEntry) -> Sandbox | None:
    sandbox = Sandbox(
        network=entry.network is not False,
        read=None if entry.read is None else tuple(entry.read),
        write=None if entry.write is None else tuple(entry.write),
        memory=entry.memory,
        cpu=entry.cpu,
    )
    return None if sandbox == Sandbox() else sandbox


def unknown_sandbox_key(place: Location) -> str | None:
    """Return the message for an unknown key of ``sandbox``; None for another place."""
    if place[-2:-1] != ("sandbox",):
        return None
    meant = closest_match(str(place[-1]), keys_of(SandboxEntry))
    return f"is not a known key{did_you_mean(meant, '; remove it')}"


_Action = Annotated[
    GuardAction,
    Strict(False),
    Published({"type": "string", "enum": [action.value for action in GuardAction]}),
]


class GuardsEntry(FileModel):
    """Guards that check definitions, arguments and results, each with its action.

    `off` does not check, `flag` reports findings, `redact` replaces them with a marker, and
    `refuse` refuses the call or hides the item. Unknown keys and values are errors."""

    model_config = ConfigDict(extra="forbid")

    hidden_characters: _Action = Field(default=GuardAction.OFF, examples=["redact"])
    """Invisible characters: bidirectional controls, tags, zero-width and control characters."""
    hidden_html: _Action = Field(default=GuardAction.OFF, examples=["redact"])
    """HTML comments, Markdown comments, and elements that are not displayed."""
    images: _Action = Field(default=GuardAction.OFF, examples=["redact"])
    """Markdown and HTML images from unknown hosts."""
    links: _Action = Field(default=GuardAction.OFF, examples=["flag"])
    """Markdown and HTML links to unknown hosts."""
    secrets: _Action = Field(default=GuardAction.OFF, examples=["redact"])
    """Secrets in known formats. Requires the extra `secrets`."""
    instructions: _Action = Field(default=GuardAction.OFF, examples=["refuse"])
    """Phrases in definitions that give instructions to a model."""

    @field_validator("secrets")
    @classmethod
    def _has_rules(cls, action: GuardAction) -> GuardAction:
        if action is not GuardAction.OFF and not secrets.is_installed():
            raise ValueError(
                "needs rules that are not installed: install mcp-tools-proxy with the extra "
                f'"{secrets.EXTRA}"'
            )
        return action


def _guard_actions(entry: GuardsEntry) -> GuardActions:
    actions = {name: getattr(entry, name.name.lower()) for name in GuardName}
    return {name: action for name, action in actions.items() if action is not GuardAction.OFF}


Guards = Annotated[GuardActions, read_into(Annotated[GuardsEntry, AfterValidator(_guard_actions)])]
"""The active guards of a server's entry or a preset."""


SPELLINGS: Mapping[Transport, tuple[str, ...]] = {
    Transport.STDIO: ("stdio",),
    Transport.HTTP: ("http",),
    Transport.STREAMABLE_HTTP: (
        *("streamable-http", "streamable_http", "streamablehttp", "streamable http", "streamable"),
        *("streamhttp", "stream-http", "stream_http", "http-stream", "http_stream", "httpstream"),
    ),
    Transport.SSE: ("sse",),
    Transport.WEBSOCKET: ("websocket", "ws"),
}
"""The names of each transport in files, case-insensitive."""

STDIO_KEYS = ("command", "args", "env", "cwd", "sandbox")
NETWORK_KEYS = ("url", "headers", "proxy")


def is_proxy_url(url: str) -> bool:
    """Return whether a URL is valid for a proxy."""
    try:
        check_url(url, HTTP_URL_PATTERN, "http:// or https://")
    except ValueError:
        return False
    return True


def _any_case(words: Iterable[str]) -> dict[str, object]:
    """Return the JSON Schema for one of these words, case-insensitive."""
    either = "|".join(
        "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in words
    )
    return {"type": "string", "pattern": f"^(?:{either})$"}


_WORDS = [word for words in SPELLINGS.values() for word in words]


def _read_transport(value: object) -> Transport:
    if isinstance(value, str):
        for transport, words in SPELLINGS.items():
            if value.lower() in words:
                return transport
    raise ValueError(f"should be one of {', '.join(_WORDS)}")


_Isolation = Annotated[
    Isolation,
    Strict(False),
    Published({"type": "string", "enum": [isolation.value for isolation in Isolation]}),
]

_TextBytes = Annotated[int, Field(ge=4), BeforeValidator(whole_number)]

_Transport = Annotated[
    Transport,
    BeforeValidator(_read_transport),
    Published({"anyOf": [{"enum": [t.value for t in Transport]}, _any_case(_WORDS)]}),
]


def _present(key: str, like: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return the JSON Schema for a present string under ``key`` that matches ``like``."""
    return {"required": [key], "properties": {key: {"type": "string", **(like or {})}}}


def _stated(*transports: Transport) -> dict[str, object]:
    words = _any_case(word for transport in transports for word in SPELLINGS[transport])
    return {"anyOf": [_present("transport", words), _present("type", words)]}


def _url(pattern: str) -> dict[str, object]:
    """Return the JSON Schema for a ``url`` that matches, or has variables and so can match."""
    return _present("url", {"anyOf": [{"pattern": f"^{pattern}$"}, {"pattern": r"\$\{"}]})


_OVER_HTTP = (Transport.HTTP, Transport.STREAMABLE_HTTP, Transport.SSE)
_NOTHING_STATED = {
    "not": {"anyOf": [_present("transport"), _present("type"), _present("command")]},
}
MISSPELT = (
    *("disable", "enable", "exclude_components", "excluded", "excludes"),
    *("bind_required", "binding", "bindings", "binds", "bound"),
    *("discovery_caller", "isolate", "isolated", "isolation_mode"),
    *("sand_box", "sandBox", "sandboxed", "sandboxing"),
    *("guard", "guarded", "guardrails"),
)
"""Misspelt restricting keys of a server.

The loader also refuses other keys that are similar to a restricting one:
``checked_configuration.narrowing_key``.
"""
_BETWEEN_KEYS: dict[str, Any] = {
    "propertyNames": {"not": {"enum": list(MISSPELT)}},
    "allOf": [
        {"if": _stated(Transport.STDIO), "then": _present("command")},
        {"if": _stated(*_OVER_HTTP), "then": _url(HTTP_URL_PATTERN)},
        {"if": _stated(Transport.WEBSOCKET), "then": _url(WEBSOCKET_URL_PATTERN)},
        {"if": _NOTHING_STATED, "then": _url(ANY_URL_PATTERN)},
        {
            "if": {"required": ["bindRequired"], "properties": {"bindRequired": {"const": True}}},
            "then": {"required": ["bind"], "properties": {"bind": {"minProperties": 1}}},
        },
        *(
            {
                "if": {"allOf": [_present("transport", _any_case(words)), _present("type")]},
                "then": _present("type", _any_case(words)),
            }
            for words in SPELLINGS.values()
        ),
    ],
}


class AssertionEntry(FileModel):
    """Audience and header of the token that identifies the caller to the server."""

    model_config = ConfigDict(extra="forbid")

    audience: NotBlank = Field(examples=["https://tickets.internal"])
    """The server's own identifier, sent as the claim `aud`."""
    header: HeaderName = Field(default="X-Caller-Assertion", examples=["X-Caller-Assertion"])
    """The header that carries the token."""


class DiscoveryCallerEntry(SnakeCaseModel):
    """The caller for whom the gateway connects to discover the server's tools."""

    model_config = ConfigDict(extra="forbid")

    tenant_id: Identifier = Field(examples=["acme"])
    """Tenant."""
    user_id: Identifier | None = Field(default=None, examples=["discovery"])
    """User, if the server requires one."""


class ServerEntry(FileModel):
    """An MCP server: a program to start (`command`), or a `url` to connect to."""

    model_config = ConfigDict(json_schema_extra=_BETWEEN_KEYS)

    enabled: bool = True
    """Whether to connect to the server. A disabled server is still shown; its variables may be
    unset."""
    disabled: bool = False
    """`true` is the same as `"enabled": false`; some clients use this key."""
    transport: _Transport | None = Field(default=None, examples=["stdio", "streamable-http"])
    """Transport to the server: `stdio`, `streamable-http`, `sse`, `websocket`, or `http`, which
    detects streamable HTTP or SSE. Default: `stdio` with a `command`, `websocket` with a `ws://` or
    `wss://` URL, otherwise `http`."""
    type: _Transport | None = Field(default=None, examples=["http"])
    """Alternative name of `transport`, used by other clients."""
    name: NotBlank | None = Field(default=None, examples=["Company notes"])
    """Display name. Default: the server's id."""
    command: Command | None = Field(default=None, validate_default=True, examples=["npx"])
    """Program of a stdio server: a path, or a name to find on PATH. Required for stdio. It runs
    without a shell."""
    args: list[CallerText] = Field(default=[], examples=[["-y", "@scope/server", "${DATA_FOLDER}"]])
    """Arguments of the program. `${VAR}` and `${VAR:-default}` are replaced; write `$${` for a
    literal `${`. `${caller.tenant_id}`, `${caller.user_id}` and `${secret:PATH}` are filled in for
    each session."""
    env: dict[VariableName, VariableValue] = Field(
        default={},
        examples=[{"API_TOKEN": "${NOTES_TOKEN}"}],
        json_schema_extra=key_rule(VARIABLE_NAME_PATTERN),
    )
    """Environment of the program, in addition to HOME, LOGNAME, PATH, SHELL, TERM and USER. Numbers
    and booleans are converted to strings, such as `8080` and `true`. `${VAR}` is replaced in
    values; `${caller.…}` and `${secret:PATH}` are filled in for each session."""
    cwd: Folder | None = Field(default=None, examples=["/srv/notes"])
    """Working directory of the program. Default: the gateway's. `${caller.…}` fills one path
    segment."""
    sandbox: (
        Annotated[Sandbox, read_into(Annotated[SandboxEntry, AfterValidator(_sandbox_of)])] | None
    ) = Field(
        json_schema_extra=never_null,
        default=None,
        examples=[{"network": False, "read": ["/srv/notes"], "write": []}],
    )
    """Limits for the processes of a stdio server on Linux: network, files, memory and cores.
    Omitted keys restrict nothing. A misspelt key, or one that the kernel cannot apply, makes the
    entry invalid."""
    url: Filled | None = Field(
        default=None, validate_default=True, examples=["https://mcp.example.com/mcp"]
    )
    """URL of the server, required unless it is a stdio server. `${VAR}` is replaced."""
    proxy: Filled | None = Field(default=None, examples=["http://proxy.example.com:3128", "none"])
    """Proxy for connections to the server, instead of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` of
    the environment; `none` connects directly. `${VAR}` is replaced."""
    headers: dict[HeaderName, HeaderValue] = Field(
        default={},
        examples=[{"Authorization": "Bearer ${NOTES_TOKEN}"}],
        json_schema_extra=key_rule(HEADER_NAME_PATTERN),
    )
    """HTTP headers of every request, in addition to those of MCP. `${VAR}` is replaced in values;
    `${caller.tenant_id}`, `${caller.user_id}`, `${caller.agent}`, `${caller.roles}` and
    `${secret:PATH}` are filled in for each call or session."""
    forward: list[CallerPartName] = Field(default=[], examples=[["tenant_id", "user_id"]])
    """Caller attributes sent with each call in `_meta`, under
    `io.github.mcp-tools-proxy/caller`."""
    assertion: (
        Annotated[
            Assertion,
            read_into(
                Annotated[AssertionEntry, AfterValidator(lambda entry: Assertion(**dict(entry)))]
            ),
        ]
        | None
    ) = Field(default=None, examples=[{"audience": "https://tickets.internal"}])
    """Identifies the caller to the server by a token in a header of each call, signed by the
    gateway. HTTP only."""
    auth: AuthEntry | None = Field(
        default=None, examples=[{"type": "oauth", "authorizationServer": "https://login.example"}]
    )
    """How the gateway gets OAuth tokens for the server. An unknown key makes the entry invalid."""
    request_timeout_seconds: Seconds | None = Field(default=None, examples=[60])
    """Timeout for one call including a reconnect, in seconds; then the call fails with
    `TOOL_TIMEOUT`. Default: the file's `requestTimeoutSeconds`."""
    connect_timeout_seconds: Seconds | None = Field(default=None, examples=[30])
    """Timeout for each connection attempt and each list request, in seconds. Default: the file's
    `capabilitiesTimeoutSeconds`. On the first start of a stdio server it runs from the first byte
    on stdout."""
    start_timeout_seconds: Seconds | None = Field(default=None, examples=[120])
    """Seconds that the first start of a stdio server may take until its first byte on stdout, for
    example to install the program with `npx` or `uvx`. Default: 120."""
    exclude: list[Name] | None = Field(default=None, examples=[["delete_note", "prompt:draft"]])
    """Items of this server hidden from all callers and not callable: `name`, or `tool:name`,
    `prompt:name`, `resource:uri` for one kind only. Changes do not reconnect the server."""
    bind: ServerBind = Field(default={}, examples=[{"tenant": "${caller.tenant_id}"}])
    """Arguments that the gateway fills in instead of the model: path → value. They are hidden from
    schemas. In strings, `${caller.tenant_id}`, `user_id`, `agent`, `roles` and `${VAR}` are
    replaced. Changes do not reconnect the server."""
    bind_required: bool = False
    """Whether to hide tools and prompts that lack a bound argument. If false, such a tool can
    access everything that the server allows. Requires `bind`."""
    max_calls_in_flight: Count | None = Field(default=None, examples=[100])
    """Maximum concurrent calls to the server; further calls fail with `SERVER_BUSY`. Default:
    100."""
    max_calls_in_flight_per_tenant: Count | None = Field(default=None, examples=[75])
    """Maximum concurrent calls of one tenant. Default: three quarters of the server's maximum.
    Calls without a tenant are counted together. With a single tenant, use `maxCallsInFlight`."""
    breaker_failures: Count | None = Field(default=None, examples=[5])
    """Circuit breaker: after this many consecutive lost or timed-out calls, calls fail with
    `SERVER_UNAVAILABLE` until a trial call is answered, even with a tool's error. Each tenant, with
    `isolation: user` each user, has a separate circuit. Default: never."""
    breaker_pause_seconds: Seconds | None = Field(default=None, examples=[10])
    """Seconds until a trial call is allowed. Default: 10. Each failed trial call doubles the pause,
    up to 300."""
    isolation: _Isolation = Isolation.SHARED
    """Who shares a session with the server: all callers (`shared`), the callers of a tenant
    (`tenant`), or the calls of one user of a tenant (`user`). Each session has its own connection
    or process. Calls without this tenant or user fail with `IDENTITY_REQUIRED`."""
    max_sessions: Count | None = Field(default=None, examples=[50])
    """Maximum concurrent sessions of tenants or users. Default: 50, or 10 for a stdio server."""
    session_idle_seconds: Seconds | None = Field(default=None, examples=[300])
    """Seconds without use after which a tenant's or user's session is closed. Default: 300."""
    discovery_caller: DiscoveryCallerEntry | None = Field(
        default=None, examples=[{"tenant_id": "acme"}]
    )
    """Tenant and user for whom the gateway connects to discover the server's tools, if the server
    refuses sessions without them."""
    max_result_bytes: Count | None = Field(default=None, examples=[1048576])
    """Maximum size of a result after its text is cut, in bytes; then the call fails with
    `RESULT_TOO_LARGE`. So do answers over 16 MiB, and those with more than 2 MiB (or this limit, if
    higher) of JSON besides texts. Default: MCP_PROXY_MAX_RESULT_BYTES, and at least 4 MiB for
    resources with the scheme `ui://`."""
    max_text_bytes: _TextBytes | None = Field(default=None, examples=[102400])
    """Maximum text of a tool's result or a prompt, in bytes, at least 4; longer texts are cut.
    Default: MCP_PROXY_MAX_TEXT_BYTES. Resources are not cut."""
    structured_in_messages: bool = True
    """Whether messages for a model include structured content that their text does not contain. If
    there is no text, they always do."""
    guards: Guards | None = Field(
        json_schema_extra=never_null, default=None, examples=[{"hiddenCharacters": "redact"}]
    )
    """Guards on this server's definitions, arguments and results. If a preset has the same guard,
    the stricter action applies. Changes do not reconnect the server."""

    _refuse_null = field_validator("sandbox", "guards", mode="before")(refuse_null)

    @field_validator("auth", "sandbox", mode="wrap")
    @classmethod
    def _keeps_variables(
        cls, value: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> AuthEntry | Sandbox | None:
        """Read a model of a disabled server without the environment.

        The fields of the model cannot see that the entry around them is disabled.
        """
        if value is None or environment_for(info) is not None:
            found: AuthEntry | Sandbox | None = read(value)
            return found
        if info.field_name == "auth":
            return AuthEntry.model_validate(value)
        return _sandbox_of(SandboxEntry.model_validate(value))

    @field_validator("type")
    @classmethod
    def _agrees(cls, value: Transport | None, info: ValidationInfo) -> Transport | None:
        transport = info.data.get("transport")
        if value is not None and transport is not None and value is not transport:
            raise ValueError("contradicts transport; keep one of them")
        return value

    @field_validator("bind_required")
    @classmethod
    def _hides_something(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("bind") == {}:
            raise ValueError("has no effect without bind; add bind, or remove it")
        return value

    @field_validator("command")
    @classmethod
    def _starts_stdio(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and _transport_stated(info.data) is Transport.STDIO:
            raise ValueError("is missing: a stdio server needs the program to start")
        return value

    @field_validator("url")
    @classmethod
    def _fits_transport(cls, value: str | None, info: ValidationInfo) -> str | None:
        if not {"transport", "type", "command"} <= info.data.keys():
            return value  # one of them is invalid, so the expected kind of URL is unknown
        transport = _transport_stated(info.data)
        if transport is Transport.STDIO or (transport is None and info.data["command"]):
            return value
        if value is None:
            raise ValueError("is missing: a server needs a url, or the command of a stdio server")
        if environment_for(info) is not None or "${" not in value:
            check_url(value, *_FITTING[transport])
        return value

    @field_validator("proxy")
    @classmethod
    def _is_proxy(cls, value: str | None, info: ValidationInfo) -> str | None:
        is_filled = environment_for(info) is not None or "${" not in (value or "")
        if value is not None and value != DIRECT and is_filled and not is_proxy_url(value):
            raise ValueError(f'should be a URL that begins with http:// or https://, or "{DIRECT}"')
        return value

    @property
    def is_enabled(self) -> bool:
        """Whether the gateway connects to the server."""
        return self.enabled and not self.disabled

    @property
    def effective_transport(self) -> Transport:
        """The transport that the entry names, or the one that ``command`` or ``url`` implies."""
        stated = self.transport or self.type
        if stated is not None:
            return stated
        if self.command is not None:
            return Transport.STDIO
        is_websocket = (self.url or "").lower().startswith(("ws://", "wss://"))
        return Transport.WEBSOCKET if is_websocket else Transport.HTTP


_HTTP = (HTTP_URL_PATTERN, "http:// or https://")
_FITTING: Mapping[Transport | None, tuple[str, str]] = {
    **dict.fromkeys(_OVER_HTTP, _HTTP),
    Transport.WEBSOCKET: (WEBSOCKET_URL_PATTERN, "ws:// or wss://"),
    None: (ANY_URL_PATTERN, "http://, https://, ws:// or wss://"),
}


def _transport_stated(fields: Mapping[str, Any]) -> Transport | None:
    return fields.get("transport") or fields.get("type")


MISSPELT_GUARDS = ("Guards", "gaurds", "guard", "guarded", "guardrails")
"""Misspellings of ``guards`` in a preset, which would leave its items unguarded."""


def means_guards(key: str) -> bool:
    """Return whether a key misspells ``guards``."""
    if key in MISSPELT_GUARDS:
        return True
    return closest_match(key.casefold(), ["guards"], least=0.7) is not None


def prepare_guards(found: Iterable[GuardActions | None]) -> None:
    """Compile the rules for secrets once, if an entry needs them: this takes 4 s of CPU."""
    if any(guards and GuardName.SECRETS in guards for guards in found):
        scanner()
