"""An operator's requests about definitions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.api.document_operator import ADMIN
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import RawServer
from tests.support.service import CONFIG_DIR, Service, running
from tests.support.tokens import bearer

PATH = "/internal/mcp/definitions"
LOCK = CONFIG_DIR / "definitions.lock.json"


def config_of(server: RawServer, **more: Any) -> Config:
    return Config(
        servers={"s1": server.entry},
        presets=[
            make_preset(
                "work",
                tools=[("s1", "echo"), ("s1", "whoami")],
                prompts=[("s1", "greet")],
                resources=[("s1", "raw://text")],
            )
        ],
        more={"defaultPresetId": "work"},
        **more,
    )


@asynccontextmanager
async def serving(server: RawServer, mode: str = "pin", **more: Any) -> AsyncIterator[Service]:
    async with running(
        config=config_of(server, **more), admin_token=ADMIN, definitions=mode
    ) as service:
        yield service


async def shown(service: Service) -> dict[str, Any]:
    answer = await service.http.get(PATH, headers=bearer(ADMIN))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def item(service: Service, name: str) -> dict[str, Any] | None:
    items = (await shown(service))["items"]
    return next((it for it in items if it["name"] == name), None)


async def accept(service: Service, found: dict[str, Any], **other: Any) -> httpx.Response:
    body = {key: found[key] for key in ("server_id", "kind", "name", "sha256")} | other
    return await service.http.put(PATH, json=body, headers=bearer(ADMIN))


async def accept_all(service: Service) -> None:
    for found in (await shown(service))["items"]:
        assert (await accept(service, found)).status_code == 200
