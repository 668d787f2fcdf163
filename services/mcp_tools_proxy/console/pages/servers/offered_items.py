"""What a server offers: a page of it as a list, and one item of that page as a whole."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from mcp_tools_proxy.console.page_headers import PAGE_HEADERS
from mcp_tools_proxy.console.page_request import PageRequest, PageView
from mcp_tools_proxy.console.pages.servers.bounded_text import page_cost, page_text
from mcp_tools_proxy.console.pages.servers.schema_outline import outline_of
from mcp_tools_proxy.console.schema_forms.schema_reader import properties_of, required_of
from mcp_tools_proxy.domain.configuration import EMPTY_PRESET

Item = Mapping[str, Any]

KINDS: Mapping[str, str] = {
    "tool": "Tools",
    "prompt": "Prompts",
    "resource": "Resources",
    "resource_template": "Resource templates",
}

HIDDEN_FOR: Mapping[str, tuple[str, str]] = {
    "invalid": (
        "invalid",
        "The definition violates a rule. Fix it on the server.",
    ),
    "needs_task": ("not supported", "It can only run as a task. The gateway does not run tasks."),
    "excluded": ("excluded", "The server’s entry in mcp.json lists it in “exclude”."),
    "not_in_preset": (
        "not in the preset",
        "Add it to preset_{preset_id}.json, or switch to a preset that contains it.",
    ),
    "cannot_bind": (
        "not bound",
        "“bind” in the server’s entry in mcp.json sets an argument that this tool does not accept. "
        "See the problems of the server.",
    ),
    "quarantined": (
        "quarantined",
        "The definition differs from the accepted one in definitions.lock.json. Review the change "
        "and accept it.",
    ),
    "guarded": (
        "hidden by a guard",
        "A guard found blocked text in the definition. Guards are set by “guards” in the server’s "
        "entry in mcp.json or in preset_{preset_id}.json. See the changed definitions.",
    ),
    "shadowed": ("shadowed", "An earlier server in mcp.json offers the same name."),
    "name_taken": (
        "name taken",
        "Another tool has the same name. Rename this one with “overrides” in "
        "preset_{preset_id}.json.",
    ),
}
"""Why nobody sees an item: in a word or two, and what to do about it, and in which file."""

NO_PRESET = "No preset is active. Activate one under “Access”."

WARNS = "may be destructive"
"""What is shown of a tool in the list as well."""

ANNOTATIONS: Mapping[str, tuple[str, str]] = {
    "readOnlyHint": ("read-only", "may change data"),
    "destructiveHint": (WARNS, "not destructive"),
    "idempotentHint": ("safe to repeat", "not safe to repeat"),
    "openWorldHint": ("accesses external systems", "no external access"),
}
"""What a tool says of itself, where that is true, and where it is false."""

NAME_CHARS = 120
SHORT_ARGUMENTS = 6
"""Arguments that the list names."""

LIST_COST = 34_000
TEXT_COST = 8_000
SCHEMA_COST = 12_000
JSON_COST = 9_000


async def show_offers(page: PageRequest, server_id: str) -> Mapping[str, Any]:
    """Return what the list of a server's offers shows."""
    offers = await _page_of(page, server_id)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    left = LIST_COST
    for item in offers["items"]:
        row = _row(item, narrow=left <= 0)
        left -= 350 + sum(page_cost(str(row[key])) for key in ("name", "about", "arguments"))
        groups.setdefault(item["kind"], []).append(row)
    return {
        "total": offers["total"],
        "groups": [(KINDS.get(kind, kind), rows) for kind, rows in groups.items()],
        "next_cursor": offers.get("next_cursor"),
        "cursor": page.query("cursor"),
    }


async def show_item(page: PageRequest, server: Item) -> PageView | Response:
    """Show one item of a page of the offers, or send its definition as JSON."""
    kind, name = page.query("kind"), page.request.query_params.get("name", "")
    offers = await _page_of(page, server["server_id"])
    found = [it for it in offers["items"] if (it["kind"], it["name"]) == (kind, name)]
    context: dict[str, Any] = {"server": server, "cursor": page.query("cursor"), "item": None}
    if not found:
        return PageView(template="offered_item.html", context=context, status=HTTPStatus.NOT_FOUND)
    item, definition = found[0], found[0].get("definition", {})
    if page.query("as") == "json":
        headers = {**PAGE_HEADERS, "Content-Disposition": 'attachment; filename="definition.json"'}
        return Response(to_json(definition, indent=2), 200, headers, "application/json")
    text = definition.get("description")
    context |= {
        "item": item,
        "title": _title(definition),
        "shown_name": page_text(name, 2_000),
        "description": page_text(text if isinstance(text, str) else "", TEXT_COST),
        "hidden": await _hidden(page, item),
        "notes": _annotations(definition),
        "warns": WARNS,
        "schemas": list(_schemas(definition)),
        "arguments": _arguments(definition),
        "uri": page_text(str(definition.get("uri") or definition.get("uriTemplate") or ""), 2_000),
        "mime_type": str(definition.get("mimeType") or "")[:200],
        "json": page_text(to_json(definition, indent=2).decode(), JSON_COST),
    }
    return PageView(template="offered_item.html", context=context)


