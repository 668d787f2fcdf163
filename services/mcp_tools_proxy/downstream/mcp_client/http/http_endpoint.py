"""The streamable HTTP endpoint of one server: its address, headers and MCP session."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import aiohttp
from pydantic_core import PydanticSerializationError, to_json
from yarl import URL

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.connection import (
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
from mcp_tools_proxy.downstream.mcp_client.http.authorized_request import send_authorized
from mcp_tools_proxy.downstream.mcp_client.http.redirects import Address, send_following
from mcp_tools_proxy.downstream.mcp_client.http.response_body import EVENT_STREAM
from mcp_tools_proxy.downstream.mcp_client.http.sticky_cookies import StickyCookies
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import is_transport_header


def address_of(config: ServerConfig) -> URL:
    """Parse the server's address. Raises Unreachable, whose text does not repeat the address."""
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
_STALE_CONNECTIONS = 2  # tried again after a reused connection that was closed
_LOST_SESSION = "the server has lost the session"


class HttpEndpoint:
    """Sends HTTP requests to one server; lost with the session, or when unreachable.

    ``session_headers`` belong to every message that is no call: the older eras require the version
    in them. ``access`` gives each request its token.
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

        A message other than a call is sent again if the server closed the connection instead of
        answering: it closes kept-alive connections when it likes.
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
        """Send DELETE to end the session at the server; bounded in time, its outcome is ignored."""
        if not self._has_session or self.is_lost:
            return
        headers = self._headers | self.session_headers
        with suppress(*HTTP_ERRORS, Refused, AccessRefused):
            async with asyncio.timeout(_END_SESSION_GRACE_S):
                token = {} if self._access is None else await self._access.header()
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
        """Mark the session as lost; return the fault of the request that showed it."""
        self._lose(_LOST_SESSION)
        return SessionLost(_LOST_SESSION, sent=sent)

    def check_session(self, status: int, fault: Refused | JsonRpcError) -> None:
        """Raise SessionLost if the refusal of a POST means that the server lost the session.

        A 404 says that the request was not executed.
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
