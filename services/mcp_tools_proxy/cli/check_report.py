"""Formats the report of ``check`` as tables with escaped texts; ``check_facts`` has its JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_tools_proxy.cli.output import counted
from mcp_tools_proxy.domain.definitions import LOCK_FILE
from mcp_tools_proxy.domain.guards import GuardFinding
from mcp_tools_proxy.domain.server import INVALID_ENTRY, ServerState, ServerStatus
from mcp_tools_proxy.gateway.check.agent_views import AgentReport, AgentView
from mcp_tools_proxy.gateway.check.report import CheckReport, PresetReport
from mcp_tools_proxy.gateway.run_rules import PolicySetState, PolicyState
from mcp_tools_proxy.policy.definitions.comparison import Finding
from mcp_tools_proxy.policy.definitions.difference import differences, marked
from mcp_tools_proxy.wire.problem_texts import join_first
from mcp_tools_proxy.wire.text import printable, quote

NAMES_SHOWN = 5
"""Names per table cell."""

CLIENT_PROBLEMS_SHOWN = 20
"""Client problems per table."""

DIGEST_SHOWN = 12
"""Characters of the digest of policies; the log event ``policies.active`` has all."""

NOT_CHECKED_OFFLINE = (
    "whether servers can be reached, and what they offer",
    "what presets and agents see, and whether excluded names match an item",
    "dependencies: PostgreSQL, Redis, the Retrieval Service, the keys of an issuer",
)
"""Checks omitted by ``check --offline``."""


def print_report(
    report: CheckReport,
    console: Console,
    *,
    offers: bool,
    locked: bool = False,
    labels: bool = False,
) -> None:
    """Print the report, with the verdict at the end.

    ``locked`` if the lock was written; with ``labels`` also the suggested labels.
    """
    servers = [_server_row(server, state_of(server, report)) for server in report.servers]
    _table(console, "Servers", _SERVER_COLUMNS, servers)
    if offers:
        _table(
            console,
            "Offered by the servers, with the names for presets",
            ("server", "kind", "name"),
            [(server_id, kind.value, name) for kind, server_id, name in report.offers],
        )
    lines(
        console,
        "Failing servers",
        [f"{s.label}: {_why_unhealthy(s)}" for s in report.unhealthy_servers],
    )
    _table(
        console,
        "Unusable: offered by a server, but cannot be used",
        ("server", "kind", "name", "reason"),
        [(s, item.kind.value, item.name, item.reason) for s, item in report.dropped],
    )
    _table(
        console,
        "Ignored: invalid optional fields; their items are used without them",
        ("server", "kind", "name", "fields"),
        [(s, it.kind.value, it.name, ", ".join(it.fields)) for s, it in report.ignored],
    )
    presets = [_preset_row(found, offline=report.offline) for found in report.presets]
    _table(console, "Presets", _PRESET_COLUMNS, presets)
    _table(
        console,
        "Missing: in a preset but unavailable",
        ("preset", "kind", "server", "name", "reason"),
        [
            (found.preset.preset_id, it.kind.value, it.server_id, name, it.reason.text)
            for found in report.presets
            for it in found.missing
            for name in it.names
        ],
    )
    _table(
        console,
        "Overridden by a preset: shown instead of the server's text",
        ("preset", "kind", "item", "field", "text"),
        [
            (found.preset.preset_id, kind.value, f"{it.server_id}:{it.name}", field, text)
            for found in report.presets
            for kind, it in found.preset.overridden
            for field, text in asdict(it.overrides).items()
            if text is not None
        ],
    )
    _table(
        console,
        "Aliases that differ from server__tool, for model APIs that reject these names",
        ("preset", "name", "alias"),
        [
            (found.preset.preset_id, name, alias)
            for found in report.presets
            for name, alias in found.refused_names.items()
        ],
    )
    _table(
        console,
        "Model APIs cannot express the full schemas of these tools",
        ("format", "tool", "shown differently"),
        report.schema_relaxations,
    )
    _show_client_problems(report, console)
    _show_definitions(report, console)
    _show_agents(report, console)
    if report.policies is not None:
        _show_policies(report.policies, console, offline=report.offline)
    if labels:
        _show_labels(report, console)
    lines(console, "Problems", map(str, report.problems))
    lines(console, "Warnings", map(str, report.warnings))
    if report.offline:
        lines(console, "Not checked (offline)", NOT_CHECKED_OFFLINE)
    if locked:
        _show_lock(report, console)
    console.print(_verdict(report))


def _show_policies(found: PolicySetState, console: Console, *, offline: bool) -> None:
    if not found.loaded:
        lines(console, "Policies", ["none is active: every call is refused until all are valid"])
        return
    files = counted(len({it.file for it in found.policies}), "file")
    count = len(found.policies)
    title = f"Policies: {count} in {files}, digest {found.digest[:DIGEST_SHOWN]}"
    if not count:
        lines(console, "Policies", ["none, so no policy is active"])
        return
    _table(
        console,
        title,
        ("policy", "mode", "file", "state"),
        [(it.policy_id, it.mode, it.file, _policy_state(it, offline)) for it in found.policies],
    )


def _policy_state(policy: PolicyState, offline: bool) -> str:
    if not policy.waits:
        return "active"
    if offline:
        return "not checked"
    return f"waits for the tools of {', '.join(policy.waits_for)}" if policy.waits_for else "waits"


def _show_labels(report: CheckReport, console: Console) -> None:
    """Print entries that can be pasted into labels.json."""
    if not report.unlabelled:
        lines(console, "Labels", ["every tool of the active preset has labels"])
        return
    console.print("Tools without labels count as having all. From their annotations:", style="bold")
    console.print(Text(to_json({"tools": report.unlabelled}, indent=2).decode()))
    console.print(
        "Servers can lie in annotations: check each entry, and add targets, identifiers and claimed"
        " fields.\n"
    )


def _show_client_problems(report: CheckReport, console: Console) -> None:
    """Print client problems by remedy; a name style can affect every tool."""
    for remedy in dict.fromkeys(it.remedy for it in report.client_problems):
        found = [it for it in report.client_problems if it.remedy == remedy]
        _table(
            console,
            f"Some MCP clients reject these tools. To avoid this, use {remedy}",
            ("tool", "problem"),
            [(it.tool, it.problem) for it in found[:CLIENT_PROBLEMS_SHOWN]],
        )
        if (more := len(found) - CLIENT_PROBLEMS_SHOWN) > 0:
            console.print(Text(f"  and {more} more; --json prints all of them"))
            console.print()


def _show_definitions(report: CheckReport, console: Console) -> None:
    found = report.definitions
    _table(
        console,
        f"Definitions that differ from the lock (mode {found.findings.mode.value})",
        ("server", "kind", "name", "state", "flags"),
        [_definition_row(it) for it in found.findings.remarkable],
    )
    lines(
        console,
        "Differences from the lock: [-removed-] {+added+}",
        [
            f"{key.server_id} {key.kind.value} {key.name}: {it.place}: {marked(it.pieces)}"
            for key, fields in found.differences.items()
            for it in fields
        ],
    )
    lines(
        console,
        "Unstable: differences between two starts of the server: [-first-] {+second+}",
        [
            f"{it.key.server_id} {it.key.kind.value} {it.key.name}: {field.place}: "
            f"{marked(field.pieces)}"
            for it in found.findings.items
            if it.unstable
            for field in differences(*it.unstable)
        ],
    )


def _definition_row(finding: Finding) -> tuple[str, ...]:
    key = finding.key
    flags = ", ".join(f"{flag.reason.value} in {flag.field}" for flag in finding.flags)
    flags = ", ".join((*filter(None, [flags]), *map(_guard_text, finding.guards)))
    state = f"{finding.status.value}, quarantined" if finding.quarantined else finding.status.value
    if finding.unstable:
        state += ", unstable"
    if finding.uncovered:
        state += f", not covered: {', '.join(finding.uncovered)}"
    if finding.hidden_by is not None:
        state += ", hidden by a guard"
    return (key.server_id, key.kind.value, key.name or "-", state, flags or "-")


def _guard_text(found: GuardFinding) -> str:
    return f"{found.guard.value}: {found.kind} ({found.action.value})"


def _show_agents(report: CheckReport, console: Console) -> None:
    agents = [_agent_row(found, offline=report.offline) for found in report.agents]
    _table(console, "Agents", _AGENT_COLUMNS, agents)
    if report.without_agent:
        console.print(Text(report.without_agent), soft_wrap=True)
        console.print()
    if report.agent_view:
        _show_agent_view(report.agent_view, console)


def _show_agent_view(agent_view: AgentView, console: Console) -> None:
    shown = quote(agent_view.agent)
    _table(
        console,
        f"Visible to agent {shown}, with the names it uses",
        ("kind", "name", "alias"),
        [(it.kind.value, it.name, it.alias) for it in agent_view.visible],
    )
    _table(
        console,
        f"Hidden from agent {shown}, with the key of the profile or mcp.json that hides it",
        ("kind", "server", "name", "hidden by"),
        [(it.kind.value, it.server_id or "-", it.name, it.hidden_by) for it in agent_view.hidden],
    )


_SERVER_COLUMNS = ("server", "state", "transport", "protocol", "offers", "connect ms")
_PRESET_COLUMNS = ("", "preset", "name", "tools", "prompts", "resources", "templates", "missing",
                   "tokens")  # fmt: skip
_AGENT_COLUMNS = ("agent", "preset", "servers", "tools", "prompts", "resources", "templates",
                  "tokens")  # fmt: skip
_NUMBERS = frozenset(
    {"tools", "prompts", "resources", "templates", "connect ms", "missing", "tokens"}
)
_SETTLED = frozenset(
    {
        ServerState.READY,
        ServerState.DISABLED,
        ServerState.INVALID,
        ServerState.LOGIN_REQUIRED,
        ServerState.UNREACHABLE,
    }
)


def _why_unhealthy(server: ServerStatus) -> str:
    if server.state is ServerState.INVALID:
        return f"{INVALID_ENTRY}, see below"
    return server.last_error or server.unavailable


def state_of(server: ServerStatus, report: CheckReport) -> str:
    """Return the state of a server for the report."""
    if server.state in _SETTLED:
        return server.state.value
    return "not tried" if report.offline else "failed"


def _server_row(server: ServerStatus, state: str) -> tuple[str, ...]:
    return (
        server.label,
        state,
        server.transport.value if server.transport else "-",
        server.era or "-",
        _offers(server.counts) if server.state is ServerState.READY else "-",
        "-" if server.connect_s is None else f"{server.connect_s * 1000:.0f}",
    )


def _offers(counts: Mapping[str, int]) -> str:
    """Return the numbers of a server's items, such as ``3 tools, 1 prompt``."""
    offered = [
        counted(counts.get(f"{noun}s", 0), noun.replace("_", " "))
        for noun in ("tool", "prompt", "resource", "resource_template")
        if counts.get(f"{noun}s")
    ]
    return ", ".join(offered) or "nothing"


