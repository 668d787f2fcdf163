"""What audit records and explanations say: origins, checks, rules, versions of the registry.

Audit records, explanations and metrics name checks by these words (contract §1, order of checks).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from mcp_tools_proxy.domain.fast_dataclass import dataclass


class Entry(StrEnum):
    """The ways into the gateway."""

    API = "api"
    """The HTTP API."""
    MCP = "mcp"
    """MCP over HTTP: streamable HTTP of both eras, and legacy HTTP+SSE."""
    CONSOLE = "console"
    """A page of the console, which makes requests to the HTTP API in its user's name."""
    STDIO = "stdio"
    CONNECTOR = "connector"
    """The outbound WebSocket connection to a remote backend."""
    INTERNAL = "internal"
    """The gateway itself."""


class Origin(NamedTuple):
    """The entry of a request and its peer: an IP address, or what stands for one."""

    entry: Entry
    peer: str


UNKNOWN_ORIGIN = Origin(Entry.INTERNAL, "")


class RegistryVersion(NamedTuple):
    """The active preset, and the number of the registry among those of this process."""

    preset_id: str | None
    generation: int


NO_REGISTRY = RegistryVersion(None, 0)
"""Before the first one was published."""


@dataclass(frozen=True, slots=True)
class RuleSource:
    """Where a rule stands: ``file`` is a configuration file's name, and ``path`` a JSON path in it.

    For a rule of the settings ``file`` is ``settings`` and ``path`` the variable.
    """

    file: str
    path: str

    @property
    def as_json(self) -> dict[str, str]:
        """The place as audit records and explanations show it."""
        return {"file": self.file, "path": self.path}


DOCUMENT = "document"
"""``RuleSource.file`` of a rule that a document has; the record's ``doc_id`` names it."""

SETTINGS = "settings"
"""``RuleSource.file`` of a rule that a setting makes."""


class Check(StrEnum):
    """The checks of a request and of the call that it makes, in the order in which they happen."""

    AUTHENTICATION = "authentication"
    """Who sends the request."""
    REQUEST = "request"
    """Whether the request can be read, and its route exists."""
    AUTHORIZATION = "authorization"
    """Whether its sender may do what it says: another tenant, an operator's right, a page."""
    AUDIT = "audit"
    """Whether a record of the call can be kept."""
    LIFECYCLE = "lifecycle"
    """Whether this replica takes calls."""
    AGENT = "agent"
    """Whether the agent that it names, or does not name, has a profile."""
    VISIBILITY = "visibility"
    """Whether the name is that of a component that the caller may use."""
    ARGUMENTS = "arguments"
    """Whether the arguments fit the schema and the limits of sizes."""
    BLOCKLIST = "blocklist"
    """Whether an argument has a blocked word."""
    DOCUMENT = "document"
    """Whether the document is there for this caller, and has what the call names."""
    IDEMPOTENCY = "idempotency"
    """Whether the key stands for another call, or for one that is known already."""
    BUDGET = "budget"
    """Whether every budget that applies has something left."""
    GUARDS = "guards"
    """Whether guards let the arguments pass, and the result."""
    RETRIEVAL = "retrieval"
    """Whether the Retrieval Service answers."""
    SERVER = "server"
    """Whether the downstream server answers."""
    RESULT = "result"
    """Whether the result is within its limit."""
    OPERATION = "operation"
    """Whether what an operator does can be done: versions, files, presets."""
    CALLER = "caller"
    """Whether the caller waits for the result."""
    GATEWAY = "gateway"
    """A defect of the gateway itself."""


