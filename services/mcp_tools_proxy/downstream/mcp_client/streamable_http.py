"""Streamable HTTP: the SDK's Dispatcher over aiohttp. Each request is one POST, in every era.

OutOfBandChannel carries other messages: notifications, the server's own requests, and their
responses.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
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
from mcp.types import METHOD_NOT_FOUND, REQUEST_TIMEOUT
from pydantic import ValidationError

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.call_relay import CLIENT_REQUESTS
from mcp_tools_proxy.downstream.connection import (
    AccessRefused,
    ConnectionFailure,
    OnListChanged,
    Relay,
    ResponseTooLarge,
    SessionAccess,
)
from mcp_tools_proxy.downstream.mcp_client.error_mapping import HTTP_ERRORS, Refused, as_mcp_error
from mcp_tools_proxy.downstream.mcp_client.http_endpoint import VERSION_HEADER, HttpEndpoint
from mcp_tools_proxy.downstream.mcp_client.in_flight import (
    CANCELLED,
    RELAYED_NOTIFICATIONS,
    ClientRequest,
    InFlight,
)
from mcp_tools_proxy.downstream.mcp_client.messages import (
    LIST_CHANGED,
    MAX_MESSAGE_BYTES,
    is_broken_response,
    is_response,
    read_object,
    result_of,
    structure_limit,
)
from mcp_tools_proxy.downstream.mcp_client.response_body import (
    EventParser,
    drain,
    is_event_stream,
    read_events,
    read_response,
)
from mcp_tools_proxy.system.backoff import LONGEST_DELAY_S, keep_stream_open
from mcp_tools_proxy.wire.json_rpc import JsonRpcError

_CANCEL_DELAY_S = 0.05  # the request may still be on its way, over another TCP connection
_RETRY_MS = 1000  # before a stream that the server ended early is resumed, without its ``retry``
_CLOSED = "the connection to the server was closed"
_NOT_FOUND = 404
_UNAUTHORIZED = 401
_PING_S = 5.0
_WITHOUT_CHECK = frozenset({"initialize", "ping", "server/discover"})
_NO_STREAM = frozenset({200, 404, 405, 501})


@asynccontextmanager
async def open_http(
    http: aiohttp.ClientSession,
    config: ServerConfig,
    on_list_changed: OnListChanged,
    access: SessionAccess | None = None,
) -> AsyncIterator["HttpDispatcher"]:
    """Yield the dispatcher to one server; finally delete the session of an older era.

    Raises ConnectionFailure.
    """
    endpoint = HttpEndpoint(http, config, access)
    try:
        yield HttpDispatcher(endpoint, on_list_changed, structure_limit(config))
    finally:
        await endpoint.end_session()


class HttpDispatcher:
    """Dispatcher over HTTP to one server; the failures of its requests are independent."""

    transport = Transport.STREAMABLE_HTTP

    def __init__(
        self, endpoint: HttpEndpoint, on_list_changed: OnListChanged, max_structure_bytes: int
    ) -> None:
        self._endpoint = endpoint
        self._max_structure_bytes = max_structure_bytes
        self._on_list_changed = on_list_changed
        self._calls = InFlight()
        self._out_of_band = OutOfBandChannel(endpoint, self._calls, on_list_changed)
        self._last_event_id: str | None = None
        self._retry_ms: int | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._exchange_tasks: set[asyncio.Task[Any] | None] = set()
        self._cut_off: set[asyncio.Task[Any] | None] = set()
        """The tasks that ``run`` cancelled; their requests fail instead."""
        self._closed = False
        self._had_stream = False

    def __repr__(self) -> str:
        return f"<HttpDispatcher legacy={self._out_of_band.legacy} {self._endpoint}>"

    @property
    def ended(self) -> bool:
        """Whether the connection is lost."""
        return self._endpoint.is_lost

    async def wait_lost(self) -> str:
        """Wait until the connection is lost; return the reason."""
        return await self._endpoint.wait_lost()

    def set_update_listener(self, listener: Callable[[str | None], None]) -> None:
        """Call ``listener`` with the URI of each changed resource; None means any."""
        self._calls.on_updated = listener

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the out-of-band tasks until cancelled; then fail the exchanges in flight."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._out_of_band.open(self._tasks, on_request, on_notify_intercept)
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._closed = True
            self._cut_off = set(self._exchange_tasks)
            for task in self._cut_off:
                if task is not None:
                    task.cancel()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send one request of the SDK's session. Raises MCPError."""
        opts = opts or {}
        try:
            async with asyncio.timeout(opts.get("timeout")):
                return await self.exchange(
                    method, params, opts.get("headers", {}), request_id=opts.get("request_id")
                )
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, f"{method} timed out") from None
        except (JsonRpcError, ConnectionFailure, ResponseTooLarge) as fault:
            raise as_mcp_error(fault) from None

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send one notification of the SDK's session.

        After ``notifications/initialized`` the stream of notifications is opened, which only the
        older eras have.
        """
        self._endpoint.session_headers = {
            VERSION_HEADER: (opts or {}).get("headers", {}).get(VERSION_HEADER, "")
        }
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = params
        try:
            response = await self._endpoint.post(message, self._endpoint.session_headers)
        except ConnectionFailure as fault:
            raise as_mcp_error(fault) from None
        response.release()
        if method == "notifications/initialized" and self._tasks is not None:
            self._out_of_band.legacy = True
            self._tasks.start_soon(self._listen)

    async def exchange(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        relay: Relay | None = None,
        *,
        request_id: int | str | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its result.

        Raises JsonRpcError, ConnectionFailure, ResponseTooLarge.
        """
        number = self._calls.begin(relay, method)
        try:
            return await self._exchange(
                number if request_id is None else request_id, method, params, headers, relay
            )
        except asyncio.CancelledError:
            self._calls.abandon(number)
            raise
        finally:
            self._calls.end(number)

    async def _exchange(
        self,
        request_id: int | str,
        method: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        relay: Relay | None,
    ) -> dict[str, Any]:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        if self._closed:
            raise ConnectionFailure(_CLOSED, sent=False)
        task = asyncio.current_task()
        self._exchange_tasks.add(task)
        try:
            response = await self._post(message, headers, method)
            return await self._result(response, request_id, relay, method)
        except HTTP_ERRORS as error:
            raise self._endpoint.fault(error) from None
        except asyncio.CancelledError:
            if task is not None and task in self._cut_off and not task.uncancel():
                raise ConnectionFailure(_CLOSED) from None
            self._abandon(request_id)
            raise
        finally:
            self._exchange_tasks.discard(task)

    async def _post(
        self, message: Mapping[str, Any], headers: Mapping[str, str], method: str
    ) -> aiohttp.ClientResponse:
        try:
            response = await self._endpoint.post(message, headers)
        except AccessRefused as fault:
            if fault.status == _UNAUTHORIZED:
                await self._check_session(fault, method)
            raise
        if method == "initialize":
            self._endpoint.begin_session(response)
        return response

    def _abandon(self, request_id: int | str) -> None:
        """Send ``notifications/cancelled`` in an older era.

        In the modern era the closed stream has cancelled the request.
        """
        if self._out_of_band.legacy and self._tasks is not None:
            cancelled = {"requestId": request_id, "reason": "the caller no longer waits"}
            message = {"method": CANCELLED, "params": cancelled}
            self._tasks.start_soon(self._out_of_band.send, message, _CANCEL_DELAY_S)

    async def _result(
        self,
        response: aiohttp.ClientResponse,
        request_id: int | str,
        relay: Relay | None,
        method: str,
    ) -> dict[str, Any]:
        if is_event_stream(response):
            return await self._read_stream(response, request_id, relay, method)
        try:
            message = await read_response(response, self._max_structure_bytes)
            return await self._checked_result(message, request_id, response.status, method)
        except BaseException as fault:
            response.close()
            if isinstance(fault, Refused):
                self._endpoint.check_session(response.status, fault)
            raise

    async def _checked_result(
        self, message: dict[str, Any], request_id: int | str, status: int, method: str
    ) -> dict[str, Any]:
        """Return the result of a response; an error without an id may be about the session."""
        try:
            return result_of(message, request_id)
        except JsonRpcError as fault:
            if message.get("id") is None:
                self._endpoint.check_session(status, fault)
                await self._check_session(fault, method)
            raise

    async def _check_session(self, fault: JsonRpcError | AccessRefused, method: str) -> None:
        """Ping in the session after a refusal; raise SessionLost if that fails the same way.

        A restarted server of the TypeScript SDK always answers 400 "Server not initialized".
        """
        is_unknown = isinstance(fault, JsonRpcError) and fault.code == METHOD_NOT_FOUND
        if not self._endpoint.has_session or method in _WITHOUT_CHECK or is_unknown:
            return
        try:
            await self._ping()
        except AccessRefused:
            is_same = isinstance(fault, AccessRefused)
        except JsonRpcError as other:
            is_same = isinstance(fault, JsonRpcError) and (
                (other.code, other.message) == (fault.code, fault.message)
            )
        except (ConnectionFailure, ResponseTooLarge, TimeoutError):
            is_same = False
        else:
            return
        if is_same or self.ended:
            raise self._endpoint.lose_session() from None

    async def _read_stream(
        self,
        response: aiohttp.ClientResponse,
        request_id: int | str,
        relay: Relay | None,
        method: str,
    ) -> dict[str, Any]:
        """Read the stream up to the response, on resumed streams as well (2025-11-25)."""
        while True:
            parser = EventParser(MAX_MESSAGE_BYTES)
            try:
                answer = await self._find_response(response, parser, request_id, relay)
            except BaseException:
                response.close()
                raise
            if isinstance(answer, dict):
                if self._tasks is not None and not response.content.at_eof():
                    self._tasks.start_soon(drain, response)
                return await self._checked_result(answer, request_id, response.status, method)
            response = await self._resume_stream(parser, answer)

    async def _find_response(
        self,
        response: aiohttp.ClientResponse,
        parser: EventParser,
        request_id: int | str,
        relay: Relay | None,
    ) -> dict[str, Any] | ConnectionFailure | None:
        """Dispatch messages up to the response and return it.

        Malformed events are skipped, like malformed lines over stdio: some servers send text to
        keep the stream open. If the stream ends before the response, returns the error of the last
        malformed event, or None.
        """
        garbage: ConnectionFailure | None = None
        async with aclosing(read_events(response, parser)) as events:
            async for event in events:
                if event.cut:
                    raise ResponseTooLarge(MAX_MESSAGE_BYTES)
                try:
                    message = await read_object(event.data, self._max_structure_bytes)
                except ConnectionFailure as fault:
                    if is_broken_response(event.data, request_id):
                        raise
                    garbage = without_frames(fault)
                    continue
                if not is_response(message):
                    await self._out_of_band.receive(message, len(event.data), relay)
                elif message["id"] is None or str(message["id"]) == str(request_id):
                    return message
        return garbage

    async def _resume_stream(
        self, ended: EventParser, garbage: ConnectionFailure | None
    ) -> aiohttp.ClientResponse:
        """Resume a stream that the server ended early on purpose, to send the rest later."""
        if self._out_of_band.legacy and ended.last_event_id is not None:
            wait_ms = _RETRY_MS if ended.retry_ms is None else ended.retry_ms
            await asyncio.sleep(min(wait_ms / 1000, LONGEST_DELAY_S))
            response = await self._endpoint.get(ended.last_event_id)
            if is_event_stream(response):
                return response
            response.close()
        raise garbage or ConnectionFailure("the server's event stream ended before the answer")

    async def _listen(self) -> None:
        await keep_stream_open(
            self._listen_once,
            on_gap=self._on_stream_gap,
            least_delay_s=lambda: (self._retry_ms or 0) / 1000,
        )

    async def _ping_session(self) -> None:
        """Ping to check whether the session is lost; a GET without a stream does not show it."""
        with suppress(ConnectionFailure, JsonRpcError, ResponseTooLarge, TimeoutError):
            await self._ping()

    async def _ping(self) -> None:
        async with asyncio.timeout(_PING_S):
            await self.exchange("ping", None, self._endpoint.session_headers)

    def _on_stream_gap(self) -> None:
        self._on_list_changed()
        self._calls.on_updated(None)

    async def _listen_once(self, opened: Callable[[], None]) -> bool:
        """Read the stream of notifications once to its end.

        Returns False if the server lacks the stream, or the endpoint is lost.
        """
        parser = EventParser(MAX_MESSAGE_BYTES)
        try:
            async with await self._endpoint.get(self._last_event_id) as response:
                if not is_event_stream(response):
                    if self._had_stream and response.status == _NOT_FOUND:
                        await self._ping_session()
                        return not self.ended
                    return response.status not in _NO_STREAM
                opened()
                self._had_stream = True
                async with aclosing(read_events(response, parser)) as events:
                    async for event in events:
                        with suppress(ConnectionFailure, ResponseTooLarge):
                            message = await read_object(event.data, self._max_structure_bytes)
                            method = message.get("method") if "id" in message else None
                            relay = self._calls.sole_relay(method)
                            await self._out_of_band.receive(message, len(event.data), relay)
        except (ConnectionFailure, ResponseTooLarge):
            return not self.ended
        except HTTP_ERRORS as error:
            self._endpoint.fault(
                without_frames(error)
            )  # marks the endpoint as lost if it is unreachable
        finally:
            self._last_event_id = parser.last_event_id or self._last_event_id
            self._retry_ms = parser.retry_ms
        return not self.ended


