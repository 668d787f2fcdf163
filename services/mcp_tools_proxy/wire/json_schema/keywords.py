"""JSON Schema keywords of all drafts: subschemas, references, and the upgrade to 2020-12."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote

Node = Mapping[str, Any]

DRAFT_2020 = 2020
"""MCP's default draft for a schema without ``$schema``."""

TABLES = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
"""Keywords whose value is an object of schemas; its keys are names, never keywords."""

LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLES = frozenset(
    {
        *("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then"),
        *("else", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    }
)
MAY_BE_BOOLEAN = frozenset({"additionalProperties", "unevaluatedItems", "unevaluatedProperties"})
"""Keywords whose boolean schemas all model APIs accept; elsewhere some accept only objects."""

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
IDENTIFICATION_KEYWORDS = frozenset(
    {
        *("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"),
        *("$defs", "definitions"),
    }
)
"""Keywords that name a schema or contain definitions, without constraints on values."""

INTRODUCED_IN = {
    **dict.fromkeys(("const", "contains", "propertyNames", "examples"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(("minContains", "maxContains", "dependentRequired", "dependentSchemas"), 2019),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "$recursiveRef"), 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), DRAFT_2020),
}
"""The first draft that defines a keyword; earlier drafts ignore it."""

LAST_DRAFT_REF_OVERRIDES_SIBLINGS = 7
"""Up to this draft, validators ignore the sibling keywords of a ``$ref``."""

DEFINITION = "#/$defs/"
"""Prefix of references to definitions in 2020-12."""

_DRAFT = re.compile(r"draft[-/](?:0([467])|(20(?:19-09|20-12)))")


def draft_of(schema: Node) -> int:
    """Return the draft named by ``$schema``: 4, 6, 7, 2019 or 2020; 2020 by default."""
    named = schema.get("$schema")
    found = _DRAFT.search(named) if isinstance(named, str) else None
    if found is None:
        return DRAFT_2020
    return int(found[1] or found[2][:4])


def upgrade_to_2020_12(node: Node, draft: int) -> dict[str, Any]:
    """Rewrite a node of ``draft`` with the keywords of 2020-12; its subschemas stay unchanged.

    Up to draft 7, only annotations beside a ``$ref`` are kept; other siblings are ignored there.
    Names and definitions are dropped: references are resolved in the original document.
    """
    if draft <= LAST_DRAFT_REF_OVERRIDES_SIBLINGS and isinstance(node.get("$ref"), str):
        return {key: node[key] for key in node if key == "$ref" or key in ANNOTATIONS}
    left_out = IDENTIFICATION_KEYWORDS | {"id"} if draft <= 4 else IDENTIFICATION_KEYWORDS
    upgraded = {
        key: value
        for key, value in node.items()
        if key not in left_out and INTRODUCED_IN.get(key, 0) <= draft
    }
    for rewrite in (_upgrade_tuple, _upgrade_dependencies, _upgrade_bounds, _upgrade_references):
        rewrite(upgraded)
    return upgraded


def _upgrade_tuple(node: dict[str, Any]) -> None:
    """Rename ``items`` with a list to ``prefixItems``, and ``additionalItems`` to ``items``."""
    rest = node.pop("additionalItems", None)
    if not isinstance(node.get("items"), list):
        return
    if first := node.pop("items"):
        node["prefixItems"] = first
    if rest is not None:
        node["items"] = rest


def _upgrade_dependencies(node: dict[str, Any]) -> None:
    """Split ``dependencies`` into ``dependentRequired`` and ``dependentSchemas``.

    Validators apply ``dependencies`` in later drafts as well.
    """
    needed = node.pop("dependencies", None)
    if not isinstance(needed, Mapping):
        return
    names = {key: value for key, value in needed.items() if isinstance(value, list)}
    schemas = {key: value for key, value in needed.items() if not isinstance(value, list)}
    if names:
        present = node.get("dependentRequired", {})
        both = {key: [*present.get(key, ()), *value] for key, value in names.items()}
        node["dependentRequired"] = present | {k: list(dict.fromkeys(v)) for k, v in both.items()}
    if schemas:
        present = node.get("dependentSchemas", {})
        in_both = {
            key: {"allOf": [present[key], schemas[key]]} for key in schemas if key in present
        }
        node["dependentSchemas"] = present | schemas | in_both


