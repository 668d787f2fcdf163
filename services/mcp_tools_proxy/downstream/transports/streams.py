"""Duplex transports (stdio, SSE, WebSocket) under the SDK's dispatcher."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any, Protocol, Self

import anyio
import anyio.abc
import structlog
from mcp.shared.dispatcher import (
    DispatchContext,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp.types import JSONRPCRequest
from pydantic_core import PydanticSerializationError

from mcp_tools_proxy.domain.server import Transport
from mcp_tools_proxy.downstream.link import LinkFault, OnListChanged
from mcp_tools_proxy.downstream.transports.failures import as_mcp_error, from_mcp_error
from mcp_tools_proxy.downstream.transports.messages import LIST_CHANGED, to_session_message

log = structlog.get_logger()

_MESSAGES_AT_ONCE = 20  # then calls may go on
_ASIDE_S = 0.2  # for what is no request: a server that does not read must not hold up callers


class Duplex(Protocol):
    """An open connection that carries messages both ways."""

    def receive(self) -> AsyncGenerator[tuple[bytes, bool], None]:
        """Yield messages as bytes, with whether only the beginning was kept; end with the peer.

        Raises nothing but cancellation.
        """
        ...

    async def send(self, data: bytes, *, is_request: bool) -> None:
        """Send one message, without line end. Raises LinkFault, anyio.BrokenResourceError.

        What is no request is sent after the requests before it.
        """
        ...

    async def why(self) -> str:
        """Say why ``receive`` ended."""
        ...


class StreamWire(JSONRPCDispatcher[TransportContext]):
    """Requests to one server over a duplex connection; the link is lost when that ends."""

    def __init__(
        self,
        duplex: Duplex,
        *,
        server_id: str,
        transport: Transport,
        on_list_changed: OnListChanged,
    ) -> None:
        self._ended = asyncio.Event()
        super().__init__(_Incoming(duplex, server_id, self._ended), _Outgoing(duplex))
        self.transport = transport
        self._duplex = duplex
        self._list_changed = on_list_changed

    @property
    def ended(self) -> bool:
        """Whether the link is lost."""
        return self._ended.is_set()

    async def down(self) -> str:
        """Wait until the link is lost, and say why."""
        await self._ended.wait()
        return await self._duplex.why()

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Receive until the connection ends."""

        async def hear(
            _context: DispatchContext[TransportContext],
            method: str,
            _params: Mapping[str, Any] | None,
        ) -> None:
            if method in LIST_CHANGED:
                self._list_changed()

        await super().run(on_request, hear, on_notify_intercept, task_status=task_status)

    async def exchange(
        self, method: str, params: Mapping[str, Any] | None, _headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """Send one request and give its result. Raises PeerError, LinkFault, AnswerTooLarge."""
        try:
            return await self.send_raw_request(method, params)
        except MCPError as error:
            raise from_mcp_error(error) from None
        except PydanticSerializationError:
            raise LinkFault("the request has text that is not Unicode") from None


class _Incoming(anyio.abc.AsyncResource):
    """What the server sends, as the SDK's stream of messages; garbage is left out."""

    def __init__(self, duplex: Duplex, server_id: str, ended: asyncio.Event) -> None:
        self._messages = duplex.receive()
        self._server_id = server_id
        self._ended = ended
        self._had_garbage = False
        self._count = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        async for data, cut in self._messages:
            self._count += 1
            if self._count % _MESSAGES_AT_ONCE == 0:
                await asyncio.sleep(0)  # a flood must not hold up other servers' calls
            try:
                message = to_session_message(data, cut=cut)
            except LinkFault:
                self._note_garbage(len(data))
                continue
            if message is not None:
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

    def _note_garbage(self, size: int) -> None:
        if not self._had_garbage:
            self._had_garbage = True
            log.warning("server.garbage", server_id=self._server_id, first_bytes=size)


class _Outgoing(anyio.abc.AsyncResource):
    """What is sent to the server, as the SDK's stream of messages."""

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if not isinstance(message, JSONRPCRequest):
            with anyio.move_on_after(_ASIDE_S), suppress(LinkFault):  # nobody waits for it
                await self._duplex.send(data, is_request=False)
            return
        try:
            await self._duplex.send(data, is_request=True)
        except LinkFault as fault:
            raise as_mcp_error(fault) from None

    async def aclose(self) -> None:
        """Do nothing: who opened the connection closes it."""
