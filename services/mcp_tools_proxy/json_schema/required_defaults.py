"""Fills in the defaults of required properties that arguments lack."""

from collections.abc import Mapping
from typing import Any

from mcp_tools_proxy.domain.components import JsonObject

MAX_DEPTH = 16
"""Levels of objects in which defaults are filled in."""


def with_defaults(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """Return the arguments with the default of each required property that is missing.

    Returns ``arguments`` itself if none is. Looks into the objects of declared properties.
    """
    return _filled(arguments, schema, MAX_DEPTH)


def _filled(value: JsonObject, schema: Mapping[str, Any], depth: int) -> JsonObject:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not depth:
        return value
    required = schema.get("required")
    added = {
        name: properties[name]["default"]
        for name in (required if isinstance(required, list | tuple) else ())
        if name not in value and _has_default(properties.get(name))
    }
    for name, part in value.items():
        inner = properties.get(name)
        if isinstance(part, dict) and isinstance(inner, Mapping):
            filled = _filled(part, inner, depth - 1)
            if filled is not part:
                added[name] = filled
    return {**value, **added} if added else value


def _has_default(schema: object) -> bool:
    return isinstance(schema, Mapping) and "default" in schema
