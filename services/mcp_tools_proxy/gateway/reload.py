"""Keeps the registry as the files and the servers have it: the one writer of what is in force."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import structlog

from mcp_tools_proxy.config.active import ActiveConfig, ConfigFolder
from mcp_tools_proxy.config.folder_watch import changes
from mcp_tools_proxy.config.loader import NO_AGENTS, NO_FILE
from mcp_tools_proxy.config.unmatched_exclusions import find_unmatched_exclusions
from mcp_tools_proxy.domain.components import Prompt, Resource, ResourceTemplate, Tool
from mcp_tools_proxy.domain.configuration import (
    Configuration,
    Missing,
    Preset,
    PresetSummary,
    Problem,
)
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.domain.snapshot import Snapshot
from mcp_tools_proxy.domain.view import Shadowed, View
from mcp_tools_proxy.gateway.check.findings import explain_missing
from mcp_tools_proxy.gateway.reload_report import ChangeReporter
from mcp_tools_proxy.policy.aliases import ToolNameStyle
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.preset_filter import filter_capabilities
from mcp_tools_proxy.policy.visibility import PresetScope
from mcp_tools_proxy.registry.access import Access
from mcp_tools_proxy.registry.hidden_items import HiddenItems
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.registry.table import drop_name_conflicts
from mcp_tools_proxy.telemetry.metrics import Metrics

log = structlog.get_logger()


class Pool(Protocol):
    """The sessions with the downstream servers."""

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """The last good discovery of each server that is wanted, enabled and was ever reached."""
        ...

    @property
    def pending(self) -> Collection[str]:
        """The servers that are being connected to for the first time."""
        ...

    def apply(self, wanted: Mapping[str, ServerConfig]) -> None:
        """Start, stop and replace sessions until they are those of ``wanted``; does not wait."""
        ...


class Components(Protocol):
    """What a view is made of, ready to be used."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools, in the view's order, as the others are."""
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
    """How the last reload ended: ``ok`` when nothing is wrong with what it read and built."""

    ok: bool
    at: datetime


