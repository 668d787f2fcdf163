"""An agent of pydantic-ai as a program, with a model that follows a script; see mcp1_client.

The model gets the gateway's tools, calls two of them, and reads the results.
"""

import asyncio
import json
import sys

from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def transport_of(entry):
    if "command" in entry:
        return StdioTransport(**entry, keep_alive=False)
    return (SSETransport if entry["transport"] == "sse" else StreamableHttpTransport)(entry["url"])


async def see(entry, calls):
    """Run an agent whose model calls all tools in parallel and then prints the results."""
    offered = []

    def follow(messages, info):
        offered[:] = [tool.name for tool in info.function_tools]
        given = {part.tool_name: part.content for part in messages[-1].parts if is_return(part)}
        if given:
            return ModelResponse(parts=[TextPart(json.dumps(given))])
        return ModelResponse(parts=[ToolCallPart(*call) for call in calls.values()])

    agent = Agent(
        FunctionModel(follow), toolsets=[MCPToolset(transport_of(entry), init_timeout=None)]
    )
    given = json.loads((await agent.run("Read the introduction.")).output)
    return {
        "tools": sorted(offered),
        "title": given[calls["section"][0]]["title"],
        "echo": given[calls["echo"][0]],
    }


def is_return(part):
    return part.part_kind == "tool-return"


print(json.dumps(asyncio.run(see(*map(json.loads, sys.argv[1:])))))  # noqa: T201 - its answer
