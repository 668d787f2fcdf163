"""Resolves references within one JSON Schema document, of any draft."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from mcp_tools_proxy.json_schema.keywords import LISTS, SINGLES, TABLES, Node

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
"""Of a JSON pointer. Python makes no number of 5,000 digits: one ended the gateway."""

NAMED_SCHEMAS = TABLES | {"definitions", "dependencies"}
"""The keywords whose value is an object of schemas, in any draft."""

OTHER_SCHEMAS = SINGLES | LISTS | {"additionalItems"}
"""The keywords whose value is a schema or a list of schemas, in any draft."""


class References:
    """Resolves the references of one document."""

    def __init__(self, root: Node) -> None:
        self._root = root
        base = root.get("$id", root.get("id", ""))
        self._base = base.rstrip("#") if isinstance(base, str) else ""

    def find(self, reference: object) -> tuple[str, Node | bool] | None:
        """Return the place in the document (``#/…``, ``#name``) and the schema there, else None.

        None for another document, a missing target, an ambiguous name, and for every reference of
        a document whose subschemas have ids: a target then depends on the place of the reference.
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


def subschemas(node: Node) -> Iterator[Any]:
    """Yield the values under a node's subschema keywords, in any draft; they may be no schemas."""
    for key, value in node.items():
        if key in OTHER_SCHEMAS:
            yield from value if isinstance(value, list) else (value,)
        elif key in NAMED_SCHEMAS and isinstance(value, Mapping):
            yield from value.values()
