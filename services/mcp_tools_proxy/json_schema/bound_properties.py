"""Takes a property out of a schema, where that leaves no other trace of it.

A schema may name one property in many places: as an alternative (``anyOf``), under a condition, as
what another one depends on. Taking it out of one of them would leave the rest, so such a schema is
refused rather than shown with a property that a model cannot give.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_tools_proxy.json_schema.keywords import ANNOTATIONS, Node
from mcp_tools_proxy.json_schema.references import References

_DECLARING = ANNOTATIONS | {"properties", "required", "type", "$defs", "definitions", "$schema"}
"""The keywords of an object's schema that are not looked at, beside where the property stands."""

_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
"""References whose target depends on the way to them; they are not followed."""

_DEFINITION = re.compile(r"#/(\$defs|definitions)/([^/]+)(?:/.*)?")


class NamedElsewhere(Exception):
    """The schema names the property in another place than ``properties``."""


def without_property(schema: Node, path: tuple[str, ...]) -> Node | None:
    """Return a schema without the property at ``path``; None if it has none there.

    The way to it is that of ``properties`` and of references within the schema. Raises
    NamedElsewhere.
    """
    changed = _without(schema, path, References(schema))
    return None if changed is None else _without_unused_definitions(changed)


def _without(node: Node, path: tuple[str, ...], references: References) -> dict[str, Any] | None:
    name, *rest = path
    inlined = _inlined(node, references)
    others = {key: inlined[key] for key in inlined.keys() - _DECLARING}
    if _mentions(others, name, references):
        raise NamedElsewhere
    properties = inlined.get("properties")
    if not isinstance(properties, Mapping) or name not in properties:
        return None
    if not rest:
        return _dropped(inlined, properties, name)
    inner = properties[name]
    changed = _without(inner, tuple(rest), references) if isinstance(inner, Mapping) else None
    if changed is None:
        return None
    return {**inlined, "properties": {**properties, name: changed}}


def _dropped(node: Node, properties: Node, name: str) -> dict[str, Any]:
    changed = {**node, "properties": {key: properties[key] for key in properties if key != name}}
    required = node.get("required")
    if isinstance(required, list):
        changed["required"] = [key for key in required if key != name]
        if not changed["required"]:  # draft 4 allows no empty list
            del changed["required"]
    return changed


def _inlined(node: Node, references: References) -> Node:
    """Return a node with what it refers to in its place. Raises NamedElsewhere if that is unclear.

    What is referred to stays as it is: other places may refer to it as well.
    """
    followed: set[str] = set()
    while "$ref" in node:
        place, target = references.find(node["$ref"]) or ("", False)
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        if isinstance(target, bool) or place in followed:
            raise NamedElsewhere
        if (siblings.keys() - ANNOTATIONS) & target.keys():
            raise NamedElsewhere
        followed.add(place)
        node = {**target, **siblings}
    return node


def _mentions(value: object, name: str, references: References) -> bool:
    """Return whether a part of a schema, or what it refers to, has the name anywhere."""
    seen: set[str] = set()
    parts: list[object] = [value]
    for part in parts:  # the loop appends to it
        if isinstance(part, list):
            parts += part
        elif not isinstance(part, Mapping):
            if part == name:
                return True
        elif name in part or _has_pattern_for(part.get("patternProperties"), name):
            return True
        else:
            parts += part.values()
            parts += _targets(part, references, seen, unknown=name)
    return False


def _targets(node: Node, references: References, seen: set[str], *, unknown: str) -> list[object]:
    """Return what a node refers to and was not seen before; ``unknown`` where that is unclear."""
    if not _DYNAMIC.isdisjoint(node):
        return [unknown]
    if not isinstance(node.get("$ref"), str):
        return []
    found = references.find(node["$ref"])
    if found is None:
        return [unknown]
    place, target = found
    if place in seen:
        return []
    seen.add(place)
    return [target]


def _has_pattern_for(patterns: object, name: str) -> bool:
    """Return whether a pattern may match the name; one that Python does not know may."""
    for pattern in patterns if isinstance(patterns, Mapping) else ():
        try:
            if re.search(pattern, name):
                return True
        except re.error:
            return True
    return False


def _without_unused_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the definitions that nothing refers to: one may name the property."""
    tables = [key for key in ("$defs", "definitions") if isinstance(schema.get(key), Mapping)]
    if not tables:
        return schema
    used: set[tuple[str, str]] = set()
    waiting: list[object] = [{key: schema[key] for key in schema if key not in tables}]
    for part in waiting:  # the loop appends to it
        for reference in _references_in(part):
            found = _DEFINITION.fullmatch(reference)
            if found is None:
                return schema
            place = (found[1], found[2].replace("~1", "/").replace("~0", "~"))
            if place not in used and place[1] in schema.get(place[0], {}):
                used.add(place)
                waiting.append(schema[place[0]][place[1]])
    pruned = dict(schema)
    for table in tables:
        pruned[table] = {k: v for k, v in schema[table].items() if (table, k) in used}
        if not pruned[table]:
            del pruned[table]
    return pruned


def _references_in(value: object) -> Iterator[str]:
    parts: list[object] = [value]
    for part in parts:  # the loop appends to it
        if isinstance(part, Mapping):
            parts += part.values()
            for key in ("$ref", *_DYNAMIC):
                if isinstance(reference := part.get(key), str):
                    yield reference
        elif isinstance(part, list):
            parts += part
