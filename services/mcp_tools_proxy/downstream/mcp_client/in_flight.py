"""The requests in flight on one connection, and which of them a message of the server concerns."""

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
"""Keeps our request ids apart from those of the requests that the SDK sends itself."""

MAX_ABANDONED = 10_000
"""Upper bound of abandoned ids. Beyond it no message is attributed on this connection."""

MAX_CLIENT_REQUESTS = 1000
"""Upper bound of client requests open on one connection; more get no answer."""

LATE_MESSAGE_S = 10.0
"""How long after its answer to a call a server may still send messages about that call."""

CALL_METHODS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
"""The requests that callers make; all others are the gateway's own."""

_UNKNOWN_USER: User = ("", "")
"""The user of a call without a relay. It blocks attribution to others."""

CANCELLED = "notifications/cancelled"
UPDATED = "notifications/resources/updated"
RELAYED_NOTIFICATIONS = frozenset({PROGRESS, LOG_MESSAGE, UPDATED})
"""The notifications that belong to one call or one subscribed resource."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of the server to a call's client; ``relay`` is None when the call is not known."""

    id: int | str
    method: str
    params: Mapping[str, Any]
    relay: Relay | None


@dataclass(frozen=True, slots=True)
class _Running:
    """A request in flight. Relay and user are None for requests of the gateway itself."""

    relay: Relay | None
    user: User | None

    @property
    def had_requests(self) -> bool:
        """Whether its client was asked while it ran: such a call asks nothing after its answer."""
        return self.relay is not None and self.relay.request_count > 0


SendResponse = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends the response to a client request: ``id``, and ``result`` or ``error``."""


class InFlight:
    """Attributes messages of the server to the requests in flight on one connection.

    On a stream shared by all requests nothing tells to which of them a client request or a log
    message belongs. It is attributed to the only call in flight, and to none if there may be
    another: a wrong guess would show one tenant's question to another tenant. Requests of the
    gateway itself, such as lists, hold nothing of a tenant and do not count.

    A server may send messages about a call that it has answered already, so a call of another user
    counts for LATE_MESSAGE_S longer. Client requests come before the answer at nearly every server:
    for them a call of the same tenant does not count longer, and neither does one that asked its
    client while it ran, unless the server has sent a request while no call ran. ``clock`` returns
    seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.on_updated: Callable[[str | None], None] = lambda _: None
        """Called with the URI of each resource that changed; with None when any may have."""
        self._last_id = FIRST_ID - 1
        self._running: dict[int, _Running] = {}
        self._ended: dict[tuple[User, bool], float] = {}
        """When the last call of each user ended, the earliest first; kept for LATE_MESSAGE_S.

        The calls that asked their clients and those that did not are kept apart."""
        self._requests_late = False
        """Whether the server sent a client request while no call ran."""
        self._has_answered = False
        """Whether a request ended on this connection; the handshake does not count."""
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
        """Remove a request that is over."""
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
        """Remove the users whose last call ended more than LATE_MESSAGE_S ago."""
        long_ago = self._clock() - LATE_MESSAGE_S
        while self._ended and next(iter(self._ended.values())) < long_ago:
            del self._ended[next(iter(self._ended))]

    def abandon(self, request_id: int) -> None:
        """Record that the answer is awaited no more, although the server may still work on it."""
        if len(self._abandoned) < MAX_ABANDONED:
            self._abandoned.add(request_id)
        else:
            self._can_attribute = False

    def mark_answered(self, request_id: object) -> None:
        """Record that the server answered a request, perhaps an abandoned one.

        Its progress ends here: what is read after the answer may come before ``end`` is called.
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

        Requests beyond MAX_CLIENT_REQUESTS at once get no answer: a server could fill our memory.
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
        """Return the response as a message; None once the request is cancelled."""
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
