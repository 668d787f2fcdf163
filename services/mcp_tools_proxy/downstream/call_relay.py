"""Relay of a running call's progress, log messages and client requests to the call's client.

A client request is a request of the server to the client: elicitation, sampling, roots.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, cast

import anyio
import structlog
from pydantic_core import to_json

from mcp_tools_proxy.domain.client import Client, ClientRequestFailed
from mcp_tools_proxy.downstream.connection import User
from mcp_tools_proxy.wire.encoding import encodable
from mcp_tools_proxy.wire.mcp_protocol import (
    CLIENT_CAPABILITIES_META_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
)


class PausableTimeout:
    """Pauses for an ``asyncio.Timeout`` that other code has entered."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._clock = asyncio.get_running_loop().time
        self._pauses = 0
        self._left_s = 0.0
        self._ended = False

    def pause(self, ends_at: float) -> None:
        """Stop the clock of the time-out until ``resume`` was called as often as ``pause``.

        A pause is bounded: the time-out still expires at ``ends_at``, on the event loop's clock.
        """
        self._pauses += 1
        if self._pauses == 1 and not self._ended:
            self._left_s = (self._timeout.when() or 0.0) - self._clock()
            self._timeout.reschedule(ends_at)

    def resume(self) -> None:
        """Restart the clock with the remaining seconds, after the last pause."""
        self._pauses -= 1
        if not self._pauses and not self._ended and not self._timeout.expired():
            self._timeout.reschedule(self._clock() + self._left_s)

    def end(self) -> None:
        """Stop changing the time-out: after the request, rescheduling raises RuntimeError."""
        self._ended = True


PROGRESS = "notifications/progress"
LOG_MESSAGE = "notifications/message"

MAX_PENDING_NOTIFICATIONS = 64
"""Beyond it newer progress replaces older progress, and log messages are dropped."""

MAX_NOTIFICATION_BYTES = 64 * 1024
"""Larger notifications are dropped; size as JSON."""

MAX_OPEN_CLIENT_REQUESTS = 8
MAX_CLIENT_REQUESTS_PER_CALL = 100
"""Open at once, and in total."""

MAX_CLIENT_WAIT_S = 600.0
"""Total wait for the client's answers in one call, from the first request."""

FLUSH_GRACE_S = 1.0
"""How long a result waits for the delivery of earlier notifications."""

_tokens = itertools.count(1)

log = structlog.get_logger()


