"""Clients of ``mcp`` 1 or 2, whichever is installed, as a program: a URL, how many, which era.

It ends at the end of its input. It prints JSON lines: each list of tools that a client received,
and at the end the number of calls and the wrong answers.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

from mcp import ClientSession

try:
    from mcp import Client
except ImportError:  # the first generation
    from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def connected(url, era, receive):
    """Connect a client; it has ``list_tools`` and ``call_tool`` in both generations."""
    if era == "mcp1":
        async with (
            streamable_http_client(url) as (reads, writes, _),
            ClientSession(reads, writes, message_handler=receive) as session,
        ):
            await session.initialize()
            yield session
    else:
        async with Client(url, mode=era, message_handler=receive) as client:
            yield client


def report(**fields):
    """Print a line and flush it, because the test waits for it."""
    print(json.dumps(fields), flush=True)  # noqa: T201


async def use(url, era, client, stopped):
    """Call until stopped, with every fourth call long; list again whenever the tools changed."""
    changed = asyncio.Event()
    changed.set()

    async def receive(message):
        if "list_changed" in str(getattr(message, "root", message)):
            changed.set()

    calls, wrong = 0, []
    async with connected(url, era, receive) as session:
        while not stopped.is_set():
            if changed.is_set():
                changed.clear()
                report(client=client, tools=[it.name for it in (await session.list_tools()).tools])
            text = f"{client} {calls}"
            is_long = calls % 4 == 0
            call = ("s1:sleep", {"seconds": 0.5}) if is_long else ("s1:echo", {"text": text})
            try:
                answer = str(await session.call_tool(*call))
            except Exception as error:  # noqa: BLE001 - with any error the call is lost
                answer = repr(error)
            if ("slept" if is_long else text) not in answer:
                wrong.append(answer)
            calls += 1
            await asyncio.sleep(0.3)
    report(client=client, calls=calls, wrong=wrong)


async def main(url, number, era):
    """Run the clients until the end of the input."""
    stopped = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for client in range(int(number)):
            tasks.create_task(use(url, era, f"{era}-{client}", stopped))
        await asyncio.to_thread(sys.stdin.read)
        stopped.set()


asyncio.run(main(*sys.argv[1:]))