async def _hidden(page: PageRequest, item: Item) -> tuple[str, str] | None:
    """Return why nobody is shown an item, and what to do in which file."""
    if item["shown"] or item["hidden_for"] not in HIDDEN_FOR:
        return None
    reason, advice = HIDDEN_FOR[item["hidden_for"]]
    if "{preset_id}" not in advice:
        return reason, advice
    preset_id = (await page.api.get("/internal/mcp/presets/active"))["preset"]["id"]
    if preset_id == EMPTY_PRESET.preset_id:
        return reason, NO_PRESET
    return reason, advice.format(preset_id=preset_id)


async def _page_of(page: PageRequest, server_id: str) -> Mapping[str, Any]:
    query = {"offers": server_id, "cursor": page.query("cursor")}
    offers: Mapping[str, Any] = (await page.api.get("/internal/mcp/servers", query))["offers"]
    return offers


def _row(item: Item, *, narrow: bool) -> Mapping[str, Any]:
    """Return an item as a line of the list; a narrow one where the page is full."""
    definition = item.get("definition", {})
    about = item.get("problem") or definition.get("description") or _title(definition)
    about = " ".join(about[:400].split()) if isinstance(about, str) else ""
    hidden = HIDDEN_FOR.get(item.get("hidden_for", ""))
    return {
        "kind": item["kind"],
        "key": item["name"],
        "name": item["name"][:NAME_CHARS] + ("…" if len(item["name"]) > NAME_CHARS else ""),
        "about": "" if narrow else about[:140] + ("…" if len(about) > 140 else ""),
        "arguments": "" if narrow else _arguments_in_short(definition),
        "destroys": WARNS in _annotations(definition),
        "shown": item["shown"],
        "hidden": None if hidden is None else hidden[0],
        "is_bad": item.get("hidden_for")
        in (
            *("invalid", "needs_task", "quarantined", "cannot_bind"),
            "guarded",
        ),
    }


def _title(definition: Item) -> str:
    notes = definition.get("annotations")
    for title in (definition.get("title"), notes.get("title") if isinstance(notes, dict) else None):
        if isinstance(title, str):
            return title[:200]
    return ""


def _annotations(definition: Item) -> list[str]:
    found = definition.get("annotations")
    notes = found if isinstance(found, dict) else {}
    return [
        texts[0] if notes[key] else texts[1]
        for key, texts in ANNOTATIONS.items()
        if isinstance(notes.get(key), bool)
    ]


def _schemas(definition: Item) -> list[tuple[str, object]]:
    """Return the outlines of a tool's schemas, each with what it is of."""
    named = (("Arguments", "inputSchema"), ("Result", "outputSchema"))
    return [
        (title, outline_of(definition[key], SCHEMA_COST))
        for title, key in named
        if key in definition
    ]


def _arguments(definition: Item) -> Sequence[Mapping[str, Any]]:
    """Return the arguments of a prompt."""
    found = definition.get("arguments")
    listed = found if isinstance(found, list) else []
    return [
        {
            "name": str(it.get("name", ""))[:100],
            "required": it.get("required") is True,
            "description": str(it.get("description") or "")[:300],
        }
        for it in listed[:40]
        if isinstance(it, dict)
    ]


def _arguments_in_short(definition: Item) -> str:
    """Return the first names of the arguments, a question mark after each that may be left out."""
    schema = definition.get("inputSchema")
    if isinstance(schema, dict) and (properties := properties_of(schema)):
        required = required_of(schema)
        named = [(name, name in required) for name in islice(properties, SHORT_ARGUMENTS)]
        left_out = len(properties) - len(named)
    else:
        arguments = _arguments(definition)
        named = [(it["name"], it["required"]) for it in arguments[:SHORT_ARGUMENTS]]
        left_out = len(arguments) - len(named)
    texts = [name[:30] + ("" if is_needed else "?") for name, is_needed in named]
    return ", ".join(texts) + (f" and {left_out} more" if left_out else "")
