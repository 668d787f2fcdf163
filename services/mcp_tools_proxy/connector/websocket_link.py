"""One WebSocket to the backend: subprotocol ``mcp``, a bearer token, text frames (W-01)."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum

import aiohttp
import structlog
from aiohttp import AddrInfoType

from mcp_tools_proxy.downstream.mcp_client.streams.websocket import refuse_redirects


class FaultKind(Enum):
    """What happened, as metrics count it."""

    UNREACHABLE = "unreachable"
    """Nobody is there, or nobody behind the proxy that is."""
    LOST = "lost"
    """The link broke, or ended in a way that means no offence: the backend restarts, say."""
    CLOSED = "closed"
    """The backend closed the link on purpose: another gateway has its identifier, say."""
    REFUSED = "refused"
    """The backend does not want this gateway now."""
    UNAUTHORIZED = "unauthorized"
    """The backend does not know the token, or it gives no access."""

    @property
    def is_deliberate(self) -> bool:
        """Whether the backend wants it so; others are accidents."""
        return self not in (FaultKind.LOST, FaultKind.UNREACHABLE)


class LinkFault(Exception):
    """One line that operators read; ``retry_after_s`` is what the backend asked for."""

    def __init__(
        self, kind: FaultKind, message: str, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s


SUBPROTOCOL = "mcp"

DIAL_S = 5.0
"""How long a handshake may take, in seconds."""

CLOSE_S = 1.0
"""How long the backend may take to close as well, in seconds."""

_DELIBERATE_CODES = frozenset({1008, 1013})
"""Close codes that are no accident: a policy, or try again later; those of applications too."""
_FIRST_APPLICATION_CODE = 3000

_PROXY_STATUSES = frozenset({502, 503, 504})
_ERRORS = (aiohttp.ClientError, OSError, ValueError)

LONGEST_MS = 2**31 - 1
"""The longest that the system counts, in milliseconds."""

SocketFactory = Callable[[AddrInfoType], socket.socket]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRules:
    """What every link keeps to; ``keepalive_s`` is the pause between pings, in seconds."""

    url: str
    trust: ssl.SSLContext | None
    max_frame_bytes: int
    keepalive_s: float


class Link:
    """An open WebSocket; ``fault`` says why once ``receive`` has ended."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse[bool], rules: LinkRules) -> None:
        self._socket = websocket
        self._rules = rules
        self._is_broken = False

    def __repr__(self) -> str:
        return f"<Link closed={self._socket.closed} code={self._socket.close_code}>"

    async def receive(self) -> AsyncGenerator[bytes | None, None]:
        """Yield text frames, and None for a binary one, until either side closes."""
        async for frame in self._socket:
            match frame.type:
                case aiohttp.WSMsgType.TEXT:
                    yield frame.data
                case aiohttp.WSMsgType.BINARY:
                    yield None
                case aiohttp.WSMsgType.PING:
                    with suppress(*_ERRORS):  # it may be gone; why it went is still to be read
                        await self._socket.pong(frame.data)
                case aiohttp.WSMsgType.PONG:
                    pass
                case _:  # an error: what came is no WebSocket, and the socket is closed
                    self._is_broken = True
                    return

    async def send(self, frame: bytes) -> None:
        """Send one text frame; wait while the backend does not read. Raises LinkFault."""
        try:
            await self._socket.send_frame(frame, aiohttp.WSMsgType.TEXT)
        except _ERRORS:
            raise LinkFault(FaultKind.LOST, "the connection broke") from None

    async def close(self) -> None:
        """End it: ``receive`` ends as well. However much the backend says, this takes no longer."""
        with suppress(*_ERRORS):
            async with asyncio.timeout(CLOSE_S):
                await self._socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)

    @property
    def closed(self) -> bool:
        """Whether nothing comes or goes any more."""
        return self._socket.closed

    @property
    def fault(self) -> LinkFault:
        """Why it ended."""
        code = self._socket.close_code
        if isinstance(self._socket.exception(), aiohttp.ServerTimeoutError):
            return LinkFault(FaultKind.LOST, "the backend answered no ping")
        if code is None or code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE:
            return LinkFault(FaultKind.LOST, "the connection broke")
        if self._is_broken and code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            limit = self._rules.max_frame_bytes
            return LinkFault(FaultKind.LOST, f"a frame of the backend was over {limit} bytes")
        if self._is_broken:
            return LinkFault(FaultKind.LOST, f"what the backend sent is no WebSocket, code {code}")
        is_deliberate = code in _DELIBERATE_CODES or code >= _FIRST_APPLICATION_CODE
        kind = FaultKind.CLOSED if is_deliberate else FaultKind.LOST
        return LinkFault(kind, f"the backend closed the link with code {code}")


@asynccontextmanager
async def open_link(rules: LinkRules, token: str) -> AsyncIterator[Link]:
    """Dial the backend and yield the link; it is closed at the end. Raises LinkFault."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            socket_factory=_sockets_with_timeout(rules), force_close=True
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[refuse_redirects(_redirect_fault)],
    ) as http:
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
            websocket = await http.ws_connect(
                rules.url,
                protocols=(SUBPROTOCOL,),
                headers={"Authorization": f"Bearer {token}"},
                max_msg_size=rules.max_frame_bytes + 1,  # the first that is too much
                heartbeat=rules.keepalive_s,
                autoping=False,  # as in ``receive``
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
                ssl=rules.trust or True,
                decode_text=False,
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
            FaultKind.UNAUTHORIZED, f"the backend refuses the token with HTTP status {error.status}"
        )
    is_proxy_error = error.status in _PROXY_STATUSES
    kind = FaultKind.UNREACHABLE if is_proxy_error else FaultKind.REFUSED
    return LinkFault(
        kind,
        f"the backend answered with HTTP status {error.status}, and no WebSocket",
        retry_after_s=retry_after_s,
    )


def _certificate_fault(error: Exception) -> LinkFault:
    """Say in the TLS library's words what is wrong with the certificate."""
    why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else "unknown"
    return LinkFault(FaultKind.REFUSED, f"the backend's certificate is not trusted: {why}")


def _error_text(error: Exception) -> str:
    """Name what the system says, or else the kind of error: its text may quote the URL."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else type(error).__name__


def _retry_after_s(text: str | None) -> float | None:
    """Read ``Retry-After``; a date is not worth its clock."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _redirect_fault(response: aiohttp.ClientResponse) -> LinkFault:
    """Say so of a redirect, which is not followed: the token is for one address."""
    return LinkFault(
        FaultKind.REFUSED, f"the backend answered with HTTP status {response.status}, a redirect"
    )


def _sockets_with_timeout(rules: LinkRules) -> SocketFactory:
    """Make what opens sockets whose unsent data is given up when the backend is gone."""

    def open_socket(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        opened = socket.socket(family, kind, protocol)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # not everywhere
            timeout_ms = min(int(rules.keepalive_s * 2000), LONGEST_MS)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
        return opened

    return open_socket
