"""A service whose only server stays in its first connection attempt until the test releases it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.blocked_server import BlockedServer, running_blocked
from tests.support.service import PROMPTS, RESOURCES, Envelope, Service, eventually, running

WORK = make_preset(tools=[("s1", "echo")])
USER = {"user_id": "u", "tenant_id": "t"}
UNREACHABLE_SERVER: Json = {"transport": "streamable-http", "url": "http://127.0.0.1:9/mcp"}


class BlockedService:
    """A service whose server ``s1`` is held, and the calls that wait for it."""

    def __init__(self, service: Service, server: BlockedServer) -> None:
        self.service = service
        self.server = server

    async def waiting(self, count: int = 1) -> None:
        """Return as soon as this number of calls is in flight."""

        async def all_in_flight() -> bool:
            shown = (await self.service.http.get("/metrics")).text
            return f"\nmcp_proxy_calls_in_flight {count}.0" in shown

        await eventually(all_in_flight)

    async def post(self, path: str, **body: object) -> Envelope:
        response = await self.service.http.post(path, json={"user": USER, **body})
        return cast("Envelope", response.json())

    async def prompt(self, name: str, **more: object) -> Envelope:
        return await self.post(f"{PROMPTS}/get", name=name, **more)

    async def resource(self, uri: str, **more: object) -> Envelope:
        return await self.post(f"{RESOURCES}/read", uri=uri, **more)


def code_of(envelope: Envelope) -> str:
    return "OK" if envelope["status"] == "ok" else cast("str", envelope["error"]["code"])


@asynccontextmanager
async def held(
    *, preset: Json = WORK, entry: Json | None = None, agents: list[Json] | None = None, **more: Any
) -> AsyncIterator[BlockedService]:
    """Serve with a preset of the held server ``s1``; ``entry`` has additional keys."""
    async with running_blocked() as server:
        config = Config(
            servers={"s1": {**server.entry, **(entry or {})}}, presets=[preset], agents=agents
        )
        async with running(config=config, discovered=False, **more) as service:
            yield BlockedService(service, server)