def _preset_row(found: PresetReport, *, offline: bool) -> tuple[str, ...]:
    view = found.view
    visible = (view.tools, view.prompts, view.resources, view.templates)
    return (
        "*" if found.active else "",
        found.preset.preset_id,
        found.preset.name,
        *("-" if offline else str(len(items)) for items in visible),
        str(found.missing_count),
        "-" if offline else str(found.tokens),
    )


def _agent_row(found: AgentReport, *, offline: bool) -> tuple[str, ...]:
    ids = found.profile.server_ids
    visible = (found.tools, found.prompts, found.resources, found.templates)
    return (
        found.profile.name,
        found.profile.preset_id or "-",
        "all" if ids is None else _first(ids) or "none",
        *("-" if offline else str(len(items)) for items in visible),
        "-" if offline else str(found.tokens),
    )


def _first(names: Sequence[str]) -> str:
    """Join the first names, and append the number of others."""
    return join_first(names, limit=NAMES_SHOWN, separator=", ", more=" and {} more")


def _table(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    if not rows:
        return
    console.print(Text(title, style="bold"))
    table = Table(box=None, pad_edge=True)
    for column in columns:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)
    console.print()


def lines(console: Console, title: str, texts: Iterable[str]) -> None:
    """Print escaped lines under a title; print nothing without lines."""
    shown = [printable(text) for text in texts]
    if shown:
        console.print(Text(title, style="bold"))
        for line in shown:
            console.print(Text(f"  {line}"), soft_wrap=True)
        console.print()


def _show_lock(report: CheckReport, console: Console) -> None:
    """Print the result of ``check --lock``, and servers that could not be locked."""
    items = report.definitions.locked.items if report.definitions.locked else {}
    console.print(Text(f"{LOCK_FILE} was written: {counted(len(items), 'definition')}."))
    known = {key.server_id for key in items}
    unread = [it.server_id for it in report.unhealthy_servers if it.server_id not in known]
    if unread:
        names = ", ".join(map(printable, unread))
        console.print(Text(f"Not locked, because they could not be read: {names}."))


def _verdict(report: CheckReport) -> Text:
    if report.good:
        return Text("OK", style="green")
    found = ", ".join(counted(number, noun) for noun, number in report.faults.items() if number)
    return Text(f"Failed: {found}.", style="red")
