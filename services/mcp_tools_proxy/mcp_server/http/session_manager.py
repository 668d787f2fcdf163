"""The sessions of the older eras over HTTP, as the SDK keeps them."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.mcp_server.http.authentication import tenant_of


@dataclass(frozen=True, slots=True)
class IdleSession:
    """A session that is open and unused; ``ends_at`` is when it ends by itself."""

    tenant_id: str
    ends_at: float
    end: Callable[[], Awaitable[None]]


def select_session_to_evict(
    unused: Sequence[IdleSession], tenants: Counter[str], newcomer: str
) -> IdleSession | None:
    """Choose the session that ends for one more of the tenant ``newcomer``; None when none may.

    ``tenants`` counts all sessions, used ones too. A tenant takes from those who have more, and
    else from itself: whoever begins many ends its own. The one unused longest goes first.
    """
    own = tenants[newcomer]
    found = [one for one in unused if one.tenant_id == newcomer or tenants[one.tenant_id] > own]
    return max(found, key=lambda one: (tenants[one.tenant_id], -one.ends_at), default=None)


SETTLE_S = 0.1
"""How long a request waits for its id: a client may read an answer before its sender is done."""


class InFlightIds:
    """The ids in use, by session."""

    def __init__(self) -> None:
        self._ids: dict[tuple[bytes, str], asyncio.Event] = {}
        """Each with what is set when it is free again."""

    @asynccontextmanager
    async def reserve(self, session_id: bytes | None, content: object) -> AsyncIterator[None]:
        """Have a request's id in use meanwhile. Raises InvalidRequest, also for what is no message.

        ``session_id`` is None for the request that begins a session.
        """
        message = message_of(content)
        if session_id is None or not isinstance(message, JSONRPCRequest):
            yield
            return
        key = (session_id, str(message.id))  # as the SDK spells it
        if key in self._ids:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self._ids[key].wait()
        if key in self._ids:
            raise InvalidRequest("a request with this id is not answered yet; take another id")
        self._ids[key] = asyncio.Event()
        try:
            yield
        finally:
            self._ids.pop(key).set()


def message_of(content: object) -> JSONRPCMessage:
    """Take parsed JSON as one message of JSON-RPC. Raises InvalidRequest."""
    try:
        message = jsonrpc_message_adapter.validate_python(content, by_name=False)
    except ValidationError:
        raise InvalidRequest("this should be one message of JSON-RPC 2.0") from None
    if isinstance(message, JSONRPCNotification) and isinstance(content, dict) and "id" in content:
        raise InvalidRequest("the id of a request should be a text or a whole number")
    return message


class HttpSessions(StreamableHTTPSessionManager):
    """The SDK's manager, which also tells which sessions there are, and ends unused ones.

    It leans on what the SDK keeps for itself: look here first when another ``mcp`` is pinned.
    """

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._server_instances

    def __len__(self) -> int:
        return len(self._server_instances)

    async def handle_buffered(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body was read already: the manager would read it once more."""
        await self._handle_request(scope, receive, send)

    @property
    def tenants(self) -> Counter[str]:
        """How many sessions each tenant has."""
        return Counter(map(self._tenant_of, self._server_instances))

    @property
    def unused(self) -> Sequence[IdleSession]:
        """The sessions that no request and no stream uses now."""
        return [
            IdleSession(
                self._tenant_of(id_), scope.deadline, partial(self._discard_session, id_, one)
            )
            for id_, one in self._server_instances.items()
            if (scope := one.idle_scope) is not None and scope.deadline != math.inf
        ]

    def _tenant_of(self, session_id: str) -> str:
        owner = self._session_owners.get(session_id)
        return "" if owner is None else tenant_of(owner["client_id"])


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already to who reads it next."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def send_204_instead_of_200(send: Send) -> Send:
    """Answer 204 instead of 200: a session that was ended has nothing to say (F-05)."""
    ended = False

    async def sending(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start" and message["status"] == 200:
            ended = True
            kept = [(k, v) for k, v in message["headers"] if not k.startswith(b"content-")]
            message = {**message, "status": 204, "headers": kept}
        elif ended:
            message = {**message, "body": b""}
        await send(message)

    return sending
