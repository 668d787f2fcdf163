import asyncio
from contextlib import AsyncExitStack
from itertools import cycle, islice, product

import pytest

from tests.mcp_server.list_change_listener import Listener, listening, switch
from tests.support.bounds import BOUND_S
from tests.support.configuration import make_preset
from tests.support.http_api import EVERYTHING
from tests.support.leak_checks import tasks
from tests.support.mcp_endpoint import ERAS as MODES
from tests.support.mcp_endpoint import Served, in_front_of_two, names
from tests.support.service import eventually

ONLY_ALPHA = make_preset("alpha", tools=[("a", "alpha")], prompts=[], resources=[])
PRESETS = (EVERYTHING, ONLY_ALPHA)
SWITCHES = 20
CLIENTS = 20


async def downstream_tools(listener: Listener) -> list[str]:
    return [tool for tool in names(await listener.client.list_tools()) if ":" in tool]


@pytest.mark.requirement("P-20", "P-22", "F-12")
async def test_after_many_switches_all_clients_see_the_last_preset_and_nothing_leaks() -> None:
    async with in_front_of_two(presets=PRESETS) as served:
        async with listening(served):
            pass  # one-time allocations are done
        await eventually(lambda: none_is_connected(served))
        before = tasks()
        async with AsyncExitStack() as stack:
            kinds = cycle(product(("/mcp", "/mcp/sse"), MODES))
            listeners = [
                await stack.enter_async_context(listening(served, path, mode=mode))
                for path, mode in islice(kinds, CLIENTS)
            ]
            for number in range(SWITCHES):
                await switch(served, PRESETS[(number + 1) % 2]["id"])
            await switch(served, "alpha")
            async with asyncio.timeout(BOUND_S):
                await asyncio.gather(*(it.until("tools", "prompts") for it in listeners))
                lists = await asyncio.gather(*map(downstream_tools, listeners))
            watchers = served.facade.subscribers
        assert (lists, watchers) == ([["a:alpha"]] * len(listeners), len(listeners))
        await eventually(lambda: none_is_connected(served))

        async def are_as_before() -> bool:
            return tasks() <= before

        await eventually(are_as_before)


async def none_is_connected(served: Served) -> bool:
    return served.facade.subscribers == served.facade.streams == 0