class Reloader:
    """Reads the files, tells the pool, filters, builds and swaps; a failure keeps the last good.

    Call ``load`` once, then keep ``run`` running, and have ``rebuild`` called when what a server
    offers changes. ``in_force`` has the rules of choosing the preset.
    """

    def __init__(
        self,
        *,
        holder: RegistryHolder,
        local_tools: Iterable[Tool],
        pool: Pool,
        build_components: Callable[[View], Components],
        files: ConfigFolder,
        metrics: Metrics,
        require_agent: bool | None = None,
        tool_names: ToolNameStyle = ToolNameStyle.SERVER,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._holder = holder
        self._local_tools = tuple(local_tools)
        self._pool = pool
        self._build_components = build_components
        self._files = files
        self._metrics = metrics
        self._require_agent = require_agent
        self._tool_names = tool_names
        self._now = now
        self._one_at_a_time = asyncio.Lock()
        self._in_force = ActiveConfig()
        self._view = View()
        self._unmatched_exclusions: tuple[Problem, ...] = ()
        self._news = ChangeReporter()
        self._built = False
        self._reloaded_at: datetime | None = None
        self.version = 0
        """Counts the registries that were put in force."""

    def __repr__(self) -> str:
        return (
            f"<Reloader preset={self.active.preset_id!r} version={self.version} "
            f"missing={len(self.missing)} problems={len(self.problems)}>"
        )

    @property
    def active(self) -> Preset:
        """The preset in force."""
        return self._in_force.preset

    @property
    def configuration(self) -> Configuration:
        """What mcp.json says, with the last good entries of servers whose entry is wrong now."""
        return self._in_force.configuration or NO_FILE

    @property
    def missing(self) -> tuple[Missing, ...]:
        """What the preset in force names and no server offers (P-07).

        Of a server that is pending nothing is missing yet.
        """
        pending = self._pool.pending
        return tuple(it for it in self._view.missing if it.server_id not in pending)

    @property
    def pending(self) -> Sequence[str]:
        """The servers of the preset in force that are being connected to for the first time."""
        servers = PresetScope.of(self.active).servers
        return [server_id for server_id in self._pool.pending if server_id in servers]

    @property
    def shadowed(self) -> tuple[Shadowed, ...]:
        """What is not visible because a server before it offers the same (P-13)."""
        return self._view.shadowed

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files as they are now."""
        return self._in_force.problems

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is odd in the files in force and does no harm."""
        return self._in_force.warnings + self._unmatched_exclusions

    @property
    def last_reload(self) -> Reload | None:
        """How it went when the files were last looked at; None before the first time."""
        if self._reloaded_at is None:
            return None
        return Reload(ok=self._is_good, at=self._reloaded_at)

    async def presets(self) -> tuple[PresetSummary, ...]:
        """List the presets that can be chosen, oldest first."""
        return await asyncio.to_thread(self._files.presets)

    async def load(self) -> None:
        """Look at the files and put what they say in force. Bad files are told, never raised."""
        async with self._one_at_a_time:
            found = await asyncio.to_thread(self._files.load_active, self._in_force)
            self._news.report_config(found, self._in_force)
            if found != self._in_force or not self._built:
                self._pool.apply(found.servers)
                self._publish(found)
            self._count_reload()

    async def watch(self) -> None:
        """Follow the folder until cancelled; a change is in force within a second (P-21)."""
        async with aclosing(changes(self._files.path)) as batches:
            async for _ in batches:
                try:
                    await self.load()
                except Exception:
                    log.exception("config.reload_crashed")
                    self._count_reload()

    def rebuild(self) -> None:
        """Make the registry anew from what the servers offer now.

        The pool calls it; it never raises, so that no server's offer can end a session's task.
        """
        try:
            self._publish(self._in_force)
        except Exception:
            log.exception("registry.rebuild_crashed")

    async def switch(self, preset_id: str, *, persist: bool) -> None:
        """Put another preset in force, and with ``persist`` make it the default (P-17, P-20).

        When this returns, every new call sees it. Raises PresetPinned, PresetNotFound,
        ConfigReadOnly; then nothing has changed.
        """
        async with self._one_at_a_time:
            loaded = await asyncio.to_thread(self._files.choose, preset_id, persist=persist)
            self._publish(self._in_force.with_preset(loaded, persisted=persist))
            self._count_reload()
        log.info("preset.switched", preset=preset_id, persisted=persist)

    @property
    def _is_good(self) -> bool:
        """Whether nothing is wrong with what was read and built last."""
        return self._built and not self.problems

    def _publish(self, wanted: ActiveConfig) -> None:
        """Filter, build and swap, without a pause between: nobody sees half of it (P-16).

        What raises on the way leaves everything as it was.
        """
        self._built = False
        snapshots = self._pool.snapshots
        excluded = wanted.configuration.exclude if wanted.configuration else {}
        exclude = {server_id: Exclusions(entries) for server_id, entries in excluded.items()}
        view = filter_capabilities(snapshots, wanted.preset, exclude)
        made = self._build_components(view)
        tools, clashing = drop_name_conflicts(self._local_tools, made.tools)
        access = Access(
            agents=None if wanted.agents is None else wanted.visibilities,
            agent_required=self._agent_required(wanted),
            exclude=exclude,
            servers=wanted.server_ids,
        )
        registry = Registry.build(
            (*self._local_tools, *tools),
            prompts=made.prompts,
            resources=made.resources,
            templates=made.templates,
            access=access,
            tool_names=self._tool_names,
            scope=PresetScope.of(wanted.preset),
            hidden_items=HiddenItems(snapshots=snapshots, need_task=view.need_task),
        )
        self._holder.replace(registry)
        self._in_force = wanted
        self._view = view
        self.version += 1
        self._built = True
        self._metrics.preset_missing.set(len(view.missing))
        self._unmatched_exclusions = find_unmatched_exclusions(
            agents=wanted.agents or NO_AGENTS,
            configuration=wanted.configuration or NO_FILE,
            snapshots=snapshots,
            local_tools=[tool.spec.name for tool in self._local_tools],
            certain_only=True,
        )
        findings = explain_missing(
            view,
            clashing,
            servers=wanted.servers,
            discovered=snapshots.keys(),
            exclude=exclude,
            invalid=wanted.configuration.invalid if wanted.configuration else (),
        )
        self._news.report_registry(
            findings, self._unmatched_exclusions, access, wanted.preset.preset_id
        )

    def _agent_required(self, wanted: ActiveConfig) -> bool:
        """Tell whether a call needs an agent: as the setting says, else where there are profiles.

        So leaving the agent out never gives a caller more than its profile does.
        """
        return wanted.has_profiles if self._require_agent is None else self._require_agent

    def _count_reload(self) -> None:
        self._reloaded_at = self._now()
        self._metrics.config_reloads.labels("ok" if self._is_good else "failed").inc()
        self._metrics.config_problems.set(len(self.problems))
