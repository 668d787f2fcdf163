"""Lists, previews and switches presets (P-17, P-20)."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.config_folder import ConfigFolder
from mcp_tools_proxy.config.preset_files import LoadedPreset, PresetMissing
from mcp_tools_proxy.domain.configuration import InvalidConfig, PresetSummary
from mcp_tools_proxy.domain.errors import ConfigReadOnly, PresetNotFound, PresetPinned
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.gateway.registry_builder import BuiltRegistry
from mcp_tools_proxy.gateway.registry_publisher import PresetState, RegistryPublisher
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.wire.text import quote

SWITCH, ACTIVE = "switch preset", "active preset"
"""Messages to the other worker processes."""


class PresetSwitch:
    """Activates a preset, in all ``workers``; ``choose_preset`` chooses the initial one."""

    def __init__(
        self, files: ConfigFolder, publisher: RegistryPublisher, workers: WorkerGroup
    ) -> None:
        self._files = files
        self._publisher = publisher
        self._workers = workers
        workers.on(SWITCH, lambda switched: self._follow(*switched))
        workers.on(ACTIVE, lambda _: publisher.config.preset.preset_id)

    async def list_presets(self) -> tuple[PresetSummary, ...]:
        """List the available presets, oldest first."""
        listing = await asyncio.to_thread(self._files.list_presets)
        return listing.presets

    async def switch_to(self, preset_id: str, *, persist: bool) -> None:
        """Activate another preset; with ``persist``, also make it the default in mcp.json.

        Calls that begin after the return use the new preset. Raises PresetPinned, PresetNotFound or
        ConfigReadOnly without changing anything.
        """
        async with self._publisher.lock:
            loaded = await asyncio.to_thread(self._load_and_save, preset_id, persist)
            await self._activate(loaded, persisted=persist)
        await self._workers.tell(SWITCH, (preset_id, persist))

    async def join(self) -> None:
        """Activate the preset of the workers that run already, when this one starts."""
        for active in await self._workers.ask(ACTIVE):
            if active != self._publisher.config.preset.preset_id:
                with suppress(PresetNotFound):  # of a file that has changed since
                    await self._follow(active, False)
            return

    async def _follow(self, preset_id: str, persisted: bool) -> None:
        """Activate the preset that another worker has activated."""
        async with self._publisher.lock:
            loaded = await asyncio.to_thread(self.load, preset_id)
            await self._activate(loaded, persisted=persisted)

    async def _activate(self, loaded: LoadedPreset, *, persisted: bool) -> None:
        publisher = self._publisher
        await publisher.publish_screened(publisher.config.with_preset(loaded, persisted=persisted))
        publisher.count_reload()

    def _load_and_save(self, preset_id: str, persist: bool) -> LoadedPreset:
        """Load a preset, and with ``persist`` save it as the default; blocks."""
        if self._files.pinned is not None:
            raise PresetPinned(
                f"MCP_PROXY_PRESET pins the preset to {quote(self._files.pinned)}; to switch, an "
                "operator has to unset it and restart"
            )
        loaded = self.load(preset_id)
        if persist:
            self._save(preset_id)
        return loaded

    def load(self, preset_id: str) -> LoadedPreset:
        """Load a preset without activating it; blocks. Raises PresetNotFound."""
        try:
            return self._files.load_preset(preset_id)
        except PresetMissing as error:
            raise PresetNotFound(
                f"unknown preset {quote(preset_id)}; list the presets to see which exist"
            ) from error
        except InvalidConfig as error:
            raise PresetNotFound(
                f"preset {quote(preset_id)} is not valid; fix the problems in its file, then "
                "choose it again",
                details=_details(error),
            ) from error

    def _save(self, preset_id: str) -> None:
        try:
            self._files.save_default(preset_id)
        except InvalidConfig as error:
            raise ConfigReadOnly(
                "mcp.json is not valid, so the choice cannot be saved; fix it, or send "
                '"persist": false to switch until the next start',
                details=_details(error),
            ) from error


def _details(error: InvalidConfig) -> Mapping[str, object]:
    return {"problems": [str(problem) for problem in error.problems]}


MAX_PREVIEWS = 2
"""Registries kept to compare two presets; each takes as much memory as the active one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetPreview:
    """The registry of a preset with the servers' current offers."""

    registry: Registry
    state: PresetState
    is_active: bool


@dataclass(frozen=True, slots=True)
class _Built:
    loaded: LoadedPreset
    config: ActiveConfig
    snapshots: Mapping[str, Snapshot]
    built: BuiltRegistry

    def is_of(self, config: ActiveConfig, snapshots: Mapping[str, Snapshot]) -> bool:
        """Return whether configuration and offers are unchanged; these objects are immutable."""
        return (
            self.config is config
            and list(self.snapshots) == list(snapshots)
            and all(self.snapshots[server_id] is it for server_id, it in snapshots.items())
        )


class PresetPreviews:
    """Previews presets without publishing, logging or counting."""

    def __init__(
        self, switch: PresetSwitch, publisher: RegistryPublisher, holder: RegistryHolder
    ) -> None:
        self._switch = switch
        self._publisher = publisher
        self._holder = holder
        self._kept: list[_Built] = []
        self._one_at_a_time = asyncio.Lock()

    async def preview(self, preset_id: str) -> PresetPreview:
        """Return the registry of a preset; for the active one the current registry.

        Raises PresetNotFound like a switch.
        """
        publisher = self._publisher
        if preset_id == publisher.config.preset.preset_id:
            return PresetPreview(
                registry=self._holder.current, state=publisher.preset_state, is_active=True
            )
        loaded = await asyncio.to_thread(self._switch.load, preset_id)
        async with self._one_at_a_time:
            built, wanted = await self._build(loaded)
        state = publisher.state_of(wanted, built.view, built.registry)
        return PresetPreview(registry=built.registry, state=state, is_active=False)

    async def _build(self, loaded: LoadedPreset) -> tuple[BuiltRegistry, ActiveConfig]:
        """Return the cached registry of a preset, or build it."""
        publisher = self._publisher
        config, snapshots = publisher.config, publisher.snapshots
        wanted = config.with_preset(loaded, persisted=False)
        self._kept = [it for it in self._kept if it.is_of(config, snapshots)]
        for kept in self._kept:
            if kept.loaded == loaded:
                return kept.built, wanted
        built = await asyncio.to_thread(publisher.build_unpublished, wanted, snapshots)
        self._kept = [*self._kept, _Built(loaded, config, snapshots, built)][-MAX_PREVIEWS:]
        return built, wanted
