"""Aliases for property names that model APIs refuse, such as ``$filter`` and ``filter[x]``.

The listed schema has the aliases, and a call's arguments get the server's names back. One table
from the tool's whole schema serves both, independent of format and bound arguments.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.wire.json_schema.keywords import (
    Node,
    References,
    applied_schemas,
    map_subschemas,
    subschemas,
)

STRICTEST = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Gemini's rule for parameter names, the strictest of all APIs."""

MAX_READABLE = 48
"""Characters of a name that are kept in its alias."""

MAX_PLACES = 10_000
"""Maximum number of remembered places per tool; beyond it, names are not restored."""

_OTHER_PROPERTIES = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")

_DROPPED = re.compile(r"[^A-Za-z0-9]+")

Aliases = Mapping[str, str]
"""Name on the server → alias."""


def aliases_of(schema: Node) -> Aliases:
    """Return an alias for each property name that an API can refuse, at any depth.

    Aliases never equal the name of another property of the schema.
    """
    names = dict.fromkeys(_property_names(schema))
    refused = [name for name in names if not STRICTEST.fullmatch(name)]
    if not refused:
        return {}
    taken = set(names)
    aliases: dict[str, str] = {}
    for name in refused:
        alias = aliases[name] = _free_alias(name, taken)
        taken.add(alias)
    return aliases


def _property_names(schema: Node) -> Iterator[str]:
    nodes: list[Any] = [schema]
    for node in nodes:  # the loop appends to it
        if isinstance(node, Mapping):
            properties = node.get("properties")
            yield from properties if isinstance(properties, Mapping) else ()
            nodes += subschemas(node)


def _free_alias(name: str, taken: set[str]) -> str:
    readable = _DROPPED.sub("_", name).strip("_")
    if not readable or len(readable) > MAX_READABLE:
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
        readable = f"{readable[:MAX_READABLE] or 'argument'}_{digest}"
    if readable[0].isdigit():
        readable = f"_{readable}"
    alias, number = readable, 1
    while alias in taken:
        number += 1
        alias = f"{readable}_{number}"
    return alias


def rename_properties(schema: JsonObject, aliases: Aliases) -> dict[str, Any]:
    """Return a 2020-12 schema with aliases as property names, at any depth.

    Its references must point to ``$defs``: names in references are unchanged.
    """
    renamed: dict[str, Any] = _renamed(schema, aliases)
    return renamed


def _renamed(node: Any, aliases: Aliases) -> Any:
    if not isinstance(node, Mapping):
        return node
    renamed = map_subschemas(node, lambda part: _renamed(part, aliases))
    for key in ("properties", "dependentSchemas", "dependentRequired"):
        if isinstance(table := renamed.get(key), Mapping):
            renamed[key] = {aliases.get(name, name): part for name, part in table.items()}
    if isinstance(needed := renamed.get("dependentRequired"), Mapping):
        renamed["dependentRequired"] = {
            name: _renamed_names(names, aliases) for name, names in needed.items()
        }
    if "required" in renamed:
        renamed["required"] = _renamed_names(renamed["required"], aliases)
    return renamed


def _renamed_names(names: Any, aliases: Aliases) -> Any:
    if not isinstance(names, list):
        return names
    return [aliases.get(name, name) if isinstance(name, str) else name for name in names]


class ArgumentNames:
    """Restores the server's names in the arguments of one tool.

    If name and alias are both sent, the alias stays and the check of the arguments decides.
    """

    def __init__(self, schema: Node, aliases: Aliases) -> None:
        self._root = schema
        self._references = References(schema)
        self._names = {alias: name for name, alias in aliases.items()}
        self._places: dict[tuple[int, ...], _Place] = {}

    def restore(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments with the server's names; the same object if nothing changes."""
        restored: JsonObject = self._restored(arguments, (self._root,))
        return restored

    def _restored(self, value: Any, schemas: Iterable[Any]) -> Any:
        if not isinstance(value, dict | list) or not value:
            return value
        place = self._place(schemas)
        if place is None:
            return value
        if isinstance(value, list):
            items = [self._restored(it, place.items) for it in value]
            return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        restored: dict[str, Any] = {}
        for key, part in value.items():
            named = place.aliased.get(key, key)
            name = str(key if named in value else named)
            restored[name] = self._restored(part, place.schemas_of(name))
        is_same = all(name in value and restored[name] is value[name] for name in restored)
        return value if is_same else restored

    def _place(self, schemas: Iterable[Any]) -> "_Place | None":
        """Return the joint rules of these schemas; None for no schema, or too many."""
        key = tuple(dict.fromkeys(id(it) for it in schemas if isinstance(it, Mapping)))
        if not key:
            return None
        place = self._places.get(key)
        if place is None and len(self._places) < MAX_PLACES:
            place = self._places[key] = _Place(
                applied_schemas(schemas, self._references), self._names
            )
        return place


class _Place:
    def __init__(self, nodes: list[Node], names: Mapping[str, str]) -> None:
        self._properties: dict[str, list[Any]] = {}
        self._others: list[Any] = []
        self.items: list[Any] = []
        for node in nodes:
            table = node.get("properties")
            for name, schema in table.items() if isinstance(table, Mapping) else ():
                self._properties.setdefault(name, []).append(schema)
            table = node.get("patternProperties")
            self._others += table.values() if isinstance(table, Mapping) else ()
            self._others += [node[key] for key in _OTHER_PROPERTIES if key in node]
            for key in _ITEMS:
                schema = node.get(key)
                self.items += schema if isinstance(schema, list) else (schema,)
        self.aliased = {alias: name for alias, name in names.items() if name in self._properties}

    def schemas_of(self, name: str) -> list[Any]:
        """Return the schemas that can apply to a property."""
        return self._properties.get(name, self._others)
