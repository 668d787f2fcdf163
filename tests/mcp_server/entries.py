"""One interface for every entry point: MCP over each transport and era, and the HTTP API.

This module only sends requests; the tests define the expected results.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, Protocol

from mcp import Client, MCPError

from tests.support.configuration import Json
from tests.support.http_api import Listed
from tests.support.local_tools import of_servers
from tests.support.mcp_endpoint import Served, names
from tests.support.program import UNLIMITED
from tests.support.sdk_over_stdio import sdk_client_of_program
from tests.support.service import EXECUTE, PROMPTS, RESOURCES, TOOLS

HTTP_PATHS = {
    "mcp": "/mcp",
    "agents": "/mcp/agents/{agent}",
    "sse": "/mcp/sse",
    "agents-sse": "/mcp/agents/{agent}/sse",
}
WAYS = [
    *((entry, mode) for entry in (*HTTP_PATHS, "stdio") for mode in ("auto", "legacy")),
    ("rest", ""),
]
"""The entries, each with the SDK client's modes for the two eras."""


class Who(NamedTuple):
    """The caller; None omits a part."""

    tenant: str | None = "tenant_1"
    agent: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Return the HTTP headers with tenant, user and agent."""
        headers = {"X-Tenant-Id": self.tenant, "X-User-Id": "u", "X-Agent-Id": self.agent}
        return {name: value for name, value in headers.items() if value is not None}


class Used(NamedTuple):
    """The result of a use: its content, or None, and the whole answer as JSON."""

    content: Json | None
    answer: str

    @property
    def reached(self) -> str | None:
        """The item reached at the raw server, as ``name of server``; None for a refusal."""
        if self.content is None:
            return None
        if "messages" in self.content:
            return str(self.content["messages"][0]["content"]["text"]).partition(" for ")[0]
        if "contents" in self.content:
            return str(self.content["contents"][0]["text"])
        who = self.content["structuredContent"]
        return f"{who['tool']} of {who['server']}"


class Entry(Protocol):
    """One entry point, for one caller."""

    async def shown(self) -> Listed:
        """Return the names in the four lists."""
        ...

    async def use(self, kind: str, name: str, arguments: Mapping[str, Any] = {}) -> Used:
        """Use a ``tool``, ``prompt`` or ``resource``."""
        ...


class ByMcp:
    """Through the SDK's client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def shown(self) -> Listed:
        templates = await self._client.list_resource_templates()
        return Listed(
            tools=names(await self._client.list_tools()),
            prompts=names(await self._client.list_prompts()),
            resources=names(await self._client.list_resources()),
            templates=of_servers(it.uri_template for it in templates.resource_templates),
        )

    async def use(self, kind: str, name: str, arguments: Mapping[str, Any] = {}) -> Used:
        result: Any
        try:
            match kind:
                case "tool":
                    result = await self._client.call_tool(name, dict(arguments))
                case "prompt":
                    result = await self._client.get_prompt(name, dict(arguments))
                case _:
                    result = await self._client.read_resource(name)
        except MCPError as error:
            return Used(None, json.dumps([error.message, error.data]))
        answer: Json = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return Used(None if answer.get("isError") else answer, json.dumps(answer))


class ByRest:
    """Through the HTTP API."""

    def __init__(self, served: Served, who: Who) -> None:
        self._http = served.http
        self._agent: Json = {} if who.agent is None else {"agent": who.agent}
        self._user = {"user_id": "u", "tenant_id": who.tenant}

    async def shown(self) -> Listed:
        tools, prompts, resources = [
            (await self._http.get(route, params=self._agent)).json()
            for route in (TOOLS, PROMPTS, RESOURCES)
        ]
        return Listed(
            tools=[tool["name"] for tool in tools["tools"]],
            prompts=[prompt["name"] for prompt in prompts["prompts"]],
            resources=[it["uri"] for it in resources["resources"]],
            templates=of_servers(it["uriTemplate"] for it in resources["resource_templates"]),
        )

    async def use(self, kind: str, name: str, arguments: Mapping[str, Any] = {}) -> Used:
        route, fields = {
            "tool": (EXECUTE, {"tool_name": name, "arguments": arguments}),
            "prompt": (f"{PROMPTS}/get", {"name": name, "arguments": arguments}),
        }.get(kind, (f"{RESOURCES}/read", {"uri": name}))
        body = {"user": self._user, **self._agent, **fields}
        envelope = (await self._http.post(route, json=body)).json()
        if envelope["status"] != "ok":
            return Used(None, json.dumps(envelope))
        result = envelope["result"]
        if kind == "tool":
            result = {"structuredContent": result.get("structured_content", result)}
        return Used(result, json.dumps(envelope))


@asynccontextmanager
async def entered(served: Served, way: tuple[str, str], who: Who) -> AsyncIterator[Entry]:
    """Connect by one of WAYS. Over stdio it is a program on the same configuration folder."""
    name, mode = way
    if name == "rest":
        yield ByRest(served, who)
        return
    if name == "stdio":
        async with by_stdio(mode, who) as client:
            yield ByMcp(client)
        return
    path, headers = HTTP_PATHS[name], who.headers
    if "{agent}" in path:
        path = path.format(agent=headers.pop("X-Agent-Id"))
    async with served.client(path, mode=mode, headers=headers) as client:
        yield ByMcp(client)


def by_stdio(
    mode: str, who: Who, environment: Mapping[str, str] = UNLIMITED
) -> AbstractAsyncContextManager[Client]:
    """Start ``mcp-tools-proxy stdio`` in this folder, and connect the SDK's client to it."""
    words = ["--user", "u"]
    words += [] if who.tenant is None else ["--tenant", who.tenant]
    words += [] if who.agent is None else ["--agent", who.agent]
    return sdk_client_of_program(words, environment, mode)
