"""Formats the report of ``check`` as tables with escaped texts, or as JSON (contract §8).

All JSON keys are always present, null for unknown values.
"""

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import asdict
from typing import TypedDict

from pydantic_core import to_json
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_tools_proxy.app.dependency_checks import DependencyCheck
from mcp_tools_proxy.auth.token_format import TokenEntry, token_facts
from mcp_tools_proxy.cli.output import counted, plural
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.domain.definitions import LOCK_FILE
from mcp_tools_proxy.domain.guards import GuardFinding
from mcp_tools_proxy.domain.server import INVALID_ENTRY, ServerState, ServerStatus
from mcp_tools_proxy.gateway.check.agent_views import AgentReport, AgentView
from mcp_tools_proxy.gateway.check.pinned_definitions import DefinitionsReport
from mcp_tools_proxy.gateway.check.report import CheckReport, PresetReport
from mcp_tools_proxy.gateway.definition_guard import finding_facts
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


Facts = dict[str, object]


class ReportFacts(TypedDict):
    """The report as JSON; ``reference/cli.md`` has the docstrings of the keys."""

    good: bool
    """whether the exit code is 0"""
    faults: Mapping[str, int]
    """numbers of `servers`, `dependencies`, `unusable_items`, `missing_items`, `problems`,
    `quarantined_items`"""
    offline: bool
    """whether this was `--offline`"""
    not_checked: Sequence[str]
    """the skipped checks"""
    problems: Sequence[Facts]
    """`file`, `path`, `message`"""
    warnings: Sequence[Facts]
    """the same"""
    servers: Sequence[Facts]
    """`server_id`, `original_id` (the name, if the id is derived from it), `state` (`ready`,
    `disabled`, `invalid`, `login_required`, `unreachable`, `failed`, `not tried`), `transport`,
    `era`, `counts`, `last_error`, `connect_ms`, `problems` of the entry"""
    offers: Sequence[Facts] | None
    """all items of the servers: `server_id`, `kind`, `name`"""
    unusable: Sequence[Facts]
    """offered items that cannot be used: `server_id`, `kind`, `name`, `reason`, `is_fault`"""
    ignored: Sequence[Facts]
    """optional fields with a wrong type: `server_id`, `kind`, `name`, `fields`"""
    presets: Sequence[Facts]
    """`id`, `name`, `active`, `counts`, `tokens`, `missing` items (`kind`, `server_id`, `name`,
    `reason`, `why`), `aliases` of names that model APIs reject, `overrides` (`kind`, `server_id`,
    `name`, `shown`)"""
    agents: Sequence[Facts]
    """`name`, `preset`, `servers` (`null` for all), `sees` (names by `tools`, `prompts`,
    `resources`, `resource_templates`), `tokens`, with `--agent` the `hidden` items (`kind`,
    `server_id`, `name`, `hidden_by`)"""
    without_agent: str | None
    """whether calls that name no agent are accepted, as a sentence; `null` without agents"""
    schema_relaxations: Sequence[Facts]
    """schema parts that model APIs cannot express: `format`, `tool`, `warning`"""
    client_problems: Sequence[Facts]
    """tools that common MCP clients reject: `tool`, `problem`, `remedy`"""
    unlabelled: Mapping[str, Mapping[str, object]]
    """with `--labels`, suggested entries of `labels.json` for the tools without one, by name"""
    policies: Facts | None
    """the active policies: `loaded` (`false` if one is invalid), `digest`, `items` (`id`, `mode`,
    `file`, `waits_for` servers or `null`); `null` without a folder of policies"""
    definitions: Facts
    """`mode`, and `items` that differ from the lock, as in `GET /internal/mcp/definitions`"""
    tokens: Sequence[Facts]
    """with `MCP_PROXY_AUTH_MODE=token`, as in `tokens list --json`"""
    upgrade_notes: Sequence[str]
    """the notes of `--upgrade`, also without the option"""
    dependencies: Sequence[Facts] | None
    """`name`, `setting`, `problem` (`null` for a success)"""


