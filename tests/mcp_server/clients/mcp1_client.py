"""The client of ``mcp`` 1 as a program in a separate environment.

Its arguments are the gateway's entry as in mcp.json and the two calls, both as JSON; it prints the
results.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def streams_of(entry):
    if "command" in entry:
        async with stdio_client(StdioServerParameters(**entry)) as (reads, writes):
            yield reads, writes
    elif entry["transport"] == "sse":
        async with sse_client(entry["url"]) as (reads, writes):
            yield reads, writes
    else:
        async with streamable_http_client(entry["url"]) as (reads, writes, _):
            yield reads, writes


async def see(entry, calls):
    async with streams_of(entry) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        seen = {key: await session.call_tool(*call) for key, call in calls.items()}
    return {
        "tools": sorted(tool.name for tool in tools),
        "title": seen["section"].structuredContent["title"],
        "echo": seen["echo"].structuredContent,
    }


print(json.dumps(asyncio.run(see(*map(json.loads, sys.argv[1:])))))  # noqa: T201 - its answer
