"""HTTP+SSE of 2024-11-05: messages from the server on one event stream, messages to it by POST."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import field
from functools import partial

import aiohttp
import anyio
import anyio.abc
from yarl import URL

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.connection import (
    ConnectionFailure,
    ResponseTooLarge,
    SessionAccess,
)
from mcp_tools_proxy.downstream.mcp_client.error_mapping import HTTP_ERRORS, Refused, from_aiohttp
from mcp_tools_proxy.downstream.mcp_client.http_endpoint import (
    CHALLENGE,
    Address,
    StickyCookies,
    address_of,
    headers_of,
    send_authorized,
    send_following,
    token_for,
)
from mcp_tools_proxy.downstream.mcp_client.messages import MAX_MESSAGE_BYTES
from mcp_tools_proxy.downstream.mcp_client.response_body import (
    EVENT_STREAM,
    EventParser,
    is_event_stream,
    read_events,
)
from mcp_tools_proxy.wire.uris import redact_url

_ENDPOINT_S = 10.0  # for the server to send the address for POST
_POST_S = 60.0  # for the server to accept a message; its response comes on the stream
_MAX_PENDING_NOTIFICATIONS = 2_000  # enough to cancel every call in flight at once
_EVENTS = frozenset({"endpoint", "message"})


@dataclass(eq=False, slots=True)
class _Post:
    """A message that is sent after the messages in ``after`` have arrived."""

    data: bytes
    is_request: bool
    after: tuple["_Post", ...]
    headers: Mapping[str, str]
    done: asyncio.Event = field(default_factory=asyncio.Event)
    fault: ConnectionFailure | None = None


@asynccontextmanager
async def open_sse(
    http: aiohttp.ClientSession, config: ServerConfig, access: SessionAccess | None = None
) -> AsyncIterator["LegacySseTransport"]:
    """Open the stream, read the address for POST, and yield the transport.

    Raises ConnectionFailure.
    """
    url, headers = address_of(config), headers_of(config)
    accept = headers | {"Accept": EVENT_STREAM}

    async def get(token: Mapping[str, str]) -> aiohttp.ClientResponse:
        nonlocal url
        send = partial(http.get, headers=accept | dict(token), allow_redirects=False)
        response, url = await send_following(send, url)
        return response

    try:
        response = await send_authorized(access, get)
    except (*HTTP_ERRORS, ValueError) as error:
        raise from_aiohttp(error) from None
    try:
        if response.status != 200:
            raise Refused.by(response)
        if not is_event_stream(response):
            raise ConnectionFailure("the server has no event stream at this address")
        async with anyio.create_task_group() as tasks:
            stream = LegacySseTransport(http, headers, response, tasks, access)
            await stream.read_endpoint_event(url)
            yield stream
            tasks.cancel_scope.cancel()
    finally:
        response.close()


class LegacySseTransport:
    """An open event stream and the address for POST, as a DuplexTransport."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        headers: dict[str, str],
        response: aiohttp.ClientResponse,
        tasks: anyio.abc.TaskGroup,
        access: SessionAccess | None = None,
    ) -> None:
        self._http = http
        self._access = access
        self._response = response
        self._headers = headers | {"Content-Type": "application/json"}
        StickyCookies(response.url, self._headers).keep(response)
        self._events = read_events(response, EventParser(MAX_MESSAGE_BYTES), _EVENTS)
        self._tasks = tasks
        self._posts: set[_Post] = set()
        self._endpoint = Address(URL())
        self._reason = "the server closed its event stream"

    def __repr__(self) -> str:
        return f"<LegacySseTransport to {self._endpoint.url.host}>"

    async def read_endpoint_event(self, url: URL) -> None:
        """Read the address for POST from the first event.

        Raises ConnectionFailure unless the address has the origin of ``url``.
        """
        try:
            async with asyncio.timeout(_ENDPOINT_S):
                first = await anext(self._events)
            endpoint = url.join(URL(first.data.decode()))
            is_own = endpoint.origin() == url.origin()
        except StopAsyncIteration:
            raise ConnectionFailure(
                "the server's event stream ended before it named the address for POST"
            ) from None
        except HTTP_ERRORS as error:
            raise from_aiohttp(error) from None
        except ValueError:  # not a URL, one without a host, or not UTF-8
            raise ConnectionFailure("the server did not name the address for POST") from None
        if first.name != "endpoint":
            raise ConnectionFailure("the server did not name the address for POST")
        if not is_own:
            reason = "the server wants messages POSTed to another origin than its own"
            raise ConnectionFailure(reason, for_operators=f"{reason}: {redact_url(endpoint)}")
        self._endpoint = Address(endpoint)

    async def receive(self) -> AsyncGenerator[tuple[bytes, bool], None]:
        """Yield the server's messages until the stream ends."""
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    if event.name == "message":
                        yield event.data, event.cut
        except HTTP_ERRORS as error:
            without_frames(error)
            self._reason = "the server's event stream broke"
        except ResponseTooLarge as error:
            self._reason = (
                f"the server's event stream has an event far over {error.max_bytes} bytes"
            )

    async def send(
        self, data: bytes, *, is_request: bool, headers: Mapping[str, str] | None = None
    ) -> None:
        """POST one message. Raises ConnectionFailure, which concerns this message only.

        A cancelled request is still sent, as its cancellation has to arrive after it. Other
        messages are dropped while _MAX_PENDING_NOTIFICATIONS of them wait: a server that sends
        requests endlessly and reads no answers would exhaust the memory.
        """
        if (
            not is_request
            and sum(not post.is_request for post in self._posts) >= _MAX_PENDING_NOTIFICATIONS
        ):
            return
        after = () if is_request else tuple(self._posts)
        post = _Post(data, is_request=is_request, after=after, headers=headers or {})
        self._posts.add(post)
        self._tasks.start_soon(self._deliver, post)
        if is_request:
            await post.done.wait()
            if post.fault is not None:
                raise post.fault

    async def _deliver(self, post: "_Post") -> None:
        try:
            async with asyncio.timeout(_POST_S):
                for earlier in post.after:
                    await earlier.done.wait()
                await self._post(post)
        except ConnectionFailure as fault:
            post.fault = without_frames(fault)
        except (*HTTP_ERRORS, ValueError) as error:
            post.fault = from_aiohttp(without_frames(error))
        finally:
            self._posts.discard(post)
            post.done.set()

    async def _post(self, post: _Post) -> None:
        token = await token_for(self._access, post.headers)
        headers = {**self._headers, **post.headers, **token}
        send = partial(self._http.post, data=post.data, headers=headers, allow_redirects=False)
        async with await self._endpoint.send(send) as response:
            if response.status == 401 and self._access is not None:
                await self._end_session(self._access, token, response)
            if response.status >= 300:
                raise Refused.by(response)

    async def _end_session(
        self, access: SessionAccess, token: Mapping[str, str], response: aiohttp.ClientResponse
    ) -> None:
        """End the stream if the server refuses its token and another is available for the next one.

        Raises AccessRefused, and ConnectionFailure for a message that was not executed.
        """
        challenges = response.headers.getall(CHALLENGE, ())
        if await access.renewed(token, response.status, challenges):
            self._reason = "the server no longer accepts the token of the session"
            self._response.close()
            raise ConnectionFailure(self._reason, sent=False)

    async def end_reason(self) -> str:
        """Return why the stream ended."""
        return self._reason