def report_facts(
    report: CheckReport,
    *,
    tokens: Sequence[TokenEntry],
    notes: Sequence[str],
    dependencies: Sequence[DependencyCheck],
) -> ReportFacts:
    """Return the report as JSON; ``notes`` are changes of this version that affect it."""
    return {
        "good": report.good,
        "faults": {plural(noun).replace(" ", "_"): count for noun, count in report.faults.items()},
        "offline": report.offline,
        "not_checked": list(NOT_CHECKED_OFFLINE) if report.offline else [],
        "problems": [_problem(it) for it in report.problems],
        "warnings": [_problem(it) for it in report.warnings],
        "servers": [_server(server, report) for server in report.servers],
        "offers": None
        if report.offline
        else [
            {"server_id": server_id, "kind": kind.value, "name": name}
            for kind, server_id, name in report.offers
        ],
        "unusable": [
            {
                "server_id": server_id,
                "kind": item.kind.value,
                "name": item.name,
                "reason": item.reason,
                "is_fault": not item.needs_task,
            }
            for server_id, item in report.dropped
        ],
        "ignored": [
            {
                "server_id": server_id,
                "kind": item.kind.value,
                "name": item.name,
                "fields": list(item.fields),
            }
            for server_id, item in report.ignored
        ],
        "presets": [_preset(found, report) for found in report.presets],
        "agents": [_agent(found, report) for found in report.agents],
        "without_agent": report.without_agent,
        "schema_relaxations": [
            {"format": tool_format, "tool": tool, "warning": warning}
            for tool_format, tool, warning in report.schema_relaxations
        ],
        "client_problems": [asdict(it) for it in report.client_problems],
        "unlabelled": report.unlabelled,
        "policies": None if report.policies is None else _policies(report.policies),
        "definitions": _definitions(report.definitions),
        "tokens": [token_facts(entry) for entry in tokens],
        "upgrade_notes": list(notes),
        "dependencies": None if report.offline else [_dependency(it) for it in dependencies],
    }


def _dependency(found: DependencyCheck) -> Facts:
    return {"name": found.name, "setting": found.setting, "problem": found.problem}


def _problem(problem: Problem) -> Facts:
    return {"file": problem.file, "path": problem.path, "message": problem.message}


def _server(server: ServerStatus, report: CheckReport) -> Facts:
    return {
        "server_id": server.server_id,
        "original_id": server.original_id,
        "state": state_of(server, report),
        "transport": server.transport and server.transport.value,
        "era": server.era,
        "counts": dict(server.counts) if server.state is ServerState.READY else None,
        "last_error": server.last_error,
        "connect_ms": None if server.connect_s is None else round(server.connect_s * 1000, 1),
        "problems": list(server.problems),
    }


def _policies(found: PolicySetState) -> Facts:
    return {
        "loaded": found.loaded,
        "digest": found.digest or None,
        "items": [
            {
                "id": it.policy_id,
                "mode": it.mode,
                "file": it.file,
                "waits_for": list(it.waits_for) if it.waits else None,
            }
            for it in found.policies
        ],
    }


def _definitions(found: DefinitionsReport) -> Facts:
    findings = found.findings
    return {
        "mode": findings.mode.value,
        "items": [
            finding_facts(it, found.differences.get(it.key, ())) for it in findings.remarkable
        ],
    }


def _preset(found: PresetReport, report: CheckReport) -> Facts:
    view = found.view
    return {
        "id": found.preset.preset_id,
        "name": found.preset.name,
        "active": found.active,
        "counts": None
        if report.offline
        else _counts(view.tools, view.prompts, view.resources, view.templates),
        "tokens": None if report.offline else found.tokens,
        "missing": [
            {
                "kind": items.kind.value,
                "server_id": items.server_id,
                "name": name,
                "reason": items.reason.text,
                "why": items.reason.why.value,
            }
            for items in found.missing
            for name in items.names
        ],
        "aliases": dict(found.refused_names),
        "overrides": [
            {
                "kind": kind.value,
                "server_id": reference.server_id,
                "name": reference.name,
                "shown": {key: text for key, text in asdict(reference.overrides).items() if text},
            }
            for kind, reference in found.preset.overridden
        ],
    }


def _agent(found: AgentReport, report: CheckReport) -> Facts:
    profile = found.profile
    return {
        "name": profile.name,
        "preset": profile.preset_id,
        "servers": None if profile.server_ids is None else list(profile.server_ids),
        "sees": None if report.offline else _seen(found),
        "tokens": None if report.offline else found.tokens,
        "hidden": None if report.agent_view is None else _hidden(report.agent_view),
    }


def _seen(found: AgentReport) -> Facts:
    return {
        "tools": list(found.tools),
        "prompts": list(found.prompts),
        "resources": list(found.resources),
        "resource_templates": list(found.templates),
    }


def _hidden(view: AgentView) -> list[Facts]:
    return [
        {
            "kind": item.kind.value,
            "server_id": item.server_id,
            "name": item.name,
            "hidden_by": item.hidden_by,
        }
        for item in view.hidden
    ]


def _counts(tools: Sized, prompts: Sized, resources: Sized, templates: Sized) -> Mapping[str, int]:
    return {
        "tools": len(tools),
        "prompts": len(prompts),
        "resources": len(resources),
        "resource_templates": len(templates),
    }
