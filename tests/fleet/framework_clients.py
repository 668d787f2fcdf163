"""Clients of agent frameworks as programs, using each framework's API without a model.

The arguments are the framework, the gateway's URL, and the three calls as JSON. It prints the tool
names that an agent would get, and the results of the calls.
"""

import asyncio
import json
import os
import socket
import sys

import httpx


async def mcp_1(url, calls):
    """Use the SDK's first generation."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with (
        streamable_http_client(url) as (reads, writes, _),
        ClientSession(reads, writes) as it,
    ):
        await it.initialize()
        names = [tool.name for tool in (await it.list_tools()).tools]
        plain, structured, error = [await it.call_tool(*call) for call in calls]
    assert error.isError
    return names, plain.content[0].text, structured.structuredContent, error.content[0].text


async def langchain(url, calls):
    """Load the tools as LangChain's, and call them as an agent does."""
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"gateway": {"transport": "streamable_http", "url": url}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    given = [
        await tools[name].ainvoke({"name": name, "args": args, "id": "1", "type": "tool_call"})
        for name, args in calls
    ]
    plain, structured, error = given
    assert error.status == "error"
    return (
        [*tools],
        plain.content[0]["text"],
        structured.artifact["structured_content"],
        error.content[0]["text"],
    )


async def openai_agents(url, calls):
    """Load the tools as function tools of an agent."""
    from agents import Agent, RunContextWrapper
    from agents.mcp import MCPServerStreamableHttp
    from agents.tool_context import ToolContext

    async with MCPServerStreamableHttp({"url": url}, use_structured_content=True) as server:
        agent = Agent("agent", mcp_servers=[server])
        tools = {tool.name: tool for tool in await agent.get_mcp_tools(RunContextWrapper(None))}
        given = []
        for name, args in calls:
            text = json.dumps(args)
            context = ToolContext(None, tool_name=name, tool_call_id="1", tool_arguments=text)
            given.append(await tools[name].on_invoke_tool(context, text))
    plain, structured, error = given
    return [*tools], plain["text"], json.loads(structured), error["text"]


async def llama_index(url, calls):
    """Load the tools as LlamaIndex's."""
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    found = await McpToolSpec(client=BasicMCPClient(url)).to_tool_list_async()
    tools = {tool.metadata.name: tool for tool in found}
    given = [(await tools[name].acall(**args)).raw_output for name, args in calls]
    plain, structured, error = given
    assert error.isError
    return [*tools], plain.content[0].text, structured.structuredContent, error.content[0].text


async def mcpo(url, calls):
    """Serve the tools as an HTTP API with an OpenAPI document."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        os.path.dirname(sys.executable) + "/mcpo",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    process = await asyncio.create_subprocess_exec(
        *command, "--server-type", "streamable-http", "--", url, stdout=sys.stderr
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            document = await served(http, process)
            answers = [await http.post(f"/{name}", json=args) for name, args in calls]
    finally:
        process.terminate()
        await process.wait()
    plain, structured, error = [answer.json() for answer in answers]
    assert [answer.status_code for answer in answers] == [200, 200, 500]
    names = [path.removeprefix("/") for path in document["paths"]]
    return names, plain, structured, error["detail"]["error"]


async def served(http, process):
    """Return mcpo's OpenAPI document as soon as it is served."""
    while process.returncode is None:
        try:
            return (await http.get("/openapi.json")).raise_for_status().json()
        except httpx.TransportError:
            await asyncio.sleep(0.1)
    raise AssertionError(f"mcpo ended with {process.returncode}")


CLIENTS = {it.__name__: it for it in (mcp_1, langchain, openai_agents, llama_index, mcpo)}
framework, url, calls = sys.argv[1:]
names, plain, structured, error = asyncio.run(CLIENTS[framework](url, json.loads(calls)))
seen = {"tools": sorted(names), "plain": plain, "structured": structured, "error": error}
print(json.dumps(seen))
