"""Access pages: tools of a caller and preset, compared with another, and reasons for refusals."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from mcp_tools_proxy.config.json_file import steps_of
from mcp_tools_proxy.console.api_client import (
    ACTIVE_PRESET,
    EXPLAIN,
    PRESETS,
    TOOLS_PATH,
    ApiRefused,
    problems_of,
)
from mcp_tools_proxy.console.page_request import (
    Done,
    ListPage,
    PageRequest,
    PageResult,
    PageView,
    Routes,
    page_address,
)
from mcp_tools_proxy.domain.audit import SETTINGS, Check
from mcp_tools_proxy.domain.definitions import LOCK_FILE
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.api.explain_routes import ExplainAnswer, ExplainedCheck, RulePlace
from mcp_tools_proxy.http.api.list_routes import PresetPreviewAnswer
from mcp_tools_proxy.http.api.preset_routes import PresetAnswer

_ADVICE: Mapping[tuple[str, str], str] = {
    ("preset", ""): "Add the tool to this preset, or activate another preset.",
    ("mcp.json", "defaultPresetId"): "No preset is active. Activate one under “Access”.",
    ("mcp.json", "exclude"): "Remove this entry. “exclude” of a server applies to all callers.",
    ("mcp.json", "bind"): "Bind an argument that the tool has, or remove the entry.",
    ("agents.json", "bind"): "Bind an argument that the tool has, or remove the entry.",
    ("agents.json", "client_ids"): "Add the tool’s server to this list in the agent’s profile.",
    ("agents.json", "exclude_components"): "Remove this entry from the agent’s profile.",
    (LOCK_FILE, ""): "Review and accept the changed definition under “Servers”.",
    ("document", "readers"): "Add the user or one of their roles to the document’s readers.",
    (SETTINGS, ""): "Set it, or specify a tenant in the request.",
}
"""Advice by the file of a rule and its key; "" matches any key."""

PATH = "/console/visibility"

ROWS = 100
"""Tools per page."""

MISSING_ROWS = 20
"""Maximum missing and shadowed items and problems listed; a preset can have thousands."""

MAX_SHOWN_CHARS = 8_000
"""Characters per definition and format; a server can send a schema of a megabyte."""

MAX_KEPT_CHARS = 300
"""Maximum length of a parameter repeated in links; names and ids are shorter."""

FORMATS = ("mcp", "openai", "anthropic", "gemini")

_SEEN_BY = ("request", "authentication", "audit", "lifecycle", "agent", "visibility")

_CALLER = ("preset_id", "tenant_id", "user_id", "agent")
"""Parameters of the caller; those of the compared caller have the prefix ``other_``."""

_PARAMETERS = frozenset(
    (
        *(*_CALLER, *(f"other_{key}" for key in _CALLER)),
        *("compare", "differing", "first", "format", "name", "q", "tool"),
    )
)
"""Parameters that links keep. A request with 6,000 others, repeated in 100 rows, produced a page of
megabytes.
"""


@dataclass(frozen=True, slots=True)
class _Preview:
    """The tools that one caller sees with one preset."""

    query: Mapping[str, str]
    preview: PresetPreviewAnswer
    definitions: Mapping[str, object] = field(default_factory=dict)
    """Definitions by tool name."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Errors by field."""

    @property
    def caller(self) -> str:
        """Short description of the caller."""
        named = [f"{key.removesuffix('_id')} {self.query[key]}" for key in _CALLER[1:]]
        return ", ".join(
            text for text, key in zip(named, _CALLER[1:], strict=True) if self.query[key]
        )


_NOTHING = PresetPreviewAnswer.model_construct(
    preset=PresetAnswer.model_construct(id="", name=""), missing=[], tokens=0, tools=[], active=True
)


