"""A preset switched again and again under many clients, some of which do not read."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack
from itertools import cycle, islice, product

import pytest

from tests.mcp_server.list_change_listener import Listener, listening, switch
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json, make_preset
from tests.support.http_api import EVERYTHING
from tests.support.leak_checks import ResourcesInUse, tasks
from tests.support.mcp_endpoint import ERAS as MODES
from tests.support.mcp_endpoint import Served, in_front_of_two, names
from tests.support.raw_mcp_client import ERAS, in_front_of_one, raw_client
from tests.support.service import eventually

ONLY_ALPHA = make_preset("alpha", tools=[("a", "alpha")], prompts=[], resources=[])
PRESETS = (EVERYTHING, ONLY_ALPHA)
SWITCHES = 100
CLIENTS = 50


async def downstream_tools(listener: Listener) -> list[str]:
    return [tool for tool in names(await listener.client.list_tools()) if ":" in tool]


@pytest.mark.requirement("P-20", "P-22", "F-12")
async def test_after_a_hundred_switches_fifty_clients_see_the_last_preset_and_nothing_stays() -> (
    None
):
    async with in_front_of_two(presets=PRESETS) as served:
        async with listening(served):
            pass  # what is made once is made
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


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_never_reads_holds_nobody_up_and_leaves_nothing(era: str) -> None:
    """Its call says more than all buffers between hold, 10 MB; the call ends all the same."""
    lines = [
        {"method": "notifications/message", "params": {"level": "error", "data": "x" * 60_000}}
    ]
    meta = {"io.modelcontextprotocol/logLevel": "debug"}
    arguments = {"messages": lines, "times": 160}
    async with in_front_of_one(("say", "echo"), era="legacy", sse=True) as (served, server):
        deaf, other = await raw_client(served, era), await raw_client(served, era)
        await other.call("echo")
        before = ResourcesInUse.now()
        for _ in range(3):
            params = {"name": "s1:say", "arguments": arguments, "_meta": meta}
            connection = await unread(served, *deaf.build("tools/call", params))
            async with asyncio.timeout(BOUND_S):
                for _ in range(10):
                    assert "structuredContent" in await other.call("echo", {"text": "x"})
            connection.close()
        await eventually(before.is_all)
        assert server.script.running_count == 0


async def unread(served: Served, body: Json, headers: dict[str, str]) -> socket.socket:
    """POST over a socket with the smallest buffer, and read nothing of what is answered."""
    host, port = served.url.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, (host, int(port)))
    content = json.dumps(body).encode()
    all_headers = {
        **headers,
        "Host": f"{host}:{port}",
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
    }
    lines = ["POST /mcp HTTP/1.1", *(f"{key}: {value}" for key, value in all_headers.items())]
    await loop.sock_sendall(connection, "\r\n".join([*lines, "", ""]).encode() + content)
    return connection
