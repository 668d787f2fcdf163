"""The open HTTP streams: each ends when its caller loses access, or when the service stops.

A stream may stay open for hours after its request was authenticated, so that is repeated.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import anyio
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import ProxyError

CHECK_S = 15.0
"""Seconds between two checks of an open stream's caller."""

LAST_RESPONSE_GRACE_S = 1.0
"""Seconds that a stream may take to send its last response when the service stops."""

CallerCheck = Callable[[], Awaitable[None]]
"""Raises ProxyError if the caller may no longer have the stream."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class _OpenStream:
    scope: anyio.CancelScope
    check: CallerCheck
    is_session: bool
    sends_last_message: bool


class OpenStreams:
    """The streams that are open now.

    A session with an open stream is never evicted. So a tenant may have at most ``max_of_tenant``
    such streams, else it could occupy all sessions.
    """

    def __init__(self, *, max_of_tenant: int) -> None:
        self._max_of_tenant = max_of_tenant
        self._open: dict[_OpenStream, str | None] = {}
        """The open streams, each with the tenant whose session it keeps in use."""
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def legacy_sse_sessions(self) -> Counter[str]:
        """Number of each tenant's streams that are a session of their own: legacy HTTP+SSE."""
        return Counter(
            tenant_id
            for stream, tenant_id in self._open.items()
            if stream.is_session and tenant_id is not None
        )

    def check_capacity(self, tenant_id: str) -> None:
        """Raise CapacityExceeded if a tenant may open no more streams that use a session."""
        check_tenant_streams(self._open.values(), tenant_id, limit=self._max_of_tenant)

    async def serve(
        self,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        check: CallerCheck,
        is_session: bool = False,
        session_tenant: str | None = None,
        sends_last_message: bool = False,
    ) -> None:
        """Serve a response of ``app`` as a stream until it ends, or ``check`` fails, or ``end``.

        ``session_tenant`` is the tenant whose session the stream keeps in use; with ``is_session``
        the stream is that session, as in legacy HTTP+SSE. A stream that ``sends_last_message``
        ends by itself when the service stops, with a message of its own.
        """
        sent = _Sent(send)
        with anyio.CancelScope() as cancel:
            stream = _OpenStream(cancel, check, is_session, sends_last_message)
            self._open[stream] = session_tenant
            try:
                await app(scope, receive, sent)
            finally:
                del self._open[stream]
                self._closed.set()
        if cancel.cancelled_caught:
            await sent.finish()

    async def run(self) -> None:
        """Repeat the check of every open stream, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            for stream in tuple(self._open):
                try:
                    await stream.check()
                except ProxyError as error:
                    log.info("facade.stream_ended", code=error.code)
                    stream.scope.cancel()

    def end(self) -> None:
        """End the open streams, except those that send a last message."""
        for stream in tuple(self._open):
            if not stream.sends_last_message:
                stream.scope.cancel()

    async def end_all(self) -> None:
        """End every stream; those that send a last message get LAST_RESPONSE_GRACE_S for it."""
        with anyio.move_on_after(LAST_RESPONSE_GRACE_S):
            while any(stream.sends_last_message for stream in self._open):
                self._closed.clear()
                await self._closed.wait()
        for stream in tuple(self._open):
            stream.scope.cancel()


def check_tenant_streams(tenants: Collection[str | None], tenant_id: str, *, limit: int) -> None:
    """Raise CapacityExceeded if ``limit`` of the open streams are a tenant's own.

    ``tenants`` has the tenant of each open stream.
    """
    if len(tenants) < limit:  # the usual case costs no count
        return
    if sum(tenant == tenant_id for tenant in tenants) >= limit:
        raise CapacityExceeded(
            f"your tenant has {limit} streams open, which is the limit for one tenant; "
            "close one, or try again later"
        )


class _Sent:
    """An ASGI ``send`` that knows whether its response is complete."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._open = True
        elif not message.get("more_body", False):
            self._open = False
        await self._send(message)

    async def finish(self) -> None:
        """End a response that has begun, so that the client sees no broken connection."""
        if self._open:
            await self({"type": "http.response.body", "body": b"", "more_body": False})
