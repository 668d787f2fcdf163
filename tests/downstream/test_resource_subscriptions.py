import asyncio

import pytest

from mcp_tools_proxy.domain.errors import ProxyError, ToolFailed
from tests.downstream.connections import SERVER_KINDS, config_of
from tests.downstream.relay_fixtures import Relay, relaying
from tests.support.bounds import until
from tests.support.builders import make_caller

URI = "raw://text"
ITEM = "raw://item/7"

IN_PROCESS = [
    kind for kind in SERVER_KINDS if not kind.startswith("stdio") and "stateless" not in kind
]
"""Transports whose server state is visible to tests; without a session a server cannot notify."""

every_kind = pytest.mark.parametrize(
    "kind", [kind for kind in SERVER_KINDS if "stateless" not in kind]
)
in_process = pytest.mark.parametrize("kind", IN_PROCESS)


class Listener:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


async def listening(relay: Relay) -> None:
    """Wait until the server can send notifications."""
    if relay.server is not None:
        await until(lambda: bool(relay.script.listeners), "the stream is open")


async def touch_until_notified(relay: Relay, listener: Listener, uri: str = URI) -> None:
    before = listener.count
    await relay.structured("touch", uri=uri)
    await until(lambda: listener.count > before, "the update arrives")


@every_kind
async def test_a_subscriber_receives_every_update_until_it_unsubscribes(kind: str) -> None:
    one, other = Listener(), Listener()
    async with relaying(kind) as relay:
        await listening(relay)
        leave = await relay.resource().subscribe(one, make_caller())
        await relay.resource(ITEM).subscribe(other, make_caller())
        await touch_until_notified(relay, one)
        await touch_until_notified(relay, one)
        leave()
        count = one.count
        await relay.structured("touch", uri=URI)
        await touch_until_notified(relay, other, ITEM)
        assert one.count == count


@in_process
async def test_many_listeners_share_one_subscription_until_the_last_leaves(kind: str) -> None:
    listeners = [Listener() for _ in range(5)]
    async with relaying(kind) as relay:
        await listening(relay)
        leaves = [
            await relay.resource().subscribe(listener, make_caller()) for listener in listeners
        ]
        assert relay.script.updates.watches(URI) == 1
        await touch_until_notified(relay, listeners[0])
        for leave in leaves[1:]:
            leave()
            leave()
        assert len({listener.count for listener in listeners}) == 1
        assert relay.script.updates.watches(URI) == 1
        leaves[0]()
        await until(lambda: relay.script.updates.watches(URI) == 0, "the subscription ends")


@in_process
async def test_after_a_reconnect_listeners_are_notified_and_subscribed_again(kind: str) -> None:
    listener = Listener()
    async with relaying(kind) as relay:
        assert relay.server is not None
        await listening(relay)
        await relay.resource().subscribe(listener, make_caller())
        subscriptions = relay.script.updates.subscribed[URI]
        await relay.server.restart()
        await until(
            lambda: listener.count >= 1, "listeners that may have missed updates are notified"
        )
        await until(
            lambda: relay.script.updates.watches(URI) >= max(1, subscriptions), "subscribed"
        )
        await listening(relay)
        await touch_until_notified(relay, listener)


@in_process
async def test_listeners_survive_a_change_of_the_servers_entry(kind: str) -> None:
    listener = Listener()
    async with relaying(kind) as relay:
        assert relay.server is not None
        await listening(relay)
        await relay.resource().subscribe(listener, make_caller())
        entry = config_of(relay.server.entry, call_timeout_s=7.0)
        relay.pool.apply({"notes": entry})
        await until(
            lambda: listener.count >= 1, "listeners that may have missed updates are notified"
        )
        await touch_until_notified(await relay.rebuilt(), listener)


@in_process
async def test_a_refused_subscription_does_not_affect_other_listeners(kind: str) -> None:
    listener = Listener()
    extra = {"resources": [{"uri": "raw://refused", "name": "refused"}]}
    async with relaying(kind, extra=extra) as relay:
        await listening(relay)
        await relay.resource().subscribe(listener, make_caller())
        with pytest.raises(ProxyError):
            await relay.resource("raw://refused").subscribe(Listener(), make_caller())
        await touch_until_notified(relay, listener)


async def test_a_server_without_subscriptions_gets_no_request() -> None:
    async with relaying("http-legacy", without=("subscribe",)) as relay:
        with pytest.raises(ToolFailed, match="no resource subscriptions"):
            await relay.resource().subscribe(Listener(), make_caller())
        assert relay.script.requests["resources/subscribe"] == 0


async def test_a_listener_cancelled_while_subscribing_is_removed() -> None:
    async with relaying("http-legacy", mute=("resources/subscribe",)) as relay:
        subscribing = asyncio.ensure_future(relay.resource().subscribe(Listener(), make_caller()))
        await until(lambda: relay.script.requests["resources/subscribe"] == 1, "it is asked")
        subscribing.cancel()
        await asyncio.wait([subscribing])
        session = relay.pool.session("notes")
        assert session is not None
        assert repr(session.subscriptions) == "<ResourceSubscriptions 0 resources>"
