"""Keeping a link subscribed to the resources that are watched, in the way of its era."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND

from mcp_tools_proxy.aiokits.reconnect import reconnect_forever
from mcp_tools_proxy.downstream.connection import Connection, JsonRpcError
from mcp_tools_proxy.downstream.errors import FAULTS
from mcp_tools_proxy.downstream.mcp_client.error_mapping import from_mcp_error
from mcp_tools_proxy.downstream.subscriptions.resource_subscriptions import ResourceSubscriptions

ANSWER_S = 10.0
"""How long a server may take to subscribe."""

RETRY_S = 5.0
"""The pause before what got no answer is asked again."""

COALESCE_S = 0.05
"""How long changes are collected before another stream is opened for them."""

_NOT_TAKEN = JsonRpcError(INVALID_PARAMS, "the server does not tell of this resource's updates")


async def sync_by_requests(link: Connection, watched: ResourceSubscriptions) -> None:
    """Subscribe and unsubscribe one by one (up to 2025-11-25), until cancelled."""
    missed = watched.decided()
    subscribed: set[str] = set()
    while True:
        change, pause_s = watched.next_change, None
        for uri in watched.uris - subscribed:
            try:
                await link.request("resources/subscribe", {"uri": uri}, timeout_s=ANSWER_S)
            except JsonRpcError as refusal:
                watched.decide(uri, refusal)
            except FAULTS:
                pause_s = RETRY_S
            else:
                subscribed.add(uri)
                watched.decide(uri)
                watched.tell(missed & {uri})
        for uri in subscribed - watched.uris:
            subscribed.discard(uri)
            with suppress(*FAULTS):
                await link.request("resources/unsubscribe", {"uri": uri}, timeout_s=ANSWER_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await change.wait()


async def sync_by_stream(session: ClientSession, watched: ResourceSubscriptions) -> None:
    """Hold one stream of updates open (2026-07-28), another one for each change; until cancelled.

    The next one is open before the one before is closed, so that nothing is missed.
    """
    missed = watched.decided()
    async with anyio.create_task_group() as tasks:
        held = anyio.CancelScope()
        while True:
            change = watched.next_change
            uris, scope, opened = sorted(watched.uris), anyio.CancelScope(), anyio.Event()
            if uris:
                stream = _Stream(session, watched, uris, scope, opened.set)
                tasks.start_soon(stream.hold)
                with anyio.move_on_after(ANSWER_S):
                    await opened.wait()
                watched.tell(missed.intersection(uris))
                missed = missed.difference(uris)
            held.cancel()
            held = scope
            await change.wait()
            await asyncio.sleep(COALESCE_S)


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream of the updates of ``uris``; ``decided`` is called once the server has answered."""

    session: ClientSession
    watched: ResourceSubscriptions
    uris: list[str]
    scope: anyio.CancelScope
    decided: Callable[[], None]

    async def hold(self) -> None:
        """Hold it open until its scope is cancelled, or the server refuses it."""
        with self.scope:
            await reconnect_forever(self._live, on_gap=lambda: self.watched.tell(self.uris))

    async def _live(self, opened: Callable[[], None]) -> bool:
        """Live one life of it. The updates themselves are heard where they arrive."""
        try:
            async with listen(self.session, resource_subscriptions=self.uris) as subscription:
                taken = subscription.honored.resource_subscriptions or ()
                for uri in self.uris:
                    self.watched.decide(uri, None if uri in taken else _NOT_TAKEN)
                opened()
                self.decided()
                async for _ in subscription:
                    pass
        except MCPError as error:
            refusal = from_mcp_error(error)
            if isinstance(refusal, JsonRpcError):
                for uri in self.uris:
                    self.watched.decide(uri, refusal)
                self.decided()
            return error.code != METHOD_NOT_FOUND
        except (SubscriptionLost, TimeoutError):
            return True
        return True
