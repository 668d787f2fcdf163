"""Builds registries from a configuration and the servers' offers, without side effects."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.agents import NO_AGENTS
from mcp_tools_proxy.config.loader import NO_FILE
from mcp_tools_proxy.domain.audit import RegistryVersion
from mcp_tools_proxy.domain.bindings import ServerBindings
from mcp_tools_proxy.domain.components import RemoteComponents, ResourceTemplate, Tool
from mcp_tools_proxy.domain.configuration import OwnInstructions
from mcp_tools_proxy.domain.definitions import DefinitionKey, without_items
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.domain.offers import Snapshot, View
from mcp_tools_proxy.domain.server import ServerStatus
from mcp_tools_proxy.gateway.screening import guard_set_of, with_shown_hosts
from mcp_tools_proxy.policy.definitions.comparison import Findings, instructions_of
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.presets import accepted_view, filter_capabilities
from mcp_tools_proxy.policy.visibility import Offers, PresetScope
from mcp_tools_proxy.registry.access_rules import (
    AGENT_IS_REQUIRED,
    THERE_ARE_PROFILES,
    AccessRules,
)
from mcp_tools_proxy.registry.component_table import drop_name_conflicts
from mcp_tools_proxy.registry.instructions import InstructionTexts
from mcp_tools_proxy.registry.mcp_lists import NameStyles
from mcp_tools_proxy.registry.registry import Registry
from mcp_tools_proxy.registry.shown_tools import BoundAgents
from mcp_tools_proxy.wire.json_schema.bound_offers import HeldBack, find_held_back

BuildComponents = Callable[[View, Mapping[str, ServerBindings]], RemoteComponents]
Examine = Callable[[View, Mapping[str, Snapshot], ActiveConfig], Findings]
"""Compares the definitions of a view with the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRegistry:
    """A registry with the findings of its construction."""

    registry: Registry
    view: View
    findings: Findings
    conflicting: tuple[Tool, ...]
    """Tools omitted because their name or alias is taken."""
    held_back: tuple[HeldBack, ...]
    """Items with an argument that cannot be bound."""
    bound_agents: BoundAgents


class RegistryBuilder:
    """Builds registries of the gateway's own tools and the servers' items; keeps no state.

    ``require_agent`` and ``list_options`` are settings; if the first is None, agents are required
    when profiles exist.
    """

    def __init__(
        self,
        *,
        local_tools: Iterable[Tool],
        local_templates: Iterable[ResourceTemplate],
        build_components: BuildComponents,
        require_agent: bool | None,
        list_options: ListOptions,
    ) -> None:
        self.local_tools = tuple(local_tools)
        self._local_templates = tuple(local_templates)
        self._build_components = build_components
        self._require_agent = require_agent
        self._list_options = list_options

    def build(
        self,
        wanted: ActiveConfig,
        snapshots: Mapping[str, Snapshot],
        *,
        examine: Examine,
        generation: int,
        statuses: Callable[[], Mapping[str, ServerStatus]],
    ) -> BuiltRegistry:
        """Build the registry of a configuration; slow with many tools.

        ``statuses`` returns the current server statuses by id.
        """
        excluded = wanted.configuration.exclude if wanted.configuration else {}
        exclude = {server_id: Exclusions(entries) for server_id, entries in excluded.items()}
        bindings = wanted.configuration.bindings if wanted.configuration else {}
        held_back = find_held_back(snapshots, bindings)
        usable = without_items(snapshots, frozenset(it.key for it in held_back))
        view = filter_capabilities(usable, wanted.preset, exclude)
        findings = examine(view, snapshots, wanted)
        view = accepted_view(usable, wanted.preset, exclude, view, findings)
        guards = guard_set_of(wanted)
        scope = PresetScope.of(wanted.preset)
        remote = self._build_components(view, bindings)
        tools, conflicting = drop_name_conflicts(self.local_tools, remote.tools)
        profiles = (wanted.agents or NO_AGENTS).profiles
        bound_agents = BoundAgents.of(profiles, tools)
        access_rules = AccessRules(
            agents=None if wanted.agents is None else bound_agents.narrowed(wanted.visibilities),
            agent_required=self._agent_required(wanted),
            agent_rule=AGENT_IS_REQUIRED if self._require_agent else THERE_ARE_PROFILES,
        )
        offers = Offers(
            scope=scope,
            servers=wanted.server_ids,
            exclude=exclude,
            snapshots=snapshots,
            statuses=statuses,
            unbound=frozenset(_shown(held_back, scope)),
            quarantined=findings.quarantined,
            guarded=findings.guarded,
            shadowed={(it.kind, it.server_id, it.name): it.winner for it in view.shadowed},
            taken=frozenset((it.spec.server_id or "", it.spec.bare_name) for it in conflicting),
            need_task=view.need_task,
            invalid_servers=wanted.server_ids - wanted.servers.keys(),
            key_of=(wanted.configuration or NO_FILE).key_of,
        )
        registry = Registry.build(
            (*self.local_tools, *tools),
            prompts=remote.prompts,
            resources=remote.resources,
            templates=(*self._local_templates, *remote.templates),
            access_rules=access_rules,
            name_styles=NameStyles(by_agent=wanted.list_options, default=self._list_options),
            offers=offers,
            version=RegistryVersion(wanted.preset.preset_id, generation),
            bound_agents=bound_agents,
            guards=None if guards is None else with_shown_hosts(guards, view),
            instructions=_instructions(wanted, findings, snapshots),
        )
        return BuiltRegistry(
            registry=registry,
            view=view,
            findings=findings,
            conflicting=conflicting,
            held_back=held_back,
            bound_agents=bound_agents,
        )

    def _agent_required(self, wanted: ActiveConfig) -> bool:
        """Return whether calls must name an agent: the setting, otherwise whether profiles exist.

        So a caller cannot exceed its profile by omitting the agent.
        """
        return wanted.has_profiles if self._require_agent is None else self._require_agent


def _instructions(
    wanted: ActiveConfig, findings: Findings, snapshots: Mapping[str, Snapshot]
) -> InstructionTexts:
    """Return the instructions of the preset's servers and those that presets define instead.

    Omits the text of servers with a quarantined or guarded definition.
    """
    withheld = {key.server_id for key in (*findings.quarantined, *findings.guarded)}
    own = instructions_of(snapshots, PresetScope.of(wanted.preset).servers - withheld)
    shown = ((key.server_id, findings.redacted.get(key, it)) for key, it in own)
    return InstructionTexts(
        by_server={server_id: str(it["instructions"]) for server_id, it in shown},
        of_preset=wanted.preset.instructions,
        by_agent=dict(_instructions_by_agent(wanted)),
    )


def _instructions_by_agent(wanted: ActiveConfig) -> Iterator[tuple[str, OwnInstructions]]:
    presets = wanted.agent_policies.presets
    for name, profile in (wanted.agents or NO_AGENTS).profiles.items():
        compiled = presets.get(profile.preset_id or "")
        own = None if compiled is None else compiled.loaded.preset.instructions
        if own is not None:
            yield name, own


def _shown(held_back: Iterable[HeldBack], scope: PresetScope) -> Iterator[DefinitionKey]:
    for it in held_back:
        if scope.allows(it.kind, it.server_id, it.name):
            yield it.key
