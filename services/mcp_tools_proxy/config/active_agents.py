"""What each agent may use, compiled from agents.json and the presets that its profiles name.

The last good version of each file stays active. A preset that could never be loaded counts as the
empty one, so its agents see nothing of any server: a mistake never widens an agent's rights. What
did not change between two loads stays the same object, and agents with equal rights share one
``Visibility``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

from mcp_tools_proxy.config.json_file import Location, first_problems, json_path, limit_problems
from mcp_tools_proxy.config.last_good import (
    LAST_GOOD,
    inactive_preset_problems,
    load_or_keep_last_good,
    preset_file,
)
from mcp_tools_proxy.config.loader import (
    AGENTS_FILE,
    NO_AGENTS,
    LoadedPreset,
    PresetMissing,
    load_agents,
    load_preset,
)
from mcp_tools_proxy.config.unknown_keys import also_at
from mcp_tools_proxy.domain.configuration import (
    AgentProfile,
    Agents,
    Configuration,
    InvalidConfig,
    Problem,
)
from mcp_tools_proxy.domain.list_options import SERVER_NAMES
from mcp_tools_proxy.policy.visibility import NO_SCOPE, PresetScope, Visibility
from mcp_tools_proxy.wire.identifiers import server_id_of
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

_NO_AGENT_IS_KNOWN = Problem(
    file=AGENTS_FILE,
    path="$",
    message=(
        "until it is fixed, agents are unknown, and calls without an agent are refused too, "
        "unless MCP_PROXY_REQUIRE_AGENT is false"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPreset:
    """The last good version of a preset, compiled once for all profiles that name it."""

    loaded: LoadedPreset
    scope: PresetScope = field(compare=False)

    @classmethod
    def of(cls, loaded: LoadedPreset, before: Self | None) -> Self:
        """Compile a preset, or take the scope of ``before`` if the preset is unchanged."""
        if before is not None and before.loaded.preset == loaded.preset:
            return cls(loaded=loaded, scope=before.scope)
        return cls(loaded=loaded, scope=PresetScope.of(loaded.preset))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveAgents:
    """The active agents. Compiled values follow from the other fields and are not compared."""

    agents: Agents | None = None
    """None until agents.json was read for the first time or found to be absent."""
    presets: Mapping[str, CompiledPreset] = field(default_factory=dict)
    """By id; a preset that could never be loaded is left out."""
    visibilities: Mapping[str, Visibility] = field(default_factory=dict, compare=False)
    """By the agent's name."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_agent_policies(
    folder: Path, before: ActiveAgents, configuration: Configuration | None
) -> ActiveAgents:
    """Load agents.json and its presets, and return the state that follows ``before``. Blocks.

    ``configuration`` is that of mcp.json, None while it could never be loaded.
    """
    agents, problems = load_or_keep_last_good(
        partial(load_agents, folder), before.agents, absent=NO_AGENTS, file=AGENTS_FILE
    )
    if agents is None:
        return ActiveAgents(problems=(*problems, _NO_AGENT_IS_KNOWN))
    presets, preset_problems = _presets(folder, agents, before.presets)
    return ActiveAgents(
        agents=agents,
        presets=presets,
        visibilities=_visibilities(agents, presets, before),
        problems=problems + preset_problems,
        warnings=(
            *agents.warnings,
            *_unknown_servers(agents, configuration),
            *(warning for preset in presets.values() for warning in preset.loaded.warnings),
        ),
    )


def _presets(
    folder: Path, agents: Agents, before: Mapping[str, CompiledPreset]
) -> tuple[Mapping[str, CompiledPreset], tuple[Problem, ...]]:
    """Load each preset that a profile names; return those that are active, and the problems."""
    presets: dict[str, CompiledPreset] = {}
    problems: list[Problem] = []
    for preset_id, users in _users(agents).items():
        last_good = before.get(preset_id)
        try:
            known = None if last_good is None else last_good.loaded
            loaded = load_preset(folder, preset_id, known=known)
        except (PresetMissing, InvalidConfig) as error:
            if last_good is None:
                problems += _never_loaded(preset_id, error, users)
            else:
                presets[preset_id] = last_good
                problems += inactive_preset_problems(preset_id, error, LAST_GOOD)
        else:
            presets[preset_id] = CompiledPreset.of(loaded, last_good)
    return presets, tuple(problems)


def _users(agents: Agents) -> Mapping[str, list[int]]:
    """Return the indexes of the agents that name a preset, by preset id."""
    users: dict[str, list[int]] = {}
    for index, profile in enumerate(agents.profiles.values()):
        if profile.preset_id is not None:
            users.setdefault(profile.preset_id, []).append(index)
    return users


def _never_loaded(
    preset_id: str, error: PresetMissing | InvalidConfig, users: list[int]
) -> Iterator[Problem]:
    is_broken = isinstance(error, InvalidConfig)
    reason = (
        "has problems: fix it" if is_broken else "does not exist: create it, or name another preset"
    )
    message = f"{preset_file(preset_id)} {reason}; until then the agent sees nothing of any server"
    yield from limit_problems(
        AGENTS_FILE,
        [
            Problem(file=AGENTS_FILE, path=json_path(("agents", index, "preset")), message=message)
            for index in users
        ],
    )
    if isinstance(error, InvalidConfig):
        yield from error.problems


def _visibilities(
    agents: Agents, presets: Mapping[str, CompiledPreset], before: ActiveAgents
) -> Mapping[str, Visibility]:
    """Compile the profiles, reusing what ``before`` has compiled already."""
    known = before.agents.profiles if before.agents else {}
    compiled = {_nameless(profile): before.visibilities[name] for name, profile in known.items()}
    visibilities: dict[str, Visibility] = {}
    for name, profile in agents.profiles.items():
        scope = _scope(profile, presets)
        nameless = _nameless(profile)
        visibility = compiled.get(nameless)
        if visibility is None or visibility.preset is not scope:
            visibility = compiled[nameless] = Visibility.of(profile, scope)
        visibilities[name] = visibility
    return visibilities


def _nameless(profile: AgentProfile) -> AgentProfile:
    """Return a profile without its name: a key under which profiles of equal rights are equal."""
    return replace(profile, name="", list_options=SERVER_NAMES, bindings={})


def _scope(profile: AgentProfile, presets: Mapping[str, CompiledPreset]) -> PresetScope | None:
    if profile.preset_id is None:
        return None
    preset = presets.get(profile.preset_id)
    return NO_SCOPE if preset is None else preset.scope


def _unknown_servers(agents: Agents, configuration: Configuration | None) -> tuple[Problem, ...]:
    """Return a warning for each server that a profile allows and mcp.json does not have (A-15)."""
    if configuration is None:
        return ()
    known = configuration.server_ids
    unknown: dict[str, list[Location]] = {}
    for index, profile in enumerate(agents.profiles.values()):
        for place, server_id in enumerate(profile.server_ids or ()):
            if server_id_of(server_id) not in known:
                unknown.setdefault(server_id, []).append(("agents", index, "client_ids", place))

    def warning(it: tuple[str, list[Location]]) -> Problem:
        server_id, (first, *others) = it
        hint = did_you_mean(closest_match(server_id, known), ", so it is ignored")
        message = f"{quote(server_id)} is not a server in mcp.json{hint}{also_at(others)}"
        return Problem(file=AGENTS_FILE, path=json_path(first), message=message)

    return first_problems(AGENTS_FILE, list(unknown.items()), warning)
