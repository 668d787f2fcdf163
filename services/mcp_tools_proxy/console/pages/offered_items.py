"""Pages with a server's tools, prompts and resources: a list, and details with schema outlines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from mcp_tools_proxy.console.api_client import ACTIVE_PRESET, SERVERS
from mcp_tools_proxy.console.page_request import (
    PAGE_HEADERS,
    Address,
    ListPage,
    PageRequest,
    PageView,
)
from mcp_tools_proxy.console.page_text import is_longer, page_cost, page_text
from mcp_tools_proxy.console.schema_forms.schema_reader import (
    LIMITS,
    NoForm,
    Resolved,
    SchemaReader,
    properties_of,
    required_of,
)
from mcp_tools_proxy.domain.configuration import EMPTY_PRESET
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.api.server_routes import (
    OfferedItemAnswer,
    ServerAnswer,
    ServerOffersAnswer,
)
from mcp_tools_proxy.policy.visibility import Why

MAX_DEPTH = 8

MAX_VALUES = 12
"""Maximum ``enum`` values shown."""

MAX_BRANCHES = 6

MAX_UNIONS = 2
"""Nesting of alternatives and lists in a type description. Six alternatives each on 8 levels took 9
s.
"""

DESCRIPTION_CHARS = 300

OUTLINE_NAME_CHARS = 100

VALUE_CHARS = 60

MAX_VALUE_CHARS = 2_000
"""Larger objects and lists are shown as {…} or […]."""

_MARKUP_BYTES = 180
"""Page markup around the texts of one line."""

_LIMITS: Mapping[str, str] = {**LIMITS, "default": "default {}"}

_WORDS = {"array": "list"}

Item = Mapping[str, Any]
"""A definition as received from its server; values can have any type."""

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
"""Reasons why an item is hidden: a label, and advice with the file to change."""

_BAD = (Why.INVALID, Why.NEEDS_TASK, Why.QUARANTINED, Why.CANNOT_BIND, Why.GUARDED)

NO_PRESET = "No preset is active. Activate one under “Access”."

WARNS = "may be destructive"
"""Annotation that is also shown in the list."""

ANNOTATIONS: Mapping[str, tuple[str, str]] = {
    "readOnlyHint": ("read-only", "may change data"),
    "destructiveHint": (WARNS, "not destructive"),
    "idempotentHint": ("safe to repeat", "not safe to repeat"),
    "openWorldHint": ("accesses external systems", "no external access"),
}
"""Labels of tool annotations if true and if false."""

NAME_CHARS = 120

SHORT_ARGUMENTS = 6
"""Arguments named in the list."""

LIST_COST = 34_000

TEXT_COST = 8_000

SCHEMA_COST = 12_000

JSON_COST = 9_000


async def show_offers(page: PageRequest, server_id: str, address: Address) -> Mapping[str, Any]:
    """Return the template context of the list of a server's items."""
    offers = await _page_of(page, server_id)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    left = LIST_COST
    for item in offers.items:
        row = _row(item, narrow=left <= 0)
        left -= 350 + sum(page_cost(str(row[key])) for key in ("name", "about", "arguments"))
        groups.setdefault(item.kind, []).append(row)
    return {
        "total": offers.total,
        "groups": [(KINDS.get(kind, kind), rows) for kind, rows in groups.items()],
        "listing": ListPage.after_cursor(offers.items, page, offers.next_cursor, address),
        "cursor": page.query("cursor"),
    }


async def show_item(page: PageRequest, server: ServerAnswer) -> PageView | Response:
    """Show one item, or send its definition as JSON."""
    kind, name = page.query("kind"), page.request.query_params.get("name", "")
    offers = await _page_of(page, server.server_id)
    found = [it for it in offers.items if (it.kind, it.name) == (kind, name)]
    context: dict[str, Any] = {"server": server, "cursor": page.query("cursor"), "item": None}
    if not found:
        return PageView(template="offered_item.html", context=context, status=HTTPStatus.NOT_FOUND)
    item, definition = found[0], found[0].definition or {}
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