_SEND_TIMEOUT_S = 5.0  # for a message without response, such as a cancellation


class OutOfBandChannel:
    """The server's messages other than responses; ``legacy`` includes requests."""

    def __init__(
        self, endpoint: HttpEndpoint, calls: InFlight, on_list_changed: OnListChanged
    ) -> None:
        self.legacy = False
        self._endpoint = endpoint
        self._calls = calls
        self._on_list_changed = on_list_changed
        self._tasks: anyio.abc.TaskGroup | None = None
        self._on_request: OnRequest | None = None
        self._intercept: OnNotifyIntercept | None = None

    def __repr__(self) -> str:
        return f"<OutOfBandChannel legacy={self.legacy}>"

    def open(
        self,
        tasks: anyio.abc.TaskGroup,
        on_request: OnRequest,
        on_notify_intercept: OnNotifyIntercept | None,
    ) -> None:
        """Start to answer the server's requests, in ``tasks``."""
        self._tasks = tasks
        self._on_request, self._intercept = on_request, on_notify_intercept

    async def receive(self, message: dict[str, Any], size: int, relay: Relay | None) -> None:
        """Dispatch a message of the server; it can concern the call of ``relay``."""
        method, params, request_id = (message.get(key) for key in ("method", "params", "id"))
        if not isinstance(method, str) or not (params is None or isinstance(params, dict)):
            return
        if request_id is None:
            self._on_notification(method, params or {}, size, relay)
        elif not self.legacy or self._on_request is None or not isinstance(request_id, int | str):
            return
        elif method not in CLIENT_REQUESTS:
            await self.send(await respond_to(self._on_request, request_id, method, params))
        elif self._tasks is not None:
            request = ClientRequest(request_id, method, params or {}, relay)
            self._calls.start_client_request(self._tasks, request, self.send)

    def _on_notification(
        self, method: str, params: dict[str, Any], size: int, relay: Relay | None
    ) -> None:
        if method in RELAYED_NOTIFICATIONS:
            self._calls.dispatch_notification(method, params, size, relay)
            return
        if method == CANCELLED:
            self._calls.cancel_client_request(params.get("requestId"), relay)
        is_consumed = run_notify_intercept(self._intercept, method, params)
        if not is_consumed and method in LIST_CHANGED:
            self._on_list_changed()

    async def send(self, message: Mapping[str, Any], delay_s: float = 0.0) -> None:
        """Send a message without a response, ignoring failures."""
        await asyncio.sleep(delay_s)
        with suppress(ConnectionFailure, TimeoutError):
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                message = {"jsonrpc": "2.0", **message}
                response = await self._endpoint.post(message, self._endpoint.session_headers)
                response.release()


@dataclass(frozen=True, slots=True)
class _RequestContext:
    request_id: int | str


async def respond_to(
    on_request: OnRequest, request_id: int | str, method: str, params: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Pass a request of the server to the SDK's session; return the response as a message."""
    context = cast("DispatchContext[TransportContext]", _RequestContext(request_id))
    try:
        return {"id": request_id, "result": await on_request(context, method, params)}
    except (MCPError, ValidationError) as error:
        data = handler_exception_to_error_data(error)
        return {"id": request_id, "error": data.model_dump(exclude_none=True) if data else {}}
