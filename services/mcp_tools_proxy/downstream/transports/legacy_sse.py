"""HTTP+SSE of 2024-11-05: the server's messages come on one event stream, ours go by POST."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import aiohttp
from yarl import URL

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.link import LinkFault
from mcp_tools_proxy.downstream.transports.entry import address_of, headers_of
from mcp_tools_proxy.downstream.transports.event_stream import EventParser
from mcp_tools_proxy.downstream.transports.failures import HTTP_ERRORS, Refused, from_aiohttp
from mcp_tools_proxy.downstream.transports.http_body import (
    EVENT_STREAM,
    is_event_stream,
    read_events,
)
from mcp_tools_proxy.downstream.transports.messages import MAX_ANSWER_BYTES

_ENDPOINT_S = 10.0  # for the server to name the address to POST to
_EVENTS = frozenset({"endpoint", "message"})


@asynccontextmanager
async def open_sse(
    http: aiohttp.ClientSession, config: ServerConfig
) -> AsyncIterator["EventStream"]:
    """Open the stream, learn where to POST, and yield the connection. Raises LinkFault."""
    url, headers = address_of(config), headers_of(config)
    try:
        response = await http.get(
            url, headers=headers | {"Accept": EVENT_STREAM}, allow_redirects=False
        )
    except (*HTTP_ERRORS, ValueError) as error:
        raise from_aiohttp(error) from None
    try:
        if response.status != 200:
            raise Refused(response.status)
        if not is_event_stream(response):
            raise LinkFault("the server has no event stream at this address")
        stream = EventStream(http, headers, response)
        await stream.learn_endpoint(url)
        yield stream
    finally:
        response.close()


class EventStream:
    """An open event stream and the address to POST to, as a Duplex."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        headers: dict[str, str],
        response: aiohttp.ClientResponse,
    ) -> None:
        self._http = http
        self._headers = headers | {"Content-Type": "application/json"}
        self._events = read_events(response, EventParser(MAX_ANSWER_BYTES), _EVENTS)
        self._endpoint = URL()
        self._reason = "the server closed its event stream"

    def __repr__(self) -> str:
        return f"<EventStream to {self._endpoint.host}>"

    async def learn_endpoint(self, url: URL) -> None:
        """Read the first event. Raises LinkFault unless it names an address of ``url``'s origin."""
        try:
            async with asyncio.timeout(_ENDPOINT_S):
                first = await anext(self._events)
            self._endpoint = url.join(URL(first.data.decode()))
        except StopAsyncIteration:
            raise LinkFault("the server's event stream ended at its start") from None
        except HTTP_ERRORS as error:
            raise from_aiohttp(error) from None
        except ValueError:  # no URL, or no text
            raise LinkFault("the server does not say where to POST to") from None
        if first.name != "endpoint":
            raise LinkFault("the server does not say where to POST to")
        if self._endpoint.origin() != url.origin():
            raise LinkFault("the server wants messages POSTed to another origin than its own")

    async def receive(self) -> AsyncGenerator[tuple[bytes, bool], None]:
        """Yield the server's messages until the stream ends."""
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    if event.name == "message":
                        yield event.data, event.cut
        except HTTP_ERRORS:
            self._reason = "the server's event stream broke"

    async def send(self, data: bytes) -> None:
        """POST one message. Raises LinkFault, for this message only."""
        try:
            async with self._http.post(
                self._endpoint, data=data, headers=self._headers, allow_redirects=False
            ) as response:
                if response.status >= 300:
                    raise Refused(response.status)
        except (*HTTP_ERRORS, ValueError) as error:
            raise from_aiohttp(error) from None

    async def why(self) -> str:
        """Say how the stream ended."""
        return self._reason
