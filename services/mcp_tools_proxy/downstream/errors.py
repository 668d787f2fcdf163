"""What can go wrong with one request on a link, in words."""

from mcp_tools_proxy.downstream.connection import ConnectionFailure, JsonRpcError, ResponseTooLarge
from mcp_tools_proxy.wire.text import quote

FAULTS = (JsonRpcError, ConnectionFailure, ResponseTooLarge, TimeoutError)
"""All that a request on a link raises."""

Fault = JsonRpcError | ConnectionFailure | ResponseTooLarge | TimeoutError


def reason_of(fault: Fault, *, timeout_s: float) -> str:
    """Say why a request failed; a server's own words are quoted and cut."""
    match fault:
        case ConnectionFailure():
            return fault.reason
        case JsonRpcError():
            return f"it answered with error {fault.code}: {quote(fault.message)}"
        case ResponseTooLarge():
            return f"its answer is over {fault.max_bytes} bytes"
        case _:
            return f"it did not answer within {timeout_s:g} s"
