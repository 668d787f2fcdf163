"""The whole service in process, over ASGI: the public interface for most tests."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import ENV_PREFIX
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config

EXECUTE = "/internal/mcp/execute"
BATCH = "/internal/mcp/execute/batch"
TOOLS = "/internal/mcp/tools"
PROMPTS = "/internal/mcp/prompts"
RESOURCES = "/internal/mcp/resources"
SERVERS = "/internal/mcp/servers"
REMOTE = "/internal/mcp/remote"
PRESETS = "/internal/mcp/presets"
ACTIVE = "/internal/mcp/presets/active"
READY = "/health/ready"

CONFIG_DIR = Path("config")
"""The setting's default, in the test's own folder."""

SHARED_VARIABLES = {
    str(field.validation_alias).upper()
    for field in Settings.model_fields.values()
    if field.validation_alias is not None
}
"""Settings with unprefixed variables, because other programs read them too."""

Envelope = dict[str, Any]
"""An envelope as JSON; Any, because each test knows its shape."""


class Service:
    def __init__(self, app: FastAPI, client: httpx.AsyncClient) -> None:
        self.app = app
        self.http = client

    @property
    def gateway(self) -> Gateway:
        return cast("Gateway", self.app.state.gateway)

    async def execute(
        self,
        tool_name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        tenant_id: str = "tenant_1",
        **top_level: object,
    ) -> Envelope:
        response = await self.http.post(
            EXECUTE, json=request_of(tool_name, arguments, tenant_id=tenant_id, **top_level)
        )
        return cast("Envelope", response.json())

    async def get(self, path: str, **query: str) -> Envelope:
        return cast("Envelope", (await self.http.get(path, params=query)).json())

    async def listed(self) -> list[str]:
        tools = (await self.get(TOOLS))["tools"]
        return [tool["name"] for tool in tools if ":" in tool["name"]]

    async def discovered(self) -> None:
        """Wait until every server was tried and the registry is updated."""
        await self.gateway.pool.wait_first_attempts(BOUND_S)

    async def result(
        self, tool_name: str, arguments: Mapping[str, object] | None = None, **context: Any
    ) -> Envelope:
        envelope = await self.execute(tool_name, arguments, **context)
        assert envelope["status"] == "ok", envelope
        return cast("Envelope", envelope["result"])

    async def code(
        self, tool_name: str, arguments: Mapping[str, object] | None = None, **context: Any
    ) -> str:
        envelope = await self.execute(tool_name, arguments, **context)
        return "OK" if envelope["status"] == "ok" else cast("str", envelope["error"]["code"])


def request_of(
    tool_name: str,
    arguments: Mapping[str, object] | None = None,
    *,
    tenant_id: str = "tenant_1",
    **top_level: object,
) -> dict[str, object]:
    return {
        "tool_name": tool_name,
        "arguments": dict(arguments or {}),
        "user": {"user_id": "user_1", "tenant_id": tenant_id},
        **top_level,
    }


@asynccontextmanager
async def running(
    *documents: Document,
    retrieval_transport: httpx.AsyncBaseTransport | None = None,
    unlimited: bool = True,
    config: Config | None = None,
    discovered: bool = True,
    workers: WorkerGroup | None = None,
    **settings: object,
) -> AsyncIterator[Service]:
    """Start the service with ``documents`` beside the seed one.

    ``unlimited`` turns the budgets off. Lists name tools ``server:tool`` at every entry, unless
    ``tool_name_style`` is given. ``config`` is written into the test's folder; with ``discovered``
    the service is yielded after it tried each server.
    """
    if config is not None:
        config.write(CONFIG_DIR)
    if unlimited:
        budgets = ("calls", "tokens", "tenant_calls", "tenant_tokens")
        settings = {f"rate_limit_{name}": 0 for name in budgets} | settings
    settings = {"tool_name_style": "server"} | settings
    app = create_app(
        settings_of(settings), retrieval_transport=retrieval_transport, workers=workers
    )
    async with app.router.lifespan_context(app):
        service = Service(app, client_of(app))
        put_all(service, documents)
        async with service.http:
            if config is not None and discovered:
                await service.discovered()
            yield service


class GivenSettings(Settings):
    """Settings from arguments only: a twentieth of the time needed with the environment."""

    def __init__(self, **values: Any) -> None:
        BaseModel.__init__(self, **values)


def settings_of(values: Mapping[str, object]) -> Settings:
    """Validate settings, with the variables that a test set or wrote to its .env."""
    names = {name.upper() for name in os.environ}  # noqa: TID251 - names only
    if (
        Path(".env").exists()
        or not names.isdisjoint(SHARED_VARIABLES)
        or any(name.startswith(ENV_PREFIX) for name in names)
    ):
        return Settings.model_validate(values)
    return GivenSettings(**values)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds, at most BOUND_S."""
    async with asyncio.timeout(BOUND_S):
        while not await condition():  # noqa: ASYNC110 - asked over HTTP, without an event
            await asyncio.sleep(0.01)


def client_of(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://localhost"
    )


def put_all(service: Service, documents: Iterable[Document]) -> None:
    """Serve documents that are only in memory."""
    for document in documents:
        service.gateway.repository.hold(document)
