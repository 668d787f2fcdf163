"""Rewrites schemas for MCP clients that support few keywords: ``?schemas=plain``.

autogen and mcpo fail for all tools of a list if one has a ``$ref`` into ``properties`` or a list of
types. The result has neither, and accepts at least the values of the original, which checks calls.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcp_tools_proxy.domain.components import JsonObject, ToolSpec
from mcp_tools_proxy.wire.json_schema.api_rules import (
    PLAIN,
    PLAIN_RESULT,
    SchemaRules,
)
from mcp_tools_proxy.wire.json_schema.argument_names import Aliases
from mcp_tools_proxy.wire.json_schema.keywords import DEFINITION
from mcp_tools_proxy.wire.json_schema.schema_adapter import adapt_schema

MAX_DEPTH = 24
MAX_NODES = 10_000
"""Limits for schemas whose references are replaced by their targets; ``{}`` replaces parts
beyond."""

REJECT_ALL: JsonObject = {"not": {}}
_KEPT = frozenset(
    {
        *("type", "title", "description", "default", "examples", "enum", "const", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems"),
        *("properties", "required", "additionalProperties", "items", "anyOf"),
    }
)
"""Keywords that common clients support; without the others the schema accepts more."""


def with_plain_schemas(spec: ToolSpec) -> ToolSpec:
    """Return a tool with plain schemas."""
    output = spec.output_schema
    return replace(
        spec,
        input_schema=plain_schema(spec.input_schema, PLAIN, spec.argument_aliases),
        output_schema=None if output is None else plain_schema(output, PLAIN_RESULT),
    )


def plain_schema(
    schema: JsonObject, rules: SchemaRules, aliases: Aliases | None = None
) -> JsonObject:
    """Return an object schema without ``$ref``, lists of types and rare keywords."""
    adapted = adapt_schema(schema, rules, aliases).schema
    definitions = adapted.get("$defs", {})
    plain = _Simplifier(definitions if isinstance(definitions, Mapping) else {})
    return plain.simplify(adapted, ())


class _Simplifier:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._nodes = 0

    def simplify(self, node: object, inside: tuple[str, ...], depth: int = 0) -> dict[str, Any]:
        """Return a node in plain form; ``inside`` are the references followed to it."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES or not isinstance(node, Mapping):
            return dict(REJECT_ALL) if node is False else {}
        if node == REJECT_ALL:
            return dict(REJECT_ALL)
        merged, inside = self._resolved(node, inside)
        if merged is None:
            return {}
        plain: dict[str, Any] = {
            key: self._value(key, value, inside, depth)
            for key, value in merged.items()
            if key in _KEPT or key.startswith("x-")
        }
        return _without_type_list(plain)

    def _resolved(
        self, node: Mapping[str, Any], inside: tuple[str, ...]
    ) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
        """Return a node with its reference, ``allOf`` and ``oneOf`` replaced; None for a cycle."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            return None, inside
        merged = dict(node)
        if "$ref" in merged:
            name = str(merged.pop("$ref")).removeprefix(DEFINITION)
            target = self._definitions.get(name)
            if name in inside:
                return None, inside
            inside = (*inside, name)
            if isinstance(target, Mapping):
                inner, inside = self._resolved(target, inside)
                merged = _joined([merged, inner or {}])
        parts = merged.pop("allOf", None)
        if parts:
            resolved = [self._resolved(part, inside)[0] or {} for part in parts if part is not True]
            merged = _joined([merged, *resolved])
        if "oneOf" in merged:
            merged.setdefault("anyOf", merged.pop("oneOf"))
        return merged, inside

    def _value(self, key: str, value: Any, inside: tuple[str, ...], depth: int) -> Any:
        if key == "properties" and isinstance(value, Mapping):
            return {name: self.simplify(it, inside, depth + 1) for name, it in value.items()}
        if key == "anyOf" and isinstance(value, list):
            return [self.simplify(it, inside, depth + 1) for it in value]
        if key in ("items", "additionalProperties") and not isinstance(value, bool):
            return self.simplify(value, inside, depth + 1)
        return value


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join parts that must all match; the first value of a keyword is kept."""
    joined: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            known = joined.get(key)
            if key == "properties" and isinstance(known, Mapping):
                joined[key] = {**value, **known}
            elif key == "required" and isinstance(known, list):
                joined[key] = list(dict.fromkeys([*known, *value]))
            else:
                joined.setdefault(key, value)
    if sum("properties" in part for part in parts) > 1:
        joined.pop("additionalProperties", None)  # it would reject the other parts' properties
    return joined


def _without_type_list(plain: dict[str, Any]) -> dict[str, Any]:
    types = plain.get("type")
    if not isinstance(types, list):
        return plain
    rest = {key: value for key, value in plain.items() if key != "type"}
    if len(types) == 1:
        return {"type": types[0], **rest}
    if "anyOf" in rest:
        return rest
    described: dict[str, Any] = {
        key: rest.pop(key) for key in ("title", "description", "default") if key in rest
    }
    branches = [{"type": it, **{k: v for k, v in rest.items() if _concerns(k, it)}} for it in types]
    return {**described, "anyOf": branches}


_OF_TYPE = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems", "uniqueItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset(
        {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    ),
}
_TYPED = frozenset().union(*_OF_TYPE.values())


def _concerns(keyword: str, kind: str) -> bool:
    if keyword in ("enum", "const"):
        return True
    kind = "number" if kind == "integer" else kind
    return keyword not in _TYPED or keyword in _OF_TYPE.get(kind, ())
