"""What a person does about each error of a call; its message says what is wrong."""

from collections.abc import Mapping

_VISIBILITY = (
    'See "Who sees what" for what this caller sees, and explain the call: it names the file and '
    "the rule."
)
_ARGUMENTS = "Correct what the message names, and run it again."
_DOCUMENT = 'See "Documents" for what this tenant has.'
_LATER = "Wait, then run it again."
_SERVER = 'See "Servers" for the state of the server and its last error.'
_LOGIN = (
    "See \"Servers\" for its logins. Who stands in for somebody never uses that user's or tenant's "
    "logins and secrets, so this may work for the user himself."
)
_CHECK_FIRST = "The server may have done it. Check there before you run it again."

ADVICE: Mapping[str, str] = {
    "INVALID_REQUEST": _ARGUMENTS,
    "PAYLOAD_TOO_LARGE": "Send less, or raise MCP_PROXY_MAX_REQUEST_BYTES.",
    "NO_ROOM": _LATER,
    "UNAUTHENTICATED": "Sign in again.",
    "FORBIDDEN": "The message says which right or caller would be allowed.",
    "AUDIT_UNAVAILABLE": "See the readiness of the audit: no record can be kept, so nothing ran.",
    "SHUTTING_DOWN": "This replica is stopping. Run it again at another one.",
    "AGENT_NOT_FOUND": "Name an agent that agents.json has.",
    "AGENT_REQUIRED": "Name an agent: this gateway, or the token, has several.",
    "TOOL_NOT_FOUND": "Choose a tool from the list. Its server may have renamed it.",
    "TOOL_NOT_ALLOWED": _VISIBILITY,
    "AMBIGUOUS_NAME": "Several servers have this name. Choose one of them from the list.",
    "INVALID_ARGUMENTS": _ARGUMENTS,
    "PAGE_SPAN_TOO_LARGE": "Read fewer pages, in several calls.",
    "WINDOW_TOO_LARGE": "Read a smaller window.",
    "IDENTITY_REQUIRED": "The server is told who calls: name the part that is missing.",
    "CONTENT_BLOCKED": "An argument has a word of the blocklist. Say it in other words.",
    "GUARD_REFUSED": "The message names the guard; the server's entry or the preset turns it on.",
    "IDEMPOTENCY_CONFLICT": "Use a key for one call only.",
    "OUTCOME_UNKNOWN": _CHECK_FIRST,
    "STATE_UNAVAILABLE": _LATER,
    "RATE_LIMIT_EXCEEDED": 'A budget of the tenant is used up. Wait, or see "Limits".',
    "LIMITS_UNAVAILABLE": "Mend limits.json; the overview says what is wrong in it.",
    "ACCESS_DENIED": "The document is another tenant's, or its readers do not include this caller: "
    "explain the call.",
    "DOCUMENT_NOT_FOUND": _DOCUMENT,
    "DOCUMENTS_UNAVAILABLE": _LATER,
    "VERSION_GONE": "Leave the version out: the document was replaced since.",
    "SECTION_NOT_FOUND": "See read_doc_metadata for the sections of the document.",
    "PAGES_NOT_FOUND": "See read_doc_metadata for the number of pages.",
    "PAGE_IMAGE_UNAVAILABLE": "Read the text with read_doc_pages: no picture of the page is kept.",
    "CHUNK_NOT_FOUND": "Search first, and use a chunk_id that the search gives.",
    "RETRIEVAL_UNAVAILABLE": _LATER,
    "RETRIEVAL_NOT_CONFIGURED": "Set MCP_PROXY_RETRIEVAL_WINDOW_URL, for instance to local.",
    "CREDENTIALS_MISSING": _LOGIN,
    "CREDENTIALS_INSUFFICIENT": _LOGIN,
    "LOGIN_REQUIRED": _LOGIN,
    "SERVER_UNAVAILABLE": _SERVER,
    "SERVER_BUSY": _LATER,
    "TOOL_TIMEOUT": _CHECK_FIRST,
    "TOOL_FAILED": "The server refused it: read its text, and correct the call.",
    "RESULT_TOO_LARGE": "Ask for less at a time, or raise MCP_PROXY_MAX_RESULT_BYTES.",
    "INTERNAL_ERROR": "This is a defect of the gateway. Its log has the trace id with the reason.",
}


def advice_on(code: object) -> str:
    """Return what to do about an error, "" where only its message is known."""
    return ADVICE.get(str(code), "")
