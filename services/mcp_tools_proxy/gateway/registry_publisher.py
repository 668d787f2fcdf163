"""Publishes registries: builds each from the active configuration and the servers' offers.

``RegistryPublisher`` is the only writer of the active configuration and of the registry. A registry
is built and published without an ``await``, so what is published follows one change after the
other.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.loader import NO_AGENTS, NO_FILE
from mcp_tools_proxy.domain.audit.registry_version import RegistryVersion
from mcp_tools_proxy.domain.components import (
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
    ToolNameStyle,
)
from mcp_tools_proxy.domain.configuration import Configuration, Missing, Preset, Problem
from mcp_tools_proxy.domain.limits.budget import LimitRules
from mcp_tools_proxy.domain.offers.bindings import ServerBindings
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey, DefinitionsMode, without_items
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.domain.offers.view import Shadowed, View
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.gateway.agent_bindings import BoundAgents
from mcp_tools_proxy.gateway.change_reporter import ChangeReporter
from mcp_tools_proxy.gateway.check.missing_items import explain_missing
from mcp_tools_proxy.gateway.check.unmatched_exclusions import find_unmatched_exclusions
from mcp_tools_proxy.gateway.check.unusable_bindings import find_unusable_bindings
from mcp_tools_proxy.gateway.definitions.definition_guard import DefinitionGuard
from mcp_tools_proxy.json_schema.bound_offers import HeldBack, find_held_back
from mcp_tools_proxy.policy.definitions.withheld_items import WithheldItems
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.preset_filter import accepted_view, filter_capabilities
from mcp_tools_proxy.policy.visibility import PresetScope
from mcp_tools_proxy.registry.component_table import drop_name_conflicts
from mcp_tools_proxy.registry.name_styles import NameStyles
from mcp_tools_proxy.registry.permissions import (
    AGENT_IS_REQUIRED,
    THERE_ARE_PROFILES,
    AccessRules,
)
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.registry.unlisted_offers import UnlistedOffers
from mcp_tools_proxy.telemetry.metrics import Metrics


class ServerPool(Protocol):
    """The sessions with the downstream servers."""

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """The last good discovery of each enabled server that was ever reached, by server id."""
        ...

    @property
    def pending(self) -> Collection[str]:
        """The ids of the servers whose first connection attempt is not over."""
        ...

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Start, stop and replace sessions until they match ``wanted``; returns at once."""
        ...


