"""The checks that a request passes, in their order, and the one that decides about each code.

Audit records, explanations and metrics name checks by these words (contract §1, order of checks).
"""

from collections.abc import Mapping
from enum import StrEnum

from mcp_tools_proxy.domain.audit.rule_source import SETTINGS, RuleSource


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
