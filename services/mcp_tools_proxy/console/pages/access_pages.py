"""Who sees what: the tools of a caller with a preset, beside those of another, and why not."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.routing import Route

from mcp_tools_proxy.console.api_client import EXPLAIN_PATH, TOOLS_PATH, ApiRefused, problems_of
from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.page_request import Done, PageRequest, PageResult, PageView
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.wire.text import quote

_ADVICE: Sequence[tuple[str, str]] = (
    (r"preset_.* \$\.\w+", "Add the tool to this preset, or activate another preset."),
    (r"mcp\.json \$\.defaultPresetId", "No preset is active. Activate one under “Access”."),
    (r"agents\.json .*\.client_ids", "Add the tool’s server to this list in the agent’s profile."),
    (r"agents\.json .*\.exclude_components", "Remove this entry from the agent’s profile."),
    (r"agents\.json .*\.bind", "Bind an argument that the tool has, or remove the entry."),
    (r"mcp\.json .*\.exclude", "Remove this entry. “exclude” of a server applies to all callers."),
    (r"mcp\.json .*\.bind", "Bind an argument that the tool has, or remove the entry."),
    (r"definitions\.lock\.json ", "Review and accept the changed definition under “Servers”."),
    (r"document \$\.readers", "Add the user or one of their roles to the document’s readers."),
    (r"settings ", "Set it, or specify a tenant in the request."),
)
"""By the beginning of a rule's file and place."""


def what_to_change(rule: Mapping[str, str]) -> str:
    """Return what to do about a rule, "" for one that only its place says."""
    place = f"{rule['file']} {rule['path']}"
    return next((advice for pattern, advice in _ADVICE if re.match(pattern, place)), "")


PATH = "/console/visibility"
ACTIVE = "/internal/mcp/presets/active"

ROWS = 100
"""Tools on one page."""

MISSING_ROWS = 20
"""Missing and shadowed items, and problems, that are named: a preset may have thousands."""

MAX_SHOWN_CHARS = 8_000
"""Of a definition in each format; a server may send a megabyte of schema."""

MAX_KEPT_CHARS = 300
"""Of a parameter that links repeat; names and ids are shorter."""

FORMATS = ("mcp", "openai", "anthropic", "gemini")

_SEEN_BY = ("request", "authentication", "audit", "lifecycle", "agent", "visibility")

_CALLER = ("preset_id", "tenant_id", "user_id", "agent")
"""What says through whose eyes is looked; the second look has the same names with ``other_``."""

_PARAMETERS = frozenset(
    (
        *(*_CALLER, *(f"other_{key}" for key in _CALLER)),
        *("compare", "differing", "first", "format", "name", "q", "tool"),
    )
)
"""What links of a page keep of its address: 6,000 other parameters in each of 100 rows made a page
of megabytes."""


@dataclass(frozen=True, slots=True)
class _Preview:
    """What one caller sees with one preset."""

    query: Mapping[str, str]
    preview: Mapping[str, Any]
    tools: Mapping[str, Mapping[str, Any]]
    """The lines of the preview by the tool's name, in the order of the list, with definitions."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why there is nothing to see, by field."""

    @property
    def caller(self) -> str:
        """Short description of the caller."""
        named = [f"{key.removesuffix('_id')} {self.query[key]}" for key in _CALLER[1:]]
        return ", ".join(
            text for text, key in zip(named, _CALLER[1:], strict=True) if self.query[key]
        )


def visibility_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    return (
        Route(PATH, PageEndpoint(pages, GET=_show)),
        Route(f"{PATH}/tool", PageEndpoint(pages, GET=_show_tool)),
        Route(f"{PATH}/why", PageEndpoint(pages, GET=_explain)),
        Route(f"{PATH}/switch", PageEndpoint(pages, POST=_switch)),
    )


