"""Publishes registries built from the active configuration and the servers' offers.

``RegistryPublisher`` is the only writer of the active configuration and the registry. Building and
publishing happen without an ``await``, so changes are published one after the other.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
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
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.domain.offers import Shadowed, Snapshot, View
from mcp_tools_proxy.domain.server import ServerConfig, ServerState, ServerStatus
from mcp_tools_proxy.gateway.definition_guard import DefinitionGuard
from mcp_tools_proxy.gateway.registry_builder import (
    BuildComponents,
    BuiltRegistry,
    RegistryBuilder,
)
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules, PolicySetState
from mcp_tools_proxy.gateway.screening import guard_set_of
from mcp_tools_proxy.gateway.unmatched_items import (
    NAMES_SHOWN,
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
        """The last valid discovery by server id, for enabled servers that were reached."""
        ...

    @property
    def pending(self) -> Collection[str]:
        """Ids of servers whose first connection attempt is in progress."""
        ...

    @property
    def statuses(self) -> Sequence[ServerStatus]:
        """The statuses of all servers passed to ``apply``."""
        ...

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Start, stop and replace sessions to match ``wanted``; returns immediately."""
        ...


def untried(pool: ServerPool) -> Collection[str]:
    """Return the servers without a discovery or failure in this run."""
    discovered = {it for it, found in pool.snapshots.items() if not found.is_remembered}
    return set(pool.pending) - discovered


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetState:
    """A preset combined with the servers' current offers."""

    preset: Preset
    missing: tuple[tuple[Missing, Reason], ...]
    """Items named by the preset that no server offers, with reasons (P-07).

    Excludes items of servers that were not tried.
    """
    pending: Sequence[str]
    """Servers of the preset whose first connection attempt is in progress."""
    shadowed: tuple[Shadowed, ...]
    """Items hidden by the same item of an earlier server (P-13)."""
    problems: tuple[Problem, ...]
    """Problems of the files with this preset active."""


