"""HTTP client of Retrieval and the embeddings service: limits, TLS trust, no redirects.

Ignores proxy settings of the environment and stores no cookies.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, aclosing
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import anyio
import httpx

from mcp_tools_proxy.telemetry.spans import DEFAULT_PORTS, Attributes, child_span, set_on_span

T = TypeVar("T")

CONNECTIONS = 256  # counted by ServiceHttp: httpcore's own queue takes quadratic time
_LIMITS = httpx.Limits(
    max_keepalive_connections=CONNECTIONS,  # httpcore counts busy ones too: fewer stop all reuse
    keepalive_expiry=4.0,  # seconds; uvicorn closes idle connections after 5
)

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class BadAnswer(Exception):
    """A rejected response; ``reason`` continues a sentence about the service."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ServiceHttp:
    """Posts JSON to one service over a pool of keep-alive connections, ``most`` at once.

    ``variable`` is the setting of ``url``; ``token`` is sent as a bearer token. ``transport``
    replaces the network (tests). Raises ValueError for a ``url`` that is not http or https.
    """

    def __init__(
        self,
        url: str,
        *,
        variable: str,
        token: str | None,
        transport: httpx.AsyncBaseTransport | None,
        most: int = CONNECTIONS,
    ) -> None:
        self._url = parse_url(url, variable)
        self._headers = _headers_of(token)
        self._attributes: Attributes = {
            "http.request.method": "POST",
            "server.address": self._url.host,
            "server.port": self._url.port or DEFAULT_PORTS[self._url.scheme],
        }
        self._transport = transport or _open_transport(self._url.scheme)
        self._slots = anyio.Semaphore(most)

    def span(self) -> AbstractContextManager[object]:
        """Return the span of one request as a context manager."""
        return child_span("POST", self._attributes, is_client=True)

    async def post(
        self,
        body: Mapping[str, object] | bytes,
        read: Callable[[httpx.Response], Awaitable[T]],
        *,
        timeout_s: float,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> T:
        """Send ``body`` as JSON, or bytes as they are, and return what ``read`` returns.

        ``timeout_s`` limits the total: the wait for a connection, the retry and the body. Raises
        TimeoutError, httpx.HTTPError, and the errors of ``read``.
        """
        request = httpx.Request(
            "POST",
            self._url,
            headers={**self._headers, **headers},
            content=body if isinstance(body, bytes) else None,
            json=None if isinstance(body, bytes) else body,
            extensions=_request_extensions(self._url),
        )
        return await _within(timeout_s, partial(self._exchange, request, read))

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def _exchange(
        self, request: httpx.Request, read: Callable[[httpx.Response], Awaitable[T]]
    ) -> T:
        async with self._slots, aclosing(await _send(self._transport, request)) as response:
            set_on_span({"http.response.status_code": response.status_code})
            return await read(response)


def parse_url(url: str, variable: str) -> httpx.URL:
    """Parse the URL of a setting. Raises ValueError, without quoting the URL."""
    try:
        parsed = httpx.URL(url)
        parsed.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ValueError(f"{variable}: is not a URL") from error
    if parsed.scheme not in ("http", "https") or not parsed.host or (parsed.port or 0) > 65535:
        raise ValueError(f"{variable}: should be http(s)://host, maybe with :port and /path")
    return parsed


def _headers_of(token: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}  # see read_body
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _open_transport(scheme: str) -> httpx.AsyncHTTPTransport:
    """Create the pool. Loads certificates for https only, as that takes tens of milliseconds."""
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no certificate
    if scheme == "https":
        trust = httpx.create_ssl_context(trust_env=False)
        trust.load_default_certs()  # includes a company's own CA
    return httpx.AsyncHTTPTransport(verify=trust, trust_env=False, limits=_LIMITS)


def _request_extensions(url: httpx.URL) -> dict[str, Any]:
    return {} if url.scheme == "http" else {"trace": _CancelledHandshake().trace}


def certificate_problem(error: BaseException | None) -> str | None:
    """Return OpenSSL's reason for a rejected certificate, for the log; None for other errors."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None


async def _within(timeout_s: float, work: Callable[[], Awaitable[T]]) -> T:
    """Run an exchange within a deadline. Raises TimeoutError, and the exchange's errors.

    The exchange has its own task, which only anyio cancels: httpcore shields its clean-up from
    that. A plain ``Task.cancel`` at the wrong step would leak the connection from the pool.
    """
    done: list[T] = []
    failed: list[Exception] = []

    async def exchange() -> None:
        try:
            done.append(await work())
        except Exception as error:  # noqa: BLE001 - raised by the caller, without a group around it
            failed.append(error)

    with anyio.fail_after(timeout_s):
        async with anyio.create_task_group() as group:
            group.start_soon(exchange)
    if failed:
        try:
            raise failed[0]
        finally:
            failed.clear()  # the traceback refers to this frame
    return done[0]


async def _send(transport: httpx.AsyncBaseTransport, request: httpx.Request) -> httpx.Response:
    """Send; retry once if the connection breaks before a response, as requests only read."""
    try:
        return await transport.handle_async_request(request)
    except (httpx.NetworkError, httpx.RemoteProtocolError):
        return await transport.handle_async_request(request)


async def read_body(response: httpx.Response, max_bytes: int) -> bytes:
    """Read a body up to its limit; reject a compressed one, which was not requested.

    httpx decompresses each network read at once: counting decompressed bytes would be too late.
    Raises BadAnswer.
    """
    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise BadAnswer("sent a compressed answer")
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > max_bytes:
            raise BadAnswer(f"sent more than {max_bytes} bytes")
    return bytes(body)


class _CancelledHandshake:
    """Closes the socket of a cancelled TLS handshake.

    httpcore closes it after errors only: a server that never answered the handshake leaked one
    descriptor per timed-out call. ``trace`` is httpcore's request extension.
    """

    def __init__(self) -> None:
        self._stream: anyio.abc.AsyncResource | None = None

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self._stream = info["return_value"]
        elif event == "connection.start_tls.failed" and self._stream is not None:
            await anyio.aclose_forcefully(self._stream)
