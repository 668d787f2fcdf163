"""Which configuration and which preset are active, by the files.

A preset is first chosen (``preset_choice``), then active once its file can be loaded. Each load
reads the chosen preset again. While that fails, the previous preset stays active (at the start: the
empty one) and follows its own file; as soon as the chosen preset can be loaded, it is active. In
the same way the last good mcp.json and agents.json outlive their files, and the last good entry of
a server an invalid one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from mcp_tools_proxy.config.active_agents import ActiveAgents, load_agent_policies
from mcp_tools_proxy.config.json_file import limit_problems
from mcp_tools_proxy.config.last_good import (
    LAST_GOOD,
    inactive_preset_problems,
    load_or_keep_last_good,
)
from mcp_tools_proxy.config.loader import (
    CONFIGURATION_FILE,
    NO_FILE,
    LoadedPreset,
    PresetListing,
    PresetMissing,
    list_presets,
    load_preset,
    set_default_preset,
)
from mcp_tools_proxy.config.preset_choice import choose_preset
from mcp_tools_proxy.domain.configuration import (
    EMPTY_PRESET,
    Agents,
    Configuration,
    InvalidConfig,
    Preset,
    PresetSummary,
    Problem,
)
from mcp_tools_proxy.domain.errors import ConfigReadOnly, PresetNotFound, PresetPinned
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.policy.aliases import ANY_NAMES, ToolNaming
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.wire.text import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveConfig:
    """The last good version of each file, and the problems of the present files."""

    configuration: Configuration | None = None
    """None until mcp.json was read for the first time or found to be absent."""
    chosen: str | None = None
    """The id of the preset that should be active; ``preset`` differs while it cannot be loaded."""
    preset: Preset = EMPTY_PRESET
    config_problems: tuple[Problem, ...] = ()
    preset_problems: tuple[Problem, ...] = ()
    preset_warnings: tuple[Problem, ...] = ()
    agent_policies: ActiveAgents = field(default_factory=ActiveAgents)

    @property
    def agents(self) -> Agents | None:
        """The last good agents.json; None until it was read or found to be absent."""
        return self.agent_policies.agents

    @property
    def visibilities(self) -> Mapping[str, Visibility]:
        """What each agent may use, by agent name; the same objects while the files are the same."""
        return self.agent_policies.visibilities

    @property
    def has_profiles(self) -> bool:
        """Whether a caller could see more by leaving its agent out.

        True with any profile, and while agents.json exists and could never be loaded.
        """
        return self.agents is None or bool(self.agents.profiles)

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        """The servers of mcp.json by id; none while the file could never be loaded."""
        return self.configuration.servers if self.configuration else {}

    @property
    def server_ids(self) -> frozenset[str]:
        """The ids of all servers of mcp.json, also of those whose entry is invalid."""
        return self.configuration.server_ids if self.configuration else frozenset()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the files as they are now."""
        entries = self.configuration.invalid.values() if self.configuration else ()
        return unique_problems(
            self.config_problems,
            limit_problems(CONFIGURATION_FILE, tuple(chain.from_iterable(entries))),
            self.preset_problems,
            self.agent_policies.problems,
        )

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The oddities of the active files that do no harm."""
        configuration_warnings = self.configuration.warnings if self.configuration else ()
        return unique_problems(
            configuration_warnings, self.preset_warnings, self.agent_policies.warnings
        )

    def with_preset(self, loaded: LoadedPreset, *, persisted: bool) -> "ActiveConfig":
        """Return the state after a switch to this preset; ``persisted``: mcp.json has it, too."""
        preset_id = loaded.preset.preset_id
        configuration = self.configuration
        if persisted and configuration is not None:
            # The next load must not take our own edit for a changed default, which would be chosen
            # again and undo a later switch that was not persisted.
            configuration = replace(configuration, default_preset_id=preset_id)
        return replace(
            self,
            configuration=configuration,
            chosen=preset_id,
            preset=loaded.preset,
            preset_problems=(),
            preset_warnings=loaded.warnings,
        )


class ConfigFolder:
    """Reads and writes the configuration folder. Every method blocks: call it in a thread."""

    def __init__(
        self,
        path: Path,
        *,
        load_configuration: Callable[[], Configuration],
        pinned: str | None = None,
        write_default: Callable[[Path, str], None] = set_default_preset,
        naming: ToolNaming = ANY_NAMES,
    ) -> None:
        """Create a folder; a preset whose tools ``naming`` cannot name is invalid.

        ``pinned`` is the preset of the environment, which no caller can switch.
        """
        self.path = path
        self._naming = naming
        self._load_configuration = load_configuration
        self._pinned = pinned
        self._write_default = write_default

    def presets(self) -> tuple[PresetSummary, ...]:
        """List the presets that can be chosen, oldest first."""
        return self.listing().presets

    def listing(self) -> PresetListing:
        """List the presets that can be chosen, and the problems of the other files."""
        return list_presets(self.path, naming=self._naming)

    def load_preset(self, preset_id: str) -> LoadedPreset:
        """Load a preset. Raises PresetMissing, InvalidConfig."""
        return load_preset(self.path, preset_id, naming=self._naming)

    def choose(self, preset_id: str, *, persist: bool) -> LoadedPreset:
        """Load a preset to switch to, and with ``persist`` make it the default (P-20).

        Raises PresetPinned, PresetNotFound, ConfigReadOnly; then nothing is written.
        """
        if self._pinned is not None:
            raise PresetPinned(
                f"the environment pins the preset to {quote(self._pinned)}; "
                "unset MCP_PROXY_PRESET and restart to be able to choose"
            )
        try:
            loaded = self.load_preset(preset_id)
        except PresetMissing as error:
            raise PresetNotFound(
                f"there is no preset {quote(preset_id)}; list the presets to see which there are"
            ) from error
        except InvalidConfig as error:
            raise PresetNotFound(
                f"preset {quote(preset_id)} has problems; mend its file, then choose it again",
                details=_details(error),
            ) from error
        if persist:
            self._persist(preset_id)
        return loaded

    def _persist(self, preset_id: str) -> None:
        try:
            self._write_default(self.path, preset_id)
        except InvalidConfig as error:
            raise ConfigReadOnly(
                "mcp.json has problems, so the choice cannot be written to it: mend it, or send "
                '"persist": false to switch until the next start',
                details=_details(error),
            ) from error

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
            pinned=self._pinned,
            list_presets=self.listing,
        )
        loaded = replace(
            before,
            configuration=configuration,
            config_problems=config_problems,
            chosen=chosen,
            agent_policies=load_agent_policies(
                self.path, before.agent_policies, configuration, self._naming
            ),
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
                    chosen, error, LAST_GOOD if active == chosen else quote(active)
                ),
            )
        return replace(
            current, preset=loaded.preset, preset_problems=(), preset_warnings=loaded.warnings
        )

    def _reload(self, preset: Preset) -> Preset:
        """Return the present version of a preset, or the given one if it cannot be loaded."""
        try:
            return self.load_preset(preset.preset_id).preset
        except (PresetMissing, InvalidConfig):
            return preset


def _details(error: InvalidConfig) -> Mapping[str, object]:
    return {"problems": [str(problem) for problem in error.problems]}


def unique_problems(*problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Join lists of problems without duplicates: a preset may be active and an agent's as well."""
    return tuple(dict.fromkeys(chain.from_iterable(problems)))
