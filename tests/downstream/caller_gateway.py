"""A gateway in front of one raw server whose entry uses the caller's identity."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import Service, running

TOOLS = ("headers", "meta")


@asynccontextmanager
async def serving(
    entry: Json, *, transport: str = "http", era: str = "modern", **settings: Any
) -> AsyncIterator[Service]:
    """Serve a raw server with ``entry`` added to its own."""
    async with (
        running_raw(transport, era=era, only=TOOLS) as server,
        serving_entry({**server.entry, **entry}, **settings) as service,
    ):
        yield service


@asynccontextmanager
async def serving_entry(entry: Json, **settings: Any) -> AsyncIterator[Service]:
    config = Config(
        servers={"s": entry},
        presets=[make_preset(tools=[("s", tool) for tool in TOOLS])],
        agents=[make_agent("helper")],
        more={"defaultPresetId": "work"},
    )
    async with running(config=config, require_agent=False, **settings) as service:
        yield service


def user(tenant_id: str, user_id: str = "ann", roles: tuple[str, ...] = ()) -> Json:
    return {"user": {"tenant_id": tenant_id, "user_id": user_id, "roles": list(roles)}}


async def given(service: Service, what: str, caller: Json, **more: Any) -> Any:
    envelope = await service.execute(f"s:{what}", {}, **{**caller, **more})
    assert envelope["status"] == "ok", envelope
    return envelope["result"]["structured_content"]
