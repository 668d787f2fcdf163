"""The active configuration: the last valid version of each file, and the active preset."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from itertools import chain

from mcp_tools_proxy.config.agents import ActiveAgents
from mcp_tools_proxy.config.definitions_lock import ActiveLock
from mcp_tools_proxy.config.json_file import limit_problems
from mcp_tools_proxy.config.labels import ActiveLabels
from mcp_tools_proxy.config.limits import ActiveLimits
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE
from mcp_tools_proxy.config.policies import PolicyFiles, reserved_id_problems
from mcp_tools_proxy.config.preset_files import LoadedPreset, PresetListing
from mcp_tools_proxy.domain.configuration import (
    EMPTY_PRESET,
    Agents,
    Configuration,
    Preset,
    Problem,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.policy.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveConfig:
    """The last valid version of each file, and the problems of the current files."""

    configuration: Configuration | None = None
    """None until mcp.json was first read or found to be absent."""
    chosen: str | None = None
    """The id of the chosen preset; ``preset`` differs while that one cannot be loaded."""
    preset: Preset = EMPTY_PRESET
    config_problems: tuple[Problem, ...] = ()
    preset_problems: tuple[Problem, ...] = ()
    preset_warnings: tuple[Problem, ...] = ()
    agent_policies: ActiveAgents = field(default_factory=ActiveAgents)
    limits: ActiveLimits = field(default_factory=ActiveLimits)
    labels: ActiveLabels = field(default_factory=ActiveLabels)
    lock: ActiveLock = field(default_factory=ActiveLock)
    policies: PolicyFiles = field(default_factory=PolicyFiles)

    @property
    def agents(self) -> Agents | None:
        """The last valid agents.json; None until it was read or found to be absent."""
        return self.agent_policies.agents

    @property
    def visibilities(self) -> Mapping[str, Visibility]:
        """Agent name → permissions; the objects are the same while the files are unchanged."""
        return self.agent_policies.visibilities

    @property
    def list_options(self) -> Mapping[str, ListOptions]:
        """Agent name → list options of its profile."""
        profiles = self.agents.profiles if self.agents else {}
        return {name: profile.list_options for name, profile in profiles.items()}

    @property
    def has_profiles(self) -> bool:
        """Whether a caller could see more by omitting its agent.

        True with any profile, and while agents.json exists but has never been valid.
        """
        return self.agents is None or bool(self.agents.profiles)

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        """The servers of mcp.json by id; empty if the file was never valid."""
        return self.configuration.servers if self.configuration else {}

    @property
    def server_ids(self) -> frozenset[str]:
        """The ids of all servers of mcp.json, including those with an invalid entry."""
        return self.configuration.server_ids if self.configuration else frozenset()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the current files."""
        entries = self.configuration.invalid.values() if self.configuration else ()
        with_policies = self.configuration if self.policies.configured else None
        return unique_problems(
            self.config_problems,
            limit_problems(CONFIGURATION_FILE, tuple(chain.from_iterable(entries))),
            self.preset_problems,
            self.agent_policies.problems,
            self.limits.problems,
            self.labels.problems,
            self.lock.problems,
            self.policies.problems,
            () if with_policies is None else reserved_id_problems(with_policies),
        )

    @property
    def retained_files(self) -> tuple[str, ...]:
        """The files whose current content is not fully active.

        mcp.json with an invalid entry is not included, because its other entries are active.
        """
        problems = chain(
            self.config_problems,
            self.preset_problems,
            self.agent_policies.problems,
            self.limits.problems,
            self.labels.problems,
            self.lock.problems,
            self.policies.problems,
        )
        return tuple(dict.fromkeys(problem.file for problem in problems))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Warnings about the active files."""
        configuration_warnings = self.configuration.warnings if self.configuration else ()
        return unique_problems(
            configuration_warnings,
            self.preset_warnings,
            self.agent_policies.warnings,
            self.limits.warnings,
            self.labels.warnings,
            self.policies.warnings,
        )

    def with_preset(self, loaded: LoadedPreset, *, persisted: bool) -> "ActiveConfig":
        """Return the state after a switch to this preset; mcp.json contains it if ``persisted``."""
        preset_id = loaded.preset.preset_id
        configuration = self.configuration
        if persisted and configuration is not None:
            # The next load must not take our own edit for a changed default: it would be chosen
            # again, and undo a later switch that was not persisted.
            configuration = replace(configuration, default_preset_id=preset_id)
        return replace(
            self,
            configuration=configuration,
            chosen=preset_id,
            preset=loaded.preset,
            preset_problems=(),
            preset_warnings=loaded.warnings,
        )


def unique_problems(*problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Join problems without duplicates: a preset can be active and also belong to an agent."""
    return tuple(dict.fromkeys(chain.from_iterable(problems)))


def choose_preset(
    configuration: Configuration | None,
    before: Configuration | None,
    chosen: str | None,
    *,
    pinned: str | None,
    list_presets: Callable[[], PresetListing],
) -> str | None:
    """Return the id of the preset that should be active; None if none is chosen.

    ``configuration`` is the last read mcp.json, ``before`` the previous one, each None if never
    readable. ``chosen`` is the previous choice, ``pinned`` the preset of the environment.
    """
    if pinned:
        return pinned
    if configuration is None:
        return chosen
    default = configuration.default_preset_id
    if default is not None and (before is None or default != before.default_preset_id):
        return default
    if before is None and chosen is None:
        return _only_preset(list_presets())
    return chosen


def _only_preset(listing: PresetListing) -> str | None:
    broken = {problem.file for problem in listing.problems}
    ids = [preset.preset_id for preset in listing.presets]
    ids += [file.removeprefix("preset_").removesuffix(".json") for file in broken]
    return ids[0] if len(ids) == 1 else None
