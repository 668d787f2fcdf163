"""The model of one entry of ``mcpServers``: its fields, and the rules between them.

A rule between fields is written twice: for the loader as a validator, for editors as JSON Schema in
``_BETWEEN_KEYS``. The order of the fields matters: a validator sees only earlier fields, and of
those only the valid ones. The docstrings of the model and its fields are published.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.bind_entry import ServerBind
from mcp_tools_proxy.config.field_types import (
    ANY_URL_PATTERN,
    FILE_MODEL,
    HEADER_NAME_PATTERN,
    HTTP_URL_PATTERN,
    SNAKE_CASE_MODEL,
    VARIABLE_NAME_PATTERN,
    WEBSOCKET_URL_PATTERN,
    CallerPartName,
    CallerText,
    Command,
    Count,
    Filled,
    Folder,
    HeaderName,
    HeaderValue,
    Name,
    NotBlank,
    Seconds,
    VariableName,
    VariableValue,
    check_url,
    environment_for,
    key_rule,
    never_null,
    refuse_null,
)
from mcp_tools_proxy.config.guards_entry import GuardsEntry
from mcp_tools_proxy.config.oauth.auth_entry import AuthEntry
from mcp_tools_proxy.config.sandbox_entry import SandboxEntry
from mcp_tools_proxy.domain.proxies import DIRECT
from mcp_tools_proxy.domain.server import Isolation, Transport
from mcp_tools_proxy.wire.identifiers import Identifier
from mcp_tools_proxy.wire.strict_json import whole_number

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
"""The names of each transport in files, in upper or lower case."""

STDIO_KEYS = ("command", "args", "env", "cwd", "sandbox")
NETWORK_KEYS = ("url", "headers", "proxy")


def is_proxy_url(url: str) -> bool:
    """Return whether a URL can be one of a proxy."""
    try:
        check_url(url, HTTP_URL_PATTERN, "http:// or https://")
    except ValueError:
        return False
    return True


def _any_case(words: Iterable[str]) -> dict[str, object]:
    """Return the JSON Schema for one of these words, in upper or lower case."""
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
    """Return the JSON Schema for a ``url`` that matches, or that has variables and so may match."""
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
"""Wrong spellings of the keys that restrict a server.

The loader refuses every other key that is similar to such a key as well:
``unknown_keys.narrowing_key``.
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


class AssertionEntry(BaseModel):
    """For whom the token of a call is, and its header."""

    model_config = ConfigDict(**{**FILE_MODEL, "extra": "forbid"})

    audience: NotBlank = Field(examples=["https://tickets.internal"])
    """The server, as it calls itself: the claim `aud`."""
    header: HeaderName = Field(default="X-Caller-Assertion", examples=["X-Caller-Assertion"])
    """The header that has the token."""


class DiscoveryCallerEntry(BaseModel):
    """For whom the session is that discovers what the server offers."""

    model_config = SNAKE_CASE_MODEL | ConfigDict(extra="forbid")

    tenant_id: Identifier = Field(examples=["acme"])
    """The tenant."""
    user_id: Identifier | None = Field(default=None, examples=["discovery"])
    """The user, where the server needs one."""


