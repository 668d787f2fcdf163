"""Exceptions for failures between the gateway and a server, without secrets in their texts.

The SDK's layers pass on only MCPError. Other failures are Python objects in its ``data``, which a
server cannot forge.
"""

import errno
import os
import socket
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError
from mcp import MCPError
from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR

from mcp_tools_proxy.downstream.connection import (
    AccessRefused,
    ClosedUnanswered,
    ConnectionFailure,
    ResponseTooLarge,
)
from mcp_tools_proxy.system.egress import NOT_DIALLED
from mcp_tools_proxy.wire.json_rpc import JsonRpcError

HTTP_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError)
"""Exceptions of a failed HTTP exchange. The TimeoutError of a bounded exchange is an OSError."""

_ADVICE = {
    401: "the server rejected the credentials; check its headers in mcp.json",
    403: "these credentials have no access; check its headers in mcp.json",
    404: "not found at this address; check the server's url in mcp.json",
    405: "method not allowed at this address; check the server's url in mcp.json",
    407: "a proxy in between requires credentials",
    429: "too many requests",
}
_FINAL = frozenset({401, 403, 407, 429, 502, 503, 504})
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.InvalidURL, aiohttp.ConnectionTimeoutError)
CONNECTION_LOST = "the connection to the server was lost"
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
"""OpenSSL's codes for certificates without a known authority."""
_CLOSED_TEXT = "Connection closed"
_CODES_END = 2**31


RETRY_AFTER = "Retry-After"
LONGEST_RETRY_AFTER_S = 300.0
_TOO_MANY_REQUESTS = 429
_HAVE_RETRY_AFTER = frozenset({_TOO_MANY_REQUESTS, 503})


def _seconds_of(retry_after: str) -> float | None:
    """Parse a Retry-After header: seconds or an HTTP date; None if it is neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    else:
        try:
            when = parsedate_to_datetime(text)
        except (ValueError, OverflowError):  # the latter for a year of twenty digits
            return None
        zoned = when if when.tzinfo else when.replace(tzinfo=UTC)
        seconds = (zoned - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)


class Unreachable(ConnectionFailure):
    """No connection could be made, so nothing was sent."""

    def __init__(self, reason: str, *, for_operators: str | None = None) -> None:
        super().__init__(reason, for_operators=for_operators, sent=False)


class Ended(ConnectionFailure):
    """The server ended the connection before a protocol version was negotiated."""


class Refused(ConnectionFailure):
    """The server answered with an HTTP status other than success, without a JSON-RPC error.

    ``more`` is added for operators, such as the target of a redirect. A 429 was not executed; a 503
    may come from a proxy after the execution.
    """

    def __init__(
        self, status: int, *, more: str | None = None, retry_after: str | None = None
    ) -> None:
        reason = _reason_of(status)
        sent = status != _TOO_MANY_REQUESTS
        super().__init__(reason, for_operators=more and f"{reason}; {more}", sent=sent)
        self.status = status
        self.is_alive = not sent
        if retry_after is not None and status in _HAVE_RETRY_AFTER:
            self.retry_after_s = _seconds_of(retry_after)

    @classmethod
    def by(cls, response: aiohttp.ClientResponse) -> Self:
        """Build the fault of a response."""
        return cls(response.status, retry_after=response.headers.get(RETRY_AFTER))


def is_era_independent(fault: Exception) -> bool:
    """Return whether a request of another era would cause the same ``fault``."""
    return isinstance(fault, Unreachable | AccessRefused) or (
        isinstance(fault, Refused) and (fault.status in _FINAL or 300 <= fault.status < 400)
    )


def as_mcp_error(fault: JsonRpcError | ConnectionFailure | ResponseTooLarge) -> MCPError:
    """Wrap ``fault`` so that it passes the layers of the SDK."""
    if isinstance(fault, JsonRpcError):
        return MCPError(fault.code, fault.message, fault.data)
    return MCPError(CONNECTION_CLOSED, str(fault), fault)


def from_mcp_error(error: MCPError) -> JsonRpcError | ConnectionFailure | ResponseTooLarge:
    """Unwrap the fault of ``as_mcp_error``, or convert the server's own error."""
    if isinstance(error.data, ConnectionFailure | ResponseTooLarge):
        return error.data
    if error.code == CONNECTION_CLOSED and error.message == _CLOSED_TEXT:
        return ConnectionFailure(CONNECTION_LOST)
    return JsonRpcError(error.code, error.message, error.data)


