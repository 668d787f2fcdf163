"""Publishes registries: builds each from the active configuration and the servers' offers.

``RegistryPublisher`` is the only writer of the active configuration and of the registry. A registry
is built and published without an ``await``, so what is published follows one change after the
other.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import structlog

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.agents import NO_AGENTS
from mcp_tools_proxy.config.loader import NO_FILE
from mcp_tools_proxy.domain.budget import LimitRules
from mcp_tools_proxy.domain.components import ResourceTemplate, Tool
from mcp_tools_proxy.domain.configuration import Configuration, Missing, Preset, Problem
from mcp_tools_proxy.domain.definitions import DefinitionsMode
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.domain.offers import Shadowed, Snapshot, View
from mcp_tools_proxy.domain.server import ServerConfig, ServerState, ServerStatus
from mcp_tools_proxy.gateway.definition_guard import DefinitionGuard
from mcp_tools_proxy.gateway.registry_builder import (
    BuildComponents,
    BuiltRegistry,
    RegistryBuilder,
)
from mcp_tools_proxy.gateway.screening import guard_set_of
from mcp_tools_proxy.gateway.unmatched_items import (
    MissingItems,
    explain_missing,
    find_unmatched_exclusions,
    find_unusable_bindings,
    log_missing_items,
)
from mcp_tools_proxy.policy.visibility import PresetScope, Reason
from mcp_tools_proxy.registry.access_rules import UNRESTRICTED, AccessRules
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable


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

    @property
    def statuses(self) -> Sequence[ServerStatus]:
        """The status of every server that ``apply`` was given."""
        ...

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Start, stop and replace sessions until they match ``wanted``; returns at once."""
        ...


def untried(pool: ServerPool) -> Collection[str]:
    """Return the servers of which this run knows nothing yet, neither an offer nor a failure."""
    discovered = {it for it, found in pool.snapshots.items() if not found.is_remembered}
    return set(pool.pending) - discovered


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetState:
    """A preset with the servers' offers of now."""

    preset: Preset
    missing: tuple[tuple[Missing, Reason], ...]
    """The items that the preset names and no server offers, and why (P-07).

    Items of a server that was not tried yet are not missing yet.
    """
    pending: Sequence[str]
    """The servers of the preset whose first connection attempt is not over."""
    shadowed: tuple[Shadowed, ...]
    """The items that are hidden because an earlier server offers the same (P-13)."""
    problems: tuple[Problem, ...]
    """The problems of the files, with this preset as the active one."""


def merge_statuses(
    running: Iterable[ServerStatus], configuration: Configuration
) -> tuple[ServerStatus, ...]:
    """Return the status of every server, in the file's order.

    A server whose entry is invalid runs by its last good entry, or is INVALID if it never had one;
    either way its status lists the entry's problems.
    """
    known = {status.server_id: status for status in running}
    if not configuration.invalid:
        return tuple(known.values())
    problems = {
        server_id: tuple(map(str, found)) for server_id, found in configuration.invalid.items()
    }
    return tuple(
        replace(
            known.get(server_id) or _invalid(server_id),
            problems=problems.get(server_id, ()),
            original_id=configuration.original_ids.get(server_id),
        )
        for server_id in dict.fromkeys((*configuration.order, *known))
        if server_id in known or server_id in problems
    )


