"""Which check refuses with which code: the ``check`` label of ``mcp_proxy_refusals_total``."""

from collections.abc import Mapping

_CODES_OF_CHECK: Mapping[str, tuple[str, ...]] = {
    "request": (
        "INVALID_REQUEST", "PAYLOAD_TOO_LARGE", "NOT_FOUND", "METHOD_NOT_ALLOWED",
        "UNSUPPORTED_FORMAT", "VERSION_REQUIRED", "VERSION_MISMATCH",
    ),
    "authentication": ("UNAUTHENTICATED",),
    "rights": ("FORBIDDEN", "PRESET_PINNED", "CONFIG_READ_ONLY", "DOCUMENTS_READ_ONLY"),
    "agent": ("AGENT_NOT_FOUND", "AGENT_REQUIRED"),
    "name": (
        "TOOL_NOT_FOUND", "PROMPT_NOT_FOUND", "RESOURCE_NOT_FOUND", "PRESET_NOT_FOUND",
        "AMBIGUOUS_NAME",
    ),
    "permission": ("TOOL_NOT_ALLOWED", "PROMPT_NOT_ALLOWED", "RESOURCE_NOT_ALLOWED"),
    "arguments": ("INVALID_ARGUMENTS", "PAGE_SPAN_TOO_LARGE", "WINDOW_TOO_LARGE"),
    "blocklist": ("CONTENT_BLOCKED",),
    "document": ("ACCESS_DENIED", "DOCUMENT_NOT_FOUND"),
    "idempotency": ("IDEMPOTENCY_CONFLICT", "OUTCOME_UNKNOWN", "STATE_UNAVAILABLE"),
    "budget": ("RATE_LIMIT_EXCEEDED",),
    "capacity": ("SERVER_BUSY", "IMPORT_BUSY", "NO_ROOM", "SHUTTING_DOWN"),
}  # fmt: skip

CHECK_OF_CODE: Mapping[str, str] = {
    code: check for check, codes in _CODES_OF_CHECK.items() for code in codes
}
"""The check by the code that it refuses with; a code of a failure is not among them."""