def merge_statuses(
    running: Iterable[ServerStatus], configuration: Configuration
) -> tuple[ServerStatus, ...]:
    """Return the statuses of all servers in the file's order.

    A server with an invalid entry uses its last valid one, or is INVALID without one; its status
    lists the entry's problems.
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
    """Build the status of an invalid server; its id can be any text, so it is escaped."""
    shown = printable(server_id[:QUOTE_CHARS])
    return ServerStatus(server_id=shown, state=ServerState.INVALID, transport=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """Result of the last reload; ``ok`` if neither the files nor the registry had problems."""

    ok: bool
    at: datetime


class RegistryPublisher:
    """Publishes registries and holds the active configuration.

    Tasks that load and publish files hold ``lock``, so that changes are applied one after the
    other. Failures keep the last valid registry and configuration. ``apply_limits`` receives the
    rules of limits.json, None while they are unknown.
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
        run_rules: ActiveRunRules | None = None,
        require_agent: bool | None = None,
        list_options: ListOptions = SERVER_NAMES,
        definitions: DefinitionsMode | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.lock = asyncio.Lock()
        self.version = 0
        """Number of published registries."""
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
        self._run_rules = (
            ActiveRunRules(self._builder.local_tools) if run_rules is None else run_rules
        )
        self.definitions = DefinitionGuard(
            metrics,
            local_names=[tool.spec.name for tool in self._builder.local_tools],
            setting=definitions,
        )
        """Differences of the servers' definitions from the lock."""
        self._now = now
        self.config = ActiveConfig()
        self._view = View()
        self._unmatched: tuple[Problem, ...] = ()
        self._policies: PolicySetState | None = None
        """The set of policies that was logged last."""
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
        """The content of mcp.json; invalid entries are replaced by their last valid version."""
        return self.config.configuration or NO_FILE

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """Current offers by server, including hidden items."""
        return self._pool.snapshots

    @property
    def preset_state(self) -> PresetState:
        """The active preset with its unavailable items."""
        return self.state_of(self.config, self._view, self._holder.current)

    @property
    def statuses(self) -> Sequence[ServerStatus]:
        """The statuses of all servers in the order of mcp.json."""
        return merge_statuses(self._pool.statuses, self.configuration)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the files, and of policies that do not fit the tools."""
        return self.config.problems + self._run_rules.problems

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Warnings of the active files, and exclusions and bindings without a match."""
        return self.config.warnings + self._unmatched + self._run_rules.warnings

    @property
    def last_reload(self) -> Reload | None:
        """The result of the last reload; None before the first one."""
        if self._reloaded_at is None:
            return None
        return Reload(ok=self._is_good, at=self._reloaded_at)

    @property
    def _is_good(self) -> bool:
        return self.is_built and not self.problems

    def state_of(self, config: ActiveConfig, view: View, registry: Registry) -> PresetState:
        """Return the state of the preset; ``view`` and ``registry`` were built from ``config``."""
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
            problems=config.problems + self._run_rules.problems,
        )

    def _statuses_by_id(self) -> Mapping[str, ServerStatus]:
        return {it.server_id: it for it in self.statuses}

    def build_unpublished(
        self, wanted: ActiveConfig, snapshots: Mapping[str, Snapshot]
    ) -> BuiltRegistry:
        """Build the registry that ``publish`` would, for previews; can run in a thread."""
        return self._builder.build(
            wanted,
            snapshots,
            examine=self.definitions.compare_uncached,
            generation=self.version + 1,
            statuses=self._statuses_by_id,
        )

    async def publish_screened(self, wanted: ActiveConfig | None = None) -> None:
        """Screen new definitions in a thread, then publish ``wanted`` or the active configuration.

        On the event loop, guards would delay all calls while they screen 4,000 tools. Changes
        during the screening are reported to the reloader and published next.
        """
        if guard_set_of(wanted or self.config) is None:
            self.publish(wanted or self.config)
            await self._follow_rules()
            return
        version = -1
        while version != self.version:  # another registry may be published
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
        await self._follow_rules()

    async def _follow_rules(self) -> None:
        before = self._run_rules.problems, self._run_rules.warnings
        await self._run_rules.follow(self.config, self._pool.snapshots)
        log_new("config.problem", self._run_rules.problems, before[0])
        log_new("config.warning", self._run_rules.warnings, before[1])
        policies = self._run_rules.policy_set
        if policies is not None and policies.loaded and policies != self._policies:
            self._policies = policies
            log.info(
                "policies.active",
                count=len(policies.policies),
                digest=policies.digest,
                waiting=[it.policy_id for it in policies.policies if it.waits][:NAMES_SHOWN],
            )

    def publish(
        self, wanted: ActiveConfig, snapshots: Mapping[str, Snapshot] | None = None
    ) -> None:
        """Filter, build and replace the registry without an ``await``: calls see no mixture (P-16).

        ``snapshots`` default to the servers' current offers. An exception before the replacement
        leaves the previous registry and configuration active.
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
        """Count a successful or failed reload of the configuration."""
        self._reloaded_at = self._now()
        self._metrics.config_reloads.labels("ok" if self._is_good else "failed").inc()
        self._metrics.config_problems.set(len(self.problems))


log = structlog.get_logger()


def log_config_changes(found: ActiveConfig, before: ActiveConfig) -> None:
    """Log problems, warnings and the active preset that are new in ``found``."""
    log_new("config.problem", found.problems, before.problems)
    log_new("config.warning", found.warnings, before.warnings)
    if found.preset.preset_id != before.preset.preset_id:
        log.info("preset.active", preset=found.preset.preset_id)


class ChangeReporter:
    """Logs the effects of a new registry that the previous one did not have."""

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
        """Log omitted items, ``unmatched`` entries, and the number of agents."""
        missing = tuple(missing)
        log_missing_items([it for it in missing if it not in self._missing], preset_id=preset_id)
        log_new("config.warning", unmatched, self._unmatched)
        if _agents(access_rules) != _agents(self._access_rules):
            log.info("agents.active", **_agents(access_rules))
        self._missing, self._unmatched, self._access_rules = missing, unmatched, access_rules


def _agents(access_rules: AccessRules) -> dict[str, object]:
    return {"agents": len(access_rules.agents or ()), "agent_required": access_rules.agent_required}


def log_new(event: str, problems: Iterable[Problem], before: Collection[Problem]) -> None:
    """Log the problems that are not in ``before``."""
    for it in problems:
        if it not in before:
            log.warning(event, file=it.file, path=it.path, reason=it.message)
