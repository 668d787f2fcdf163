"""A WebSocket to the backend: subprotocol ``mcp``, a bearer token, text frames (W-01)."""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum

import aiohttp
import structlog

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.system.egress import timeout_sockets
from mcp_tools_proxy.system.websocket_client import (
    CLOSE_S,
    SUBPROTOCOL,
    connect_websocket,
    receive_frames,
    websocket_client,
)


class FaultKind(Enum):
    """Reasons for a missing link; the values are labels of a metric."""

    UNREACHABLE = "unreachable"
    """No server accepts the connection, or a proxy cannot reach the backend."""
    LOST = "lost"
    """The link broke or ended by accident, for example at a restart of the backend."""
    CLOSED = "closed"
    """The backend closed the link on purpose, for example for another gateway with its identifier.
    """
    REFUSED = "refused"
    """The backend refused the handshake for a reason other than the token."""
    UNAUTHORIZED = "unauthorized"
    """The backend refused the token: unknown, or without access."""

    @property
    def is_deliberate(self) -> bool:
        """Whether the backend closed or refused the link on purpose."""
        return self not in (FaultKind.LOST, FaultKind.UNREACHABLE)


class LinkFault(Exception):
    """Reason for a missing link, one line for operators; ``retry_after_s`` is from the backend."""

    def __init__(
        self, kind: FaultKind, message: str, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s


DIAL_S = 5.0
"""Seconds for the connection and the WebSocket handshake."""

_DELIBERATE_CODES = frozenset({1008, 1013})
"""Deliberate close codes: policy violation and try again later; 3000 and above are also deliberate.
"""
_FIRST_APPLICATION_CODE = 3000

_PROXY_STATUSES = frozenset({502, 503, 504})
_ERRORS = (aiohttp.ClientError, OSError, ValueError)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRules:
    """Settings of all links; ``keepalive_s`` is the interval between pings, in seconds."""

    url: str
    trust: ssl.SSLContext | None
    max_frame_bytes: int
    keepalive_s: float


class Link:
    """An open WebSocket; after ``receive`` ends, ``fault`` is the reason."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse[bool], rules: LinkRules) -> None:
        self._socket = websocket
        self._rules = rules
        self._is_broken = False

    def __repr__(self) -> str:
        return f"<Link closed={self._socket.closed} code={self._socket.close_code}>"

    async def receive(self) -> AsyncGenerator[bytes | None, None]:
        """Yield text frames, and None for a binary one, until either side closes."""
        async for frame in receive_frames(self._socket):
            if frame is None:
                self._is_broken = True
            else:
                data, is_text = frame
                yield data if is_text else None

    async def send(self, frame: bytes) -> None:
        """Send a text frame; wait while the backend does not read. Raises LinkFault."""
        try:
            await self._socket.send_frame(frame, aiohttp.WSMsgType.TEXT)
        except _ERRORS:
            raise LinkFault(FaultKind.LOST, "the connection broke") from None

    async def close(self) -> None:
        """Close; ``receive`` ends too. Takes at most CLOSE_S, even if the backend keeps sending."""
        with suppress(*_ERRORS):
            async with asyncio.timeout(CLOSE_S):
                await self._socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)

    @property
    def closed(self) -> bool:
        """Whether the WebSocket is closed."""
        return self._socket.closed

    @property
    def fault(self) -> LinkFault:
        """Why the link ended."""
        code = self._socket.close_code
        if isinstance(self._socket.exception(), aiohttp.ServerTimeoutError):
            return LinkFault(FaultKind.LOST, "the backend did not answer a ping")
        if code is None or code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE:
            return LinkFault(FaultKind.LOST, "the connection broke")
        if self._is_broken and code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            limit = self._rules.max_frame_bytes
            return LinkFault(FaultKind.LOST, f"a frame of the backend was over {limit} bytes")
        if self._is_broken:
            return LinkFault(
                FaultKind.LOST, f"the backend violated the WebSocket protocol, code {code}"
            )
        is_deliberate = code in _DELIBERATE_CODES or code >= _FIRST_APPLICATION_CODE
        kind = FaultKind.CLOSED if is_deliberate else FaultKind.LOST
        return LinkFault(kind, f"the backend closed the link with code {code}")


@asynccontextmanager
async def open_link(rules: LinkRules, token: str) -> AsyncIterator[Link]:
    """Open a link to the backend, yield it, and close it. Raises LinkFault."""
    sockets = timeout_sockets(2 * rules.keepalive_s)
    connector = aiohttp.TCPConnector(socket_factory=sockets, force_close=True)
    unlimited = aiohttp.ClientTimeout()  # DIAL_S limits the dial, keep-alive the link
    async with websocket_client(connector, _redirect_fault, timeout=unlimited) as http:
        link = Link(await _dial(http, rules, token), rules)
        try:
            yield link
        finally:
            await link.close()


async def _dial(
    http: aiohttp.ClientSession, rules: LinkRules, token: str
) -> aiohttp.ClientWebSocketResponse[bool]:
    try:
        async with asyncio.timeout(DIAL_S):
            websocket = await connect_websocket(
                http,
                rules.url,
                {"Authorization": f"Bearer {token}"},
                max_msg_size=rules.max_frame_bytes + 1,
                heartbeat_s=rules.keepalive_s,
                trust=rules.trust,
            )
    except TimeoutError:
        raise LinkFault(FaultKind.UNREACHABLE, f"no answer within {DIAL_S:g} s") from None
    except aiohttp.WSServerHandshakeError as error:
        raise _handshake_fault(error) from None
    except aiohttp.ClientConnectorCertificateError as error:
        raise _certificate_fault(error.certificate_error) from None
    except aiohttp.ClientSSLError:
        raise LinkFault(FaultKind.UNREACHABLE, "could not be reached: TLS failed") from None
    except aiohttp.ClientConnectorDNSError:
        raise LinkFault(FaultKind.UNREACHABLE, "the host name cannot be resolved") from None
    except _ERRORS as error:
        raise LinkFault(
            FaultKind.UNREACHABLE, f"could not be reached: {_error_text(error)}"
        ) from None
    if websocket.protocol != SUBPROTOCOL:
        log.warning("remote.no_subprotocol", wanted=SUBPROTOCOL)
    return websocket


def _handshake_fault(error: aiohttp.WSServerHandshakeError) -> LinkFault:
    retry_after_s = _retry_after_s(error.headers.get("Retry-After") if error.headers else None)
    if error.status in (401, 403):
        return LinkFault(
            FaultKind.UNAUTHORIZED,
            f"the backend rejected the token with HTTP status {error.status}",
        )
    is_proxy_error = error.status in _PROXY_STATUSES
    kind = FaultKind.UNREACHABLE if is_proxy_error else FaultKind.REFUSED
    return LinkFault(
        kind,
        f"the backend answered with HTTP status {error.status} instead of a WebSocket",
        retry_after_s=retry_after_s,
    )


def _certificate_fault(error: Exception) -> LinkFault:
    why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else "unknown"
    return LinkFault(FaultKind.REFUSED, f"the backend's certificate is not trusted: {why}")


def _error_text(error: Exception) -> str:
    """Return the system's text for an error, or its type; its own text can quote the URL."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else type(error).__name__


def _retry_after_s(text: str | None) -> float | None:
    """Parse ``Retry-After`` in seconds; a date counts as absent, since clocks differ."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _redirect_fault(response: aiohttp.ClientResponse) -> LinkFault:
    """Build the fault for a redirect, which is not followed: the token is for one address."""
    return LinkFault(
        FaultKind.REFUSED, f"the backend answered with HTTP status {response.status}, a redirect"
    )
