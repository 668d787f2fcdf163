"""Who is told of a change of what they see."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from mcp_tools_proxy.mcp_server.notify.delivery import Delivery, Subscriber
from mcp_tools_proxy.mcp_server.notify.list_changes import ListChangeMonitor, ListKind
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.access import Access
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from tests.support.bounds import BOUND_S
from tests.support.builders import make_caller
from tests.support.fakes import FakeTool
from tests.support.virtual_time import BACKEND

HOUR_S = 3600.0
ONE, TWO = (Registry.build([FakeTool(name=name)]) for name in ("one", "two"))


@asynccontextmanager
async def watched(holder: RegistryHolder) -> AsyncIterator[ListChangeMonitor]:
    telling = Delivery()
    watching = ListChangeMonitor(holder, telling)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(it.run()) for it in (telling, watching)]
        yield watching
        for task in running:
            task.cancel()


@pytest.mark.parametrize("after", ["looking", "joining"])
async def test_a_change_is_told_whenever_it_comes_after_the_look(after: str) -> None:
    holder = RegistryHolder(ONE)
    told = asyncio.Queue[frozenset[ListKind]]()
    async with watched(holder) as watching:
        seen = await watching.snapshot(make_caller())
        if after == "looking":
            holder.replace(TWO)
            await asyncio.sleep(0)  # the watchers of then are compared
        watching.subscribe(make_caller(), seen, told.put)
        if after == "joining":
            holder.replace(TWO)
        assert await told.get() == {ListKind.TOOLS}


def seen_by_agents(*tools: str) -> Registry:
    """Build a registry in which the reader may use no server's tool, the writer any."""
    agents = {"reader": Visibility(client_ids=frozenset()), "writer": Visibility()}
    offered = [FakeTool(name=f"s1:{tool}", server_id="s1") for tool in tools]
    return Registry.build(offered, access=Access(agents=agents))


@pytest.mark.parametrize("first", ["reader", "writer"])
async def test_a_change_is_sent_to_those_who_see_it(first: str) -> None:
    holder = RegistryHolder(seen_by_agents("a"))
    told: dict[str, asyncio.Queue[frozenset[ListKind]]] = {}
    async with watched(holder) as watching:
        for agent in (first, *({"reader", "writer"} - {first})):
            caller = make_caller(agent=agent)
            told[agent] = asyncio.Queue()
            watching.subscribe(caller, await watching.snapshot(caller), told[agent].put)
        holder.replace(seen_by_agents("a", "b"))
        assert await told["writer"].get() == {ListKind.TOOLS}
        for _ in range(5):  # more turns than another delivery of the same comparison takes
            await asyncio.sleep(0)
        assert told["reader"].empty()


class Slow:
    """A client that takes its first batch after an hour."""

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

    async def test_a_client_that_reads_again_after_an_hour_gets_what_is_pending(self) -> None:
        client = Slow()
        subscriber = Subscriber(client.send)
        async with delivering() as delivery:
            delivery.enqueue(subscriber, ["first"])
            await asyncio.sleep(1)
            delivery.enqueue(subscriber, ["second"])
            delivery.enqueue(subscriber, ["third"])
            batches = [await client.received.get(), await client.received.get()]
        assert batches == [{"first"}, {"second", "third"}]

    async def test_a_client_that_has_left_is_sent_nothing_more(self) -> None:
        client = Slow()
        subscriber = Subscriber(client.send)
        async with delivering() as delivery:
            delivery.enqueue(subscriber, ["first"])
            await asyncio.sleep(1)
            subscriber.close()
            await client.cancelled.wait()
        assert client.received.empty()
