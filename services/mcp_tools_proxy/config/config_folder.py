"""The configuration folder: reads and watches its files, and saves the default preset.

A preset is first chosen (``active_config.choose_preset``), and active once its file can be loaded,
which each load tries again. Until then, the previous preset (initially the empty one) stays active
and follows its own file. Likewise, the last valid mcp.json, agents.json, limits.json and
labels.json outlive their files, and the last valid entry of a server an invalid one.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from mcp_tools_proxy.config.active_config import ActiveConfig, choose_preset
from mcp_tools_proxy.config.agents import AGENTS_FILE, load_agent_policies
from mcp_tools_proxy.config.definitions_lock import ActiveLock, load_active_lock, save_lock
from mcp_tools_proxy.config.json_file import (
    load_or_keep_last_good,
    parse_json,
    read_text,
    with_key,
)
from mcp_tools_proxy.config.labels import LABELS_FILE, load_active_labels
from mcp_tools_proxy.config.limits import LIMITS_FILE, load_active_limits
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE, NO_FILE
from mcp_tools_proxy.config.policies import POLICIES_FOLDER, load_policy_files
from mcp_tools_proxy.config.preset_files import (
    LAST_GOOD,
    PRESET_FILES,
    LoadedPreset,
    PresetListing,
    PresetMissing,
    check_preset_id,
    inactive_preset_problems,
    list_presets,
    load_preset,
)
from mcp_tools_proxy.domain.configuration import (
    EMPTY_PRESET,
    Configuration,
    InvalidConfig,
    Preset,
)
from mcp_tools_proxy.domain.definitions import LOCK_FILE, DefinitionsLock
from mcp_tools_proxy.domain.errors import ConfigReadOnly
from mcp_tools_proxy.storage.file_watch import Sleep, changes, state_of
from mcp_tools_proxy.storage.files import write_atomically
from mcp_tools_proxy.wire.text import quote


def set_default_preset(
    folder: Path, preset_id: str, *, write: Callable[[Path, bytes], object] = write_atomically
) -> None:
    """Write the default preset into mcp.json; all other text is kept byte for byte.

    Creates a missing mcp.json. Raises ConfigReadOnly if the file cannot be written, InvalidConfig
    if it is not a JSON object, and PresetMissing for a malformed id.
    """
    check_preset_id(preset_id)
    path = folder / CONFIGURATION_FILE
    try:
        text = read_text(path)
    except FileNotFoundError:
        text = '{\n  "mcpServers": {}\n}\n'
    parse_json(path.name, text, comments=True)
    try:
        write(path, with_key(text, "defaultPresetId", preset_id).encode())
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not folder.is_dir():
            step = "the configuration folder (MCP_PROXY_CONFIG_DIR) does not exist; create it"
        else:
            step = (
                f"{path.name} cannot be written ({error.strerror}); make the configuration folder "
                "writable"
            )
        raise ConfigReadOnly(
            f'{step}, or send "persist": false to switch until the next start'
        ) from error


class ConfigFolder:
    """Reads and writes the configuration folder. All methods block: call them in a thread."""

    def __init__(
        self,
        path: Path,
        *,
        load_configuration: Callable[[], Configuration],
        pinned: str | None = None,
        write_default: Callable[[Path, str], None] = set_default_preset,
    ) -> None:
        """Create a folder; ``pinned`` is the environment's preset, which callers cannot switch."""
        self.path = path
        self.pinned = pinned
        self._load_configuration = load_configuration
        self._write_default = write_default

    def list_presets(self) -> PresetListing:
        """List the presets that can be chosen, and the problems of the other files."""
        return list_presets(self.path)

    def load_preset(self, preset_id: str) -> LoadedPreset:
        """Load a preset. Raises PresetMissing, InvalidConfig."""
        return load_preset(self.path, preset_id)

    def save_default(self, preset_id: str) -> None:
        """Write a preset as default into mcp.json. Raises InvalidConfig for an invalid file."""
        self._write_default(self.path, preset_id)

    def load_lock(self, before: ActiveLock) -> ActiveLock:
        """Load definitions.lock.json; ``before`` is the active lock."""
        return load_active_lock(self.path, before)

    def save_lock(self, lock: DefinitionsLock) -> None:
        """Write definitions.lock.json. Raises ConfigReadOnly."""
        save_lock(self.path, lock)

    def load_active(self, before: ActiveConfig) -> ActiveConfig:
        """Load all files, and return the state that follows ``before`` even if some are invalid."""
        configuration, config_problems = load_or_keep_last_good(
            self._load_configuration,
            before.configuration,
            absent=NO_FILE,
            file=CONFIGURATION_FILE,
        )
        if configuration is not None and before.configuration is not None:
            configuration = configuration.with_last_good(before.configuration)
        chosen = choose_preset(
            configuration,
            before.configuration,
            before.chosen,
            pinned=self.pinned,
            list_presets=self.list_presets,
        )
        policies = load_agent_policies(self.path, before.agent_policies, configuration)
        loaded = replace(
            before,
            configuration=configuration,
            config_problems=config_problems,
            chosen=chosen,
            agent_policies=policies,
            limits=load_active_limits(self.path, before.limits, configuration, policies.agents),
            labels=load_active_labels(self.path, before.labels, configuration),
            lock=load_active_lock(self.path, before.lock),
            policies=load_policy_files(self.path, before.policies),
        )
        return loaded if chosen is None else self._with_chosen(loaded, chosen)

    def _with_chosen(self, current: ActiveConfig, chosen: str) -> ActiveConfig:
        try:
            loaded = self.load_preset(chosen)
        except (PresetMissing, InvalidConfig) as error:
            active = current.preset.preset_id
            return replace(
                current,
                preset=self._reload(current.preset),
                preset_problems=inactive_preset_problems(
                    chosen, error, LAST_GOOD if active == chosen else _named(active)
                ),
            )
        return replace(
            current, preset=loaded.preset, preset_problems=(), preset_warnings=loaded.warnings
        )

    def _reload(self, preset: Preset) -> Preset:
        """Return the current version of a preset, or the given one if it cannot be loaded."""
        try:
            return self.load_preset(preset.preset_id).preset
        except (PresetMissing, InvalidConfig):
            return preset


def folder_changes(folder: Path, *, sleep: Sleep = asyncio.sleep) -> AsyncGenerator[None, None]:
    """Yield when a configuration file may have changed; see ``storage.file_watch.changes``.

    The folder can be missing. Errors never end the iteration.
    """
    return changes(lambda: _snapshot(folder), sleep=sleep)


def _snapshot(folder: Path) -> object:
    """Return a value that changes with each file; an error is a state as well."""
    try:
        names = sorted(name for name in os.listdir(folder) if _is_watched(name))
    except OSError as error:
        return error.errno
    policies = folder / POLICIES_FOLDER
    try:
        names += sorted(f"{POLICIES_FOLDER}/{name}" for name in os.listdir(policies))
    except OSError as error:
        names.append(f"{POLICIES_FOLDER}: {error.errno}")
    return tuple((name, state_of(folder / name)) for name in names)


def _is_watched(name: str) -> bool:
    names = (CONFIGURATION_FILE, AGENTS_FILE, LIMITS_FILE, LABELS_FILE, LOCK_FILE)
    return name in names or fnmatchcase(name, PRESET_FILES)


def _named(preset_id: str) -> str:
    return "no preset" if preset_id == EMPTY_PRESET.preset_id else quote(preset_id)