def peer_error(error: object) -> JsonRpcError:
    """Convert the ``error`` of a JSON-RPC response, which can be any JSON."""
    if not isinstance(error, dict):
        return JsonRpcError(INTERNAL_ERROR, "the server answered with an error without a message")
    code, message = error.get("code"), error.get("message")
    if type(code) is not int or abs(code) >= _CODES_END:  # a bool is an int, too
        code = INTERNAL_ERROR
    return JsonRpcError(
        code,
        message if isinstance(message, str) else "",
        error.get("data"),
    )


def from_aiohttp(error: Exception) -> ConnectionFailure:
    """Convert the exception of a failed HTTP exchange, whose own text may contain the address."""
    not_sent = _not_sent(error)
    if not_sent is not None:
        return not_sent
    match error:
        case aiohttp.WSServerHandshakeError():
            given = None if error.headers is None else error.headers.get(RETRY_AFTER)
            return Refused(error.status, retry_after=given)
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return ClosedUnanswered("the server closed the connection without an answer")
        case ContentEncodingError():
            return ConnectionFailure(
                "the server's answer is compressed in a way that is not supported"
            )
        case TimeoutError():
            return ConnectionFailure("the server did not answer in time")
        case aiohttp.ClientPayloadError() | OSError():
            return ConnectionFailure("the server's answer was cut off")
        case ValueError():
            return ConnectionFailure("the server's url or headers in mcp.json are not valid")
        case _:
            return ConnectionFailure("the server's answer is not valid HTTP")


def _not_sent(error: Exception) -> ConnectionFailure | None:
    if NOT_DIALLED in str(error):  # as one of several, if the name has several addresses
        return _not_allowed()
    if isinstance(error, aiohttp.ClientHttpProxyError | aiohttp.ClientProxyConnectionError):
        return _not_proxied(error)
    return _not_connected(error) if isinstance(error, _NOT_CONNECTED) else None


def _not_connected(
    error: aiohttp.ClientConnectorError | aiohttp.InvalidURL | aiohttp.ConnectionTimeoutError,
) -> ConnectionFailure:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return Unreachable("no answer from its address")
        case aiohttp.InvalidURL():
            return Unreachable("the server's url in mcp.json is not valid")
        case aiohttp.ClientConnectorCertificateError():
            return _certificate_refused(error.certificate_error)
        case aiohttp.ClientConnectorSSLError():
            return Unreachable("the TLS handshake failed; it may expect plain HTTP at this url")
        case aiohttp.ClientConnectorDNSError():
            return Unreachable(f"its host name cannot be resolved: {_os_reason(error)}")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        reason = "this process has too many files open"
        return ConnectionFailure(reason, sent=False)
    return Unreachable(_os_reason(error))


def _not_allowed() -> Unreachable:
    return Unreachable(
        "the server's address is not allowed",
        for_operators="the server's address is not allowed: it is link-local, a cloud metadata "
        "service, or outside MCP_PROXY_SERVER_NETWORKS; with a proxy also an address of this "
        "machine, or, if that setting is set, a name that cannot be resolved here",
    )


def _not_proxied(
    error: aiohttp.ClientHttpProxyError | aiohttp.ClientProxyConnectionError,
) -> ConnectionFailure:
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return Unreachable(f"its proxy cannot be reached: {_os_reason(error)}")
    status = error.status
    advice = {
        403: "it does not allow this host",
        407: "it requires a user and password in the proxy URL",
    }.get(status, "it cannot reach the server")
    return Unreachable(f"its proxy answered CONNECT with HTTP status {status}: {advice}")


def _os_reason(error: OSError) -> str:
    """Return the operating system's reason, such as "connection refused"; never the address."""
    number = error.errno
    if isinstance(number, int) and number > 0:
        text = os.strerror(number)
        return text[:1].lower() + text[1:]
    if isinstance(cause := getattr(error, "os_error", None), socket.gaierror):
        return str(cause.strerror).lower()
    return "no connection could be made"


def _certificate_refused(error: Exception) -> Unreachable:
    reason = "the server's TLS certificate was not accepted"
    if not isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(reason)
    more = f"{reason}: {error.verify_message}"
    if error.verify_code in _UNKNOWN_AUTHORITY:
        more += "; if you use your own certificate authority, name its file in SSL_CERT_FILE"
    return Unreachable(reason, for_operators=more)


def _reason_of(status: int) -> str:
    if 300 <= status < 400:
        return f"HTTP status {status}: redirects to another address are not followed"
    advice = _ADVICE.get(status)
    if advice is None:
        advice = "the server failed" if status >= 500 else "the server refused the request"
    return f"HTTP status {status}: {advice}"
