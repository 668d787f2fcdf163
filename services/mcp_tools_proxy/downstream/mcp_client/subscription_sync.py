"""Keeps a connection subscribed to the resources with listeners, by requests or by a stream."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND

from mcp_tools_proxy.aiokits.reopen_stream import keep_stream_open
from mcp_tools_proxy.downstream.connection import Connection
from mcp_tools_proxy.downstream.faults import FAULTS
from mcp_tools_proxy.downstream.mcp_client.error_mapping import from_mcp_error
from mcp_tools_proxy.downstream.resource_subscriptions import ResourceSubscriptions
from mcp_tools_proxy.wire.json_rpc import JsonRpcError

SUBSCRIBE_TIMEOUT_S = 10.0
"""How long a server may take to accept a subscription."""

RETRY_S = 5.0
"""The pause before a subscription that got no answer is requested again."""

COALESCE_S = 0.05
"""How long changes are collected before another stream is opened for all of them."""

_NOT_ACCEPTED = JsonRpcError(
    INVALID_PARAMS, "the server sends no updates for this resource; read it again instead"
)


async def sync_by_requests(connection: Connection, subscriptions: ResourceSubscriptions) -> None:
    """Subscribe and unsubscribe by one request each (up to 2025-11-25), until cancelled."""
    missed = subscriptions.confirmed()
    subscribed: set[str] = set()
    while True:
        change, pause_s = subscriptions.changed, None
        for uri in subscriptions.uris - subscribed:
            try:
                await connection.request(
                    "resources/subscribe", {"uri": uri}, timeout_s=SUBSCRIBE_TIMEOUT_S
                )
            except JsonRpcError as refusal:
                subscriptions.record_answer(uri, refusal)
            except FAULTS:
                pause_s = RETRY_S
            else:
                subscribed.add(uri)
                subscriptions.record_answer(uri)
                subscriptions.notify(missed & {uri})
        for uri in subscribed - subscriptions.uris:
            subscribed.discard(uri)
            with suppress(*FAULTS):
                await connection.request(
                    "resources/unsubscribe", {"uri": uri}, timeout_s=SUBSCRIBE_TIMEOUT_S
                )
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await change.wait()


async def sync_by_stream(session: ClientSession, subscriptions: ResourceSubscriptions) -> None:
    """Keep one stream of updates open (2026-07-28), replaced at each change; until cancelled.

    The next stream is open before the previous one is closed, so that no update is missed.
    """
    missed = subscriptions.confirmed()
    async with anyio.create_task_group() as tasks:
        previous = anyio.CancelScope()
        while True:
            change = subscriptions.changed
            uris, scope, opened = sorted(subscriptions.uris), anyio.CancelScope(), anyio.Event()
            if uris:
                stream = _UpdateStream(session, subscriptions, uris, scope, opened.set)
                tasks.start_soon(stream.keep)
                with anyio.move_on_after(SUBSCRIBE_TIMEOUT_S):
                    await opened.wait()
                subscriptions.notify(missed.intersection(uris))
                missed = missed.difference(uris)
            previous.cancel()
            previous = scope
            await change.wait()
            await asyncio.sleep(COALESCE_S)


@dataclass(frozen=True, slots=True)
class _UpdateStream:
    """A stream of the updates of ``uris``; ``on_answer`` is called once the server has answered."""

    session: ClientSession
    subscriptions: ResourceSubscriptions
    uris: list[str]
    scope: anyio.CancelScope
    on_answer: Callable[[], None]

    async def keep(self) -> None:
        """Keep the stream open until its scope is cancelled, or the server has no such method."""
        with self.scope:
            await keep_stream_open(
                self._read_stream, on_gap=lambda: self.subscriptions.notify(self.uris)
            )

    async def _read_stream(self, opened: Callable[[], None]) -> bool:
        """Open the stream once and consume it until it ends.

        The transport dispatches the updates, not this method. Returns False if the server does not
        support the method.
        """
        try:
            async with listen(self.session, resource_subscriptions=self.uris) as subscription:
                accepted = subscription.honored.resource_subscriptions or ()
                for uri in self.uris:
                    self.subscriptions.record_answer(
                        uri, None if uri in accepted else _NOT_ACCEPTED
                    )
                opened()
                self.on_answer()
                async for _ in subscription:
                    pass
        except MCPError as error:
            refusal = from_mcp_error(error)
            if isinstance(refusal, JsonRpcError):
                for uri in self.uris:
                    self.subscriptions.record_answer(uri, refusal)
                self.on_answer()
            return error.code != METHOD_NOT_FOUND
        except (SubscriptionLost, TimeoutError):
            return True
        return True