async def _show(page: PageRequest) -> PageResult:
    """Show what a caller sees, and beside it what another one sees."""
    presets = await page.api.get("/internal/mcp/presets")
    one = await _preview_of(page, _caller_query(page, "", presets["active"]))
    other_query = _caller_query(page, "other_", presets["active"])
    others = [key for key in _CALLER[1:] if page.query(f"other_{key}")]
    compares = page.query("compare") == "yes" or bool(others)
    other = await _preview_of(page, other_query) if compares else None
    rows = _rows(one, other, page.query("q").lower(), page.query("differing") == "yes")
    first = _first_of(page, len(rows))
    context = {
        "presets": presets["presets"],
        "active": presets["active"],
        "agents": page.agents,
        "formats": FORMATS,
        "most_missing": MISSING_ROWS,
        "format": _format_of(page),
        "one": one,
        "other": other,
        "other_query": other_query | {"agent": page.query("other_agent")},
        "rows": rows[first : first + ROWS],
        "total": len(rows),
        "first": first,
        "before": _query_of(page, first=first - ROWS) if first else None,
        "after": _query_of(page, first=first + ROWS) if first + ROWS < len(rows) else None,
        "most_tokens": max((it["tokens"] for it in one.tools.values()), default=0),
        "q": page.query("q"),
        "differing": page.query("differing") == "yes",
        "tenant": page.tenant_id,
        "may_switch": page.may(OperatorRight.PRESETS),
        "this": _query_of(page),
    }
    has_query = bool(page.request.query_params)
    is_refused = has_query and (one.problems or (other is not None and other.problems))
    return PageView(
        template="visibility.html",
        suggests=True,
        context=context,
        status=422 if is_refused else 200,
    )


async def _show_tool(page: PageRequest) -> PageResult:
    """Show one tool as a model gets it, in each format."""
    presets = await page.api.get("/internal/mcp/presets")
    query = _caller_query(page, "", presets["active"])
    name = page.query("name")
    shown = []
    for format_ in FORMATS:
        found = await page.api.get(TOOLS_PATH, {**query, "format": format_, "names": [name]})
        for line, definition in zip(found["preview"]["tools"], found["tools"], strict=True):
            shown.append((format_, line["tokens"], definition))
    context = {
        "tool": name,
        "shown": shown,
        "most_chars": MAX_SHOWN_CHARS,
        "this": _query_of(page, name=None),
    }
    return PageView(template="visible_tool.html", context=context)


async def _explain(page: PageRequest) -> PageResult:
    """Explain why a caller sees a tool, or does not."""
    tenant, user, agent = page.tenant(), page.query("user_id"), page.agent()
    explanation = None
    problems: Mapping[str, str] = {}
    if page.request.query_params:
        problems = _missing_of({"tool": page.query("tool"), "tenant_id": tenant})
    if page.request.query_params and not problems:
        body = {
            "tool_name": page.query("tool"),
            "user": {"tenant_id": tenant, "user_id": user or "console"},
            **({"agent": agent} if agent else {}),
        }
        try:
            explanation = await page.api.post(EXPLAIN_PATH, body)
        except ApiRefused as error:
            problems = problems_of(error, ("tool", "tenant_id", "user_id", "agent"))
    checks = [] if explanation is None else _checks_of_seeing(explanation)
    deciding = _deciding(checks)
    rule = None if deciding is None else deciding.get("rule")
    context = {
        "tool": page.query("tool"),
        "user": user,
        "agent": agent,
        "agents": page.agents,
        "tenant": tenant,
        "own_tenant": page.tenant_id,
        "problems": problems,
        "explanation": explanation,
        "checks": checks,
        "deciding": deciding,
        "server": _server_of(page.query("tool"), deciding),
        "to_change": "" if rule is None else what_to_change(rule),
        "this": _query_of(page, tool=None),
    }
    return PageView(template="why_not_seen.html", suggests=True, context=context)


