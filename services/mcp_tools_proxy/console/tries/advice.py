"""What a person does about each error of a call; its message says what is wrong."""

from collections.abc import Mapping

_VISIBILITY = (
    'See "Access" for the tools of this caller. "Explain without running" shows the rule and its '
    "file."
)
_ARGUMENTS = "Correct the arguments named in the message and run the tool again."
_DOCUMENT = 'See "Documents" for the documents of this tenant.'
_LATER = "Try again later."
_SERVER = 'See "Servers" for the server’s state and last error.'
_LOGIN = (
    'See "Servers" for its logins. When you run a tool as another user, the logins and secrets of '
    "that user and tenant are never used, so the call may still work for the actual user."
)
_CHECK_FIRST = "The server may have completed the call. Check there before you run it again."

ADVICE: Mapping[str, str] = {
    "INVALID_REQUEST": _ARGUMENTS,
    "PAYLOAD_TOO_LARGE": "Send less, or raise MCP_PROXY_MAX_REQUEST_BYTES.",
    "NO_ROOM": _LATER,
    "UNAUTHENTICATED": "Sign in again.",
    "FORBIDDEN": "The message names the missing right or the allowed caller.",
    "AUDIT_UNAVAILABLE": "Nothing ran because the call could not be recorded. Check the audit log.",
    "SHUTTING_DOWN": "This replica is stopping. Run the tool again on another replica.",
    "AGENT_NOT_FOUND": "Choose an agent defined in agents.json.",
    "AGENT_REQUIRED": "Choose an agent. The gateway or the token has more than one.",
    "TOOL_NOT_FOUND": "Choose a tool from the list. The server may have renamed the tool.",
    "TOOL_NOT_ALLOWED": _VISIBILITY,
    "AMBIGUOUS_NAME": "Several servers offer a tool with this name. Choose one from the list.",
    "INVALID_ARGUMENTS": _ARGUMENTS,
    "PAGE_SPAN_TOO_LARGE": "Read fewer pages per call.",
    "WINDOW_TOO_LARGE": "Request a smaller window.",
    "IDENTITY_REQUIRED": "The server requires the caller’s identity. Enter the missing part.",
    "CONTENT_BLOCKED": "An argument contains a blocked word. Rephrase it.",
    "GUARD_REFUSED": "The message names the guard. Guards are set in mcp.json or the preset.",
    "IDEMPOTENCY_CONFLICT": "Use a new idempotency key for each call.",
    "OUTCOME_UNKNOWN": _CHECK_FIRST,
    "STATE_UNAVAILABLE": _LATER,
    "RATE_LIMIT_EXCEEDED": 'A budget of the tenant is used up. See "Limits" for its reset time.',
    "LIMITS_UNAVAILABLE": 'Fix limits.json. "Overview" shows its errors.',
    "ACCESS_DENIED": "The document belongs to another tenant, or this caller is not among its "
    'readers. "Explain without running" shows the reason.',
    "DOCUMENT_NOT_FOUND": _DOCUMENT,
    "DOCUMENTS_UNAVAILABLE": _LATER,
    "VERSION_GONE": "Omit the version: the document has been replaced since.",
    "SECTION_NOT_FOUND": "Use read_doc_metadata to list the sections of the document.",
    "PAGES_NOT_FOUND": "Use read_doc_metadata to get the number of pages.",
    "PAGE_IMAGE_UNAVAILABLE": "No image of this page is stored. Read its text with read_doc_pages.",
    "CHUNK_NOT_FOUND": "Use a chunk_id from a search result.",
    "RETRIEVAL_UNAVAILABLE": _LATER,
    "RETRIEVAL_NOT_CONFIGURED": "Set MCP_PROXY_RETRIEVAL_WINDOW_URL, for example to local.",
    "CREDENTIALS_MISSING": _LOGIN,
    "CREDENTIALS_INSUFFICIENT": _LOGIN,
    "LOGIN_REQUIRED": _LOGIN,
    "SERVER_UNAVAILABLE": _SERVER,
    "SERVER_BUSY": _LATER,
    "TOOL_TIMEOUT": _CHECK_FIRST,
    "TOOL_FAILED": "The tool reported an error. Read its message and correct the call.",
    "RESULT_TOO_LARGE": "Request less data per call, or raise MCP_PROXY_MAX_RESULT_BYTES.",
    "INTERNAL_ERROR": "Internal error of the gateway. Search its log for the trace ID.",
}


def advice_on(code: object) -> str:
    """Return what to do about an error, "" where only its message is known."""
    return ADVICE.get(str(code), "")
