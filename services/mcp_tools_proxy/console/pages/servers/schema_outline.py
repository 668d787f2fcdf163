"""Reads a JSON Schema as an outline for people: what each value is, bounded in depth and size."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.console.pages.servers.bounded_text import page_cost
from mcp_tools_proxy.console.schema_forms.schema_reader import (
    LIMITS,
    NoForm,
    Resolved,
    SchemaReader,
    properties_of,
    required_of,
)
from mcp_tools_proxy.console.schema_forms.visible_json import is_longer

MAX_DEPTH = 8
MAX_VALUES = 12
"""Values of an ``enum`` that are shown."""

MAX_BRANCHES = 6
MAX_UNIONS = 2
"""Alternatives within alternatives, and lists, that the kind of a value names. Six each on 8 levels
took 9 s."""

DESCRIPTION_CHARS = 300
NAME_CHARS = 100
VALUE_CHARS = 60
MAX_VALUE_CHARS = 2_000
"""Of an object or a list whose beginning is shown."""

_MARKUP_BYTES = 180
"""What a page has around the texts of one line."""

_LIMITS: Mapping[str, str] = {**LIMITS, "default": "default {}"}

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
        """Whether some of the schema is not shown."""
        return self._is_full or self._reader.is_exhausted

    def resolve(self, schema: object, places: frozenset[str]) -> Resolved:
        """Follow references, and join what is said by ``allOf``.

        A loop, and what is too large, stay as they are. ``places`` are the definitions that led
        here.
        """
        try:
            return self._reader.resolve(schema, places)
        except NoForm:
            return Resolved(schema if isinstance(schema, Mapping) else {}, places)

    def children(self, found: Resolved, depth: int) -> Iterator[OutlineLine]:
        """Yield the values in a value: of an object its properties, of an array its items."""
        return self.lines(_parts(found.schema), found.places, depth)

    def lines(
        self, parts: Iterable[tuple[str, object, bool]], places: frozenset[str], depth: int
    ) -> Iterator[OutlineLine]:
        """Yield a line for each schema, as long as there is room."""
        for name, schema, is_required in parts:
            if self._left <= 0 or depth >= MAX_DEPTH:
                self._is_full = True
                return
            found = self.resolve(schema, places)
            yield self._line(name[:NAME_CHARS], found, depth, required=is_required)

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
        """Return what a value is, in words: ``list of text``."""
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


_WORDS = {"array": "list"}


def _word(kind: object) -> str:
    if kind is None:
        return "any"
    return _WORDS.get(kind, kind[:40]) if isinstance(kind, str) else "any"


def _parts(node: Node) -> Iterator[tuple[str, object, bool]]:
    """Yield the schemas in a schema, each with a name for people, and whether it is required."""
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
    """Return whether a schema says no more than a type, which its parent's line names."""
    return isinstance(schema, Mapping) and set(schema) <= {"type", "title"}


def _value(value: object) -> str:
    """Return a value as JSON, or its beginning."""
    if isinstance(value, str):
        text = json.dumps(value[: VALUE_CHARS + 1], ensure_ascii=False)
    elif is_longer(value, MAX_VALUE_CHARS):
        text = "{…}" if isinstance(value, Mapping) else "[…]"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"
