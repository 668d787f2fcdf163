"""Process settings: read once at start from ``MCP_PROXY_*`` and ``.env``, then frozen.

The only reader of the environment (contract §4). Sizes are in bytes, times in seconds.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource

from mcp_tools_proxy.documents.tools.chunk_window import window_radius
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.definitions import DefinitionsMode
from mcp_tools_proxy.domain.list_options import MAX_NAME_CHARS, MIN_NAME_CHARS
from mcp_tools_proxy.domain.quota import Quota
from mcp_tools_proxy.domain.server import OutputSchemaCheck, StdioMode
from mcp_tools_proxy.settings.auth import SignInSettings, are_networks
from mcp_tools_proxy.settings.documents import DocumentSettings
from mcp_tools_proxy.settings.exposed_secrets import (
    exposed_secret_problems,
    exposure_of,
    exposure_of_listener,
)
from mcp_tools_proxy.settings.observability import AuditSettings, TracingSettings, check_audit
from mcp_tools_proxy.settings.remote import RemoteSettings
from mcp_tools_proxy.settings.runs import RunSettings
from mcp_tools_proxy.settings.types import (
    ENV_PREFIX,
    REDIS_SCHEMES,
    Budget,
    Count,
    DocumentToolChoice,
    EnvironmentSettings,
    ListedCommands,
    OptionalText,
    Radius,
    Seconds,
    SettingWarning,
    SigningKeys,
    StdioChoice,
    TextList,
    are_passed_on,
    empty_is_unset,
    is_token,
    nearest_values,
    not_empty,
    parse_log_level,
    parse_workers,
    starting_with,
    variable,
)
from mcp_tools_proxy.wire.identifiers import Identifier
from mcp_tools_proxy.wire.problem_texts import closest_match, problem_of
from mcp_tools_proxy.wire.text import quote

_OF_KUBERNETES = re.compile(r"_service_(host|port(_\w+)?)$|_port_\d+_(tcp|udp)(_\w+)?$")
"""Ends of what Kubernetes sets in every pod beside a Service that is named ``mcp-proxy``."""


_OF_CLIENT = f"{ENV_PREFIX}client_".lower()
"""Beginning of the variables of commands that speak to a running gateway (``ClientSettings``)."""


def unknown_variables(settings: type[BaseSettings]) -> tuple[SettingWarning, ...]:
    """Return a warning for each variable with our prefix that is no setting, in order.

    It looks where settings are read: in the environment and in ``.env``. Never raises for it: an
    older version must start with the settings of a newer one.
    """
    known = {
        str(field.validation_alias or variable(name)).lower(): str(
            field.validation_alias or variable(name)
        )
        for name, field in settings.model_fields.items()
    }
    given = {*EnvSettingsSource(settings).env_vars, *DotEnvSettingsSource(settings).env_vars}
    names = (name.lower() for name in given)
    return tuple(
        SettingWarning(name.upper(), _reason(name, known))
        for name in sorted(set(names) - known.keys())
        if name.startswith(ENV_PREFIX.lower())
        and not name.startswith(_OF_CLIENT)
        and not _OF_KUBERNETES.search(name)
    )


def _reason(name: str, known: dict[str, str]) -> str:
    near = closest_match(name, known, least=0.85, most_names=len(known))
    hint = f"; did you mean {known[near]}?" if near else ""
    return f"is not a setting and is ignored{hint}"


class QuotaSettings(EnvironmentSettings):
    """What requests and the console may store for one tenant; the commands have no limit."""

    quota_tokens: Budget = 1000
    """Maximum tokens of a tenant in the tokens file, including expired ones; 0 is off."""
    quota_token_bytes: Budget = 1_048_576
    """Maximum bytes of a tenant's lines in the tokens file, which the gateway keeps in memory; 0 is
    off."""
    quota_documents: Budget = 10_000
    """Maximum documents of a tenant; 0 is off. Their titles, tags, readers and OCR values, which
    the gateway keeps in memory, may take 1,024 bytes times this number."""
    quota_document_bytes: Budget = 1_073_741_824
    """Maximum bytes of a tenant's documents and kept PDFs; 0 is off. A document counts with its
    largest kept version."""
    quota_logins: Budget = 10_000
    """Maximum logins to servers of a tenant's users; 0 is off."""
    quota_login_bytes: Budget = 67_108_864
    """Maximum bytes of a tenant's logins to servers; 0 is off."""

    @property
    def token_quota(self) -> Quota:
        """The quota of tokens."""
        return Quota(kind="tokens", count=self.quota_tokens, bytes=self.quota_token_bytes)

    @property
    def document_quota(self) -> Quota:
        """The quota of documents."""
        return Quota(kind="documents", count=self.quota_documents, bytes=self.quota_document_bytes)

    @property
    def login_quota(self) -> Quota:
        """The quota of logins."""
        return Quota(kind="logins", count=self.quota_logins, bytes=self.quota_login_bytes)