class RemoteComponents(Protocol):
    """The callable components of a view, each kind in the view's order."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools."""
        ...

    @property
    def prompts(self) -> Sequence[Prompt]:
        """The prompts."""
        ...

    @property
    def resources(self) -> Sequence[Resource]:
        """The resources."""
        ...

    @property
    def templates(self) -> Sequence[ResourceTemplate]:
        """The resource templates."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """How the last reload ended: ``ok`` if neither the files nor the registry had a problem."""

    ok: bool
    at: datetime


class RegistryPublisher:
    """Publishes the registry of a configuration, and knows what is active.

    Whoever loads files and publishes what they say holds ``lock`` meanwhile, so that one change of
    the configuration follows the other. A failure keeps the last good registry and configuration.
    ``apply_limits`` gets the rules of limits.json, None while they are unknown.
    """

    def __init__(
        self,
        *,
        holder: RegistryHolder,
        local_tools: Iterable[Tool],
        local_templates: Iterable[ResourceTemplate] = (),
        pool: ServerPool,
        build_components: Callable[[View, Mapping[str, ServerBindings]], RemoteComponents],
        metrics: Metrics,
        apply_limits: Callable[[LimitRules | None], None] = lambda _: None,
        require_agent: bool | None = None,
        tool_names: ToolNameStyle = ToolNameStyle.SERVER,
        definitions: DefinitionsMode | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.lock = asyncio.Lock()
        self.version = 0
        """How many registries were published."""
        self._holder = holder
        self._local_tools = tuple(local_tools)
        self._local_templates = tuple(local_templates)
        self._pool = pool
        self._build_components = build_components
        self._metrics = metrics
        self._apply_limits = apply_limits
        self._require_agent = require_agent
        self._tool_names = tool_names
        self.definitions = DefinitionGuard(
            metrics,
            local_names=[tool.spec.name for tool in self._local_tools],
            setting=definitions,
        )
        """What of the servers' definitions is not as locked."""
        self._now = now
        self._config = ActiveConfig()
        self._view = View()
        self._unmatched_exclusions: tuple[Problem, ...] = ()
        self._unusable_bindings: tuple[Problem, ...] = ()
        self._reporter = ChangeReporter()
        self._built = False
        self._reloaded_at: datetime | None = None

    def __repr__(self) -> str:
        return (
            f"<RegistryPublisher preset={self.active_preset.preset_id!r} version={self.version} "
            f"missing={len(self.missing)} problems={len(self.problems)}>"
        )

    @property
    def config(self) -> ActiveConfig:
        """The active configuration."""
        return self._config

    @property
    def active_preset(self) -> Preset:
        """The active preset."""
        return self._config.preset

    @property
    def configuration(self) -> Configuration:
        """The content of mcp.json, with the last good entry of a server whose entry is invalid."""
        return self._config.configuration or NO_FILE

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """What each server offers now, whatever of it is shown."""
        return self._pool.snapshots

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The items that the active preset names and no server offers (P-07).

        Items of a server that was not tried yet are not missing yet.
        """
        untried = self._untried
        return tuple(it for it in self._view.missing if it.server_id not in untried)

    @property
    def pending(self) -> Sequence[str]:
        """The servers of the active preset whose first connection attempt is not over."""
        servers = PresetScope.of(self.active_preset).servers
        return [server_id for server_id in self._pool.pending if server_id in servers]

    @property
    def shadowed(self) -> tuple[Shadowed, ...]:
        """The items that are hidden because an earlier server offers the same (P-13)."""
        return self._view.shadowed

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the files as they are now."""
        return self._config.problems

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Harmless oddities of the active files, and exclusions and bindings that match nothing."""
        return self._config.warnings + self._unmatched

    @property
    def _unmatched(self) -> tuple[Problem, ...]:
        return self._unmatched_exclusions + self._unusable_bindings

    @property
    def last_reload(self) -> Reload | None:
        """The result of the last reload; None before the first one."""
        if self._reloaded_at is None:
            return None
        return Reload(ok=self._is_good, at=self._reloaded_at)

    @property
    def is_built(self) -> bool:
        """Whether the last ``publish`` succeeded."""
        return self._built

    @property
    def _untried(self) -> Collection[str]:
        """The servers of which nothing is known yet, neither an offer nor a failure."""
        return set(self._pool.pending) - self._pool.snapshots.keys()

    @property
    def _is_good(self) -> bool:
        """Whether the last build succeeded and the files have no problems."""
        return self._built and not self.problems

    def publish(self, wanted: ActiveConfig) -> None:
        """Filter, build and replace the registry, without an ``await``: no call sees half (P-16).

        An exception before the replacement leaves the previous registry and configuration active.
        """
        self._built = False
        snapshots = self._pool.snapshots
        excluded = wanted.configuration.exclude if wanted.configuration else {}
        exclude = {server_id: Exclusions(entries) for server_id, entries in excluded.items()}
        bindings = wanted.configuration.bindings if wanted.configuration else {}
        held_back = find_held_back(snapshots, bindings)
        usable = without_items(snapshots, frozenset(it.key for it in held_back))
        view = filter_capabilities(usable, wanted.preset, exclude)
        findings = self.definitions.examine(view, snapshots, wanted)
        quarantined = findings.quarantined
        view = accepted_view(usable, wanted.preset, exclude, view, quarantined)
        scope = PresetScope.of(wanted.preset)
        remote = self._build_components(view, bindings)
        tools, conflicting = drop_name_conflicts(self._local_tools, remote.tools)
        profiles = (wanted.agents or NO_AGENTS).profiles
        bound_agents = BoundAgents.of(profiles, tools)
        access_rules = AccessRules(
            agents=None if wanted.agents is None else bound_agents.narrowed(wanted.visibilities),
            agent_required=self._agent_required(wanted),
            agent_rule=AGENT_IS_REQUIRED if self._require_agent else THERE_ARE_PROFILES,
            exclude=exclude,
            servers=wanted.server_ids,
        )
        registry = Registry.build(
            (*self._local_tools, *tools),
            prompts=remote.prompts,
            resources=remote.resources,
            templates=(*self._local_templates, *remote.templates),
            access_rules=access_rules,
            name_styles=NameStyles(by_agent=wanted.name_styles, default=self._tool_names),
            scope=scope,
            unlisted_offers=UnlistedOffers(
                snapshots=snapshots,
                need_task=view.need_task,
                quarantine=WithheldItems.of(quarantined, scope),
                unbound=WithheldItems.of(_shown(held_back, scope), scope),
            ),
            version=RegistryVersion(wanted.preset.preset_id, self.version + 1),
            bind_by_agent=bound_agents.bind_by_agent,
        )
        self._holder.replace(registry)
        self._apply_limits(wanted.limits.rules)
        self._config = wanted
        self._view = view
        self.version += 1
        self._built = True
        self._metrics.preset_missing.set(len(self.missing))
        self._unmatched_exclusions = find_unmatched_exclusions(
            agents=wanted.agents or NO_AGENTS,
            configuration=wanted.configuration or NO_FILE,
            snapshots=snapshots,
            local_tools=[tool.spec.name for tool in self._local_tools],
        )
        missing = explain_missing(
            view,
            conflicting,
            servers=wanted.servers,
            discovered=snapshots.keys(),
            exclude=exclude,
            invalid=wanted.configuration.invalid if wanted.configuration else (),
            pending=self._untried,
            held_back=held_back,
        )
        self.definitions.report(findings, wanted.server_ids)
        self._unusable_bindings = find_unusable_bindings(
            agents=wanted.agents or NO_AGENTS,
            configuration=wanted.configuration or NO_FILE,
            snapshots=snapshots,
            held_back=held_back,
            bound_agents=bound_agents,
        )
        self._reporter.report(missing, self._unmatched, access_rules, wanted.preset.preset_id)

    def count_reload(self) -> None:
        """Count a change of the configuration that was loaded, or that failed."""
        self._reloaded_at = self._now()
        self._metrics.config_reloads.labels("ok" if self._is_good else "failed").inc()
        self._metrics.config_problems.set(len(self.problems))

    def _agent_required(self, wanted: ActiveConfig) -> bool:
        """Return whether a call must name an agent: the setting, else whether profiles exist.

        So no caller gets more than its profile allows by leaving the agent out.
        """
        return wanted.has_profiles if self._require_agent is None else self._require_agent


def _shown(held_back: Iterable[HeldBack], scope: PresetScope) -> Iterator[DefinitionKey]:
    """Yield the items that the preset would show."""
    for it in held_back:
        if scope.allows(it.kind, it.server_id, it.name):
            yield it.key