def _upgrade_bounds(node: dict[str, Any]) -> None:
    """Replace draft 4's boolean ``exclusiveMinimum``, a modifier of ``minimum``, by a number."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and bound in node:
            node[exclusive] = node.pop(bound)


def _upgrade_references(node: dict[str, Any]) -> None:
    """Replace dynamic references by ``$ref``, which is equivalent within one document."""
    for key in ("$dynamicRef", "$recursiveRef"):
        if key in node:
            reference = {"$ref": node.pop(key)}
            if "$ref" in node:
                node["allOf"] = [*node.get("allOf", ()), reference]
            else:
                node |= reference


_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
"""Index in a JSON pointer. Python refuses to convert 5,000 digits: one such pointer ended the
gateway."""

NAMED_SCHEMAS = TABLES | {"definitions", "dependencies"}
"""Keywords whose value is an object of schemas, in any draft."""

OTHER_SCHEMAS = SINGLES | LISTS | {"additionalItems"}
"""Keywords whose value is a schema or a list of schemas."""


class References:
    """Resolves the references of one document."""

    def __init__(self, root: Node) -> None:
        self._root = root
        base = root.get("$id", root.get("id", ""))
        self._base = base.rstrip("#") if isinstance(base, str) else ""

    def find(self, reference: object) -> tuple[str, Node | bool] | None:
        """Return the place in the document (``#/…``, ``#name``) and the schema there, or None.

        None for another document, a missing target, an ambiguous name, and all references of a
        document whose subschemas have ids, which change targets by position.
        """
        names = self._names
        if names is None or not isinstance(reference, str):
            return None
        place = reference if reference.startswith("#") else reference.removeprefix(self._base)
        if place and not place.startswith("#"):
            return None
        inner = unquote(place.removeprefix("#"))
        if not inner:
            return "#", self._root
        found = self._at(inner[1:]) if inner.startswith("/") else names.get(inner)
        return (f"#{inner}", found) if isinstance(found, Mapping | bool) else None

    @cached_property
    def _names(self) -> Mapping[str, Node | None] | None:
        """Subschemas by anchor, None for an ambiguous one; None as a whole if any has an id."""
        names: dict[str, Node | None] = {}
        nodes: list[Any] = [self._root]
        for node in nodes:  # the loop appends to it
            if not isinstance(node, Mapping):
                continue
            nodes += subschemas(node)
            for key in ("$anchor", "$dynamicAnchor", "$id", "id"):
                name = node.get(key)
                if not isinstance(name, str):
                    continue
                if not key.endswith("id") or name.startswith("#"):
                    name = name.removeprefix("#")
                    names[name] = node if names.get(name, node) is node else None
                elif node is not self._root:
                    return None
        return names

    def _at(self, pointer: str) -> object:
        found: object = self._root
        for step in pointer.split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                is_there = _INDEX.fullmatch(key) is not None and int(key) < len(found)
                found = found[int(key)] if is_there else None
            else:
                found = found.get(key) if isinstance(found, Mapping) else None
        return found


def applied_schemas(schemas: Iterable[Any], references: References) -> list[Node]:
    """Return the schemas, and those that apply to the same value through them."""
    applied: dict[int, Node] = {}
    waiting = list(schemas)
    for node in waiting:  # the loop appends to it
        if not isinstance(node, Mapping) or id(node) in applied:
            continue
        applied[id(node)] = node
        for key in ("allOf", "anyOf", "oneOf"):
            branches = node.get(key)
            waiting += branches if isinstance(branches, list | tuple) else ()
        waiting += [node[key] for key in ("not", "if", "then", "else") if key in node]
        for key in ("dependentSchemas", "dependencies"):
            table = node.get(key)
            waiting += table.values() if isinstance(table, Mapping) else ()
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            found = references.find(node.get(key))
            waiting += () if found is None else (found[1],)
    return list(applied.values())


def map_subschemas(node: Node, convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a node with each value under its subschema keywords converted, in any draft."""
    converted = dict(node)
    for key, value in node.items():
        if key in OTHER_SCHEMAS:
            converted[key] = [*map(convert, value)] if isinstance(value, list) else convert(value)
        elif key in NAMED_SCHEMAS and isinstance(value, Mapping):
            converted[key] = {name: convert(part) for name, part in value.items()}
    return converted


def subschemas(node: Node) -> Iterator[Any]:
    """Yield the values under a node's subschema keywords, in any draft; they can be invalid."""
    for key, value in node.items():
        if key in OTHER_SCHEMAS:
            yield from value if isinstance(value, list) else (value,)
        elif key in NAMED_SCHEMAS and isinstance(value, Mapping):
            yield from value.values()
