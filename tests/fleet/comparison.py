"""A client's view of one server: its lists, and the results of calls.

The format is the same through the gateway and directly. Names of tools are the server's own.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as t
from mcp import Client, MCPError
from pydantic import BaseModel

from tests.support.mcp_servers.sdk_client import connected

Json = dict[str, Any]

OF_THE_CONNECTION = re.compile(
    r"io\.modelcontextprotocol/serverInfo|io\.github\.mcp-tools-proxy/.*"
)
"""Keys of ``_meta`` that name the peer, and those that the gateway adds."""

_NAMED_FAILURE = re.compile(r"TOOL_FAILED: \S+ failed: (?=its server answered with error)")
"""The gateway's prefix for the text of a protocol error."""


@asynccontextmanager
async def direct(entry: Mapping[str, Any]) -> AsyncIterator[Client]:
    """Connect the SDK's client with the gateway's capabilities, which affect some tool lists."""

    async def never(*_: object) -> t.ErrorData:
        return t.ErrorData(code=-32601, message="no test asks for it")

    kinds = ("sampling_callback", "elicitation_callback", "list_roots_callback")
    options: Json = dict.fromkeys(kinds, never)
    async with connected(entry, **options) as client:
        yield client


async def lists_of(client: Client) -> dict[str, dict[str, Json]]:
    """Return the client's lists: kind, name or URI, definition."""
    tools = await listed(client.list_tools)
    prompts = await listed(client.list_prompts)
    resources = await listed(client.list_resources)
    templates = await listed(client.list_resource_templates)
    usable = [it for it in tools if not it.execution or it.execution.task_support != "required"]
    return {
        "tools": {it.name: plain(it) for it in usable},
        "prompts": {it.name: plain(it) for it in prompts},
        "resources": {it.uri: plain(it) for it in resources},
        "templates": {it.uri_template: plain(it) for it in templates},
    }


async def listed(request: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Return the items of a list, empty if the server does not know the method."""
    try:
        answer = await request()
    except MCPError as error:
        if error.code != t.METHOD_NOT_FOUND:
            raise
        return []
    (items,) = (value for _, value in answer if isinstance(value, list))
    return items


async def call(client: Client, tool: str, arguments: Json) -> Json:
    """Call a tool; return its result and the reported progress.

    For a protocol error the gateway returns a result, which the model can read.
    """
    reports: list[object] = []

    async def reported(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    try:
        result = plain(await client.call_tool(tool, arguments, progress_callback=reported))
    except MCPError as error:
        text = f"its server answered with error {error.code}: {quoted(error.message)}"
        content = [{"type": "text", "text": text}]
        result = {"content": content, "isError": True, "resultType": "complete"}
    return {**result, "progress": reports}


async def read(client: Client, uri: str) -> Json:
    """Read a resource."""
    return plain(await client.read_resource(uri))


def quoted(message: str) -> str:
    return json.dumps(message, ensure_ascii=False)


def normalized(found: Json, folder: str, differs: Mapping[str, str]) -> Json:
    """Replace values that differ between processes, such as paths of their folders."""
    text = json.dumps(found, ensure_ascii=False).replace(folder, "{folder}")
    text = _NAMED_FAILURE.sub("", text)
    for pattern in differs:
        text = re.sub(pattern, "{differs}", text)
    normal: Json = json.loads(text)
    return normal


def plain(item: BaseModel) -> Json:
    """Return an item as on the wire, without the names of the peer."""
    found = item.model_dump(by_alias=True, mode="json", exclude_none=True)
    meta = found.pop("_meta", {})
    kept = {key: value for key, value in meta.items() if not OF_THE_CONNECTION.fullmatch(key)}
    return found | ({"_meta": kept} if kept else {})
