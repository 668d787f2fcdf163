"""The report of ``check`` for JSON (contract §8): every key is always there, null for unknown."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict

from mcp_tools_proxy.auth.token_format import TokenEntry, token_facts
from mcp_tools_proxy.cli.check.check_report import NOT_CHECKED_OFFLINE, state_of
from mcp_tools_proxy.cli.output import plural
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.gateway.check.agents import AgentReport, AgentView
from mcp_tools_proxy.gateway.check.pinned_definitions import DefinitionsReport
from mcp_tools_proxy.gateway.check.report import CheckReport, PresetReport
from mcp_tools_proxy.gateway.definition_guard import finding_facts

Facts = dict[str, object]


def report_facts(
    report: CheckReport, *, tokens: Sequence[TokenEntry], notes: Sequence[str]
) -> Facts:
    """Return the whole report; ``notes`` are the changes of this version that concern it."""
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
        "definitions": _definitions(report.definitions),
        "tokens": [token_facts(entry) for entry in tokens],
        "upgrade_notes": list(notes),
    }


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
