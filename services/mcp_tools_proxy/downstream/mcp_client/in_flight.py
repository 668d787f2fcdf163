"""The requests in flight on one connection, and the attribution of server messages to them."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.types import INVALID_REQUEST

from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.downstream.call_relay import LOG_MESSAGE, PROGRESS, ROOTS
from mcp_tools_proxy.downstream.connection import Relay, User

FIRST_ID = 1000
"""Separates the gateway's request ids from those of the SDK."""

MAX_ABANDONED = 10_000
"""Beyond it no message is attributed on this connection."""

MAX_CLIENT_REQUESTS = 1000
"""Further requests get no answer."""

LATE_MESSAGE_S = 10.0
"""How long after the answer to a call a server can send messages about it."""

CALL_METHODS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})

_UNKNOWN_USER: User = ("", "")
"""The user of a call without a relay. It blocks attribution to others."""

CANCELLED = "notifications/cancelled"
UPDATED = "notifications/resources/updated"
RELAYED_NOTIFICATIONS = frozenset({PROGRESS, LOG_MESSAGE, UPDATED})


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of the server to a call's client; ``relay`` requires a known call."""

    id: int | str
    method: str
    params: Mapping[str, Any]
    relay: Relay | None


@dataclass(frozen=True, slots=True)
class _Running:
    """A request in flight; requests of the gateway itself lack relay and user."""

    relay: Relay | None
    user: User | None

    @property
    def had_requests(self) -> bool:
        """Whether its client was asked while it ran: such a call asks nothing after its answer."""
        return self.relay is not None and self.relay.request_count > 0


