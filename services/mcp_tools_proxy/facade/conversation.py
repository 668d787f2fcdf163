"""The facade over whatever carries messages of its own: one session, its messages parsed JSON."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from mcp_tools_proxy.domain.client import NoRoom
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.facade.answers import Json, protocol_error
from mcp_tools_proxy.facade.ids_in_use import message_of
from mcp_tools_proxy.facade.server import FacadeServer
from mcp_tools_proxy.web.trace import new_trace_id

LISTEN = "subscriptions/listen"

MAX_OPEN_REQUESTS = 64
"""Requests of one session that are not answered yet; one more is refused."""

MAX_UNHEARD = 256
"""Messages of one session that were not looked at yet."""

Send = Callable[[Json], Awaitable[None]]
"""Sends one message to the client; it may wait while too much is on its way."""


class Conversation:
    """One session, of either era: ``hear`` takes what the client says, ``send`` what it is told.

    Messages are heard in order; requests are answered as they are done, at most
    ``MAX_OPEN_REQUESTS`` at once.
    """

    def __init__(self, server: FacadeServer, send: Send) -> None:
        self._server = server
        self._send = send
        self._open: dict[str, str] = {}
        """The methods of the requests that wait for their answer, by id."""
        self._unheard, self._messages = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](MAX_UNHEARD)
        self._answered = asyncio.Event()
        self._answered.set()
        self._way_out = _WayOut(self._tell)
        self._running = anyio.CancelScope()

    def __repr__(self) -> str:
        return f"<Conversation {len(self._open)} open requests>"

    @property
    def open_requests(self) -> int:
        """Requests that are not answered yet, streams of changes included."""
        return len(self._open)

    @property
    def in_use(self) -> bool:
        """Whether a request other than for a stream of changes waits for its answer."""
        return any(method != LISTEN for method in self._open.values())

    async def answered(self) -> None:
        """Wait until no request waits for its answer; one that was cancelled gets none."""
        await self._answered.wait()

    async def run(self) -> None:
        """Serve until closed."""
        try:
            with self._running:
                await self._server.run(self._messages, self._way_out, self._server.options)
        finally:
            self.close()

    def close(self) -> None:
        """End here and now: what was asked and is not answered never is."""
        self._way_out.closed = True
        self._unheard.close()
        self._messages.close()
        self._running.cancel()
        self._open.clear()
        self._answered.set()

    async def hear(self, content: object) -> None:
        """Take one message of the client.

        A request that cannot be taken is answered with a JSON-RPC error. Raises InvalidRequest for
        what is left without an answer: what is no message, or has the id of an open request, whose
        answer it would seem to be.
        """
        id_ = _id_of(content)
        if id_ is not None and str(id_) in self._open:
            raise InvalidRequest("a request with this id is not answered yet")
        try:
            self._take(message_of(content))
        except ProxyError as error:
            if id_ is None:
                raise
            await self._refuse(id_, error)

    def _take(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest) and len(self._open) >= MAX_OPEN_REQUESTS:
            raise NoRoom(f"{MAX_OPEN_REQUESTS} requests are open; wait for an answer")
        try:
            self._unheard.send_nowait(SessionMessage(message))
        except anyio.WouldBlock:
            raise NoRoom(f"{MAX_UNHEARD} messages wait to be looked at; send fewer") from None
        match message:
            case JSONRPCRequest(id=id_, method=method):
                self._open[str(id_)] = method
                self._answered.clear()
            case JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": int() | str() as id_}
            ):
                self._close(id_)

    async def _refuse(self, id_: RequestId, error: ProxyError) -> None:
        trace_id = new_trace_id()
        told = protocol_error(error, trace_id, modern=True).error
        if isinstance(error, InvalidRequest):
            told.code = INVALID_REQUEST
        await self._tell(SessionMessage(JSONRPCError(jsonrpc="2.0", id=id_, error=told)))

    async def _tell(self, item: SessionMessage) -> None:
        message = item.message
        await self._send(_as_json(message))
        match message:
            case JSONRPCResponse(id=id_) | JSONRPCError(id=int() | str() as id_):
                self._close(id_)

    def _close(self, id_: RequestId) -> None:
        self._open.pop(str(id_), None)
        if not self._open:
            self._answered.set()


class Conversations:
    """Conversations with one server, and what all of them need while they last."""

    def __init__(self, server: FacadeServer) -> None:
        self._server = server

    def begin(self, send: Send) -> Conversation:
        """Begin one whose messages to the client go to ``send``."""
        return Conversation(self._server, send)

    def end_streams(self) -> None:
        """End every stream of changes in the protocol's own way."""
        self._server.listening.close()

    async def run(self) -> None:
        """Tell clients of changes of what they see, until cancelled."""
        await self._server.tell_changes()


class _WayOut:
    """The SDK's way to the client; once it is closed, nothing gets there any more."""

    def __init__(self, tell: Callable[[SessionMessage], Awaitable[None]]) -> None:
        self._tell = tell
        self.closed = False

    async def send(self, item: SessionMessage, /) -> None:
        if self.closed:
            raise anyio.ClosedResourceError
        await self._tell(item)

    async def aclose(self) -> None:
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def _as_json(message: JSONRPCMessage) -> Json:
    """Give a message as it is on the wire; a result is JSON already."""
    if isinstance(message, JSONRPCResponse):
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    return message.model_dump(by_alias=True, mode="json", exclude_unset=True)


def _id_of(content: object) -> RequestId | None:
    """Give the id of what may be meant as a request, None when nobody waits for an answer."""
    match content:
        case {"id": bool()}:
            return None
        case {"id": int() | str() as id_, "method": _}:
            return id_
    return None
