"""The guards that the files of the configuration turn on, each with its place in its file."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.json_file import json_path
from mcp_tools_proxy.config.last_good import preset_file
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE, NO_AGENTS, NO_FILE
from mcp_tools_proxy.domain.audit.rule_source import RuleSource
from mcp_tools_proxy.domain.configuration import Preset
from mcp_tools_proxy.domain.guards import GuardActions, GuardName, GuardRule, GuardRules
from mcp_tools_proxy.domain.offers.view import Route, View
from mcp_tools_proxy.policy.definitions.canonical import canonical_json
from mcp_tools_proxy.policy.guards.guard_set import GuardSet
from mcp_tools_proxy.policy.guards.known_hosts import hosts_in, hosts_of_server


def guard_set_of(config: ActiveConfig) -> GuardSet | None:
    """Return the guards of a configuration, with the hosts of servers' entries; None for none."""
    configuration = config.configuration or NO_FILE
    by_server = configuration.guards
    presets = config.agent_policies.presets
    by_agent = {
        name: compiled.loaded.preset
        for name, profile in (config.agents or NO_AGENTS).profiles.items()
        if (compiled := presets.get(profile.preset_id or "")) and compiled.loaded.preset.guards
    }
    if not (by_server or config.preset.guards or by_agent):
        return None
    return GuardSet(
        preset=_of_preset(config.preset),
        by_server={
            server_id: _rules(
                actions,
                CONFIGURATION_FILE,
                ("mcpServers", configuration.key_of(server_id), "guards"),
            )
            for server_id, actions in by_server.items()
        },
        by_agent={name: _of_preset(preset) for name, preset in by_agent.items()},
        hosts={server_id: hosts_of_server(server) for server_id, server in config.servers.items()},
    )


def with_shown_hosts(guards: GuardSet, view: View) -> GuardSet:
    """Return the guards with the hosts of shown definitions, which results may link to."""
    rules = (guards.preset, *guards.by_server.values(), *guards.by_agent.values())
    if not any(name in one for one in rules for name in (GuardName.IMAGES, GuardName.LINKS)):
        return guards
    hosts = {server_id: set(known) for server_id, known in guards.hosts.items()}
    for route in _routes(view):
        hosts.setdefault(route.server_id, set()).update(hosts_in(canonical_json(route.shown)))
    return replace(guards, hosts={it: frozenset(known) for it, known in hosts.items()})


def _routes(view: View) -> Iterable[Route]:
    routed = (view.prompts, view.resources, view.templates)
    return chain(view.tools.values(), *(chain(*routes.values()) for routes in routed))


def _of_preset(preset: Preset) -> GuardRules:
    return _rules(preset.guards, preset_file(preset.preset_id), ("guards",))


def _rules(
    actions: GuardActions, file: str, place: tuple[str, ...]
) -> Mapping[GuardName, GuardRule]:
    return {
        name: GuardRule(action, RuleSource(file, json_path((*place, name.value))))
        for name, action in actions.items()
    }
