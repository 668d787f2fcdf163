"""The gateway in front of one raw server, reached over the test's carrier."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, chdir
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.carriers.clients import (
    McpClient,
    over_connector,
    over_http,
    over_sse,
    over_stdio,
)
from tests.connector.backend_link import linked
from tests.support.configuration import Config, Json, make_preset, write_json
from tests.support.mcp_endpoint import LEGACY, MODERN, serving
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.remote_backend.backend import Backend
from tests.support.service import CONFIG_DIR, eventually


class Carrier(NamedTuple):
    """The transport between client and gateway, and its era."""

    name: str
    era: str


CARRIERS = [
    Carrier(name, era) for name in ("http", "sse", "stdio", "connector") for era in (MODERN, LEGACY)
]


def params_of(carriers: list[Carrier]) -> list[Any]:
    words = {MODERN: "modern", LEGACY: "legacy"}
    return [
        pytest.param(
            it,
            id=f"{it.name}-{words[it.era]}",
            marks=[pytest.mark.e2e] if it.name == "stdio" else [],
        )
        for it in carriers
    ]


def over(carriers: list[Carrier]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("carrier", params_of(carriers), scope="module")


modern_carriers = over([it for it in CARRIERS if it.era == MODERN])
legacy_carriers = over([it for it in CARRIERS if it.era == LEGACY])
legacy_duplex_carriers = over([it for it in CARRIERS if it.era == LEGACY and it.name != "http"])
server_eras = pytest.mark.parametrize("server_era", ["modern", "legacy"])
"""The era of the server behind the gateway."""


class Gateway(NamedTuple):
    """A running gateway with the raw server ``s1``, and a way to connect clients."""

    server: RawServer
    connect: Callable[..., Awaitable[McpClient]]

    def show(self, *tools: str, **more: Any) -> None:
        """Write another preset: ``tools`` of the server; ``more`` as in ``make_preset``."""
        write_json(CONFIG_DIR / "preset_work.json", preset_of(tools, **more))

    async def until_running(self, count: int) -> None:
        """Wait until this many calls run at the server."""
        await self._until(lambda: self.server.script.running_count == count)

    async def until_called(self, tool: str) -> None:
        """Wait until the server receives a call of a tool."""
        await self._until(lambda: self.server.script.calls[tool] > 0)

    async def until_cancelled(self, count: int) -> None:
        """Wait until the server received this many cancellations."""
        await self._until(lambda: self.server.script.cancelled_count == count)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async def condition() -> bool:
            return holds()

        await eventually(condition)


def preset_of(tools: tuple[str, ...], **more: Any) -> Json:
    """Build the preset that shows ``whoami`` and ``tools`` of ``s1``."""
    return make_preset(tools=[("s1", tool) for tool in ("whoami", *tools)], **more)


@asynccontextmanager
async def gateway_over(
    carrier: Carrier, *tools: str, preset: Mapping[str, Any] | None = None, **raw: Any
) -> AsyncIterator[Gateway]:
    """Serve ``tools`` and all prompts and resources of a raw server; ``raw`` are its options.

    ``connect`` takes the capabilities that the client declares. Over the connector, every frame
    must be addressed to a client.
    """
    async with running_raw(**raw) as server, AsyncExitStack() as stack:
        config = Config(servers={"s1": server.entry}, presets=[preset_of(tools, **(preset or {}))])
        # absolute: a gateway shared by several tests outlives the folder of each
        options: dict[str, Any] = {"config": config, "config_dir": CONFIG_DIR.resolve()}
        era = carrier.era
        if carrier.name == "connector":
            backend = (await stack.enter_async_context(linked(**options))).backend
            stack.callback(expect_no_strays, backend)
        elif carrier.name == "stdio":
            config.write(CONFIG_DIR)
        else:
            served = await stack.enter_async_context(serving(**options))

        async def connect(**capabilities: Any) -> McpClient:
            if carrier.name == "connector":
                return await over_connector(backend, era, capabilities)
            if carrier.name == "http":
                return await over_http(served, era, capabilities)
            client = (
                over_stdio(era, capabilities)
                if carrier.name == "stdio"
                else over_sse(served, era, capabilities)
            )
            return await stack.enter_async_context(client)

        yield Gateway(server, connect)


def expect_no_strays(backend: Backend) -> None:
    """Check that every frame was for a session."""
    assert list(backend.strays) == []


@asynccontextmanager
async def shared_gateway(
    carrier: Carrier, folder: Path, *tools: str, **raw: Any
) -> AsyncIterator[Gateway]:
    """Run a gateway for a module's tests; none of them may change anything."""
    with chdir(folder):
        async with gateway_over(carrier, *tools, **raw) as gateway:
            yield gateway