def _invalid(server_id: str) -> ServerStatus:
    """Build the status of a server that cannot run; its id may be any string, so it is escaped."""
    shown = printable(server_id[:QUOTE_CHARS])
    return ServerStatus(server_id=shown, state=ServerState.INVALID, transport=None)


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
        build_components: BuildComponents,
        metrics: Metrics,
        apply_limits: Callable[[LimitRules | None], None] = lambda _: None,
        require_agent: bool | None = None,
        list_options: ListOptions = SERVER_NAMES,
        definitions: DefinitionsMode | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.lock = asyncio.Lock()
        self.version = 0
        """How many registries were published."""
        self._holder = holder
        self._builder = RegistryBuilder(
            local_tools=local_tools,
            local_templates=local_templates,
            build_components=build_components,
            require_agent=require_agent,
            list_options=list_options,
        )
        self._pool = pool
        self._metrics = metrics
        self._apply_limits = apply_limits
        self.definitions = DefinitionGuard(
            metrics,
            local_names=[tool.spec.name for tool in self._builder.local_tools],
            setting=definitions,
        )
        """What of the servers' definitions is not as locked."""
        self._now = now
        self.config = ActiveConfig()
        """The active configuration."""
        self._view = View()
        self._unmatched: tuple[Problem, ...] = ()
        self._reporter = ChangeReporter()
        self.is_built = False
        """Whether the last ``publish`` succeeded."""
        self._reloaded_at: datetime | None = None

    def __repr__(self) -> str:
        return (
            f"<RegistryPublisher preset={self.config.preset.preset_id!r} version={self.version} "
            f"missing={len(self.preset_state.missing)} problems={len(self.config.problems)}>"
        )

    @property
    def configuration(self) -> Configuration:
        """The content of mcp.json, with the last good entry of a server whose entry is invalid."""
        return self.config.configuration or NO_FILE

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """What each server offers now, whatever of it is shown."""
        return self._pool.snapshots

    @property
    def preset_state(self) -> PresetState:
        """The active preset, and what of it callers cannot use."""
        return self.state_of(self.config, self._view, self._holder.current)

    @property
    def statuses(self) -> Sequence[ServerStatus]:
        """The status of each server, in the order of mcp.json."""
        return merge_statuses(self._pool.statuses, self.configuration)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Harmless oddities of the active files, and exclusions and bindings that match nothing."""
        return self.config.warnings + self._unmatched

    @property
    def last_reload(self) -> Reload | None:
        """The result of the last reload; None before the first one."""
        if self._reloaded_at is None:
            return None
        return Reload(ok=self._is_good, at=self._reloaded_at)

    @property
    def _is_good(self) -> bool:
        """Whether the last build succeeded and the files have no problems."""
        return self.is_built and not self.config.problems

    def state_of(self, config: ActiveConfig, view: View, registry: Registry) -> PresetState:
        """Return the state of the preset of ``config``, of which the others were built."""
        pool, offers = self._pool, registry.offers.now()
        pending, not_tried = pool.pending, untried(pool)
        servers = PresetScope.of(config.preset).servers
        return PresetState(
            preset=config.preset,
            missing=tuple(
                (it, offers.missing_reason(it))
                for it in view.missing
                if it.server_id not in not_tried
            ),
            pending=[server_id for server_id in pending if server_id in servers],
            shadowed=view.shadowed,
            problems=config.problems,
        )

    def _statuses_by_id(self) -> Mapping[str, ServerStatus]:
        return {it.server_id: it for it in self.statuses}

    def build_unpublished(
        self, wanted: ActiveConfig, snapshots: Mapping[str, Snapshot]
    ) -> BuiltRegistry:
        """Build the registry that ``publish`` would, to look at; it may be done in a thread."""
        return self._builder.build(
            wanted,
            snapshots,
            examine=self.definitions.compare_uncached,
            generation=self.version + 1,
            statuses=self._statuses_by_id,
        )

    async def publish_screened(self, wanted: ActiveConfig | None = None) -> None:
        """Screen new definitions in a thread, then publish ``wanted`` or the active configuration.

        On the event loop the guards of 4,000 tools would hold all calls up. What changes meanwhile
        is published next: the change is reported to the reloader.
        """
        if guard_set_of(wanted or self.config) is None:
            self.publish(wanted or self.config)
            return
        version = -1
        while version != self.version:  # a registry that was published meanwhile may be newer
            version, config, snapshots = self.version, wanted or self.config, self._pool.snapshots
            screening = self.definitions.screening.copy()
            build = partial(
                self._builder.build,
                config,
                snapshots,
                generation=version + 1,
                statuses=self._statuses_by_id,
            )
            examine = partial(self.definitions.compare_uncached, screening=screening)
            await asyncio.to_thread(build, examine=examine)
            self.definitions.screening.add(screening)
        self.publish(config, snapshots)

    def publish(
        self, wanted: ActiveConfig, snapshots: Mapping[str, Snapshot] | None = None
    ) -> None:
        """Filter, build and replace the registry, without an ``await``: no call sees half (P-16).

        ``snapshots`` are what the servers offer, by default now. An exception before the
        replacement leaves the previous registry and configuration active.
        """
        self.is_built = False
        snapshots = self._pool.snapshots if snapshots is None else snapshots
        built = self._builder.build(
            wanted,
            snapshots,
            examine=self.definitions.examine,
            generation=self.version + 1,
            statuses=self._statuses_by_id,
        )
        access_rules = built.registry.access_rules
        self._holder.replace(built.registry)
        self._apply_limits(wanted.limits.rules)
        self.config = wanted
        self._view = built.view
        self.version += 1
        self.is_built = True
        self._metrics.preset_missing.set(len(self.preset_state.missing))
        agents, configuration = wanted.agents or NO_AGENTS, wanted.configuration or NO_FILE
        self._unmatched = (
            *find_unmatched_exclusions(
                agents=agents,
                configuration=configuration,
                snapshots=snapshots,
                local_tools=[tool.spec.name for tool in self._builder.local_tools],
            ),
            *find_unusable_bindings(
                agents=agents,
                configuration=configuration,
                snapshots=snapshots,
                held_back=built.held_back,
                bound_agents=built.bound_agents,
            ),
        )
        missing = explain_missing(
            built.view,
            built.conflicting,
            built.registry.offers,
            pending=untried(self._pool),
        )
        self.definitions.report(built.findings, wanted.server_ids)
        self._reporter.report(missing, self._unmatched, access_rules, wanted.preset.preset_id)

    def count_reload(self) -> None:
        """Count a change of the configuration that was loaded, or that failed."""
        self._reloaded_at = self._now()
        self._metrics.config_reloads.labels("ok" if self._is_good else "failed").inc()
        self._metrics.config_problems.set(len(self.config.problems))


log = structlog.get_logger()


def log_config_changes(found: ActiveConfig, before: ActiveConfig) -> None:
    """Log the problems, warnings and active preset of ``found`` that ``before`` had not."""
    log_new("config.problem", found.problems, before.problems)
    log_new("config.warning", found.warnings, before.warnings)
    if found.preset.preset_id != before.preset.preset_id:
        log.info("preset.active", preset=found.preset.preset_id)


class ChangeReporter:
    """Logs what a new registry changes; what it logged of the previous one is not logged again."""

    def __init__(self) -> None:
        self._missing: Collection[MissingItems] = ()
        self._unmatched: Collection[Problem] = ()
        self._access_rules = UNRESTRICTED

    def report(
        self,
        missing: Iterable[MissingItems],
        unmatched: Collection[Problem],
        access_rules: AccessRules,
        preset_id: str,
    ) -> None:
        """Log what a registry leaves out, ``unmatched`` entries, and the number of agents."""
        missing = tuple(missing)
        log_missing_items([it for it in missing if it not in self._missing], preset_id=preset_id)
        log_new("config.warning", unmatched, self._unmatched)
        if _agents(access_rules) != _agents(self._access_rules):
            log.info("agents.active", **_agents(access_rules))
        self._missing, self._unmatched, self._access_rules = missing, unmatched, access_rules


def _agents(access_rules: AccessRules) -> dict[str, object]:
    return {"agents": len(access_rules.agents or ()), "agent_required": access_rules.agent_required}


def log_new(event: str, problems: Iterable[Problem], before: Collection[Problem]) -> None:
    """Log the problems that were not there ``before``."""
    for it in problems:
        if it not in before:
            log.warning(event, file=it.file, path=it.path, reason=it.message)
