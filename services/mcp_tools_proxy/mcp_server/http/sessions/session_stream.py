"""The stream that a client of the older eras opens for what no request of its has caused."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from operator import sub
from typing import Any

from starlette.types import Receive, Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.mcp_server.http.event_stream import EventStream
from mcp_tools_proxy.mcp_server.subscriptions.list_changes import ListChangeMonitor, ListKind
from mcp_tools_proxy.mcp_server.subscriptions.session_subscriptions import SessionSubscriptions
from mcp_tools_proxy.web.disconnect import disconnected

FIRST_STREAM_S = 10.0
"""A stream that is opened later than this after the handshake is taken for one that is reopened."""

REPEATED_AFTER_S = (2.0, 10.0, 60.0, 300.0)
"""When a change of a list is notified again, in seconds after it, where replicas share sessions.

They take it up one after the other: a client that is notified by one and lists at one that is
behind gets the old list. A roll-out or a ConfigMap takes minutes to reach all of them.
"""

_CHANGED = {kind.changed_method for kind in ListKind}


class SessionStream:
    """One open stream: list changes and updates of resources, while its client reads it.

    A client that loses its stream and opens another one, on any replica, may have missed a change
    of a list. The id of an event is a digest of the lists at its time, so a client that names its
    last event is told again only if they differ now. Where there may be other replicas, which
    ``is_alone`` rules out, a change is notified again at REPEATED_AFTER_S.
    """

    def __init__(
        self,
        send: Send,
        lists: ListChangeMonitor,
        caller: Caller,
        options: ListOptions,
        *,
        is_alone: bool,
    ) -> None:
        self._events = EventStream(send)
        self._lists = lists
        self._caller = caller
        self._options = options
        self._is_alone = is_alone
        self._closed = asyncio.Event()
        self._changed = asyncio.Event()
        self._to_repeat: set[str] = set()
        """Notifications of the changes that other replicas may not have taken up."""

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
        versions = await self._lists.snapshot_or_empty(self._caller, self._options)
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
                repeating = tasks.create_task(self._repeat_changes())
                await self._closed.wait()
                watching.cancel()
                restoring.cancel()
                repeating.cancel()
        finally:
            subscriptions.unsubscribe_from_lists()
        await self._events.end()

    async def send(self, message: Mapping[str, object]) -> None:
        """Send a message; that a list has changed has an event id."""
        method = str(message["method"])
        if method in _CHANGED:
            self._to_repeat.add(method)
            self._changed.set()
            await self._notify_change(method)
        else:
            await self._events.notify(message)

    def close(self) -> None:
        """End the stream."""
        self._closed.set()

    async def _notify_change(self, method: str) -> None:
        digest = (await self._lists.snapshot_or_empty(self._caller, self._options)).digest
        await self._events.notify({"jsonrpc": "2.0", "method": method}, id_=digest.hex())

    async def _repeat_changes(self) -> None:
        """Notify each change again at REPEATED_AFTER_S, counted anew from the last one."""
        while not self._is_alone:
            await self._changed.wait()
            self._changed.clear()
            if await self._repeat_until_next_change():
                self._to_repeat.clear()

    async def _repeat_until_next_change(self) -> bool:
        """Return whether all was repeated before another change."""
        for pause_s in map(sub, REPEATED_AFTER_S, (0.0, *REPEATED_AFTER_S)):
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
                    return False
            for method in sorted(self._to_repeat):
                await self._notify_change(method)
        return True
