"""Names of the Model Context Protocol: versions, error codes, keys of ``_meta``.

A test compares them with the SDK, whose import would dominate the start time.
"""

from collections.abc import Mapping, Sequence

from pydantic_core import to_json

HANDSHAKE_VERSIONS: Sequence[str] = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions of the older eras, which begin with ``initialize``, the oldest first."""

MODERN_VERSIONS: Sequence[str] = ("2026-07-28",)
"""Versions of the newer era, whose requests are self-contained."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

CLIENT_ERROR_CODES = frozenset({MISSING_REQUIRED_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED})
"""Server errors that the client itself resolves, and then repeats the request."""

PROTOCOL_VERSION_META_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES_META_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO_META_KEY = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL_META_KEY = "io.modelcontextprotocol/logLevel"
SERVER_INFO_META_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID_META_KEY = "io.modelcontextprotocol/subscriptionId"

X_MCP_HEADER = "x-mcp-header"
"""Input schema keyword for an argument that clients repeat in an HTTP header."""

HTTP_STATUS_OF_ERROR: Mapping[int, int] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""HTTP status of errors in the newer era; 200 for all others."""


_OF_THE_TRANSPORT = frozenset(
    {"accept", "content-type", "content-length", "connection", "transfer-encoding"}
)


def is_transport_header(name: str) -> bool:
    """Return whether the transport sets an HTTP header itself, so that entries cannot."""
    lower = name.lower()
    return lower in _OF_THE_TRANSPORT or lower.startswith("mcp-")


def has_header_parameters(schema: object) -> bool:
    """Return whether an input schema contains ``x-mcp-header``; fast, with false positives."""
    try:
        return b'"x-mcp-header"' in to_json(schema)
    except ValueError:  # nested too deeply, or not Unicode
        return False
