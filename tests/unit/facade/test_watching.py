"""Who is told of a change of what they see."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mcp_tools_proxy.mcp_server.notify.delivery import Delivery
from mcp_tools_proxy.mcp_server.notify.list_changes import ListChangeMonitor, ListKind
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from tests.bounds import BOUND_S
from tests.builders import make_caller
from tests.fakes import FakeTool

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
