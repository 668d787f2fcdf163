"""The report of ``check``: files, servers, presets and agents."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from pydantic_core import to_json

from mcp_tools_proxy.config.active_config import ActiveConfig, unique_problems
from mcp_tools_proxy.config.agents import NO_AGENTS
from mcp_tools_proxy.config.checked_configuration import at_names
from mcp_tools_proxy.config.config_folder import ConfigFolder
from mcp_tools_proxy.config.json_file import json_path, limit_problems
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE, NO_FILE
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import Agents, Configuration, Preset, Problem
from mcp_tools_proxy.domain.definitions import without_items
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Ignored, InvalidItem, Snapshot, View
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.gateway.check.agent_views import (
    AgentReport,
    AgentView,
    Offer,
    describe_agent_view,
    summarize_agents,
)
from mcp_tools_proxy.gateway.check.client_problems import ClientProblem, find_client_problems
from mcp_tools_proxy.gateway.check.pinned_definitions import (
    NO_DEFINITIONS,
    DefinitionsReport,
    definition_warnings,
)
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules, PolicySetState
from mcp_tools_proxy.gateway.unmatched_items import (
    MissingItems,
    explain_missing,
    find_unmatched_exclusions,
    find_unusable_bindings,
)
from mcp_tools_proxy.policy.aliases import alias_of, has_plain_alias
from mcp_tools_proxy.policy.definitions.comparison import Findings
from mcp_tools_proxy.policy.presets import accepted_view, filter_capabilities
from mcp_tools_proxy.policy.runs.tool_labels import label_suggestions
from mcp_tools_proxy.policy.visibility import Offers, PresetScope, Why
from mcp_tools_proxy.registry.registry import Registry
from mcp_tools_proxy.registry.shown_tools import BoundAgents
from mcp_tools_proxy.wire.json_schema.bound_offers import find_held_back
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat, definition_of
from mcp_tools_proxy.wire.text import estimate_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The content of a configuration folder; ``active`` is the preset chosen at a start."""

    configuration: Configuration
    agents: Agents
    agents_are_known: bool
    """False if agents.json exists but is invalid."""
    presets: tuple[Preset, ...]
    active: str
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetReport:
    """The items of a preset; ``refused_names`` maps names that model APIs refuse to aliases."""

    preset: Preset
    active: bool
    view: View
    missing: tuple[MissingItems, ...]
    """Missing items grouped by reason; offline, without those of servers that were not tried."""
    refused_names: Mapping[str, str]
    tokens: int
    """Size of the tools' definitions in tokens: bytes of JSON // 4."""

    @property
    def missing_count(self) -> int:
        """The number of missing items."""
        return sum(len(items.names) for items in self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """All findings; ``dropped`` and ``ignored`` contain items with their server ids.

    ``offers`` are all items of the servers regardless of presets: kind, server id, and name or URI.
    """

    servers: tuple[ServerStatus, ...]
    offers: tuple[Offer, ...]
    dropped: tuple[tuple[str, InvalidItem], ...]
    ignored: tuple[tuple[str, Ignored], ...]
    presets: tuple[PresetReport, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    agents: tuple[AgentReport, ...] = ()
    agent_view: AgentView | None = None
    """Items of the agent in ``--agent``; None without that option."""
    schema_relaxations: tuple[tuple[str, str, str], ...] = ()
    """Parts of the active preset's tools that schemas for model APIs omit: format, tool,
    warning.
    """
    client_problems: tuple[ClientProblem, ...] = ()
    """Problems of common MCP clients with the active preset's tools, as listed by ``/mcp``."""
    without_agent: str | None = None
    """Whether calls without an agent are accepted, and why; None without agents."""
    offline: bool = False
    """Whether the check connected to no server, so that the offers are unknown."""
    failed_dependencies: int = 0
    """The number of failed dependencies of the settings."""
    definitions: DefinitionsReport = NO_DEFINITIONS
    """Differences of the presets' definitions from the lock; empty if offline."""
    unlabelled: Mapping[str, JsonObject] = field(default_factory=dict)
    """The active preset's tools without labels: entries for labels.json, as suggested."""
    policies: PolicySetState | None = None
    """The policies that would be active; None without a folder of policies."""

    @property
    def unhealthy_servers(self) -> tuple[ServerStatus, ...]:
        """Enabled servers that were not reached or incompletely discovered.

        If offline, servers with an invalid entry.
        """
        return tuple(server for server in self.servers if not self._is_healthy(server))

    @property
    def faults(self) -> Mapping[str, int]:
        """The number of faults by kind, without warnings."""
        return {
            "server": len(self.unhealthy_servers),
            "dependency": self.failed_dependencies,
            "unusable item": sum(not item.needs_task for _, item in self.dropped),
            "missing item": sum(found.missing_count for found in self.presets),
            "problem": len(self.problems),
            "quarantined item": self.definitions.quarantined,
        }

    @property
    def good(self) -> bool:
        """Whether the report contains no faults."""
        return not any(self.faults.values())

    def _is_healthy(self, server: ServerStatus) -> bool:
        if server.state is ServerState.DISABLED:
            return True
        if self.offline:
            return server.state is not ServerState.INVALID
        return server.state is ServerState.READY and server.last_error is None


def read_files(folder: ConfigFolder) -> Files:
    """Read a configuration folder like a start, without raising for invalid files. Blocks."""
    found = folder.load_active(ActiveConfig())
    listing = folder.list_presets()
    loaded = [folder.load_preset(summary.preset_id) for summary in listing.presets]
    warnings = [*found.warnings, *(warning for one in loaded for warning in one.warnings)]
    if found.configuration is NO_FILE:
        message = "is missing, so no servers are configured"
        warnings.append(Problem(file=CONFIGURATION_FILE, path="$", message=message))
    return Files(
        configuration=found.configuration or NO_FILE,
        agents=found.agents or NO_AGENTS,
        agents_are_known=found.agents is not None,
        presets=tuple(one.preset for one in loaded),
        active=found.preset.preset_id,
        problems=unique_problems(found.problems, listing.problems),
        warnings=unique_problems(warnings),
    )


def build_report(
    files: Files,
    servers: Iterable[ServerStatus],
    snapshots: Mapping[str, Snapshot],
    registry: Registry,
    *,
    require_agent: bool | None,
    agent: str | None = None,
    offline: bool = False,
    definitions: DefinitionsReport = NO_DEFINITIONS,
    rules: ActiveRunRules,
) -> CheckReport:
    """Build the report from the files, the servers' offers and the registry.

    ``agent`` limits ``agents`` to this one and adds ``agent_view``. With ``offline``, no server was
    tried and offers are unknown. ``definitions`` are compared with the lock; ``rules`` are those of
    runs.
    """
    agents = files.agents if agent is None else _only(files.agents, agent)
    servers = tuple(servers)
    statuses = {it.server_id: it for it in servers}
    held_back = find_held_back(snapshots, files.configuration.bindings)
    usable = without_items(snapshots, frozenset(it.key for it in held_back))
    offers = tuple(
        (kind, server_id, name)
        for server_id, snapshot in snapshots.items()
        for kind, name in snapshot.components
    )
    return CheckReport(
        servers=servers,
        offers=offers,
        dropped=tuple(
            (server_id, item)
            for server_id, snapshot in snapshots.items()
            for item in snapshot.dropped
        ),
        ignored=tuple(
            (server_id, item)
            for server_id, snapshot in snapshots.items()
            for item in snapshot.ignored
        ),
        presets=tuple(
            _report_of_preset(
                preset,
                files,
                usable,
                Offers(
                    scope=PresetScope.of(preset),
                    servers=files.configuration.server_ids,
                    exclude=registry.offers.exclude,
                    snapshots=snapshots,
                    statuses=lambda: statuses,
                    unbound=frozenset(it.key for it in held_back),
                ),
                findings=definitions.findings,
                offline=offline,
            )
            for preset in files.presets
        ),
        problems=unique_problems(files.problems, rules.problems),
        warnings=unique_problems(
            files.warnings,
            () if offline else rules.warnings,
            _unmatched(files, snapshots, registry),
            find_unusable_bindings(
                agents=files.agents,
                configuration=files.configuration,
                snapshots=snapshots,
                held_back=held_back,
                bound_agents=BoundAgents.of(files.agents.profiles, registry.tools.items),
            ),
            at_names(definition_warnings(definitions), files.configuration.original_ids),
            limit_problems(
                CONFIGURATION_FILE,
                at_names(_without_tools(snapshots), files.configuration.original_ids),
            ),
        ),
        agents=summarize_agents(registry, agents),
        agent_view=None if agent is None else describe_agent_view(registry, agent, offers),
        schema_relaxations=tuple(
            (tool_format.value, tool.spec.name, warning)
            for tool_format in ToolFormat
            for tool in registry.tools.items
            for warning in definition_of(tool.spec, tool_format).warnings
        ),
        client_problems=find_client_problems(
            (tool.spec for tool in registry.tools.items), registry.name_styles
        ),
        without_agent=_without_agent(files, registry, require_agent),
        offline=offline,
        definitions=definitions,
        unlabelled=label_suggestions(
            (tool.spec for tool in registry.tools.items), rules.current.labels
        ),
        policies=rules.policy_set,
    )


def _only(agents: Agents, name: str) -> Agents:
    return replace(agents, profiles={name: agents.profiles[name]})


def _unmatched(
    files: Files, snapshots: Mapping[str, Snapshot], registry: Registry
) -> tuple[Problem, ...]:
    specs = (tool.spec for tool in registry.tools.items)
    return find_unmatched_exclusions(
        agents=files.agents,
        configuration=files.configuration,
        snapshots=snapshots,
        local_tools=[spec.name for spec in specs if spec.server_id is None],
    )


def _without_tools(snapshots: Mapping[str, Snapshot]) -> Iterator[Problem]:
    """Yield a warning for each server without tools, which is rarely intended."""
    for server_id, snapshot in snapshots.items():
        dropped = any(item.kind is Kind.TOOL for item in snapshot.dropped)
        if not (snapshot.tools or dropped or snapshot.lacks_list(Kind.TOOL)):
            path = json_path(("mcpServers", server_id))
            message = "the server offers no tools"
            yield Problem(file=CONFIGURATION_FILE, path=path, message=message)


def _without_agent(files: Files, registry: Registry, require_agent: bool | None) -> str | None:
    if files.agents_are_known and not files.agents.profiles and require_agent is None:
        return None
    if require_agent is not None:
        reason = f"MCP_PROXY_REQUIRE_AGENT is {str(require_agent).lower()}"
    elif files.agents_are_known:
        reason = "agents.json has profiles"
    else:
        reason = "agents.json cannot be used"
    answer = "refused" if registry.access_rules.agent_required else "taken"
    return f"Calls that name no agent are {answer}: {reason}."


def _report_of_preset(
    preset: Preset,
    files: Files,
    usable: Mapping[str, Snapshot],
    offers: Offers,
    *,
    findings: Findings,
    offline: bool,
) -> PresetReport:
    exclude = offers.exclude
    offered = filter_capabilities(usable, preset, exclude)
    view = accepted_view(usable, preset, exclude, offered, findings)
    missing = explain_missing(replace(view, shadowed=()), (), offers)
    definitions = [
        {**route.shown, "name": route.overrides.name or name} for name, route in view.tools.items()
    ]
    return PresetReport(
        preset=preset,
        active=preset.preset_id == files.active,
        view=view,
        missing=tuple(
            it for it in missing if not (offline and it.reason.why is Why.SERVER_CONNECTING)
        ),
        refused_names={
            name: alias_of(route.server_id, route.name)
            for name, route in view.tools.items()
            if route.overrides.name is None and not has_plain_alias(route.server_id, route.name)
        },
        tokens=estimate_tokens(len(to_json(definitions))) if definitions else 0,
    )
