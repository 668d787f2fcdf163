"""The report of ``check`` as JSON (contract §8). All keys are always present, null if unknown."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict
from typing import TypedDict

from mcp_tools_proxy.app.dependency_checks import DependencyCheck
from mcp_tools_proxy.auth.token_format import TokenEntry, token_facts
from mcp_tools_proxy.cli.check_report import NOT_CHECKED_OFFLINE, state_of
from mcp_tools_proxy.cli.output import plural
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.gateway.check.agent_views import AgentReport, AgentView
from mcp_tools_proxy.gateway.check.pinned_definitions import DefinitionsReport
from mcp_tools_proxy.gateway.check.report import CheckReport, PresetReport
from mcp_tools_proxy.gateway.definition_guard import finding_facts
from mcp_tools_proxy.gateway.run_rules import PolicySetState

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
