"""The facade on a loopback socket, with clients for it: the SDK's client, and raw HTTP."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import httpx
import httpx2
import uvicorn
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from mcp_tools_proxy.mcp.server.http.endpoints import HttpEndpoints
from mcp_tools_proxy.server.http_protocol import BoundedProtocol
from tests.support.bounds import BOUND_S
from tests.support.configuration import Json
from tests.support.http_api import EVERYTHING, OWN, config_of, offer
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.plain_http import NO_TLS
from tests.support.service import Service, running

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ERAS = {"auto": MODERN, "legacy": LEGACY}

TENANT = {"X-Tenant-Id": "tenant_1", "X-User-Id": "u"}
BOTH = {"Accept": "application/json, text/event-stream"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Served(NamedTuple):
    service: Service
    url: str
    http: httpx.AsyncClient

    @property
    def facade(self) -> HttpEndpoints:
        return cast("HttpEndpoints", self.service.app.state.mcp_endpoints)

    @asynccontextmanager
    async def client(
        self,
        path: str = "/mcp",
        *,
        mode: str = "auto",
        headers: Mapping[str, str] = TENANT,
        **options: Any,
    ) -> AsyncIterator[Client]:
        """Connect the SDK's client; a path that ends in ``/sse`` is legacy HTTP+SSE."""
        if path.partition("?")[0].endswith("/sse"):
            transport = sse_client(
                self.url + path, headers=dict(headers), httpx_client_factory=_plain_client
            )
            async with Client(transport, mode=mode, cache=None, **options) as client:
                yield client
            return
        async with httpx2.AsyncClient(headers=headers, timeout=BOUND_S, verify=NO_TLS) as http:
            transport = streamable_http_client(self.url + path, http_client=http)
            async with Client(transport, mode=mode, cache=None, **options) as client:
                yield client

    async def request(
        self,
        method: str,
        params: Json | None = None,
        *,
        path: str = "/mcp",
        headers: Mapping[str, str] = TENANT,
        meta: Json | None = None,
    ) -> httpx.Response:
        params = {**(params or {}), "_meta": ENVELOPE | (meta or {})}
        name = params.get("uri") if method == "resources/read" else params.get("name")
        mirrored = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if isinstance(name, str) and name.isascii():
            mirrored["Mcp-Name"] = name
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.http.post(path, json=body, headers={**BOTH, **mirrored, **headers})

    async def open_session(
        self,
        *,
        path: str = "/mcp",
        accept: Mapping[str, str] = BOTH,
        headers: Mapping[str, str] = TENANT,
    ) -> str:
        """Start a session of the older eras, and return its id."""
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
        response = await self.http.post(path, json=body, headers={**accept, **headers})
        assert response.status_code == 200, response.text
        session_id = response.headers["mcp-session-id"]
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        accepted = await self.http.post(
            path, json=done, headers={**accept, **headers, "Mcp-Session-Id": session_id}
        )
        assert accepted.status_code == 202
        return str(session_id)

    async def set_log_level(
        self, session_id: str, *, headers: Mapping[str, str] = TENANT
    ) -> httpx.Response:
        """Set the log level of a session, which then uses state in the service."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel"}
        return await self.http.post(
            "/mcp",
            json={**body, "params": {"level": "error"}},
            headers={**BOTH, **headers, "Mcp-Session-Id": session_id},
        )


def _plain_client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, verify=NO_TLS)


@asynccontextmanager
async def serving(
    *, protocol: type[BoundedProtocol] = BoundedProtocol, **options: Any
) -> AsyncIterator[Served]:
    """Start the service (see ``running``) and let it listen on a free port."""
    async with running(**options) as service:
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            service.app,
            http=protocol,
            lifespan="off",
            log_config=None,
            access_log=False,
            ws="none",
            timeout_keep_alive=75,  # like the program; with httpx' 5 s both would close at once
        )
        server = uvicorn.Server(config)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_serve(server, listener))
            async with httpx.AsyncClient(base_url=url, timeout=BOUND_S, verify=NO_TLS) as http:
                try:
                    yield Served(service, url, http)
                finally:
                    server.should_exit = True
                    for connection in list(server.server_state.connections):
                        if connection.transport is not None:
                            connection.transport.abort()


@asynccontextmanager
async def in_front_of_two(
    *agents: Json, presets: Sequence[Json] = (EVERYTHING,), **settings: Any
) -> AsyncIterator[Served]:
    """Serve the servers ``a`` and ``a-b`` to agents, like ``two_servers``, on a socket."""
    async with (
        running_raw(name="a", **offer(OWN["a"])) as a,
        running_raw(name="a-b", **offer(OWN["a-b"])) as a_b,
        serving(config=config_of(a, a_b, *agents, presets=presets), **settings) as served,
    ):
        yield served


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve without handling the signals of the test's process.

    uvicorn leaves the socket open when it is stopped before its start or cancelled, which made a
    later test fail.
    """
    with listener:
        await server._serve(sockets=[listener])


def answer(response: httpx.Response) -> Json:
    """Return the final JSON-RPC message of a response, from a body or an event stream."""
    if response.headers["content-type"].startswith("text/event-stream"):
        *_, last = events(response.text)
        return last
    message: Json = response.json()
    return message


def events(text: str) -> list[Json]:
    lines = [line for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines if line != "data: "]


def names(listed: Any) -> list[str]:
    """Return the names of the tools, prompts or resources listed by the SDK's client."""
    items = next(
        found
        for kind in ("tools", "prompts", "resources")
        if (found := getattr(listed, kind, None)) is not None
    )
    return [getattr(item, "uri", None) or item.name for item in items]