async def _show(page: PageRequest) -> PageResult:
    """Show the tools of a caller, optionally compared with another."""
    presets = await page.api.read(PRESETS)
    one = await _preview_of(page, _caller_query(page, "", presets.active))
    other_query = _caller_query(page, "other_", presets.active)
    others = [key for key in _CALLER[1:] if page.query(f"other_{key}")]
    compares = page.query("compare") == "yes" or bool(others)
    other = await _preview_of(page, other_query) if compares else None
    rows = _rows(one, other, page.query("q").lower(), page.query("differing") == "yes")
    context = {
        "presets": presets.presets,
        "active": presets.active,
        "formats": FORMATS,
        "most_missing": MISSING_ROWS,
        "format": _format_of(page),
        "one": one,
        "other": other,
        "other_query": other_query | {"agent": page.query("other_agent")},
        "tools": ListPage.part(rows, page, ROWS, partial(_address, page)),
        "most_tokens": max((it.tokens for it in one.preview.tools), default=0),
        "q": page.query("q"),
        "differing": page.query("differing") == "yes",
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
    """Show one tool as models receive it, in each format."""
    query = _caller_query(page, "", (await page.api.read(PRESETS)).active)
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
    """Explain why a caller can or cannot see a tool."""
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
            explanation = await page.api.submit(EXPLAIN, body)
        except ApiRefused as error:
            problems = problems_of(error, ("tool", "tenant_id", "user_id", "agent"))
    checks = [] if explanation is None else _checks_of_seeing(explanation)
    deciding = _deciding(checks)
    rule = None if deciding is None else deciding.rule
    context = {
        "tool": page.query("tool"),
        "user": user,
        "agent": agent,
        "tenant": tenant,
        "problems": problems,
        "explanation": explanation,
        "checks": checks,
        "deciding": deciding,
        "server": _server_of(page, deciding),
        "to_change": "" if rule is None else _what_to_change(rule),
        "this": _query_of(page, tool=None),
    }
    return PageView(template="why_not_seen.html", suggests=True, context=context)


def _what_to_change(rule: RulePlace) -> str:
    """Return advice for a rule; "" if its place is sufficient."""
    steps = steps_of(rule.path)
    key = steps[2] if len(steps) > 2 else "".join(steps[:1])
    file = "preset" if rule.file.startswith("preset_") else rule.file
    return _ADVICE.get((file, key)) or _ADVICE.get((file, ""), "")


def _missing_of(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return an error for each missing field."""
    needed = {"tool": "Enter a tool.", "tenant_id": "Enter the user's tenant."}
    return {key: text for key, text in needed.items() if not given[key]}


async def _switch(page: PageRequest) -> PageResult:
    """Switch the active preset for all callers."""
    preset_id = page.form.text("preset_id")
    await page.api.send(
        "PUT",
        ACTIVE_PRESET.path,
        body={"preset_id": preset_id, "persist": page.form.text("persist") == "yes"},
    )
    return Done(path=PATH, message=f"Preset {preset_id} is active.")


async def _preview_of(page: PageRequest, query: Mapping[str, str]) -> _Preview:
    try:
        found = await page.api.get(TOOLS_PATH, {**query, "format": _format_of(page)})
    except ApiRefused as error:
        return _Preview(query, _NOTHING, problems=problems_of(error, _CALLER))
    preview = PresetPreviewAnswer.model_validate(found["preview"])
    names = (it.name for it in preview.tools)
    return _Preview(query, preview, dict(zip(names, found["tools"], strict=True)))


def _rows(
    one: _Preview,
    other: _Preview | None,
    wanted: str,
    only_differing: bool,
) -> list[dict[str, Any]]:
    """Return a row for each tool of either caller, those of ``one`` first."""
    tools = {it.name: it for it in one.preview.tools}
    others = {} if other is None else {it.name: it for it in other.preview.tools}
    rows = [
        {
            "name": name,
            "one": tools.get(name),
            "other": others.get(name),
            "is_changed": other is not None
            and name in tools
            and name in others
            and one.definitions[name] != other.definitions[name],
        }
        for name in tools | others
        if wanted in name.lower()
    ]
    if other is not None and only_differing:
        rows = [it for it in rows if it["one"] is None or it["other"] is None or it["is_changed"]]
    return rows


def _checks_of_seeing(explanation: ExplainAnswer) -> list[ExplainedCheck]:
    """Return the checks that decide visibility; others apply to the input of a call.

    If the server was never reached, its check is added, because it hides the tools.
    """
    checks = {it.check: it for it in explanation.checks}
    names = [*_SEEN_BY, *(["server"] if checks["visibility"].verdict == "not_reached" else [])]
    return [checks[name] for name in names if name in checks]


def _deciding(checks: Sequence[ExplainedCheck]) -> ExplainedCheck | None:
    """Return the first failed check; None if the tool is visible."""
    refused = (it for it in checks if it.verdict not in ("pass", "not_reached"))
    return next(refused, None)


def _server_of(page: PageRequest, deciding: ExplainedCheck | None) -> str:
    """Return the server in the tool's name if the server, not a rule, is the reason."""
    server_id = page.query("tool").partition(":")[0]
    is_reason = (
        deciding is not None
        and deciding.rule is None
        and deciding.check in (Check.VISIBILITY, Check.SERVER)
    )
    return server_id if is_reason and page.names.has_server(server_id) else ""


def _caller_query(page: PageRequest, prefix: str, active: str) -> dict[str, str]:
    query = {key: page.query(f"{prefix}{key}") for key in _CALLER}
    query["preset_id"] = query["preset_id"] or active
    query["tenant_id"] = page.tenant(f"{prefix}tenant_id")
    if not prefix or page.agents.is_required:  # both callers can use the same agent
        query["agent"] = query["agent"] or page.agent()
    return query


def _format_of(page: PageRequest) -> str:
    wanted = page.query("format")
    return wanted if wanted in FORMATS else "mcp"


def _address(page: PageRequest, **changes: object) -> str:
    return page_address(PATH, _query_of(page, **changes))


def _query_of(page: PageRequest, **changes: object) -> dict[str, object]:
    """Return the parameters of this page with changes, for links in each row."""
    given = page.request.query_params.items()
    kept = {
        name: value for name, value in given if name in _PARAMETERS and len(value) <= MAX_KEPT_CHARS
    }
    query: dict[str, object] = {**kept, **changes}
    return {name: value for name, value in query.items() if value not in (None, "")}


ROUTES: Routes = {
    PATH: {"GET": _show},
    f"{PATH}/tool": {"GET": _show_tool},
    f"{PATH}/why": {"GET": _explain},
    f"{PATH}/switch": {"POST": _switch},
}