_Link = Annotated[str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")]


class ConsoleSettings(EnvironmentSettings):
    """Whether there is a console, and where its links to other programs lead."""

    console: bool = False
    """Serve the operators' console at ``/console``."""
    console_trace_url: _Link = None
    """URL of a trace in your trace viewer, with the placeholder ``{trace_id}``, for links of the
    console."""
    console_dashboard_url: _Link = None
    """URL of the dashboard of all replicas, for a link of the console."""


S = TypeVar("S", bound=EnvironmentSettings)

LOCAL_WINDOWS = "local"
"""The ``retrieval_window_url`` that selects the gateway's own documents."""


class SettingsError(Exception):
    """A setting has a bad value; one line that names the variable and never the value."""


class ConfigDirSettings(EnvironmentSettings):
    """The setting of ``config init``, which so works while others are invalid."""

    config_dir: Annotated[Path, BeforeValidator(not_empty)] = Path("./config")
    """Folder of mcp.json, agents.json and preset files (contract §6); may be created later."""


class Settings(
    ConfigDirSettings,
    DocumentSettings,
    AuditSettings,
    SignInSettings,
    RemoteSettings,
    TracingSettings,
    ConsoleSettings,
    QuotaSettings,
    RunSettings,
):
    """Everything that an operator can set (contract §4)."""

    app_name: Annotated[str, Field(min_length=1)] = "mcp-tools-proxy"
    """Service name in the OpenAPI document and for MCP clients."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on."""
    gateway_address: Annotated[OptionalText, Field(validation_alias="GATEWAY_ADDRESS")] = None
    """Host address of the port that Compose publishes. Unless it is loopback, sample and weak
    secrets are refused."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8082
    """Port to listen on; 0 picks a free port."""
    workers: Annotated[int | Literal["auto"], BeforeValidator(parse_workers)] = 1
    """Processes that serve HTTP, to use several CPUs; ``auto`` starts one for each CPU that the
    process may use. Without MCP_PROXY_RATE_LIMIT_STORAGE_URL, several share a private Redis."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], BeforeValidator(parse_log_level)
    ] = "info"
    """Minimum severity to log."""
    keep_alive_s: Seconds = 75.0
    """Seconds before an idle connection is closed. Clients and proxies need a shorter time."""
    shutdown_grace_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    """Seconds for running calls to finish after SIGTERM."""
    shutdown_drain_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Seconds for one more request on open connections, which is answered with SHUTTING_DOWN,
    before they are closed."""
    metrics_tenants: TextList = ()
    """Tenants with their own metric series; others count as ``other``."""

    mock_mode: bool = True
    """Serve the seed document, and check the documents folder before Retrieval (T-04, T-05)."""
    hide_foreign_documents: bool = False
    """Return DOCUMENT_NOT_FOUND instead of ACCESS_DENIED for other tenants' documents."""

    preset: OptionalText = None
    """Id of the active preset, overriding the files."""
    definitions: Annotated[DefinitionsMode | None, BeforeValidator(empty_is_unset)] = None
    """Effect on items that differ from definitions.lock.json: open (none), warn, or pin (neither
    listed nor callable). Unset: warn if there is a lock file, otherwise open."""
    stdio: StdioChoice = StdioMode.ON
    """Programs that mcp.json may start: on (any), listed (those in MCP_PROXY_STDIO_COMMANDS), or
    off."""
    stdio_commands: ListedCommands = ()
    """Programs allowed by ``listed``, as a JSON list: `[{"command": "uvx", "args": ["notes==1.2",
    "*"], "env": ["NOTES_TOKEN"]}]`. `*` matches any one argument except an option."""
    stdio_env: Annotated[TextList, AfterValidator(are_passed_on)] = ()
    """Variables of the gateway's environment for all stdio servers, such as SSL_CERT_FILE,
    NODE_EXTRA_CA_CERTS and HTTPS_PROXY; never MCP_PROXY_*. An entry's `env` overrides them."""
    server_networks: Annotated[TextList, AfterValidator(are_networks)] = ()
    """Networks, as CIDRs, that may contain the servers in mcp.json, and their issuers that have no
    public address. Unset: all. Link-local addresses and cloud metadata services are never
    dialled."""
    server_require_tls: bool = False
    """Refuse mcp.json entries that send headers, auth or an assertion to another machine over
    http:// or ws://. If false, check only warns."""
    tool_timeout_s: Seconds = 60.0
    """Seconds for one downstream call, unless mcp.json sets requestTimeoutSeconds."""
    startup_wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0
    """Maximum seconds after a start that readiness, stdio and the connector wait for servers."""
    list_wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3.0
    """Maximum seconds that an MCP list waits for servers without known definitions that are
    connecting for the first time; 0 never waits."""
    require_agent: Annotated[bool | None, BeforeValidator(empty_is_unset)] = None
    """Refuse calls that name no agent. Unset: refuse them if agents.json has profiles."""

    document_tools: DocumentToolChoice = ("all",)
    """Document tools to offer: ``all``, ``none``, or a list of names. Without ``read_doc_pages``,
    documents are not MCP resources either."""
    sources: bool = True
    """Whether document tools return ``sources`` by default; a request or the agent's profile can
    override this."""
    tool_name_style: Annotated[ToolNameStyle | None, BeforeValidator(empty_is_unset)] = None
    """Names of downstream tools in MCP lists: server (``server:tool``), alias, or bare. The query
    parameter ``name_style`` and the agent's profile override this. Unset: alias over streamable
    HTTP and stdio, server over legacy HTTP+SSE and the connector."""
    name_max: Annotated[int, Field(ge=MIN_NAME_CHARS, le=MAX_NAME_CHARS)] = MAX_NAME_CHARS
    """Maximum characters of an alias in MCP lists, for clients that add a prefix. The query
    parameter and the agent's profile override this."""
    default_tenant_id: Annotated[Identifier | None, BeforeValidator(empty_is_unset)] = None
    """Tenant of MCP requests that name none. Unset: they are not offered document tools."""
    max_sessions: Count = 1000
    """Maximum concurrent MCP sessions with a stream, a subscription or a log level, and streams of
    changes. In Redis: for each tenant."""
    session_idle_s: Seconds = 1800.0
    """Seconds before an MCP session without requests or streams ends (older eras only)."""
    session_keys: SigningKeys = ()
    """Keys of at least 32 characters that sign MCP session ids; the first signs new ones. Replicas
    with the same keys serve each other's sessions. Unset: a generated key, which is not shared."""

    max_pages_per_call: Count = 5
    """Maximum pages in one read_doc_pages call."""
    max_text_bytes: Annotated[int, Field(ge=4)] = 20480
    """Maximum bytes of text in one result, in UTF-8."""
    max_request_bytes: Count = 1_048_576
    """Maximum bytes of a request body."""
    max_json_items: Count = 100_000
    """Maximum JSON values in one request: objects, arrays, strings, numbers, true, false and null,
    counted before parsing."""
    max_image_bytes: Count = 262_144
    """Maximum bytes of a page image (``view_doc_page``)."""
    max_result_bytes: Count = 1_048_576
    """Maximum bytes of one result as JSON."""
    output_schema_check: OutputSchemaCheck = OutputSchemaCheck.OFF
    """Effect of a server's result that does not match the tool's `outputSchema`: `off` (not
    checked), `warn` (log line and metric), or `enforce` (also TOOL_FAILED)."""
    max_batch_calls: Count = 32
    """Maximum calls in one batch, and messages in an MCP 2025-03-26 batch."""
    blocklist_keywords: TextList = ()
    """Words that block a call (T-06), whole and case-insensitive. Empty: off."""

    rate_limit_calls: Budget = 120
    """Calls per window for each document of a tenant; 0 is off."""
    rate_limit_tokens: Budget = 614_400
    """Tokens per window for each document of a tenant; 0 is off."""
    rate_limit_tenant_calls: Budget = 6_000
    """Calls per window for each tenant; 0 is off."""
    rate_limit_tenant_tokens: Budget = 0
    """Tokens per window for each tenant; 0 is off."""
    rate_limit_window_s: Count = 60
    """Seconds of a window."""
    rate_limit_storage_url: Annotated[
        SecretStr | None,
        BeforeValidator(empty_is_unset),
        starting_with(*REDIS_SCHEMES),
    ] = None
    """Redis for budgets of all replicas; ``unix:///path?db=0`` for a Unix socket. Unset: each
    replica counts alone."""

    idempotency_ttl_s: Count = 600
    """Seconds that the outcome of an idempotency key is kept and repeated."""
    idempotency_bytes: Count = 33_554_432
    """Maximum bytes of these outcomes: of all tenants in memory, of each tenant in Redis."""
    state_url: Annotated[
        SecretStr | None,
        BeforeValidator(empty_is_unset),
        starting_with(*REDIS_SCHEMES),
    ] = None
    """Redis for these outcomes, runs, approvals, unfinished sign-ins and statuses of uploads,
    shared by replicas. It must never evict keys. Unset: outcomes are in the Redis of the budgets,
    or in this process; the others in PostgreSQL if it has the documents, otherwise in this process.
    """
    state_key: SigningKeys = ()
    """Keys of at least 32 characters that encrypt these outcomes in Redis, and runs and approvals
    in Redis or PostgreSQL, the same on all replicas; the first encrypts new ones. Unset: with such
    a store, calls with an idempotency key or a run are refused."""

    retrieval_window_url: Annotated[
        str | None,
        BeforeValidator(empty_is_unset),
        starting_with("http://", "https://", word=LOCAL_WINDOWS),
    ] = None
    """URL of the Retrieval Service's chunk-window endpoint, or ``local`` for the gateway's own
    documents (T-03)."""
    retrieval_timeout: Seconds = 5.0
    """Total seconds for one Retrieval request."""
    retrieval_token: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token sent to Retrieval."""
    retrieval_send_caller: bool = False
    """Send user and roles to Retrieval, so that it can check access."""
    rag_window_radius: Annotated[Radius, Field(validation_alias="RAG_WINDOW_RADIUS")] = None
    """Maximum chunks on each side of an anchor; the RAG pipeline also reads this variable
    (T-02)."""
    max_window_radius: Radius = None
    """Maximum chunks on each side of an anchor (T-02)."""
    max_chunk_window: Annotated[
        Annotated[int, Field(ge=1)] | None, BeforeValidator(empty_is_unset)
    ] = None
    """Legacy: maximum chunks in a window, with the anchor (T-02)."""

    _warnings: tuple[SettingWarning, ...] = PrivateAttr(default=())

    @model_validator(mode="wrap")
    @classmethod
    def _read_nearest_values(
        cls, values: Mapping[str, object], read: ModelWrapValidatorHandler[Self]
    ) -> Self:
        """Replace values that only other systems know by the nearest valid ones, and warn.

        Variables with our prefix that are no settings are warned of as well.
        """
        values, warnings = nearest_values(values)
        settings = read(values)
        warnings += settings.sign_in_warnings() + unknown_variables(cls)
        settings._warnings = warnings  # noqa: SLF001 - its own class
        return settings

    @property
    def warnings(self) -> tuple[SettingWarning, ...]:
        """Warnings on values that are not used as they are written, and on unknown names."""
        return self._warnings

    @model_validator(mode="after")
    def _check_audit(self) -> Self:
        """Check that an audit that is required or signed has a file. Raises ValueError."""
        check_audit(self)
        return self

    @model_validator(mode="after")
    def _check_exposed_secrets(self) -> Self:
        """Check that no secret is known to others. Raises ValueError naming the variable."""
        self._refuse_known_secrets(self._exposure)
        return self

    def check_listener(self) -> None:
        """Check that a server on ``host`` has no secret known to others. Raises ValueError."""
        self._refuse_known_secrets(exposure_of_listener(self.host, self.allowed_hosts))

    @property
    def is_exposed(self) -> bool:
        """Whether other machines may reach a server with these settings."""
        of_listener = exposure_of_listener(self.host, self.allowed_hosts)
        return self._exposure is not None or of_listener is not None

    @property
    def _exposure(self) -> str | None:
        return exposure_of(self.allowed_hosts, self.public_url, self.gateway_address)

    def _refuse_known_secrets(self, exposure: str | None) -> None:
        if exposure is not None:
            for problem in exposed_secret_problems(dict(self), exposure):
                raise ValueError(problem)

    @model_validator(mode="after")
    def _check_agent_of_backend(self) -> Self:
        """Check that the connector has an agent where one is required. Raises ValueError."""
        if self.remote_url is not None and self.require_agent and self.remote_agent is None:
            raise ValueError(
                f"{variable('remote_agent')}: is required if {variable('require_agent')} is true "
                f"and {variable('remote_url')} is set"
            )
        return self

    @property
    def windows_are_local(self) -> bool:
        """Whether chunk windows come from the gateway's own documents."""
        return self.retrieval_window_url == LOCAL_WINDOWS

    @property
    def window_radius(self) -> int:
        """Chunks allowed on each side of an anchor: the smallest radius set, else 2 (T-02)."""
        return window_radius(
            self.rag_window_radius, self.max_window_radius, legacy_total=self.max_chunk_window
        )


def load_settings() -> Settings:
    """Read every setting. Raises SettingsError naming each bad variable, in one line."""
    return load(Settings)


def load(kind: type[S]) -> S:
    """Read the settings of one class, and no other. Raises SettingsError."""
    try:
        return kind()
    except ValidationError as error:
        raise SettingsError("; ".join(map(_problem, error.errors()))) from None
    except UnicodeDecodeError:
        raise SettingsError(".env: is not UTF-8 text") from None


_SHOWN = frozenset(
    {
        *("bool_parsing", "float_parsing", "int_parsing", "finite_number"),
        *("greater_than", "greater_than_equal", "less_than", "less_than_equal"),
    }
)
"""Types of errors of numbers and switches, which hold no secret, so that the value is shown."""


def _problem(error: ErrorDetails) -> str:
    """Format one problem; the text of a combination of settings names the variable itself."""
    if not error["loc"]:
        return " ".join(error["msg"].removeprefix("Value error, ").split())
    message = " ".join(problem_of(error).split())
    if error["type"] in _SHOWN:
        message += f", not {quote(str(error['input']))}"
    name = str(error["loc"][0])
    return f"{name if name.isupper() else variable(name)}: {message}"
