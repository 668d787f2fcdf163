"""The SDK's dispatcher over duplex transports: stdio, HTTP+SSE, WebSocket."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, Self

import anyio
import anyio.abc
import structlog
from mcp.shared.dispatcher import (
    CallOptions,
    DispatchContext,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic_core import PydanticSerializationError, to_json

from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.call_relay import CLIENT_REQUESTS
from mcp_tools_proxy.downstream.connection import (
    ConnectionFailure,
    OnListChanged,
    Relay,
    ServerOutput,
)
from mcp_tools_proxy.downstream.mcp_client.error_mapping import (
    CONNECTION_LOST,
    as_mcp_error,
    from_mcp_error,
)
from mcp_tools_proxy.downstream.mcp_client.in_flight import (
    CANCELLED,
    RELAYED_NOTIFICATIONS,
    ClientRequest,
    InFlight,
)
from mcp_tools_proxy.downstream.mcp_client.messages import (
    LIST_CHANGED,
    structure_limit,
    to_session_message,
)
from mcp_tools_proxy.wire.mcp_protocol import is_transport_header

log = structlog.get_logger()

_MESSAGES_AT_ONCE = 20  # then other tasks can run
_BEST_EFFORT_S = 0.2  # for messages without response: a server that does not read delays no caller


class DuplexTransport(Protocol):
    """An open connection that carries messages both ways."""

    def receive(self) -> AsyncGenerator[tuple[bytes, bool], None]:
        """Yield each message as bytes, and whether it was cut; end when the peer does.

        Raises nothing but cancellation.
        """
        ...

    async def send(
        self, data: bytes, *, is_request: bool, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send one message, without line end. Raises ConnectionFailure, anyio.BrokenResourceError.

        A notification or response is sent after earlier requests. ``headers`` are for transports
        with headers in each message.
        """
        ...

    async def end_reason(self) -> str:
        """Return why ``receive`` ended."""
        ...


