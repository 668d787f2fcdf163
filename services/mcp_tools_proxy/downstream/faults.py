"""The faults that one request on a connection may meet, and their texts."""

from mcp_tools_proxy.downstream.connection import ConnectionFailure, ResponseTooLarge
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.text import quote

MESSAGE_CHARS = 500
"""How many characters of a server's own words an error message contains."""

FAULTS = (JsonRpcError, ConnectionFailure, ResponseTooLarge, TimeoutError)
"""All exceptions that a request on a connection raises."""

Fault = JsonRpcError | ConnectionFailure | ResponseTooLarge | TimeoutError


def reason_of(fault: Fault, *, timeout_s: float) -> str:
    """Return the text for a failed request; the server's own words are quoted and cut."""
    match fault:
        case ConnectionFailure():
            return fault.reason
        case JsonRpcError():
            return f"it answered with error {fault.code}: {quote(fault.message)}"
        case ResponseTooLarge():
            return f"its answer is over {fault.limit}"
        case _:
            return f"it did not answer within {timeout_s:g} s"
