"""The client of ``mcp`` 1 as a program that lists all four kinds; see mcp1_client.

Its only argument is the gateway's entry as JSON; it prints the listed names and URIs.
"""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


async def see(entry):
    """List everything, and read one resource by an unlisted key."""
    if entry["transport"] == "sse":
        async with sse_client(entry["url"], headers=entry["headers"]) as (reads, writes):
            return await listed(reads, writes)
    async with streamable_http_client(entry["url"]) as (reads, writes, _):
        return await listed(reads, writes)


async def listed(reads, writes):
    async with ClientSession(reads, writes) as session:
        await session.initialize()
        return {
            "tools": [tool.name for tool in (await session.list_tools()).tools],
            "prompts": [prompt.name for prompt in (await session.list_prompts()).prompts],
            "resources": [str(it.uri) for it in (await session.list_resources()).resources],
            "templates": [
                it.uriTemplate for it in (await session.list_resource_templates()).resourceTemplates
            ],
        }


print(json.dumps(asyncio.run(see(json.loads(sys.argv[1])))))  # noqa: T201 - its answer
