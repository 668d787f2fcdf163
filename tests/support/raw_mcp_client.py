import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import (
    BOTH,
    ENVELOPE,
    INITIALIZE,
    LEGACY,
    MODERN,
    TENANT,
    Served,
    serving,
)
from tests.support.mcp_servers.raw_web import RawServer, running_raw

ERAS = (MODERN, LEGACY)
PREFIX = "io.github.mcp-tools-proxy/"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_ids = itertools.count(100)


@asynccontextmanager
async def in_front_of_one(
    tools: tuple[str, ...], *, config: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Served, RawServer]]:
    """Serve ``whoami``, ``tools`` and all prompts and resources of one raw server, ``s1``."""
    settings = options.pop("settings", {})
    async with running_raw(**options) as server:
        preset = make_preset(tools=[("s1", tool) for tool in ("whoami", *tools)])
        entry = {**server.entry, **(config or {})}
        async with serving(
            config=Config(servers={"s1": entry}, presets=[preset]), **settings
        ) as served:
            yield served, server


class RawMcpClient:
    """One client: a session of the older eras, or requests of the newer one."""

    def __init__(
        self,
        served: Served,
        era: str,
        session_id: str | None,
        declared: Json,
        caller: Mapping[str, str] = TENANT,
    ) -> None:
        """``caller`` are the headers that identify the caller."""
        self.era = era
        self.session_id = session_id
        self._served = served
        self._declared = declared
        self._caller = caller

    def build(self, method: str, params: Json) -> tuple[Json, dict[str, str]]:
        headers = {**BOTH, **self._caller}
        if self.session_id is not None:
            headers["Mcp-Session-Id"] = self.session_id
        else:
            own_meta = params.get("_meta") or {}
            params = {**params, "_meta": {**ENVELOPE, CAPABILITIES: self._declared, **own_meta}}
            headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            name = params.get("uri") if method == "resources/read" else params.get("name")
            if name is not None:
                headers["Mcp-Name"] = name
        return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}, headers

    async def request(self, method: str, params: Json | None = None) -> Json:
        body, headers = self.build(method, params or {})
        response = await self._served.http.post("/mcp", json=body, headers=headers)
        if not response.headers["content-type"].startswith("text/event-stream"):
            message: Json = response.json()
            return message
        *_, last = [m for line in response.text.split("\n") if (m := _message_in(line))]
        return last

    async def call(self, tool: str, arguments: Json | None = None, **params: Any) -> Json:
        name = {"name": f"s1:{tool}", "arguments": arguments or {}}
        message = await self.request("tools/call", {**name, **params})
        result: Json = message["result"]
        return result

    @asynccontextmanager
    async def stream(self, method: str, params: Json) -> AsyncIterator[AsyncIterator[Json]]:
        """Send a request and yield the messages of its response stream."""
        body, headers = self.build(method, params)
        async with (
            self._served.http.stream("POST", "/mcp", json=body, headers=headers) as response,
            aclosing(messages_of(response)) as messages,
        ):
            yield messages

    async def notify(self, body: Json) -> None:
        """Send a notification, or the answer to a request of the gateway."""
        _, headers = self.build("", {})
        accepted = await self._served.http.post(
            "/mcp", json={"jsonrpc": "2.0", **body}, headers=headers
        )
        assert accepted.status_code == 202, accepted.text


async def raw_client(
    served: Served, era: str, *, caller: Mapping[str, str] = TENANT, **declared: Any
) -> RawMcpClient:
    """Connect; ``declared`` are the client's capabilities."""
    if era == MODERN:
        return RawMcpClient(served, era, None, declared, caller)
    params = {**INITIALIZE, "capabilities": declared}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    begun = await served.http.post("/mcp", json=body, headers={**BOTH, **caller})
    connected = RawMcpClient(served, era, begun.headers["mcp-session-id"], declared, caller)
    await connected.notify({"method": "notifications/initialized"})
    return connected


async def messages_of(response: httpx.Response) -> AsyncGenerator[Json]:
    async with aclosing(lines_of(response)) as lines:
        async for line in lines:
            if message := _message_in(line):
                yield message


async def lines_of(response: httpx.Response) -> AsyncGenerator[str]:
    """Yield the lines of a stream. According to SSE, U+2028 does not end a line."""
    rest = ""
    async with asyncio.timeout(BOUND_S):
        async for text in response.aiter_text():
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                yield line.removesuffix("\r")
    yield rest


async def next_data(lines: AsyncIterator[str]) -> str:
    """Return the data of the next event of a stream: of legacy HTTP+SSE first its address."""
    async with asyncio.timeout(BOUND_S):
        async for line in lines:
            if line.startswith("data: "):
                return line.removeprefix("data: ")
    raise AssertionError("the stream has ended")


def _message_in(line: str) -> Json | None:
    data = line.strip("\r").removeprefix("data: ")
    return json.loads(data) if data.startswith("{") else None


def theirs(result: Json) -> Json:
    """Return the server's part of a result, without the era's envelope and our marks."""
    meta = {k: v for k, v in result.get("_meta", {}).items() if not k.startswith(PREFIX)}
    meta.pop("io.modelcontextprotocol/serverInfo", None)
    left = {
        k: v for k, v in result.items() if k not in ("resultType", "_meta", "ttlMs", "cacheScope")
    }
    return left | ({"_meta": meta} if meta else {})
