"""One server for each isolation that returns what it received, and all ways to call it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.carriers.clients import McpClient, over_connector, over_sse
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import LEGACY, MODERN, Served, serving
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.raw_mcp_client import raw_client
from tests.support.remote_backend.backend import Backend, running_backend
from tests.support.remote_backend.handshakes import TOKEN

CallerIds = tuple[str, str]

TENANTS = ("acme", "x/../acme")
USERS = ("ann", "bob", "${secret:k}")
CALLERS: tuple[CallerIds, ...] = tuple(product(TENANTS, USERS))
LINKED = CALLERS[-1]
"""The caller over the connector."""
PARTS = ("tenant_id", "user_id")
SEPARATED: Mapping[str, int] = {"shared": 0, "tenant": 1, "user": 2}
"""Number of PARTS that identify an isolation's sessions; also the names of the servers."""
KINDS = ("http-modern", "http-legacy", "sse-legacy", "ws-modern", "stdio")
"""Transports of the servers."""
CALLER_KEY = "io.github.mcp-tools-proxy/caller"
FORGED = (CALLER_KEY, CALLER_KEY.upper())
"""Keys that a client fills in; a server may compare names case-insensitively."""


class Seen(NamedTuple):
    """One call as the server saw it."""

    isolation: str
    caller: CallerIds
    content: Json

    @property
    def session(self) -> str:
        """The session of streamable HTTP or SSE, or the connection, or the process."""
        headers = self.content["headers"]
        return str(headers.get("mcp-session-id") or headers.get(":peer") or self.content["process"])

    @property
    def owner(self) -> tuple[str, ...]:
        """The owner of the session."""
        return (self.isolation, *self.caller[: SEPARATED[self.isolation]])

    @property
    def shown(self) -> dict[str, str]:
        """The decoded parts of the caller in headers and variables."""
        headers, variables = self.content["headers"], self.content["environment"]
        found = {it: headers.get(f"x-{it}") or variables.get(f"CALLER_{it}") for it in PARTS}
        return {part: unquote(value) for part, value in found.items() if value is not None}

    def check(self, kind: str) -> None:
        """Check that all values are present and belong to the caller."""
        own = dict(zip(PARTS, self.caller, strict=True))
        count = 2 if kind == "http-modern" else SEPARATED[self.isolation]
        assert self.shown == {part: own[part] for part in PARTS[:count]}
        assert self.content["meta"][CALLER_KEY] == own
        assert "forged" not in str(self.content["meta"])


def check_sessions(seen: Iterable[Seen]) -> None:
    owners: dict[str, set[tuple[str, ...]]] = {}
    for it in seen:
        owners.setdefault(it.session, set()).add(it.owner)
    assert [of for of in owners.values() if len(of) > 1] == []


def entry_of(server: Json, kind: str, isolation: str, **more: Any) -> Json:
    """Build an entry with the parts of callers in every place the isolation allows."""
    count = 2 if kind == "http-modern" else SEPARATED[isolation]
    values = {part: f"${{caller.{part}}}" for part in PARTS[:count]}
    entry = {**server, "isolation": isolation, "forward": list(PARTS), "maxSessions": 10}
    if kind == "stdio":
        variables = {f"CALLER_{part}": value for part, value in values.items()}
        return {**entry, "env": {**server["env"], **variables}, **more}
    return {**entry, "headers": {f"X-{part}": value for part, value in values.items()}, **more}


@asynccontextmanager
async def server_of(kind: str, *tools: str, **options: Any) -> AsyncIterator[Json]:
    """Run the raw server behind the entries; yield its common options with ``options``."""
    transport, _, era = kind.partition("-")
    if transport == "stdio":
        yield raw_entry(only=["witness", *tools], era=era or "both", **options)
        return
    async with running_raw(transport, only=("witness", *tools), era=era, **options) as server:
        yield server.entry


def config_of(entries: Mapping[str, Json], *tools: str) -> Config:
    """Build a configuration that shows ``witness`` and ``tools`` of every server."""
    shown = [(server, tool) for server in entries for tool in ("witness", *tools)]
    presets = [make_preset(tools=shown)]
    return Config(servers=entries, presets=presets, more={"defaultPresetId": "work"})


def headers_of(caller: CallerIds) -> dict[str, str]:
    return dict(zip(("X-Tenant-Id", "X-User-Id"), caller, strict=True))


def user_of(caller: CallerIds) -> Json:
    """Return the body field that identifies the caller."""
    return dict(zip(PARTS, caller, strict=True))


class Entries:
    """Every way to call a gateway; MCP clients stay connected until the block ends."""

    def __init__(self, served: Served, backend: Backend) -> None:
        self.served = served
        self._backend = backend
        self._clients: dict[CallerIds, list[McpClient]] = {}

    async def connect(self, stack: AsyncExitStack) -> None:
        """Open long-lived connections: legacy SSE streams and connector sessions."""
        for caller, era in product(CALLERS, (MODERN, LEGACY)):
            stream = over_sse(self.served, era, {}, caller=headers_of(caller))
            clients = self._clients.setdefault(caller, [])
            clients.append(await stack.enter_async_context(stream))
            if caller == LINKED:
                clients.append(await over_connector(self._backend, era, {}))

    async def execute(self, caller: CallerIds, tool: str) -> Json:
        """Call over the HTTP API; return the envelope."""
        body = {"tool_name": tool, "user": user_of(caller)}
        response = await self.served.http.post("/internal/mcp/execute", json=body)
        return dict(response.json())

    async def all_answers(self, caller: CallerIds, tool: str) -> list[Json]:
        """Call over every entry point concurrently; return the content of each answer."""
        calls = [self._executed(caller, tool), self._batched(caller, tool)]
        calls += [self._over_http(caller, tool, era) for era in (MODERN, LEGACY)]
        calls += [called(client, tool) for client in self._clients[caller]]
        return await asyncio.gather(*calls)

    async def _executed(self, caller: CallerIds, tool: str) -> Json:
        envelope = await self.execute(caller, tool)
        return dict(envelope["result"]["structured_content"])

    async def _batched(self, caller: CallerIds, tool: str) -> Json:
        body = {"calls": [{"tool_name": tool}], "user": user_of(caller)}
        response = await self.served.http.post("/internal/mcp/execute/batch", json=body)
        [envelope] = response.json()["results"]
        return dict(envelope["result"]["structured_content"])

    async def _over_http(self, caller: CallerIds, tool: str, era: str) -> Json:
        client = await raw_client(self.served, era, caller=headers_of(caller))
        message = await client.request("tools/call", _params(tool))
        return dict(message["result"]["structuredContent"])


async def called(client: McpClient, tool: str) -> Json:
    """Return the content of a call that must succeed."""
    return dict((await client.result("tools/call", _params(tool)))["structuredContent"])


def _params(tool: str) -> Json:
    """Build the params of a call whose client claims another identity."""
    meta = {key: {"tenant_id": "forged"} for key in FORGED}
    return {"name": tool, "arguments": {}, "_meta": meta}


@asynccontextmanager
async def every_entry(config: Config) -> AsyncIterator[Entries]:
    """Serve, linked to a backend, with all long-lived connections open."""
    async with (
        running_backend() as backend,
        serving(
            config=config,
            remote_url=backend.url,
            remote_token=TOKEN,
            remote_server_identifier="gw",
            remote_tenant_id=LINKED[0],
            remote_user_id=LINKED[1],
        ) as served,
        AsyncExitStack() as stack,
    ):
        await backend.connected()
        entries = Entries(served, backend)
        await entries.connect(stack)
        yield entries
