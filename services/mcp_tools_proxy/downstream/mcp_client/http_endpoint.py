"""HTTP requests to one server: its address and redirects, headers, token, cookies and MCP session.

Redirects are followed within the same origin. Cookies of load balancers are kept in memory, for one
connection to one origin.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

import aiohttp
from pydantic_core import PydanticSerializationError, to_json
from yarl import URL

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.connection import (
    AUTHORIZATION,
    AccessRefused,
    ClosedUnanswered,
    ConnectionFailure,
    SessionAccess,
    SessionLost,
)
from mcp_tools_proxy.downstream.mcp_client.error_mapping import (
    HTTP_ERRORS,
    Refused,
    Unreachable,
    from_aiohttp,
)
from mcp_tools_proxy.downstream.mcp_client.response_body import EVENT_STREAM
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import is_transport_header
from mcp_tools_proxy.wire.uris import redact_url


def address_of(config: ServerConfig) -> URL:
    """Parse the server's address. Raises Unreachable without the address in its text."""
    try:
        url = URL(config.url)
        url.origin()
    except ValueError:
        raise Unreachable("the server's url in mcp.json is not valid") from None
    return url


def headers_of(config: ServerConfig) -> dict[str, str]:
    """Return the configured headers, except those that the transport sets itself."""
    return {name: value for name, value in config.headers.items() if not is_transport_header(name)}


SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "mcp-protocol-version"

_END_SESSION_GRACE_S = 2.0
_STALE_CONNECTIONS = 2  # retries after a reused connection was closed
_LOST_SESSION = "the server has lost the session"


