import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from mcp_tools_proxy.config.config_folder import ConfigFolder, set_default_preset
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.domain.bindings import ServerBindings
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import RemoteComponents
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.offers import View
from mcp_tools_proxy.gateway.preset_switch import PresetSwitch
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.gateway.reloader import ChangeSignal, Reloader
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_call, make_caller, make_snapshot
from tests.support.fakes import FakePool, FakeTool, fake_components

OFFERS = {
    "alpha": make_snapshot(tools=["search", "drop"], prompts=["p1"], resources=["u1"]),
    "beta": make_snapshot(tools=["translate"], prompts=["p2"], resources=["u2"]),
}
LOCAL = FakeTool(name="local")


class Reloading:
    """Reloads ``folder``; the local tool is ``local``, the servers offer OFFERS."""

    def __init__(
        self,
        folder: Path,
        *,
        pinned: str | None = None,
        write_default: Callable[[Path, str], None] = set_default_preset,
        build: Callable[[View, Mapping[str, ServerBindings]], RemoteComponents] = fake_components,
    ) -> None:
        self.folder = folder
        self.pool = FakePool(OFFERS)
        self.holder = RegistryHolder(Registry.build([LOCAL]))
        self.metrics = Metrics()
        self.offer_changes = ChangeSignal()
        files = ConfigFolder(
            folder,
            load_configuration=partial(
                load_configuration, folder, {}, call_timeout_s=60, max_result_bytes=1_000_000
            ),
            pinned=pinned,
            write_default=write_default,
        )
        self.publisher = RegistryPublisher(
            holder=self.holder,
            local_tools=[LOCAL],
            pool=self.pool,
            build_components=build,
            metrics=self.metrics,
        )
        self.reloader = Reloader(
            files=files,
            pool=self.pool,
            publisher=self.publisher,
            offer_changes=self.offer_changes,
        )
        self.preset_switch = PresetSwitch(files, self.publisher, WorkerGroup())

    @property
    def active(self) -> str:
        return self.publisher.config.preset.preset_id

    @property
    def tools(self) -> list[str]:
        listed = [spec.name for spec in self.holder.current.visible_to(make_caller())]
        return [name for name in listed if name != LOCAL.spec.name]

    def code(self, name: str, kind: Kind = Kind.TOOL) -> str:
        """Resolve a name; return the error code, or "OK"."""
        try:
            self.holder.current.resolve(make_call(name, kind=kind))
        except ProxyError as error:
            return error.code
        return "OK"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Load, and follow the folder."""
        await self.reloader.load()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.reloader.run())
            try:
                yield
            finally:
                task.cancel()

    async def rebuild(self) -> None:
        """Report changed items of the servers; wait until the change is handled."""
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self.reloader.publish_offers())
            await self.offer_changes.report()
            writer.cancel()


def write_servers(
    folder: Path, *server_ids: str, default: str | None = None, disabled: Sequence[str] = ()
) -> None:
    entry: dict[str, object] = {"transport": "streamable-http", "url": "http://127.0.0.1:9/mcp"}
    content: dict[str, object] = {
        "mcpServers": {
            server_id: entry | ({"enabled": False} if server_id in disabled else {})
            for server_id in server_ids
        }
    }
    if default is not None:
        content["defaultPresetId"] = default
    write(folder / "mcp.json", content)


def write_preset(folder: Path, preset_id: str, *tools: str, **more: object) -> None:
    """Write a preset that lists tools as ``server/tool``."""
    references = [dict(zip(("serverId", "toolName"), it.split("/"), strict=True)) for it in tools]
    content = {"id": preset_id, "name": preset_id.title(), "tools": references, **more}
    write(folder / f"preset_{preset_id}.json", content)


def write(path: Path, content: Mapping[str, object]) -> None:
    """Write a JSON file atomically."""
    draft = path.with_name(".draft")
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(path)
