"""Streamable HTTP: the SDK's Dispatcher over aiohttp, one POST for a request (both eras)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import anyio
import anyio.abc
from mcp.shared.dispatcher import (
    CallOptions,
    DispatchContext,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.transport_context import TransportContext
from mcp.types import REQUEST_TIMEOUT
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json
from yarl import URL

from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.link import AnswerTooLarge, LinkFault, OnListChanged, PeerError
from mcp_tools_proxy.downstream.transports.event_stream import EventParser
from mcp_tools_proxy.downstream.transports.failures import (
    HTTP_ERRORS,
    Refused,
    Unreachable,
    as_mcp_error,
    from_aiohttp,
)
from mcp_tools_proxy.downstream.transports.headers import base_headers
from mcp_tools_proxy.downstream.transports.http_body import (
    EVENT_STREAM,
    drain,
    read_answer,
    read_events,
)
from mcp_tools_proxy.downstream.transports.messages import (
    LIST_CHANGED,
    MAX_ANSWER_BYTES,
    is_answer,
    read_object,
    take_result,
)
from mcp_tools_proxy.downstream.transports.reopen import keep_open

_ASIDE_S = 5.0  # for a message beside the calls: a cancellation, an answer to the server
_FAREWELL_S = 2.0
_SESSION = "Mcp-Session-Id"
_VERSION = "mcp-protocol-version"
_NO_STREAM = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the session reads of a request that the server sends."""

    request_id: int | str


@asynccontextmanager
async def open_http(
    http: aiohttp.ClientSession, config: ServerConfig, on_list_changed: OnListChanged
) -> AsyncIterator["HttpWire"]:
    """Yield the wire to one server; a legacy session is given up at the end."""
    wire = HttpWire(http, config, on_list_changed)
    try:
        yield wire
    finally:
        await wire.end_session()