async def _hidden(page: PageRequest, item: OfferedItemAnswer) -> tuple[str, str] | None:
    """Return the reason why an item is hidden, and advice with the file to change."""
    hidden = None if item.shown else HIDDEN_FOR.get(item.hidden_for or "")
    if hidden is None:
        return None
    reason, advice = hidden
    if "{preset_id}" not in advice:
        return reason, advice
    preset_id = (await page.api.read(ACTIVE_PRESET)).preset.id
    if preset_id == EMPTY_PRESET.preset_id:
        return reason, NO_PRESET
    return reason, advice.format(preset_id=preset_id)


async def _page_of(page: PageRequest, server_id: str) -> ServerOffersAnswer:
    query = {"offers": server_id, "cursor": page.query("cursor")}
    offers = (await page.api.read(SERVERS, query)).offers
    assert offers is not None  # noqa: S101 - requested by the query
    return offers


def _row(item: OfferedItemAnswer, *, narrow: bool) -> Mapping[str, Any]:
    """Return an item as a row of the list; without details if ``narrow``."""
    definition = item.definition or {}
    about = item.problem or definition.get("description") or _title(definition)
    about = " ".join(about[:400].split()) if isinstance(about, str) else ""
    hidden = HIDDEN_FOR.get(item.hidden_for or "")
    return {
        "kind": item.kind,
        "key": item.name,
        "name": item.name[:NAME_CHARS] + ("…" if len(item.name) > NAME_CHARS else ""),
        "about": "" if narrow else about[:140] + ("…" if len(about) > 140 else ""),
        "arguments": "" if narrow else _arguments_in_short(definition),
        "destroys": WARNS in _annotations(definition),
        "shown": item.shown,
        "hidden": None if hidden is None else hidden[0],
        "is_bad": item.hidden_for in _BAD,
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
    """Return the outlines of a tool's schemas with their titles."""
    named = (("Arguments", "inputSchema"), ("Result", "outputSchema"))
    return [
        (title, outline_of(definition[key], SCHEMA_COST))
        for title, key in named
        if key in definition
    ]


def _arguments(definition: Item) -> Sequence[Mapping[str, Any]]:
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
    """Return the names of the first arguments, optional ones with a question mark."""
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


Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineLine:
    """One value of a schema with its nested values."""

    name: str
    kind: str
    required: bool
    description: str
    values: Sequence[str]
    more_values: int
    limits: Sequence[str]
    children: Sequence["OutlineLine"]


@dataclass(frozen=True, slots=True)
class SchemaOutline:
    """The values that a schema describes; ``is_cut`` if some are omitted."""

    lines: Sequence[OutlineLine]
    is_cut: bool


def outline_of(schema: object, max_cost: int) -> SchemaOutline:
    """Return the outline of an object's schema; it takes about ``max_cost`` bytes of a page."""
    if not isinstance(schema, Mapping):
        return SchemaOutline((), is_cut=False)
    reader = _Reader(schema, max_cost)
    root = reader.resolve(schema, frozenset({"#"}))
    lines = tuple(reader.children(root, 0))
    if not lines and set(root.schema) - {"type", "properties", "title", "$schema", "$defs"}:
        lines = tuple(reader.lines([("", schema, False)], root.places, 0))
    return SchemaOutline(lines, is_cut=reader.is_cut)


class _Reader:
    """Reads one schema until its share of the page is used up."""

    def __init__(self, root: Node, max_cost: int) -> None:
        self._reader = SchemaReader(root)
        self._left = max_cost
        self._is_full = False

    @property
    def is_cut(self) -> bool:
        """Whether part of the schema is omitted."""
        return self._is_full or self._reader.is_exhausted

    def resolve(self, schema: object, places: frozenset[str]) -> Resolved:
        """Follow references and merge ``allOf``.

        Cyclic or oversized schemas are returned unchanged. ``places`` are the definitions followed
        so far.
        """
        try:
            return self._reader.resolve(schema, places)
        except NoForm:
            return Resolved(schema if isinstance(schema, Mapping) else {}, places)

    def children(self, found: Resolved, depth: int) -> Iterator[OutlineLine]:
        """Yield the nested values: properties of an object, items of an array."""
        return self.lines(_parts(found.schema), found.places, depth)

    def lines(
        self, parts: Iterable[tuple[str, object, bool]], places: frozenset[str], depth: int
    ) -> Iterator[OutlineLine]:
        """Yield a line for each schema until the page's share is used up."""
        for name, schema, is_required in parts:
            if self._left <= 0 or depth >= MAX_DEPTH:
                self._is_full = True
                return
            found = self.resolve(schema, places)
            yield self._line(name[:OUTLINE_NAME_CHARS], found, depth, required=is_required)

    def _line(self, name: str, found: Resolved, depth: int, *, required: bool) -> OutlineLine:
        node = found.schema
        values = node.get("enum") if isinstance(node.get("enum"), list) else None
        values = [node["const"]] if "const" in node else values or []
        description = node.get("description")
        text = description if isinstance(description, str) else ""
        shown = [_value(value) for value in values[:MAX_VALUES]]
        limits = [form.format(_value(node[key])) for key, form in _LIMITS.items() if key in node]
        kind = self._kind(found)
        texts = (name, kind, text[:DESCRIPTION_CHARS], *shown, *limits)
        self._left -= _MARKUP_BYTES + sum(map(page_cost, texts))
        return OutlineLine(
            name=name,
            kind=kind,
            required=required,
            description=text[:DESCRIPTION_CHARS] + ("…" if len(text) > DESCRIPTION_CHARS else ""),
            values=shown,
            more_values=len(values) - len(shown),
            limits=limits,
            children=tuple(self.children(found, depth + 1)),
        )

    def _kind(self, found: Resolved, depth: int = 0) -> str:
        """Return the type of a value in words, such as ``list of text``."""
        node = found.schema
        named, items, branches = node.get("type"), node.get("items"), _branches(node)
        if "enum" in node or "const" in node:
            return "one of"
        if branches and depth >= MAX_UNIONS:
            return "one of several types"
        if branches:
            kinds = [self._kind(self.resolve(it, found.places), depth + 1) for it in branches]
            return " or ".join(dict.fromkeys(kinds))
        if isinstance(named, list):
            return " or ".join(_word(it) for it in named[:MAX_BRANCHES])
        if named == "array" and depth < MAX_UNIONS and isinstance(items, Mapping):
            return f"list of {self._kind(self.resolve(items, found.places), depth + 1)}"
        if named is None and "$ref" in node:
            return f"see {str(node['$ref'])[:60]}"
        return _word("object" if named is None and "properties" in node else named)


def _word(kind: object) -> str:
    if kind is None:
        return "any"
    return _WORDS.get(kind, kind[:40]) if isinstance(kind, str) else "any"


def _parts(node: Node) -> Iterator[tuple[str, object, bool]]:
    """Yield nested schemas, each with a label and whether it is required."""
    required = required_of(node)
    for name, part in properties_of(node).items():
        yield str(name), part, name in required
    items = node.get("items")
    if isinstance(items, Mapping) and not _is_plain(items):
        yield "each item", items, False
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping):
        yield "any other property", extra, False
    branches = (it for it in _branches(node) if not _is_plain(it))
    for number, part in enumerate(branches, start=1):
        yield f"alternative {number}", part, False
    unjoined = node.get("allOf")
    for number, part in enumerate(unjoined if isinstance(unjoined, list) else (), start=1):
        yield f"part {number}", part, False


def _branches(node: Node) -> Sequence[Any]:
    for key in ("anyOf", "oneOf"):
        branches = node.get(key)
        if isinstance(branches, list):
            return branches[:MAX_BRANCHES]
    return ()


def _is_plain(schema: object) -> bool:
    """Return whether a schema has only a type, which its parent's line shows."""
    return isinstance(schema, Mapping) and set(schema) <= {"type", "title"}


def _value(value: object) -> str:
    """Return a value as JSON, truncated if it is long."""
    if isinstance(value, str):
        text = json.dumps(value[: VALUE_CHARS + 1], ensure_ascii=False)
    elif is_longer(value, MAX_VALUE_CHARS):
        text = "{…}" if isinstance(value, Mapping) else "[…]"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"