def _missing_of(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the problem of each field without a value."""
    needed = {"tool": "Enter a tool.", "tenant_id": "Enter the user's tenant."}
    return {key: text for key, text in needed.items() if not given[key]}


async def _switch(page: PageRequest) -> PageResult:
    """Switch the preset of all callers."""
    preset_id = page.form.text("preset_id")
    await page.api.send(
        "PUT",
        ACTIVE,
        body={"preset_id": preset_id, "persist": page.form.text("persist") == "yes"},
    )
    return Done(path=PATH, message=f"Preset {preset_id} is active.")


async def _preview_of(page: PageRequest, query: Mapping[str, str]) -> _Preview:
    try:
        found = await page.api.get(TOOLS_PATH, {**query, "format": _format_of(page)})
    except ApiRefused as error:
        nothing = {"missing": [], "tokens": 0, "active": True}
        return _Preview(query, nothing, {}, problems_of(error, _CALLER))
    preview = found["preview"]
    tools = {
        line["name"]: {**line, "definition": definition}
        for line, definition in zip(preview["tools"], found["tools"], strict=True)
    }
    return _Preview(query, preview, tools)


def _rows(
    one: _Preview,
    other: _Preview | None,
    wanted: str,
    only_differing: bool,
) -> list[dict[str, Any]]:
    """Return a line for each tool that either sees, those of the first look first."""
    others = {} if other is None else other.tools
    names = [*one.tools, *(name for name in others if name not in one.tools)]
    rows = [
        _row(name, one.tools.get(name), others.get(name))
        for name in names
        if wanted in name.lower()
    ]
    if other is not None and only_differing:
        rows = [it for it in rows if it["one"] is None or it["other"] is None or it["is_changed"]]
    return rows


def _row(
    name: str, one: Mapping[str, Any] | None, other: Mapping[str, Any] | None
) -> dict[str, Any]:
    is_changed = False
    if one is not None and other is not None:
        is_changed = one["definition"] != other["definition"]
    return {"name": name, "one": one, "other": other, "is_changed": is_changed}


def _checks_of_seeing(explanation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the checks that a tool has to pass to be seen; the others are about a call's input.

    Of a server that was never reached no tool is seen: the call fails by the server's check.
    """
    checks = {it["check"]: it for it in explanation["checks"]}
    names = [*_SEEN_BY, *(["server"] if checks["visibility"]["verdict"] == "not_reached" else [])]
    return [checks[name] for name in names if name in checks]


def _deciding(checks: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the check that keeps a tool from being seen; None if it is seen."""
    refused = (it for it in checks if it["verdict"] not in ("pass", "not_reached"))
    return next(refused, None)


def _server_of(tool: str, deciding: Mapping[str, Any] | None) -> str:
    """Return the server that a tool is named with, if the reason is about that server."""
    server_id = tool.partition(":")[0]
    if deciding is None:
        return ""
    reason = f"{deciding.get('message', '')} {deciding.get('reason', '')}"
    names = (f"server {quote(server_id)} ", f"server {server_id} ")
    return server_id if server_id and any(it in reason for it in names) else ""


def _caller_query(page: PageRequest, prefix: str, active: str) -> dict[str, str]:
    query = {key: page.query(f"{prefix}{key}") for key in _CALLER}
    query["preset_id"] = query["preset_id"] or active
    query["tenant_id"] = page.tenant(f"{prefix}tenant_id")
    if not prefix or page.agents.is_required:  # the other caller may have the same agent
        query["agent"] = query["agent"] or page.agent()
    return query


def _format_of(page: PageRequest) -> str:
    wanted = page.query("format")
    return wanted if wanted in FORMATS else "mcp"


def _first_of(page: PageRequest, total: int) -> int:
    first = page.number("first")
    return first - first % ROWS if first < total else 0


def _query_of(page: PageRequest, **changes: object) -> dict[str, object]:
    """Return the parameters of this page with changes, for a link to it; each row has one."""
    given = page.request.query_params.items()
    kept = {
        name: value for name, value in given if name in _PARAMETERS and len(value) <= MAX_KEPT_CHARS
    }
    query: dict[str, object] = {**kept, **changes}
    return {name: value for name, value in query.items() if value not in (None, "")}