class CallRelay:
    """The client of one call, as the connection sees it; ``user`` is the caller.

    The context is open while the call runs. One task delivers the notifications in order; those
    queued at the end of the call come before its result.
    """

    def __init__(self, client: Client, user: User) -> None:
        self.user = user
        self.token = next(_tokens)
        self.capabilities = relay_capabilities(client.capabilities)
        self.request_count = 0
        self._client = client
        self._notifications: deque[tuple[str, Mapping[str, object]]] = deque()
        self._delivery: asyncio.Task[None] | None = None
        self._time_limit: PausableTimeout | None = None
        self._allows_requests = False
        self._open: set[anyio.CancelScope] = set()
        self._deadline: float | None = None

    def __repr__(self) -> str:
        return f"<CallRelay notifications={len(self._notifications)} requests={len(self._open)}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait until all notifications are delivered, at most FLUSH_GRACE_S; then drop the rest.

        Those of a failed call are dropped at once.
        """
        delivery = self._delivery
        if delivery is None or delivery.done():
            return
        try:
            if kind is None:
                await asyncio.wait([delivery], timeout=FLUSH_GRACE_S)
        finally:
            delivery.cancel()

    # Called by the connection

    def meta(self, *, modern: bool) -> dict[str, object]:
        """Build the client's part of a request's ``_meta`` in this era."""
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
        """Relay messages for one request, whose ``timeout`` this is, while the context is open.

        ``allows_requests`` lets the server send client requests, as in the older eras; those still
        open at the end are cancelled.
        """
        self._time_limit, self._allows_requests = PausableTimeout(timeout), allows_requests
        try:
            yield
        finally:
            self._time_limit.end()
            self._time_limit = None
            for scope in self._open:
                scope.cancel()

    # Called by the transports

    def on_progress(self, params: Mapping[str, Any], size: int) -> None:
        """Relay progress, unless it is malformed or the client wants none."""
        progress = params.get("progress")
        if self._client.wants_progress and _is_number(progress):
            notification = {"progress": progress}
            notification |= {"total": total} if _is_number(total := params.get("total")) else {}
            notification |= (
                {"message": text} if isinstance(text := params.get("message"), str) else {}
            )
            self._enqueue(PROGRESS, notification, size)

    def on_log(self, params: Mapping[str, Any], size: int) -> None:
        """Relay a log message; drop a malformed one."""
        if isinstance(params.get("level"), str) and "data" in params:
            self._enqueue(LOG_MESSAGE, params, size)

    async def on_request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, object]:
        """Send a client request of the older eras to the client, with the time-out stopped.

        Raises ClientRequestFailed.
        """
        limit = self._time_limit
        if limit is None or not self._allows_requests:
            raise ClientRequestFailed(METHOD_NOT_FOUND, "the client cannot be asked at this time")
        if self._client.supports_input_required:
            raise ClientRequestFailed(
                METHOD_NOT_FOUND,
                "the client of this call uses MCP 2026-07-28; ask it with input_required",
            )
        refusal = self.refusal(method, params)
        if refusal is not None:
            raise refusal
        limit.pause(self.deadline)
        try:
            return await self.request(method, params)
        finally:
            limit.resume()

    # Called by client_input, which reads the server's requests from results

    @property
    def deadline(self) -> float:
        """Latest time for the client's answers, on the loop's clock. The first use sets it."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + MAX_CLIENT_WAIT_S
        return self._deadline

    def refusal(self, method: object, params: Mapping[str, Any]) -> ClientRequestFailed | None:
        """Return the error for a request that the client cannot be sent; None if it can."""
        if (
            len(self._open) >= MAX_OPEN_CLIENT_REQUESTS
            or self.request_count >= MAX_CLIENT_REQUESTS_PER_CALL
        ):
            return ClientRequestFailed(INVALID_REQUEST, "this call has asked too many questions")
        return unsupported_reason(method, params, self.capabilities)

    async def request(self, method: str, params: Mapping[str, Any]) -> Mapping[str, object]:
        """Send the client a request that ``refusal`` accepts; return the raw result.

        Raises ClientRequestFailed, also if the call ends first.
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
        raise ClientRequestFailed(
            INVALID_REQUEST, "the call has ended: its caller no longer waits for the answer"
        )

    def _enqueue(self, method: str, params: Mapping[str, object], size: int) -> None:
        if self._time_limit is None or size > MAX_NOTIFICATION_BYTES:
            return
        if len(self._notifications) >= MAX_PENDING_NOTIFICATIONS and not self._make_space(method):
            return
        self._notifications.append((method, params))
        if self._delivery is None or self._delivery.done():
            self._delivery = asyncio.ensure_future(self._deliver())  # __aexit__ ends it

    def _make_space(self, method: str) -> bool:
        """Remove the last progress in the queue, or the oldest notification; return whether it did.

        A log message gets no space.
        """
        if method != PROGRESS:
            return False
        last = next(
            (
                notification
                for notification in reversed(self._notifications)
                if notification[0] == PROGRESS
            ),
            None,
        )
        self._notifications.remove(last or self._notifications[0])
        return True

    async def _deliver(self) -> None:
        while self._notifications:
            await self._client.notify(*self._notifications.popleft())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


ELICITATION = "elicitation/create"
SAMPLING = "sampling/createMessage"
ROOTS = "roots/list"

INPUT_REQUIRED = "input_required"
"""The ``resultType`` of a server that needs input before it can go on (MCP 2026-07-28)."""

CAPABILITY_OF = {ELICITATION: "elicitation", SAMPLING: "sampling", ROOTS: "roots"}

CLIENT_REQUESTS = frozenset(CAPABILITY_OF)

MAX_CLIENT_REQUEST_BYTES = 1024 * 1024


def relay_capabilities(capabilities: Mapping[str, object]) -> dict[str, object]:
    """Return the capabilities of a client that concern client requests."""
    return {name: capabilities[name] for name in CAPABILITY_OF.values() if name in capabilities}


def unsupported_reason(
    method: object, params: Mapping[str, object], capabilities: Mapping[str, object]
) -> ClientRequestFailed | None:
    """Return why a client with these ``capabilities`` cannot be sent a request; None if it can.

    MCP assigns the error codes.
    """
    name = CAPABILITY_OF.get(method) if isinstance(method, str) else None
    if name is None:
        return ClientRequestFailed(METHOD_NOT_FOUND, "this request cannot be sent to a client")
    if name not in capabilities:
        return ClientRequestFailed(
            METHOD_NOT_FOUND, f"the client of this call did not declare {name}"
        )
    missing = _missing_part(name, params, capabilities[name])
    if missing is not None:
        return ClientRequestFailed(
            INVALID_PARAMS, f"the client of this call did not declare {missing}"
        )
    try:
        size = len(to_json(params))
    except ValueError:
        problem = "the question has text that is not valid Unicode"
        return ClientRequestFailed(INVALID_PARAMS, problem)
    if size > MAX_CLIENT_REQUEST_BYTES:
        return ClientRequestFailed(
            INVALID_PARAMS, f"the question is {size} bytes, the limit is {MAX_CLIENT_REQUEST_BYTES}"
        )
    return None


def _missing_part(name: str, params: Mapping[str, object], value: object) -> str | None:
    parts = value if isinstance(value, Mapping) else {}
    if name == "elicitation":
        mode = "url" if params.get("mode") == "url" else "form"
        # MCP: an empty capability declares forms
        if mode not in parts and (mode == "url" or "url" in parts):
            return f"elicitation.{mode}"
    if (
        name == "sampling"
        and "tools" not in parts
        and ("tools" in params or "toolChoice" in params)
    ):
        return "sampling.tools"
    return None
