"""The sessions of the older eras over HTTP: the SDK's manager, and request ids in use."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial

from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.streamable_http import StreamableHTTPServerTransport
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
from mcp_tools_proxy.policy.session_eviction import IdleSession

SETTLE_S = 0.1
"""Seconds that a request waits for its id to be free: a client may read a response, and reuse the
id, before our own task has finished sending."""


class InFlightIds:
    """The ids of requests in flight, by session: the SDK mixes up two requests with one id."""

    def __init__(self) -> None:
        self._ids: dict[tuple[bytes, str], asyncio.Event] = {}
        """Ids with their sessions, each with an event that is set when the id is free again."""

    @asynccontextmanager
    async def reserve(self, session_id: bytes | None, content: object) -> AsyncIterator[None]:
        """Reserve a request's id while open. Raises InvalidRequest, also for invalid JSON-RPC.

        ``session_id`` is None for the request that opens a session.
        """
        message = parse_message(content)
        if session_id is None or not isinstance(message, JSONRPCRequest):
            yield
            return
        key = (session_id, str(message.id))  # the SDK's key: 1 and "1" are one id
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


def parse_message(content: object) -> JSONRPCMessage:
    """Parse JSON as one JSON-RPC message. Raises InvalidRequest."""
    try:
        message = jsonrpc_message_adapter.validate_python(content, by_name=False)
    except ValidationError:
        raise InvalidRequest("this should be one message of JSON-RPC 2.0") from None
    if isinstance(message, JSONRPCNotification) and isinstance(content, dict) and "id" in content:
        raise InvalidRequest("the id of a request should be a text or a whole number")
    return message


_release_reservation: ContextVar[Callable[[], None]] = ContextVar(
    "release_reservation", default=lambda: None
)
"""Ends the reservation of the session that is being opened in this context."""


class SessionReservations:
    """Sessions that are being opened: each counts for its tenant until the manager counts it.

    The manager waits for a lock before it admits a session, so openings that arrive together would
    all find the same session to spare: 100 of them made 139 sessions of at most 40.
    """

    def __init__(self) -> None:
        self.tenants = Counter[str]()
        """Number of reservations of each tenant."""

    @contextmanager
    def reserve(self, tenant_id: str) -> Iterator[None]:
        """Reserve a session until HttpSessions admits one in this context, or until closed."""
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self.tenants[tenant_id] -= 1

        self.tenants[tenant_id] += 1
        token = _release_reservation.set(release)
        try:
            yield
        finally:
            _release_reservation.reset(token)
            release()
            self.tenants += Counter()  # drops tenants without a reservation


class HttpSessions(StreamableHTTPSessionManager):
    """The SDK's manager, with counts of sessions and the means to end idle ones.

    It uses private attributes of the SDK: check this class first when another ``mcp`` is pinned.
    """

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._server_instances

    def __len__(self) -> int:
        return len(self._server_instances)

    async def handle_buffered(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body was read and checked: the manager would read it again."""
        await self._handle_request(scope, receive, send)

    @property
    def tenants(self) -> Counter[str]:
        """Number of sessions of each tenant."""
        return Counter(map(self._tenant_of, self._server_instances))

    @property
    def idle(self) -> Sequence[IdleSession[Callable[[], Awaitable[None]]]]:
        """The sessions that no request and no stream uses now, each as a function that ends it."""
        return [
            IdleSession(
                partial(self._discard_session, id_, one), self._tenant_of(id_), scope.deadline
            )
            for id_, one in self._server_instances.items()
            if (scope := one.idle_scope) is not None and scope.deadline != math.inf
        ]

    def _admit_session(
        self, owner: AuthorizationContext | None
    ) -> StreamableHTTPServerTransport | None:
        """Register a session, which counts from now on in place of its reservation."""
        transport = super()._admit_session(owner)
        _release_reservation.get()()
        return transport

    def _tenant_of(self, session_id: str) -> str:
        owner = self._session_owners.get(session_id)
        return "" if owner is None else tenant_of(owner["client_id"])


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that yields a body that was read already, then what follows it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def send_204_instead_of_200(send: Send) -> Send:
    """Return a ``send`` with status 204 for 200: a deleted session has no content (F-05)."""
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
