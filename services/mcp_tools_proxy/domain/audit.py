"""Vocabulary of audit records, explanations and metrics: origins, checks, rules, registry versions.

The names of checks follow contract §1, order of checks.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from mcp_tools_proxy.domain.fast_dataclass import dataclass


class Entry(StrEnum):
    """The entry points of the gateway."""

    API = "api"
    MCP = "mcp"
    """MCP over HTTP: streamable HTTP of both eras, and legacy HTTP+SSE."""
    CONSOLE = "console"
    """A console page, which sends requests to the HTTP API for its user."""
    STDIO = "stdio"
    CONNECTOR = "connector"
    """The outbound WebSocket connection to a remote backend."""
    INTERNAL = "internal"


class Origin(NamedTuple):
    """The entry point of a request, and its peer: an IP address or a name for one."""

    entry: Entry
    peer: str


UNKNOWN_ORIGIN = Origin(Entry.INTERNAL, "")


class RegistryVersion(NamedTuple):
    """The active preset, and the registry's number in this process."""

    preset_id: str | None
    generation: int


NO_REGISTRY = RegistryVersion(None, 0)


@dataclass(frozen=True, slots=True)
class RuleSource:
    """The location of a rule: a configuration file, and a JSON path in it.

    For a setting, ``file`` is ``settings`` and ``path`` the variable's name. For a policy, ``path``
    is its ``@id``.
    """

    file: str
    path: str

    @property
    def as_json(self) -> dict[str, str]:
        """The location as audit records and explanations show it."""
        return {"file": self.file, "path": self.path}


DOCUMENT = "document"
"""``RuleSource.file`` of a document's own rule; the record's ``doc_id`` names the document."""

SETTINGS = "settings"


class Check(StrEnum):
    """The checks of a request and its call, in the order of execution."""

    AUTHENTICATION = "authentication"
    REQUEST = "request"
    """Whether the request can be parsed and its route exists."""
    AUTHORIZATION = "authorization"
    """Whether the sender may make the request: another tenant, an operator's right, a page."""
    AUDIT = "audit"
    LIFECYCLE = "lifecycle"
    AGENT = "agent"
    """Whether the agent profile exists, or is optional if the request names none."""
    VISIBILITY = "visibility"
    """Whether the name belongs to a component that the caller may use."""
    ARGUMENTS = "arguments"
    BLOCKLIST = "blocklist"
    DOCUMENT = "document"
    """Whether the caller can see the document, and it contains the requested part."""
    IDEMPOTENCY = "idempotency"
    """Whether the idempotency key belongs to another call, or to one already made."""
    BUDGET = "budget"
    RUN = "run"
    """Whether the run is open, within its limits and not in a loop."""
    POLICY = "policy"
    GUARDS = "guards"
    RETRIEVAL = "retrieval"
    SERVER = "server"
    RESULT = "result"
    OPERATION = "operation"
    """Whether an operator's action is possible: versions, files, presets."""
    CALLER = "caller"
    """Whether the caller still waits for the result."""
    GATEWAY = "gateway"


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
    "RUN_REQUIRED": Check.RUN,
    "RUN_EXPIRED": Check.RUN,
    "LOOP_STOPPED": Check.RUN,
    "POLICY_DENIED": Check.POLICY,
    "POLICY_UNAVAILABLE": Check.POLICY,
    "APPROVAL_PENDING": Check.POLICY,
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
"""The check that refuses or ends a request with each code; complete."""


FAILURES = frozenset({Check.RETRIEVAL, Check.SERVER, Check.RESULT, Check.GATEWAY})
"""Checks whose errors are failures; errors of other checks are refusals."""


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
"""The rule of each code that always has the same one; other errors carry their rule."""


def rule_of(code: str, own: RuleSource | None) -> RuleSource | None:
    """Return the error's own rule, or the rule of its code; None if neither exists."""
    return RULE_OF_CODE.get(code) if own is None else own
