"""Lists the presets, and switches from one to another (P-17, P-20)."""

import asyncio
from collections.abc import Mapping

from mcp_tools_proxy.config.config_folder import ConfigFolder
from mcp_tools_proxy.config.loader import LoadedPreset, PresetMissing
from mcp_tools_proxy.domain.configuration import InvalidConfig, PresetSummary
from mcp_tools_proxy.domain.errors import ConfigReadOnly, PresetNotFound, PresetPinned
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.wire.text import quote


class PresetSwitch:
    """Activates the preset that a caller chooses; what files choose is in ``preset_choice``."""

    def __init__(self, files: ConfigFolder, publisher: RegistryPublisher) -> None:
        self._files = files
        self._publisher = publisher

    async def list_presets(self) -> tuple[PresetSummary, ...]:
        """List the presets that can be chosen, oldest first."""
        listing = await asyncio.to_thread(self._files.list_presets)
        return listing.presets

    async def switch_to(self, preset_id: str, *, persist: bool) -> None:
        """Activate another preset, and with ``persist`` make it the default of mcp.json.

        Every call that begins after the return uses the preset. Raises PresetPinned,
        PresetNotFound, ConfigReadOnly; then nothing has changed.
        """
        publisher = self._publisher
        async with publisher.lock:
            loaded = await asyncio.to_thread(self._load_and_save, preset_id, persist)
            switched = publisher.config.with_preset(loaded, persisted=persist)
            await publisher.publish_screened(switched)
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
