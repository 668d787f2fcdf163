"""What the client of one call hears of it, and is asked, while the server works on it."""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import anyio
import structlog
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
)

from mcp_tools_proxy.aiokits.exception_groups import first_cause
from mcp_tools_proxy.aiokits.pausable_timeout import PausableTimeout
from mcp_tools_proxy.domain.client import Client, ClientRequestFailed
from mcp_tools_proxy.downstream.components.content import encodable
from mcp_tools_proxy.downstream.relay.client_request_rules import (
    relay_capabilities,
    unsupported_reason,
)

PROGRESS = "notifications/progress"
LOG_MESSAGE = "notifications/message"

MAX_PENDING_NOTIFICATIONS = 64
"""Notes that wait for a client; of more, the latest progress counts, and log lines are dropped."""

MAX_NOTIFICATION_BYTES = 64 * 1024
"""What a note may have as JSON; a larger one is dropped."""

MAX_OPEN_CLIENT_REQUESTS = 8
MAX_CLIENT_REQUESTS_PER_CALL = 100
"""How many questions one call may ask at once, and in all."""

MAX_CLIENT_WAIT_S = 600.0
"""How long a call may wait for its client's answers in all, from the first question on."""

FLUSH_GRACE_S = 1.0
"""How long a result waits for the notes before it to reach the client."""

_tokens = itertools.count(1)

log = structlog.get_logger()


class CallRelay:
    """The client of one call, as the links see it; ``owner`` is the user that the call is for.

    Notes are handed on in order, by a task of ``tasks`` while there are any.
    """

    def __init__(self, client: Client, owner: object, tasks: asyncio.TaskGroup) -> None:
        self.owner = owner
        self.token = next(_tokens)
        """The progress token of its requests: one of a kind in this process."""
        self.capabilities = relay_capabilities(client.capabilities)
        self.request_count = 0
        """How many were asked so far."""
        self._client = client
        self._tasks = tasks
        self._notifications: deque[tuple[str, Mapping[str, object]]] = deque()
        self._delivery: asyncio.Task[None] | None = None
        self._time_limit: PausableTimeout | None = None
        self._allows_requests = False
        self._open: set[anyio.CancelScope] = set()
        self._deadline: float | None = None

    def __repr__(self) -> str:
        return f"<CallRelay notifications={len(self._notifications)} requests={len(self._open)}>"

    # For the conversation

    def meta(self, *, modern: bool) -> dict[str, object]:
        """Give what a request's ``_meta`` says of the client, in the way of the era."""
        meta: dict[str, object] = {}
        if self._client.wants_progress:
            meta["progressToken"] = self.token
        if modern:
            meta[CLIENT_CAPABILITIES_META_KEY] = self.capabilities
            if self._client.log_level is not None:
                meta[LOG_LEVEL_META_KEY] = self._client.log_level
        return meta

    @contextmanager
    def attached(self, timeout: asyncio.Timeout, *, allows_requests: bool) -> Iterator[None]:
        """Hear of one request while it runs; ``allows_requests`` lets the server ask meanwhile.

        ``timeout`` is the request's own. At the end what is still being asked is asked no more.
        """
        self._time_limit, self._allows_requests = PausableTimeout(timeout), allows_requests
        try:
            yield
        finally:
            self._time_limit.end()
            self._time_limit = None
            for scope in self._open:
                scope.cancel()

    # For the links

    def on_progress(self, params: Mapping[str, Any], size: int) -> None:
        """Pass on progress, of which there may be any amount; what is garbage is dropped."""
        progress = params.get("progress")
        if self._client.wants_progress and _is_number(progress):
            note = {"progress": progress}
            note |= {"total": total} if _is_number(total := params.get("total")) else {}
            note |= {"message": text} if isinstance(text := params.get("message"), str) else {}
            self._enqueue(PROGRESS, note, size)

    def on_log(self, params: Mapping[str, Any], size: int) -> None:
        """Pass on a log line; what is garbage is dropped."""
        if isinstance(params.get("level"), str) and "data" in params:
            self._enqueue(LOG_MESSAGE, params, size)

    async def on_request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, object]:
        """Ask what the server asks while the request runs. Raises ClientRequestFailed."""
        limit = self._time_limit
        if limit is None or not self._allows_requests:
            raise ClientRequestFailed(METHOD_NOT_FOUND, "no client can be asked this way now")
        if self._client.supports_input_required:
            raise ClientRequestFailed(
                METHOD_NOT_FOUND,
                "the client of this call can only be asked as in MCP 2026-07-28, by input_required",
            )
        refusal = self.refusal(method, params)
        if refusal is not None:
            raise refusal
        limit.pause(self.deadline)
        try:
            return await self.request(method, params)
        finally:
            limit.resume()

    # For whoever asks in its own way

    @property
    def deadline(self) -> float:
        """When no question is waited for any more, on the loop's clock; set by the first one."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + MAX_CLIENT_WAIT_S
        return self._deadline

    def refusal(self, method: object, params: Mapping[str, Any]) -> ClientRequestFailed | None:
        """Say why the client cannot be asked this now; None when it can."""
        if (
            len(self._open) >= MAX_OPEN_CLIENT_REQUESTS
            or self.request_count >= MAX_CLIENT_REQUESTS_PER_CALL
        ):
            return ClientRequestFailed(INVALID_REQUEST, "this call has asked too many questions")
        return unsupported_reason(method, params, self.capabilities)

    async def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, object]:
        """Ask the client what ``refusal`` has nothing against; give its raw result.

        Raises ClientRequestFailed, also when the request ends meanwhile.
        """
        self.request_count += 1
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                answer = await self._client.request(method, params)
            except ClientRequestFailed:
                raise
            except Exception:
                log.exception("client.ask_failed", method=method)
                raise ClientRequestFailed(INTERNAL_ERROR, "the client could not be asked") from None
            else:
                return cast("Mapping[str, object]", encodable(answer))
            finally:
                self._open.discard(scope)
        raise ClientRequestFailed(INVALID_REQUEST, "the call is over: nobody waits for the answer")

    # For the exchange

    async def flush(self) -> None:
        """Wait until the client has all notes, at most FLUSH_GRACE_S; then drop what is left."""
        if self._delivery is not None and not self._delivery.done():
            await asyncio.wait([self._delivery], timeout=FLUSH_GRACE_S)
            self._delivery.cancel()

    def _enqueue(self, method: str, params: Mapping[str, object], size: int) -> None:
        if self._time_limit is None or size > MAX_NOTIFICATION_BYTES:
            return
        if len(self._notifications) >= MAX_PENDING_NOTIFICATIONS and not self._make_space(method):
            return
        self._notifications.append((method, params))
        if self._delivery is None or self._delivery.done():
            self._delivery = self._tasks.create_task(self._deliver())

    def _make_space(self, method: str) -> bool:
        """Take the last progress that waits, or else the oldest note, out for newer progress."""
        if method != PROGRESS:
            return False
        last = next((note for note in reversed(self._notifications) if note[0] == PROGRESS), None)
        self._notifications.remove(last or self._notifications[0])
        return True

    async def _deliver(self) -> None:
        while self._notifications:
            await self._client.notify(*self._notifications.popleft())


@asynccontextmanager
async def call_relay(client: Client, owner: object) -> AsyncIterator[CallRelay]:
    """Let ``client`` hear of one call of ``owner``; at the end it has heard what came before."""
    with first_cause():
        async with asyncio.TaskGroup() as tasks:
            relay = CallRelay(client, owner, tasks)
            yield relay
            await relay.flush()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