class ServerEntry(BaseModel):
    """One MCP server: a program to start (`command`), or a `url` to connect to."""

    model_config = ConfigDict(**FILE_MODEL, json_schema_extra=_BETWEEN_KEYS)

    enabled: bool = True
    """Whether the server is connected to. A disabled one may lack its variables."""
    disabled: bool = False
    """`true` is the same as `"enabled": false`, as some clients spell it."""
    transport: _Transport | None = Field(default=None, examples=["stdio", "streamable-http"])
    """How to talk to the server. `http` finds out by itself whether it is streamable HTTP or SSE.
    Left out: `stdio` with a `command`, `websocket` with a `ws://` or `wss://` URL, else `http`."""
    type: _Transport | None = Field(default=None, examples=["http"])
    """Another name of `transport`, as other clients call it."""
    name: NotBlank | None = Field(default=None, examples=["Company notes"])
    """What people call the server; its id when left out."""
    command: Command | None = Field(default=None, validate_default=True, examples=["npx"])
    """The program of a stdio server: a path, or a name to find on PATH. Needed for stdio."""
    args: list[CallerText] = Field(default=[], examples=[["-y", "@scope/server", "${DATA_FOLDER}"]])
    """The program's arguments. `${VAR}`, `${VAR:-default}` are replaced; `$${` is a plain `${`.
    `${caller.tenant_id}`, `${caller.user_id}`, `${secret:PATH}` are filled in for each session."""
    env: dict[VariableName, VariableValue] = Field(
        default={},
        examples=[{"API_TOKEN": "${NOTES_TOKEN}"}],
        json_schema_extra=key_rule(VARIABLE_NAME_PATTERN),
    )
    """Environment of the program, besides HOME, LOGNAME, PATH, SHELL, TERM and USER. Numbers and
    booleans become texts, such as `8080` and `true`.
    `${VAR}` is replaced in values, and `${caller.…}` and `${secret:PATH}` for each session."""
    cwd: Folder | None = Field(default=None, examples=["/srv/notes"])
    """The folder that the program starts in. `${caller.…}` is one segment of it."""
    sandbox: SandboxEntry | None = Field(
        json_schema_extra=never_null,
        default=None,
        examples=[{"network": False, "read": ["/srv/notes"], "write": []}],
    )
    """What the processes of a stdio server may use of the machine: network, files, memory, cores.
    If this machine cannot confine them, the server is not started."""
    url: Filled | None = Field(
        default=None, validate_default=True, examples=["https://mcp.example.com/mcp"]
    )
    """Where the server is. Needed unless it is a stdio server; `${VAR}` is replaced."""
    proxy: Filled | None = Field(default=None, examples=["http://proxy.example.com:3128", "none"])
    """The proxy to the server, in place of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` of the
    environment; `none` connects without one. `${VAR}` is replaced."""
    headers: dict[HeaderName, HeaderValue] = Field(
        default={},
        examples=[{"Authorization": "Bearer ${NOTES_TOKEN}"}],
        json_schema_extra=key_rule(HEADER_NAME_PATTERN),
    )
    """HTTP headers of every request to the server. `${VAR}` is replaced in values, and
    `${caller.tenant_id}`, `${caller.user_id}`, `${caller.agent}`, `${caller.roles}` and
    `${secret:PATH}` for each call or session."""
    forward: list[CallerPartName] = Field(default=[], examples=[["tenant_id", "user_id"]])
    """The parts of the caller that each call carries in `_meta`, under
    `io.github.mcp-tools-proxy/caller`."""
    assertion: AssertionEntry | None = Field(
        default=None, examples=[{"audience": "https://tickets.internal"}]
    )
    """A token in a header of each call that says who calls, signed by the gateway: HTTP only."""
    auth: AuthEntry | None = Field(
        default=None, examples=[{"type": "oauth", "authorizationServer": "https://login.example"}]
    )
    """How the gateway gets tokens for the server, by OAuth."""
    request_timeout_seconds: Seconds | None = Field(default=None, examples=[60])
    """Seconds for one call; the file's `requestTimeoutSeconds` when left out."""
    connect_timeout_seconds: Seconds | None = Field(default=None, examples=[30])
    """Seconds for one attempt to connect, and for each list; the file's
    `capabilitiesTimeoutSeconds` when left out. The first start of a stdio server counts from its
    first byte on stdout."""
    start_timeout_seconds: Seconds | None = Field(default=None, examples=[120])
    """Seconds that the first start of a stdio server may take until its first byte on stdout, such
    as an installation by `npx` or `uvx`; 120 when left out."""
    exclude: list[Name] | None = Field(default=None, examples=[["delete_note", "prompt:draft"]])
    """What nobody may see or use of this server: `name`, or `tool:name`, `prompt:name`,
    `resource:uri` for that kind only. Changing it keeps the session."""
    bind: ServerBind = Field(default={}, examples=[{"tenant": "${caller.tenant_id}"}])
    """Arguments that the gateway fills in, so that no model chooses them: path → value. Schemas do
    not show them. `${caller.tenant_id}`, `user_id`, `agent`, `roles` and `${VAR}` are replaced in
    texts. Changing it keeps the session."""
    bind_required: bool = False
    """Whether a tool or prompt without one of the bound arguments is hidden. Without it such a tool
    works on all that the server gives it. Needs `bind`."""
    max_calls_in_flight: Count | None = Field(default=None, examples=[100])
    """How many calls the server gets at once; 100 when left out."""
    max_calls_in_flight_per_tenant: Count | None = Field(default=None, examples=[75])
    """How many of them one tenant may have; all but a quarter when left out. Calls without a
    tenant count as those of one."""
    breaker_failures: Count | None = Field(default=None, examples=[5])
    """After how many calls in a row of one tenant that were lost or timed out its calls are refused
    for a while; never when left out. Any answer counts as a success, also an error of a tool."""
    breaker_pause_seconds: Seconds | None = Field(default=None, examples=[10])
    """Seconds until one call is let through again; 10 when left out. It doubles, up to 300, with
    each such call that fails."""
    isolation: _Isolation = Isolation.SHARED
    """Whose calls share a session with the server: everybody's (`shared`), a tenant's (`tenant`),
    or a user's of a tenant (`user`). Connections and processes are of one session each."""
    max_sessions: Count | None = Field(default=None, examples=[50])
    """How many sessions tenants or users have at once; 50 when left out, 10 for a stdio server."""
    session_idle_seconds: Seconds | None = Field(default=None, examples=[300])
    """Seconds without use after which the session of a tenant or user ends; 300 when left out."""
    discovery_caller: DiscoveryCallerEntry | None = Field(
        default=None, examples=[{"tenant_id": "acme"}]
    )
    """For whom the session is that discovers what the server offers, if the server refuses one
    that is for nobody."""
    max_result_bytes: Count | None = Field(default=None, examples=[1048576])
    """The largest result in bytes; the gateway's own limit when left out, for resources with the
    scheme `ui://` at least 4 MiB."""
    max_text_bytes: _TextBytes | None = Field(default=None, examples=[102400])
    """The most text of a tool's result or a prompt in bytes, where it is cut; the gateway's own
    limit when left out. Resources are not cut."""
    structured_in_messages: bool = True
    """Whether the messages for a model show structured content beside a text that does not hold
    it. Without any text they always do."""
    guards: GuardsEntry | None = Field(
        json_schema_extra=never_null, default=None, examples=[{"hiddenCharacters": "redact"}]
    )
    """What is looked for in the server's definitions, in arguments and results, and what follows.
    Where a preset has guards, too, the stricter one counts. Changing it keeps the session."""

    _refuse_null = field_validator("sandbox", "guards", mode="before")(refuse_null)

    @field_validator("auth", "sandbox", mode="wrap")
    @classmethod
    def _keeps_variables(
        cls, value: object, read: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> AuthEntry | SandboxEntry | None:
        """Read a model of a disabled server without the environment, which it cannot see.

        Its fields know nothing of the entry around them.
        """
        if value is None or environment_for(info) is not None:
            found: AuthEntry | SandboxEntry | None = read(value)
            return found
        model = AuthEntry if info.field_name == "auth" else SandboxEntry
        return model.model_validate(value)

    @field_validator("type")
    @classmethod
    def _agrees(cls, value: Transport | None, info: ValidationInfo) -> Transport | None:
        transport = info.data.get("transport")
        if value is not None and transport is not None and value is not transport:
            raise ValueError("says another transport than transport does; keep one of them")
        return value

    @field_validator("bind_required")
    @classmethod
    def _hides_something(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("bind") == {}:
            raise ValueError("hides nothing without bind; add bind, or take it out")
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
            return value  # one of them is invalid, so the right kind of URL is unknown
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
    def effective_transport(self) -> Transport:
        """The transport that the entry names, else the one that ``command`` or ``url`` implies."""
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
