"""Builds the registry that a switch to a preset would publish, for operators who look first."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.loader import LoadedPreset
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.gateway.building.preset_state import PresetState
from mcp_tools_proxy.gateway.building.registry_builder import BuiltRegistry
from mcp_tools_proxy.gateway.preset_switch import PresetSwitch
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder

MAX_PREVIEWS = 2
"""How many registries are kept, so that two presets can be compared. Each costs as much as the one
in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetPreview:
    """The registry of a preset with the servers' offers of now."""

    registry: Registry
    state: PresetState
    is_active: bool


@dataclass(frozen=True, slots=True)
class _Built:
    """A registry, and what it was built of."""

    loaded: LoadedPreset
    config: ActiveConfig
    snapshots: Mapping[str, Snapshot]
    built: BuiltRegistry

    def is_of(self, config: ActiveConfig, snapshots: Mapping[str, Snapshot]) -> bool:
        """Return whether configuration and offers are still the same; these are replaced whole."""
        return (
            self.config is config
            and list(self.snapshots) == list(snapshots)
            and all(self.snapshots[server_id] is it for server_id, it in snapshots.items())
        )


class PresetPreviews:
    """Shows presets as a switch would leave them; publishes, logs and counts nothing."""

    def __init__(
        self, switch: PresetSwitch, publisher: RegistryPublisher, holder: RegistryHolder
    ) -> None:
        self._switch = switch
        self._publisher = publisher
        self._holder = holder
        self._kept: list[_Built] = []
        self._one_at_a_time = asyncio.Lock()

    async def preview(self, preset_id: str) -> PresetPreview:
        """Return the registry of a preset; of the active one that in force, whatever its file says.

        Raises PresetNotFound, as a switch would.
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
        """Build the registry, unless it is one of those that were built last."""
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