class HttpEndpoint:
    """HTTP endpoint of one server; lost with the session, or when the server is unreachable.

    ``session_headers`` belong to every message other than a call: the older eras require the
    version.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        config: ServerConfig,
        access: SessionAccess | None = None,
    ) -> None:
        self._http = http
        self._access = access
        self._address = Address(address_of(config))
        self._headers = headers_of(config) | {
            "Accept": f"application/json, {EVENT_STREAM}",
            "Content-Type": "application/json",
        }
        self._cookies = StickyCookies(self._address.url, self._headers)
        self.session_headers: dict[str, str] = {}
        self._has_session = False
        self._lost = asyncio.Event()
        self._reason = ""

    def __repr__(self) -> str:
        return f"<Endpoint session={self._has_session} lost={self._reason!r}>"

    @property
    def is_lost(self) -> bool:
        """Whether every further request would fail."""
        return self._lost.is_set()

    async def wait_lost(self) -> str:
        """Wait until the endpoint is lost; return the reason."""
        await self._lost.wait()
        return self._reason

    async def post(
        self, message: Mapping[str, Any], headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Send one message; return the response with its body unread. Raises ConnectionFailure.

        A message other than a call is sent again if the server closed the connection without an
        answer, which it can do at any time with kept-alive connections.
        """
        for _ in range(0 if message.get("method") == "tools/call" else _STALE_CONNECTIONS):
            try:
                return await self._post(message, headers)
            except ClosedUnanswered:
                continue
        return await self._post(message, headers)

    async def _post(
        self, message: Mapping[str, Any], headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        try:
            data = to_json(message)
            response = await send_authorized(
                self._access,
                lambda token: self._address.send(
                    partial(
                        self._http.post,
                        data=data,
                        headers={**self._headers, **headers, **token},
                        allow_redirects=False,
                    )
                ),
                headers,
            )
        except PydanticSerializationError:
            raise ConnectionFailure("the request has text that is not valid Unicode") from None
        except (*HTTP_ERRORS, ValueError) as error:
            raise self.fault(error) from None
        self._cookies.keep(response)
        return response

    async def get(self, last_event_id: str | None) -> aiohttp.ClientResponse:
        """Open an event stream of the session, or resume one after ``last_event_id``.

        Raises ConnectionFailure.
        """
        headers = self._headers | self.session_headers | {"Accept": EVENT_STREAM}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        try:
            return await send_authorized(self._access, partial(self._get, headers))
        except (*HTTP_ERRORS, ValueError) as error:
            fault = self.fault(error)
            fault.sent = True  # the GET resumes a response, so the request itself was sent before
            raise fault from None

    async def _get(
        self, headers: Mapping[str, str], token: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        send = partial(self._http.get, headers={**headers, **token}, allow_redirects=False)
        return (await send_following(send, self._address.url))[0]

    async def end_session(self) -> None:
        """Send DELETE to end the session, within _END_SESSION_GRACE_S; ignore the outcome."""
        if not self._has_session or self.is_lost:
            return
        headers = self._headers | self.session_headers
        with suppress(*HTTP_ERRORS, Refused, AccessRefused):
            async with asyncio.timeout(_END_SESSION_GRACE_S):
                token = await token_for(self._access, {})
                send = partial(
                    self._http.delete, headers={**headers, **token}, allow_redirects=False
                )
                response, _ = await send_following(send, self._address.url)
                response.release()

    def begin_session(self, response: aiohttp.ClientResponse) -> None:
        """Store the session id, if the response assigns one."""
        session_id = response.headers.get(SESSION_HEADER, "")
        if session_id and session_id.isascii() and session_id.isprintable():
            self._has_session = True
            self._headers[SESSION_HEADER] = session_id

    @property
    def has_session(self) -> bool:
        """Whether the server assigned a session id."""
        return self._has_session

    def lose_session(self, *, sent: bool = True) -> SessionLost:
        """Mark the session as lost; return the fault of the request that revealed it."""
        self._lose(_LOST_SESSION)
        return SessionLost(_LOST_SESSION, sent=sent)

    def check_session(self, status: int, fault: Refused | JsonRpcError) -> None:
        """Raise SessionLost if the refusal of a POST means that the server lost the session.

        A 404 means that the request was not executed.
        """
        if not self._has_session or status not in (400, 404):
            return
        if status == 404 or (
            isinstance(fault, JsonRpcError) and "session" in fault.message.lower()
        ):
            raise self.lose_session(sent=status != 404)

    def fault(self, error: Exception) -> ConnectionFailure:
        """Convert an exception of aiohttp; an unreachable server makes the endpoint lost."""
        fault = from_aiohttp(error)
        if isinstance(fault, Unreachable):
            self._lose(fault.reason)
        return fault

    def _lose(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._lost.set()


CHALLENGE = "WWW-Authenticate"

_REFUSED = (401, 403)


async def token_for(access: SessionAccess | None, headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the header with a request's token: that of its call's ``headers``, or the session's.

    Raises AccessRefused.
    """
    if access is None:
        return {}
    given = headers.get(AUTHORIZATION)
    return await access.header() if given is None else {AUTHORIZATION: given}


async def send_authorized(
    access: SessionAccess | None,
    send: Callable[[Mapping[str, str]], Awaitable[aiohttp.ClientResponse]],
    headers: Mapping[str, str] = MappingProxyType({}),
) -> aiohttp.ClientResponse:
    """Send a request by ``send``, which gets the header with the token.

    ``headers`` are those of the call. A 401 precedes any execution, so the request can be repeated.
    Raises AccessRefused if the server accepts no token.
    """
    if access is None:
        return await send({})
    header = await token_for(access, headers)
    response = await send(header)
    if response.status not in _REFUSED or not await access.renewed(
        header, response.status, response.headers.getall(CHALLENGE, ())
    ):
        return response
    response.release()
    response = await send(await access.header())
    if response.status in _REFUSED:
        response.release()
        refused = access.refused(response.status)
        refused.status = response.status
        raise refused
    return response


MAX_REDIRECTS = 3

_KEEPS_REQUEST = frozenset({307, 308})
"""Other statuses allow a client to turn a POST into a GET."""
_FIRST_REDIRECT = 300
_NOT_FOUND = frozenset({404, 410})

Send = Callable[[URL], Awaitable[aiohttp.ClientResponse]]


class Address:
    """The address for requests: the configured one, or the last redirect's target."""

    def __init__(self, url: URL) -> None:
        self.url = self._configured_url = url

    async def send(self, send: Send) -> aiohttp.ClientResponse:
        """Send a request, follow its redirects, and remember their target.

        A 404 or 410 there repeats the request at the configured address. Raises Refused.
        """
        response = await send(self.url)
        if response.status < _FIRST_REDIRECT:
            return response
        response, self.url = await _follow(response, send, self.url)
        if response.status in _NOT_FOUND and self.url != self._configured_url:
            response.release()
            response, self.url = await send_following(send, self._configured_url)
        return response


async def send_following(send: Send, url: URL) -> tuple[aiohttp.ClientResponse, URL]:
    """Send a request, following its redirects; return the response and its address.

    Only 307 and 308 within the same scheme, host and port are followed: another server must not see
    the secrets in the headers. Raises Refused for other redirects.
    """
    return await _follow(await send(url), send, url)


async def _follow(
    response: aiohttp.ClientResponse, send: Send, url: URL
) -> tuple[aiohttp.ClientResponse, URL]:
    followed = 0
    while _is_redirect(response):
        response.release()
        target = _target_of(response, url)
        if followed == MAX_REDIRECTS:
            more = f"it redirects more than {MAX_REDIRECTS} times, last to {redact_url(target)}"
            raise Refused(response.status, more=more)
        if response.status not in _KEEPS_REQUEST or not _is_same_origin(url, target):
            raise redirect_refused(response, url)
        followed += 1
        # keep the user and password of the url in mcp.json; ignore those of a redirect
        url = target.with_user(url.user).with_password(url.password)
        response = await send(url)
    return response, url


def redirect_refused(response: aiohttp.ClientResponse, url: URL) -> Refused:
    """Build the fault of a redirect from ``url`` that is not followed."""
    where = redact_url(_target_of(response, url))
    more = f"it points to {where}; if that is correct, set it as the server's url in mcp.json"
    return Refused(response.status, more=more)


def _is_redirect(response: aiohttp.ClientResponse) -> bool:
    return _FIRST_REDIRECT <= response.status < 400 and "Location" in response.headers


def _target_of(response: aiohttp.ClientResponse, url: URL) -> URL:
    try:
        target = url.join(URL(response.headers.get("Location", ""))).with_fragment(None)
        target.origin()
    except ValueError:
        return URL()
    return target


def _is_same_origin(url: URL, target: URL) -> bool:
    return target.absolute and target.origin() == url.origin()


_MAX_CHARS = 8_192


class StickyCookies:
    """Cookies that a server's origin set, added to the headers of later requests.

    Load balancers keep a session on one replica by a cookie. Only the exact origin of ``url``
    receives cookies, regardless of a Domain attribute.
    """

    def __init__(self, url: URL, headers: dict[str, str]) -> None:
        self._url = url
        self._headers = headers
        self._name = next((it for it in headers if it.lower() == "cookie"), "Cookie")
        self._configured = headers.get(self._name)
        self._jar = aiohttp.CookieJar(unsafe=True)

    def __repr__(self) -> str:
        return f"<StickyCookies {len(self._jar)}>"

    def keep(self, response: aiohttp.ClientResponse) -> None:
        """Store the cookies of a response; cookies beyond the limit are dropped."""
        if "Set-Cookie" not in response.headers or response.url.origin() != self._url.origin():
            return  # response.cookies makes an object for each answer
        self._jar.update_cookies(response.cookies, response.url)
        found = self._jar.filter_cookies(self._url).values()
        own = [f"{it.key}={it.coded_value}" for it in found]
        text = "; ".join([*([] if self._configured is None else [self._configured]), *own])
        if text and text.isprintable() and len(text) <= _MAX_CHARS:
            self._headers[self._name] = text
        elif not text:
            self._headers.pop(self._name, None)
