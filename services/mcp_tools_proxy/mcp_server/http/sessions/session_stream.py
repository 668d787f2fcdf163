"""The stream that a client of the older eras opens for what no request of its has caused."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.types import Receive, Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.mcp_server.http.event_stream import EventStream
from mcp_tools_proxy.mcp_server.subscriptions.list_changes import ListChangeMonitor, ListKind
from mcp_tools_proxy.mcp_server.subscriptions.session_subscriptions import SessionSubscriptions
from mcp_tools_proxy.web.disconnect import disconnected

FIRST_STREAM_S = 10.0
"""A stream that is opened later than this after the handshake is taken for one that is reopened."""

_CHANGED = {kind.changed_method for kind in ListKind}


class SessionStream:
    """One open stream: list changes and updates of resources, while its client reads it.

    A client that loses its stream and opens another one, on any replica, may have missed a change
    of a list. The id of an event is a digest of the lists at its time, so a client that names its
    last event is told again only if they differ now.
    """

    def __init__(self, send: Send, lists: ListChangeMonitor, caller: Caller) -> None:
        self._events = EventStream(send)
        self._lists = lists
        self._caller = caller
        self._closed = asyncio.Event()

    async def serve(
        self,
        subscriptions: SessionSubscriptions,
        receive: Receive,
        *,
        seen: str | None,
        primed: bool,
        restore: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Serve until the client leaves, or ``close``; ``restore`` subscribes to its resources.

        ``seen`` is the digest of the lists that the client knows; None if that is unknown, and it
        is told that all may have changed. ``primed`` clients get an event id at once, which older
        ones would take for a message.
        """
        versions = await self._lists.snapshot_or_empty(self._caller)
        digest = versions.digest.hex()
        await self._events.begin(digest if primed else None)
        subscriptions.subscribe_to_lists(self._caller, versions)
        try:
            if seen != digest:
                for kind in ListKind:
                    await self.send({"jsonrpc": "2.0", "method": kind.changed_method})
            async with self._events.pings(), asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(disconnected(receive, self.close))
                restoring = tasks.create_task(restore())
                await self._closed.wait()
                watching.cancel()
                restoring.cancel()
        finally:
            subscriptions.unsubscribe_from_lists()
        await self._events.end()

    async def send(self, message: Mapping[str, object]) -> None:
        """Send a message; that a list has changed has an event id."""
        id_ = None
        if message["method"] in _CHANGED:
            id_ = (await self._lists.snapshot_or_empty(self._caller)).digest.hex()
        await self._events.notify(message, id_=id_)

    def close(self) -> None:
        """End the stream."""
        self._closed.set()
