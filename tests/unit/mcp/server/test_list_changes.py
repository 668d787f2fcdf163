import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.mcp.server.list_changes import (
    Delivery,
    ListChangeMonitor,
    ListKind,
    Subscriber,
)
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.mcp_lists import NameStyles
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from tests.support.bounds import BOUND_S
from tests.support.builders import make_caller
from tests.support.fakes import FakeTool
from tests.support.tables import each_row
from tests.support.virtual_time import BACKEND

HOUR_S = 3600.0
ONE, TWO = (Registry.build([FakeTool(name=name)]) for name in ("one", "two"))


@asynccontextmanager
async def watched(holder: RegistryHolder) -> AsyncIterator[ListChangeMonitor]:
    delivery = Delivery()
    monitor = ListChangeMonitor(holder, delivery)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(it.run()) for it in (delivery, monitor)]
        yield monitor
        for task in running:
            task.cancel()


@each_row("after", ["looking", "joining"])
async def test_a_change_after_the_first_read_is_always_reported(after: str) -> None:
    holder = RegistryHolder(ONE)
    changes = asyncio.Queue[frozenset[ListKind]]()
    async with watched(holder) as monitor:
        seen = await monitor.snapshot(make_caller())
        if after == "looking":
            holder.replace(TWO)
            await asyncio.sleep(0)  # the watchers of that time are compared
        monitor.subscribe(make_caller(), seen, changes.put)
        if after == "joining":
            holder.replace(TWO)
        assert await changes.get() == {ListKind.TOOLS}


def seen_by_agents(*tools: str) -> Registry:
    """Build a registry with tools that the writer can use, but not the reader."""
    agents = {"reader": Visibility(server_ids=frozenset()), "writer": Visibility()}
    offered = [FakeTool(name=f"s1:{tool}", server_id="s1") for tool in tools]
    return Registry.build(offered, access_rules=AccessRules(agents=agents))


@each_row("first", ["reader", "writer"])
async def test_a_change_is_sent_only_to_clients_that_see_it(first: str) -> None:
    holder = RegistryHolder(seen_by_agents("a"))
    changes: dict[str, asyncio.Queue[frozenset[ListKind]]] = {}
    async with watched(holder) as monitor:
        for agent in (first, *({"reader", "writer"} - {first})):
            caller = make_caller(agent=agent)
            changes[agent] = asyncio.Queue()
            monitor.subscribe(caller, await monitor.snapshot(caller), changes[agent].put)
        holder.replace(seen_by_agents("a", "b"))
        assert await changes["writer"].get() == {ListKind.TOOLS}
        for _ in range(5):  # more turns than another delivery of the same comparison takes
            await asyncio.sleep(0)
        assert changes["reader"].empty()


def named_for_the_reader(style: ToolNameStyle) -> Registry:
    """Build a registry; the reader's profile sets the naming style of tools."""
    offered = [FakeTool(name="s1:a", alias="s1__a", server_id="s1")]
    styles = NameStyles(by_agent={"reader": ListOptions(name_style=style)})
    rules = AccessRules(agents={"reader": Visibility()})
    return Registry.build(offered, access_rules=rules, name_styles=styles)


@each_row("styles", [(None, ToolNameStyle.BARE), (ToolNameStyle.BARE, None)])
async def test_a_changed_naming_style_notifies_clients_that_use_it(
    styles: tuple[ToolNameStyle | None, ToolNameStyle | None],
) -> None:
    """Clients that selected a style themselves are not notified."""
    holder = RegistryHolder(named_for_the_reader(ToolNameStyle.SERVER))
    caller = make_caller(agent="reader")
    changes = {style: asyncio.Queue[frozenset[ListKind]]() for style in styles}
    async with watched(holder) as monitor:
        for style, queue in changes.items():
            monitor.subscribe(
                caller, await monitor.snapshot(caller, ListOptions(name_style=style)), queue.put
            )
        holder.replace(named_for_the_reader(ToolNameStyle.ALIAS))
        assert await changes[None].get() == {ListKind.TOOLS}
        for _ in range(5):  # more turns than another delivery of the same comparison takes
            await asyncio.sleep(0)
        assert changes[ToolNameStyle.BARE].empty()


class Slow:
    """A client whose first batch takes an hour to send."""

    def __init__(self) -> None:
        self.received = asyncio.Queue[frozenset[str]]()
        self.cancelled = asyncio.Event()
        self._waits = True

    async def send(self, batch: frozenset[str]) -> None:
        if self._waits:
            try:
                await asyncio.sleep(HOUR_S)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        self._waits = False
        await self.received.put(batch)


@asynccontextmanager
async def delivering() -> AsyncIterator[Delivery]:
    delivery = Delivery()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(delivery.run())
        await asyncio.sleep(0)
        yield delivery
        running.cancel()


class TestOnVirtualTime:
    @pytest.fixture
    def anyio_backend(self) -> tuple[str, Mapping[str, object]]:
        return BACKEND

    async def test_a_client_that_resumes_reading_after_an_hour_gets_pending_changes(self) -> None:
        client = Slow()
        subscriber = Subscriber(client.send)
        async with delivering() as delivery:
            delivery.enqueue(subscriber, ["first"])
            await asyncio.sleep(1)
            delivery.enqueue(subscriber, ["second"])
            delivery.enqueue(subscriber, ["third"])
            batches = [await client.received.get(), await client.received.get()]
        assert batches == [{"first"}, {"second", "third"}]

    async def test_a_disconnected_client_is_not_notified(self) -> None:
        client = Slow()
        subscriber = Subscriber(client.send)
        async with delivering() as delivery:
            delivery.enqueue(subscriber, ["first"])
            await asyncio.sleep(1)
            subscriber.close()
            await client.cancelled.wait()
        assert client.received.empty()