class DuplexDispatcher(JSONRPCDispatcher[TransportContext]):
    """Dispatcher over a duplex transport to one server; its end loses the connection."""

    def __init__(
        self,
        duplex: DuplexTransport,
        *,
        config: ServerConfig,
        transport: Transport,
        on_list_changed: OnListChanged,
        output: ServerOutput | None = None,
    ) -> None:
        self._ended = asyncio.Event()
        self._outgoing = _Outgoing(duplex)
        incoming = _Incoming(duplex, config, self._ended, self._intercept, output or ServerOutput())
        super().__init__(incoming, self._outgoing)
        self.transport = transport
        self._duplex = duplex
        self._list_changed = on_list_changed
        self._calls = InFlight()
        self._request_tasks: anyio.abc.TaskGroup | None = None

    @property
    def ended(self) -> bool:
        """Whether the connection is lost."""
        return self._ended.is_set()

    async def wait_lost(self) -> str:
        """Wait until the connection is lost; return the reason."""
        await self._ended.wait()
        return await self._duplex.end_reason()

    def set_update_listener(self, listener: Callable[[str | None], None]) -> None:
        """Call ``listener`` with the URI of each resource that the server reports as changed."""
        self._calls.on_updated = listener

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Receive until the transport ends."""

        async def on_notification(
            _context: DispatchContext[TransportContext],
            method: str,
            _params: Mapping[str, Any] | None,
        ) -> None:
            if method in LIST_CHANGED:
                self._list_changed()

        async with anyio.create_task_group() as self._request_tasks:
            await super().run(
                on_request, on_notification, on_notify_intercept, task_status=task_status
            )
            self._request_tasks.cancel_scope.cancel()

    async def exchange(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        relay: Relay | None,
    ) -> dict[str, Any]:
        """Send one request and return its result.

        Raises JsonRpcError, ConnectionFailure, ResponseTooLarge.
        """
        if self.ended:
            raise ConnectionFailure(CONNECTION_LOST, sent=False)
        request_id = self._calls.begin(relay, method)
        options: CallOptions = {"request_id": request_id}
        if self.transport is Transport.SSE and len(headers) > 1:  # more than the version's
            options["headers"] = {n: it for n, it in headers.items() if not is_transport_header(n)}
        try:
            return await self.send_raw_request(method, params, options)
        except MCPError as error:
            raise from_mcp_error(error) from None
        except PydanticSerializationError:
            raise ConnectionFailure("the request has text that is not valid Unicode") from None
        except asyncio.CancelledError:
            self._calls.abandon(request_id)
            raise
        finally:
            self._calls.end(request_id)

    def _intercept(self, message: JSONRPCMessage, size: int) -> bool:
        """Dispatch a message that concerns a call; return whether to hide it from the SDK.

        It runs at reception, not in a task, to keep the order of notifications.
        """
        match message:
            case JSONRPCResponse() | JSONRPCError():
                self._calls.mark_answered(message.id)
            case JSONRPCNotification() if message.method in RELAYED_NOTIFICATIONS:
                relay = self._calls.sole_relay()
                self._calls.dispatch_notification(message.method, message.params or {}, size, relay)
                return True
            case JSONRPCNotification() if message.method == CANCELLED:
                self._calls.cancel_client_request((message.params or {}).get("requestId"))
            case JSONRPCRequest() if message.method in CLIENT_REQUESTS:
                if self._request_tasks is not None:
                    relay = self._calls.sole_relay(message.method)
                    request = ClientRequest(message.id, message.method, message.params or {}, relay)
                    self._calls.start_client_request(self._request_tasks, request, self._respond)
                return True
        return False

    async def _respond(self, response: dict[str, Any]) -> None:
        with suppress(anyio.BrokenResourceError):
            await self._outgoing.send_best_effort(to_json({"jsonrpc": "2.0", **response}))


class _Incoming(anyio.abc.AsyncResource):
    def __init__(
        self,
        duplex: DuplexTransport,
        config: ServerConfig,
        ended: asyncio.Event,
        intercept: Callable[[JSONRPCMessage, int], bool],
        output: ServerOutput,
    ) -> None:
        self._messages = duplex.receive()
        self._intercept = intercept
        self._server_id = config.server_id
        self._max_structure_bytes = structure_limit(config)
        self._ended = ended
        self._output = output
        self._had_garbage = False
        self._had_message = False
        self._count = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        async for data, cut in self._messages:
            self._count += 1
            if self._count % _MESSAGES_AT_ONCE == 0:
                await asyncio.sleep(0)  # a flood must not delay the calls of other servers
            try:
                message = await to_session_message(data, self._max_structure_bytes, cut=cut)
            except ConnectionFailure as fault:
                without_frames(fault)
                self._log_garbage(len(data))
                continue
            if not self._had_message:
                self._had_message = True
                self._output.is_garbled = False
            if message is not None and not self._intercept(message.message, len(data)):
                return message
        self._ended.set()
        raise StopAsyncIteration

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        await self._messages.aclose()

    def _log_garbage(self, size: int) -> None:
        if not self._had_garbage:
            self._had_garbage = True
            self._output.is_garbled = not self._had_message
            log.warning("server.garbage", server_id=self._server_id, first_bytes=size)


class _Outgoing(anyio.abc.AsyncResource):
    def __init__(self, duplex: DuplexTransport) -> None:
        self._duplex = duplex

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if not isinstance(message, JSONRPCRequest):
            await self.send_best_effort(data)
            return
        more = item.metadata.headers if isinstance(item.metadata, ClientMessageMetadata) else None
        try:
            await self._duplex.send(data, is_request=True, headers=more)
        except ConnectionFailure as fault:
            raise as_mcp_error(fault) from None

    async def send_best_effort(self, data: bytes) -> None:
        with anyio.move_on_after(_BEST_EFFORT_S), suppress(ConnectionFailure):
            await self._duplex.send(data, is_request=False)

    async def aclose(self) -> None:
        """Do nothing: the code that opened the transport closes it."""