class HttpWire:
    """Requests to one server over HTTP; each fails for itself.

    The link is lost when the server has lost the session, or when nobody listens any more.
    """

    transport = Transport.STREAMABLE_HTTP

    def __init__(
        self, http: aiohttp.ClientSession, config: ServerConfig, on_list_changed: OnListChanged
    ) -> None:
        self._http = http
        self._url = URL(config.url)
        self._on_list_changed = on_list_changed
        self._headers = base_headers(config) | {
            "Accept": f"application/json, {EVENT_STREAM}",
            "Content-Type": "application/json",
        }
        self._session_id: str | None = None
        self._version: dict[str, str] = {}
        self._legacy = False
        self._last_id = 0
        self._last_event_id: str | None = None
        self._retry_ms: int | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._on_request: OnRequest | None = None
        self._intercept: OnNotifyIntercept | None = None
        self._lost = asyncio.Event()
        self._reason = ""

    def __repr__(self) -> str:
        return f"<HttpWire legacy={self._legacy} lost={self._reason!r}>"

    @property
    def ended(self) -> bool:
        """Whether the link is lost."""
        return self._lost.is_set()

    async def down(self) -> str:
        """Wait until the link is lost, and say why."""
        await self._lost.wait()
        return self._reason

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Hold what runs beside the requests, until cancelled."""
        self._on_request, self._intercept = on_request, on_notify_intercept
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send one request of the SDK's. Raises MCPError."""
        opts = opts or {}
        try:
            async with asyncio.timeout(opts.get("timeout")):
                return await self.exchange(
                    method, params, opts.get("headers", {}), request_id=opts.get("request_id")
                )
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"{method} timed out") from None
        except (PeerError, LinkFault, AnswerTooLarge) as fault:
            raise as_mcp_error(fault) from None

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send one notification of the SDK's; after ``initialized`` listen for the server's."""
        self._version = {_VERSION: (opts or {}).get("headers", {}).get(_VERSION, "")}
        message = {"jsonrpc": "2.0", "method": method}
        try:
            response = await self._post(message | ({"params": params} if params else {}), {})
        except LinkFault as fault:
            raise as_mcp_error(fault) from None
        response.release()
        if method == "notifications/initialized" and self._tasks is not None:
            self._legacy = True
            self._tasks.start_soon(self._hear)

    async def exchange(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        *,
        request_id: int | str | None = None,
    ) -> dict[str, Any]:
        """Send one request and give its result. Raises PeerError, LinkFault, AnswerTooLarge."""
        if request_id is None:
            self._last_id += 1
            request_id = self._last_id
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        try:
            response = await self._post(message, headers)
            try:
                if method == "initialize":
                    self._begin_session(response)
                return await self._result(response, request_id)
            except BaseException:
                response.close()
                raise
        except HTTP_ERRORS as error:
            raise self._fault(error) from None
        except asyncio.CancelledError:
            if self._legacy:
                cancelled = {"requestId": request_id, "reason": "nobody waits any more"}
                self._aside({"method": "notifications/cancelled", "params": cancelled})
            raise

    async def end_session(self) -> None:
        """Tell the server that its session may go; bounded, and its answer does not matter."""
        if self._session_id is None or self._lost.is_set():
            return
        with suppress(*HTTP_ERRORS):
            async with asyncio.timeout(_FAREWELL_S):
                headers = self._headers | self._version
                async with self._http.delete(self._url, headers=headers, allow_redirects=False):
                    pass

    async def _post(
        self, message: Mapping[str, Any], headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        try:
            return await self._http.post(
                self._url,
                data=to_json(message),
                headers={**self._headers, **headers},
                allow_redirects=False,
            )
        except PydanticSerializationError:
            raise LinkFault("the request has text that is not Unicode") from None
        except (*HTTP_ERRORS, ValueError) as error:
            raise self._fault(error) from None

    async def _result(
        self, response: aiohttp.ClientResponse, request_id: int | str
    ) -> dict[str, Any]:
        if response.status == 200 and response.content_type == EVENT_STREAM:
            return await self._follow(response, request_id)
        try:
            return take_result(await read_answer(response), request_id)
        except (Refused, PeerError) as fault:
            self._check_session(response.status, fault)
            raise

    async def _follow(
        self, response: aiohttp.ClientResponse, request_id: int | str
    ) -> dict[str, Any]:
        """Read the stream that ends in our answer; what comes before it is the server's own."""
        async with aclosing(read_events(response, EventParser(MAX_ANSWER_BYTES))) as events:
            async for event in events:
                if event.cut:
                    raise AnswerTooLarge(MAX_ANSWER_BYTES)
                message = read_object(event.data)
                if not is_answer(message):
                    await self._take(message)
                elif str(message["id"]) == str(request_id) or message["id"] is None:
                    if self._tasks is not None and not response.content.at_eof():
                        self._tasks.start_soon(drain, response)
                    return take_result(message, request_id)
        raise LinkFault("the server ended its answer's stream before the answer")

    def _begin_session(self, response: aiohttp.ClientResponse) -> None:
        session_id = response.headers.get(_SESSION, "")
        if session_id and session_id.isascii() and session_id.isprintable():
            self._session_id = session_id
            self._headers[_SESSION] = session_id

    def _check_session(self, status: int, fault: Refused | PeerError) -> None:
        """Raise LinkFault when the refusal means that the server does not know our session."""
        if self._session_id is None or status not in (400, 404):
            return
        if status == 404 or (isinstance(fault, PeerError) and "session" in fault.message.lower()):
            self._lose("the server has lost the session")
            raise LinkFault(self._reason)

    def _fault(self, error: Exception) -> LinkFault:
        fault = from_aiohttp(error)
        if isinstance(fault, Unreachable):
            self._lose(fault.reason)
        return fault

    def _lose(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._lost.set()

    async def _take(self, message: dict[str, Any]) -> None:
        """Hear the server's own message: answer a request, note that a list changed."""
        method, params, request_id = (message.get(key) for key in ("method", "params", "id"))
        if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
            return
        if request_id is not None:
            if self._legacy and isinstance(request_id, int | str):
                await self._answer(request_id, method, params)
        elif not run_notify_intercept(self._intercept, method, params) and method in LIST_CHANGED:
            self._on_list_changed()

    async def _answer(
        self, request_id: int | str, method: str, params: dict[str, Any] | None
    ) -> None:
        if self._on_request is None:
            return
        context = cast("DispatchContext[TransportContext]", _Asked(request_id))
        try:
            reply = {"result": await self._on_request(context, method, params)}
        except (MCPError, ValidationError) as error:
            data = handler_exception_to_error_data(error)
            reply = {"error": {} if data is None else data.model_dump(exclude_none=True)}
        await self._send_aside({"id": request_id, **reply})

    def _aside(self, message: Mapping[str, Any]) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._send_aside, message)

    async def _send_aside(self, message: Mapping[str, Any]) -> None:
        """Send what has no answer; that it could not be sent changes nothing."""
        with suppress(LinkFault, TimeoutError):
            async with asyncio.timeout(_ASIDE_S):
                response = await self._post({"jsonrpc": "2.0", **message}, self._version)
                response.release()

    async def _hear(self) -> None:
        """Hold the legacy stream of notifications open."""
        await keep_open(
            self._hear_once,
            on_gap=self._on_list_changed,
            least_delay_s=lambda: (self._retry_ms or 0) / 1000,
        )

    async def _hear_once(self, opened: Callable[[], None]) -> bool:
        headers = self._headers | self._version | {"Accept": EVENT_STREAM}
        if self._last_event_id is not None:
            headers["Last-Event-ID"] = self._last_event_id
        parser = EventParser(MAX_ANSWER_BYTES)
        try:
            async with self._http.get(
                self._url, headers=headers, allow_redirects=False
            ) as response:
                if response.status != 200 or response.content_type != EVENT_STREAM:
                    return self._may_hear_later(response.status)
                opened()
                async with aclosing(read_events(response, parser)) as events:
                    async for event in events:
                        self._last_event_id = event.event_id
                        with suppress(LinkFault):
                            await self._take(read_object(event.data))
        except (*HTTP_ERRORS, ValueError) as error:
            self._fault(error)
        finally:
            self._retry_ms = parser.retry_ms
        return not self.ended

    def _may_hear_later(self, status: int) -> bool:
        if status == 404 and self._session_id is not None:
            self._lose("the server has lost the session")
        return status not in _NO_STREAM and status != 200
