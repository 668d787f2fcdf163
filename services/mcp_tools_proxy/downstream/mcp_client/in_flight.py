"""The requests that run on one link, and which of them the server's own words concern."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.types import INVALID_REQUEST

from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.downstream.relay.call_relay import LOG_MESSAGE, PROGRESS, CallRelay

FIRST_ID = 1000
"""Apart from the ids that the SDK gives to what it asks itself."""

MAX_ABANDONED = 10_000
"""Of more requests without an answer no count is kept."""

MAX_CLIENT_REQUESTS = 1000
"""Questions on their way to an answer on one link; more get none."""

LATE_S = 10.0
"""How long after its answer a server may still speak of a call."""

CALL_METHODS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
"""The requests that somebody's call makes; the others are our own."""

_ANONYMOUS_OWNER = object()
"""Whose a call is of which nobody hears."""

CANCELLED = "notifications/cancelled"
UPDATED = "notifications/resources/updated"
RELAYED_NOTIFICATIONS = frozenset({PROGRESS, LOG_MESSAGE, UPDATED})
"""The notifications that concern somebody in particular."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of the server's, to the client of ``relay``; None is nobody that is known."""

    id: int | str
    method: str
    params: Mapping[str, Any]
    relay: CallRelay | None


@dataclass(frozen=True, slots=True)
class _Running:
    """A request: the client that hears of it, and whose call it is; None is nobody's."""

    relay: CallRelay | None
    owner: object


SendResponse = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends the answer to a question: ``id``, and ``result`` or ``error``."""


class InFlight:
    """Who waits for what on one link.

    On a stream that all requests share, nothing says which of them a question or a log line belongs
    to. It is taken for the only one there is, and for nobody's when there may be another: a wrong
    guess would show one tenant's question to another tenant. A server may speak of a call that it
    has answered, so a call of another user counts for LATE_S longer. ``clock`` gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.on_updated: Callable[[str | None], None] = lambda _: None
        """Told of each resource that the server says changed; None is that any may have."""
        self._last_id = FIRST_ID - 1
        self._running: dict[int, _Running] = {}
        self._ended: dict[object, float] = {}
        """When the last call of each user ended, the first one first, for LATE_S."""
        self._by_token: dict[int, CallRelay] = {}
        self._abandoned: set[int] = set()
        self._is_counting = True
        self._responding = 0
        self._client_requests: dict[tuple[CallRelay | None, int | str], anyio.CancelScope] = {}

    def __repr__(self) -> str:
        return (
            f"<InFlight running={len(self._running)} abandoned={len(self._abandoned)} "
            f"client_requests={len(self._client_requests)}>"
        )

    def begin(self, relay: CallRelay | None, method: str) -> int:
        """Take note of a request, and give it an id."""
        self._last_id += 1
        owner: object = _ANONYMOUS_OWNER if method in CALL_METHODS else None
        if relay is not None:
            owner = relay.owner
            self._by_token[relay.token] = relay
        self._running[self._last_id] = _Running(relay, owner)
        return self._last_id

    def end(self, request_id: int) -> None:
        """The request is over."""
        running = self._running.pop(request_id)
        if running.relay is not None:
            self._by_token.pop(running.relay.token, None)
        if running.owner is not None:
            self._ended.pop(running.owner, None)
            self._ended[running.owner] = self._clock()
            self._forget()

    def _forget(self) -> None:
        """Forget the calls that the server has no more to say of."""
        long_ago = self._clock() - LATE_S
        while self._ended and next(iter(self._ended.values())) < long_ago:
            del self._ended[next(iter(self._ended))]

    def abandon(self, request_id: int) -> None:
        """Nobody waits for the request any more, but the server may work on it still."""
        if len(self._abandoned) < MAX_ABANDONED:
            self._abandoned.add(request_id)
        else:
            self._is_counting = False

    def mark_answered(self, request_id: object) -> None:
        """The server answered a request, which perhaps nobody waited for any more."""
        if self._abandoned and isinstance(request_id, int):
            self._abandoned.discard(request_id)

    def sole_relay(self) -> CallRelay | None:
        """Give whom a word concerns that came on a shared stream; None when nobody can tell."""
        if len(self._running) != 1 or self._abandoned or not self._is_counting:
            return None
        (running,) = self._running.values()
        self._forget()
        return running.relay if self._ended.keys() <= {running.owner} else None

    def dispatch_notification(
        self, method: str, params: Mapping[str, Any], size: int, relay: CallRelay | None
    ) -> None:
        """Pass on one of RELAYED: progress to whose token it has, a log line to ``relay``."""
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
        """Put a question of the server's, in a task, and ``answer`` it unless it is withdrawn.

        Of more than MAX_CLIENT_REQUESTS at once the others get no answer.
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
        """Give the answer as a message, None once the question is withdrawn."""
        request_id, relay = request.id, request.relay
        with anyio.CancelScope() as cancelled:
            self._client_requests[relay, request_id] = cancelled
            try:
                return {"id": request_id, "result": await _forward(request)}
            except ClientRequestFailed as failure:
                error = {"code": failure.code, "message": failure.message}
                return {"id": request_id, "error": error}
            finally:
                self._client_requests.pop((relay, request_id), None)
        return None

    def cancel_client_request(self, request_id: object, relay: CallRelay | None = None) -> None:
        """The server wants no answer to its question any more, to that of one call if given."""
        for (requester, own_id), scope in self._client_requests.items():
            if own_id == request_id and relay in (None, requester):
                scope.cancel()


async def _forward(request: ClientRequest) -> Mapping[str, object]:
    if request.relay is None:
        raise ClientRequestFailed(
            INVALID_REQUEST,
            "nobody can be asked: the question belongs to no call, to one of several, "
            "or to one whose caller takes no questions",
        )
    return await request.relay.on_request(request.method, request.params)