SendResponse = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends the response to a client request: ``id``, and ``result`` or ``error``."""


class InFlight:
    """Requests in flight on one connection, and attribution of server messages to them.

    On a stream shared by all requests, a client request or log message does not identify its call.
    It is attributed to the only call in flight, and to none if another call is possible: a wrong
    guess would show one tenant's question to another. The gateway's own requests, such as lists, do
    not count.

    A server can send messages about a call after answering it, so a call of another user counts for
    LATE_MESSAGE_S longer. Nearly all servers send client requests before the answer. For client
    requests, two kinds of ended calls therefore do not count until the server has sent a request
    while no call ran: those of the same tenant, and those that asked their client while they ran.
    ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.on_updated: Callable[[str | None], None] = lambda _: None
        """Called with the URI of each changed resource, or None for any."""
        self._last_id = FIRST_ID - 1
        self._running: dict[int, _Running] = {}
        self._ended: dict[tuple[User, bool], float] = {}
        """When the last call of each user ended, earliest first; kept for LATE_MESSAGE_S.

        Calls that asked their clients and those that did not are separate.
        """
        self._requests_late = False
        """Whether the server sent a client request while no call ran."""
        self._has_answered = False
        """Whether a request ended on this connection, except the handshake."""
        self._by_token: dict[int, Relay] = {}
        self._abandoned: set[int] = set()
        self._can_attribute = True
        self._responding = 0
        self._client_requests: dict[tuple[Relay | None, int | str], anyio.CancelScope] = {}

    def __repr__(self) -> str:
        return (
            f"<InFlight running={len(self._running)} abandoned={len(self._abandoned)} "
            f"client_requests={len(self._client_requests)}>"
        )

    def begin(self, relay: Relay | None, method: str) -> int:
        """Record a request; return its id."""
        self._last_id += 1
        user = _UNKNOWN_USER if method in CALL_METHODS else None
        if relay is not None:
            user = relay.user
            self._by_token[relay.token] = relay
        self._running[self._last_id] = _Running(relay, user)
        return self._last_id

    def end(self, request_id: int) -> None:
        """Remove a finished request."""
        running = self._running.pop(request_id)
        if running.relay is not None:
            self._by_token.pop(running.relay.token, None)
        self._has_answered = True
        if running.user is not None:
            ended = (running.user, running.had_requests)
            self._ended.pop(ended, None)
            self._ended[ended] = self._clock()
            self._expire_users()

    def _expire_users(self) -> None:
        long_ago = self._clock() - LATE_MESSAGE_S
        while self._ended and next(iter(self._ended.values())) < long_ago:
            del self._ended[next(iter(self._ended))]

    def abandon(self, request_id: int) -> None:
        """Record that the caller stopped waiting; the server may still work on the request."""
        if len(self._abandoned) < MAX_ABANDONED:
            self._abandoned.add(request_id)
        else:
            self._can_attribute = False

    def mark_answered(self, request_id: object) -> None:
        """Record that the server answered a request, perhaps an abandoned one.

        Its progress ends here: later messages can be read before ``end`` is called.
        """
        if not isinstance(request_id, int):
            return
        self._abandoned.discard(request_id)
        running = self._running.get(request_id)
        if running is not None and running.relay is not None:
            self._by_token.pop(running.relay.token, None)

    def sole_relay(self, client_request: object = None) -> Relay | None:
        """Return the relay that a message on a shared stream belongs to; None if uncertain.

        ``client_request`` is the method of a client request; None for other messages.
        """
        of_callers = [it for it in self._running.values() if it.user is not None]
        if client_request not in (None, ROOTS) and not of_callers:
            self._requests_late = True
        if len(of_callers) != 1 or self._abandoned or not self._can_attribute:
            return None
        if client_request == ROOTS and not self._has_answered:
            return None  # asked for the session, not for the call that opened it
        (running,) = of_callers
        self._expire_users()
        is_in_time = client_request is not None and not self._requests_late
        counted = {
            user
            for user, had_requests in self._ended
            if not (is_in_time and (had_requests or _are_of_one_tenant(user, running.user)))
        }
        return running.relay if counted <= {running.user} else None

    def dispatch_notification(
        self, method: str, params: Mapping[str, Any], size: int, relay: Relay | None
    ) -> None:
        """Pass on a notification: progress by its token, a log message to ``relay``."""
        if method == UPDATED:
            if isinstance(uri := params.get("uri"), str):
                self.on_updated(uri)
            return
        if method == LOG_MESSAGE:
            if relay is not None:
                relay.on_log(params, size)
            return
        token = params.get("progressToken")
        requester = self._by_token.get(token) if isinstance(token, int) else None
        if requester is not None:
            requester.on_progress(params, size)

    def start_client_request(
        self, tasks: TaskGroup, request: ClientRequest, send: SendResponse
    ) -> None:
        """Start the task that answers a client request.

        Requests beyond MAX_CLIENT_REQUESTS get no answer: a server could exhaust the memory.
        """
        if self._responding < MAX_CLIENT_REQUESTS:
            self._responding += 1
            tasks.start_soon(self._respond, request, send)

    async def _respond(self, request: ClientRequest, send: SendResponse) -> None:
        try:
            response = await self._response_to(request)
            if response is not None:
                await send(response)
        finally:
            self._responding -= 1

    async def _response_to(self, request: ClientRequest) -> dict[str, Any] | None:
        request_id, relay = request.id, request.relay
        with anyio.CancelScope() as cancelled:
            self._client_requests[relay, request_id] = cancelled
            try:
                return {"id": request_id, "result": await _forward(request)}
            except ClientRequestFailed as failure:
                error = {"code": failure.code, "message": failure.message}
                without_frames(failure)
                return {"id": request_id, "error": error}
            finally:
                self._client_requests.pop((relay, request_id), None)
        return None

    def cancel_client_request(self, request_id: object, relay: Relay | None = None) -> None:
        """Cancel a client request that the server withdrew; with ``relay``, only that call's."""
        for (requester, own_id), scope in self._client_requests.items():
            if own_id == request_id and relay in (None, requester):
                scope.cancel()


def _are_of_one_tenant(one: User, other: User | None) -> bool:
    return other is not None and one[0] == other[0] and _UNKNOWN_USER not in (one, other)


async def _forward(request: ClientRequest) -> Mapping[str, object]:
    if request.relay is None:
        raise ClientRequestFailed(
            INVALID_REQUEST,
            "the client cannot be asked: the question does not belong to exactly one call whose "
            "caller accepts questions",
        )
    return await request.relay.on_request(request.method, request.params)
