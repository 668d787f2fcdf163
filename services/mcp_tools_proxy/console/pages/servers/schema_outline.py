"""Reads a JSON Schema as an outline for people: what each value is, bounded in depth and size."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.console.pages.servers.bounded_text import page_cost
from mcp_tools_proxy.json_schema.references import References

MAX_DEPTH = 8
MAX_VALUES = 12
"""Values of an ``enum`` that are shown."""

MAX_BRANCHES = 6
DESCRIPTION_CHARS = 300
NAME_CHARS = 100
VALUE_CHARS = 60
_MARKUP_BYTES = 180
"""What a page has around the texts of one line."""

_LIMITS: Mapping[str, str] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "format {}",
    "pattern": "pattern {}",
    "default": "by default {}",
}

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineLine:
    """One value of a schema, and the values in it."""

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
    """The values that a schema describes; ``is_cut`` if some are left out."""

    lines: Sequence[OutlineLine]
    is_cut: bool


def outline_of(schema: object, max_cost: int) -> SchemaOutline:
    """Return the outline of the schema of an object; it takes up about ``max_cost`` of a page."""
    if not isinstance(schema, Mapping):
        return SchemaOutline((), is_cut=False)
    reader = _Reader(schema, max_cost)
    node, places = reader.resolve(schema, frozenset())
    lines = tuple(reader.children(node, places, 0))
    if not lines and set(node) - {"type", "properties", "title", "$schema", "$defs"}:
        lines = tuple(reader.lines([("", schema, False)], frozenset(), 0))
    return SchemaOutline(lines, is_cut=reader.is_cut)


class _Reader:
    """Reads one schema until its share of the page is used up."""

    def __init__(self, root: Node, max_cost: int) -> None:
        self._references = References(root)
        self._left = max_cost
        self.is_cut = False

    def resolve(
        self, schema: object, places: frozenset[str], depth: int = 0
    ) -> tuple[Node, frozenset[str]]:
        """Follow references, and join what is said by ``allOf``; a loop ends in what it is named.

        ``places`` are the definitions that led here.
        """
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, Mapping):
                return {}, places
            if "$ref" not in schema:
                return self._joined(schema, places, depth)
            own = {key: it for key, it in schema.items() if key != "$ref"}
            found = self._references.find(schema["$ref"])
            if found is None or found[0] in places or not isinstance(found[1], Mapping):
                return {"$comment": str(schema["$ref"]), **own}, places
            places |= {found[0]}
            schema = {**found[1], **own}
        return {}, places

    def _joined(
        self, schema: Node, places: frozenset[str], depth: int
    ) -> tuple[Node, frozenset[str]]:
        parts = schema.get("allOf")
        if not isinstance(parts, list) or depth >= MAX_DEPTH:
            return schema, places
        joined: dict[str, Any] = {}
        for part in parts[:MAX_BRANCHES]:
            node, places = self.resolve(part, places, depth + 1)
            joined = _both(joined, node)
        return _both(joined, {key: it for key, it in schema.items() if key != "allOf"}), places

    def children(self, node: Node, places: frozenset[str], depth: int) -> Iterator[OutlineLine]:
        """Yield the values in a value: of an object its properties, of an array its items."""
        return self.lines(_parts(node), places, depth)

    def lines(
        self, parts: Sequence[tuple[str, object, bool]], places: frozenset[str], depth: int
    ) -> Iterator[OutlineLine]:
        """Yield a line for each schema, as long as there is room."""
        for name, schema, is_required in parts:
            if self._left <= 0 or depth >= MAX_DEPTH:
                self.is_cut = True
                return
            node, inner = self.resolve(schema, places)
            yield self._line(name[:NAME_CHARS], node, inner, depth, required=is_required)

    def _line(
        self, name: str, node: Node, places: frozenset[str], depth: int, *, required: bool
    ) -> OutlineLine:
        values = node.get("enum") if isinstance(node.get("enum"), list) else None
        values = [node["const"]] if "const" in node else values or []
        description = node.get("description")
        text = description if isinstance(description, str) else ""
        shown = [_value(value) for value in values[:MAX_VALUES]]
        limits = [form.format(_value(node[key])) for key, form in _LIMITS.items() if key in node]
        kind = self._kind(node)
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
            children=tuple(self.children(node, places, depth + 1)),
        )

    def _kind(self, node: Node, depth: int = 0) -> str:
        """Return what a value is, in words: ``list of text``."""
        if "enum" in node or "const" in node:
            return "one of these"
        if branches := _branches(node):
            kinds = [self._kind(self.resolve(it, frozenset())[0], depth + 1) for it in branches]
            return " or ".join(dict.fromkeys(kinds)) if depth < 2 else "one of several"
        named = node.get("type")
        if isinstance(named, list):
            return " or ".join(_word(it) for it in named[:MAX_BRANCHES])
        if named == "array" and depth < 2 and isinstance(node.get("items"), Mapping):
            return f"list of {self._kind(self.resolve(node['items'], frozenset())[0], depth + 1)}"
        if named is None and "$comment" in node and len(node) == 1:
            return f"as {str(node['$comment'])[:60]}"
        return _word(named if named is not None else "object" if "properties" in node else None)


_WORDS = {"string": "text", "array": "list", "boolean": "true or false", "integer": "whole number"}


def _word(kind: object) -> str:
    if kind is None:
        return "anything"
    return _WORDS.get(kind, kind[:40]) if isinstance(kind, str) else "anything"


def _parts(node: Node) -> list[tuple[str, object, bool]]:
    """Return the schemas in a schema, each with a name for people, and whether it is required."""
    properties = node.get("properties")
    found: list[tuple[str, object, bool]] = []
    if isinstance(properties, Mapping):
        required = node.get("required")
        names = required if isinstance(required, list) else []
        found += [(str(key), it, key in names) for key, it in properties.items()]
    items = node.get("items")
    if isinstance(items, Mapping) and not _is_plain(items):
        found.append(("each", items, False))
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping):
        found.append(("any other name", extra, False))
    branches = [it for it in _branches(node) if not _is_plain(it)]
    found += [(f"form {number}", it, False) for number, it in enumerate(branches, start=1)]
    return found


def _branches(node: Node) -> Sequence[Any]:
    for key in ("anyOf", "oneOf"):
        branches = node.get(key)
        if isinstance(branches, list):
            return branches[:MAX_BRANCHES]
    return ()


def _is_plain(schema: object) -> bool:
    """Return whether a schema says no more than a type, which its parent's line names."""
    return isinstance(schema, Mapping) and set(schema) <= {"type", "title"}


def _value(value: object) -> str:
    """Return a value as JSON, or its beginning."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"


def _both(one: Mapping[str, Any], other: Node) -> dict[str, Any]:
    """Join two schemas: the properties and required names of both, else what the latter says."""
    joined = {**one, **other}
    for key, kind in (("properties", Mapping), ("required", list)):
        if isinstance(one.get(key), kind) and isinstance(other.get(key), kind):
            joined[key] = {**one[key], **other[key]} if kind is Mapping else one[key] + other[key]
    return joined