CHECK_OF_CODE: Mapping[str, Check] = {
    "INVALID_REQUEST": Check.REQUEST,
    "PAYLOAD_TOO_LARGE": Check.REQUEST,
    "NOT_FOUND": Check.REQUEST,
    "METHOD_NOT_ALLOWED": Check.REQUEST,
    "NO_ROOM": Check.LIFECYCLE,
    "UNAUTHENTICATED": Check.AUTHENTICATION,
    "FORBIDDEN": Check.AUTHORIZATION,
    "AUDIT_UNAVAILABLE": Check.AUDIT,
    "SHUTTING_DOWN": Check.LIFECYCLE,
    "AGENT_NOT_FOUND": Check.AGENT,
    "AGENT_REQUIRED": Check.AGENT,
    "TOOL_NOT_FOUND": Check.VISIBILITY,
    "TOOL_NOT_ALLOWED": Check.VISIBILITY,
    "AMBIGUOUS_NAME": Check.VISIBILITY,
    "PROMPT_NOT_FOUND": Check.VISIBILITY,
    "PROMPT_NOT_ALLOWED": Check.VISIBILITY,
    "RESOURCE_NOT_FOUND": Check.VISIBILITY,
    "RESOURCE_NOT_ALLOWED": Check.VISIBILITY,
    "INVALID_ARGUMENTS": Check.ARGUMENTS,
    "PAGE_SPAN_TOO_LARGE": Check.ARGUMENTS,
    "WINDOW_TOO_LARGE": Check.ARGUMENTS,
    "IDENTITY_REQUIRED": Check.ARGUMENTS,
    "CONTENT_BLOCKED": Check.BLOCKLIST,
    "IDEMPOTENCY_CONFLICT": Check.IDEMPOTENCY,
    "OUTCOME_UNKNOWN": Check.IDEMPOTENCY,
    "STATE_UNAVAILABLE": Check.IDEMPOTENCY,
    "RATE_LIMIT_EXCEEDED": Check.BUDGET,
    "LIMITS_UNAVAILABLE": Check.BUDGET,
    "GUARD_REFUSED": Check.GUARDS,
    "ACCESS_DENIED": Check.DOCUMENT,
    "DOCUMENT_NOT_FOUND": Check.DOCUMENT,
    "DOCUMENTS_UNAVAILABLE": Check.DOCUMENT,
    "VERSION_GONE": Check.DOCUMENT,
    "SECTION_NOT_FOUND": Check.DOCUMENT,
    "PAGES_NOT_FOUND": Check.DOCUMENT,
    "PAGE_IMAGE_UNAVAILABLE": Check.DOCUMENT,
    "CHUNK_NOT_FOUND": Check.RETRIEVAL,
    "RETRIEVAL_UNAVAILABLE": Check.RETRIEVAL,
    "RETRIEVAL_NOT_CONFIGURED": Check.RETRIEVAL,
    "CREDENTIALS_MISSING": Check.SERVER,
    "CREDENTIALS_INSUFFICIENT": Check.SERVER,
    "LOGIN_REQUIRED": Check.SERVER,
    "SERVER_UNAVAILABLE": Check.SERVER,
    "SERVER_BUSY": Check.SERVER,
    "TOOL_TIMEOUT": Check.SERVER,
    "TOOL_FAILED": Check.SERVER,
    "RESULT_TOO_LARGE": Check.RESULT,
    "PRESET_NOT_FOUND": Check.OPERATION,
    "PRESET_PINNED": Check.OPERATION,
    "CONFIG_READ_ONLY": Check.OPERATION,
    "DOCUMENTS_READ_ONLY": Check.OPERATION,
    "IMPORT_BUSY": Check.OPERATION,
    "QUOTA_EXCEEDED": Check.OPERATION,
    "UNSUPPORTED_FORMAT": Check.OPERATION,
    "VERSION_REQUIRED": Check.OPERATION,
    "VERSION_MISMATCH": Check.OPERATION,
    "CANCELLED": Check.CALLER,
    "INTERNAL_ERROR": Check.GATEWAY,
}
"""The check that refuses, or ends, a request with a code. Every code has one."""


def _setting(variable: str) -> RuleSource:
    return RuleSource(SETTINGS, f"MCP_PROXY_{variable}")


RULE_OF_CODE: Mapping[str, RuleSource] = {
    "PAYLOAD_TOO_LARGE": _setting("MAX_REQUEST_BYTES"),
    "AGENT_NOT_FOUND": RuleSource("agents.json", "$.agents"),
    "PAGE_SPAN_TOO_LARGE": _setting("MAX_PAGES_PER_CALL"),
    "WINDOW_TOO_LARGE": _setting("MAX_WINDOW_RADIUS"),
    "CONTENT_BLOCKED": _setting("BLOCKLIST_KEYWORDS"),
    "LIMITS_UNAVAILABLE": RuleSource("limits.json", "$"),
    "STATE_UNAVAILABLE": _setting("STATE_KEY"),
    "RETRIEVAL_NOT_CONFIGURED": _setting("RETRIEVAL_WINDOW_URL"),
    "RESULT_TOO_LARGE": _setting("MAX_RESULT_BYTES"),
    "PRESET_PINNED": _setting("PRESET"),
}
"""The rule behind a code that has one wherever it is raised; others are on the error itself."""


def rule_of(code: str, own: RuleSource | None) -> RuleSource | None:
    """Return the rule that an error names itself, else the one of its code, if there is one."""
    return RULE_OF_CODE.get(code) if own is None else own
