"""A tool's input schema in the form that a model API takes, with the same meaning.

Where an API has no way to say it, the shown schema accepts more, never less: the gateway checks
every call's arguments against the original.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.json_schema.keywords import (
    DRAFT_2020,
    IDENTIFICATION_KEYWORDS,
    INTRODUCED_IN,
    LAST_DRAFT_REF_OVERRIDES_SIBLINGS,
    LISTS,
    MAY_BE_BOOLEAN,
    SINGLES,
    TABLES,
    Node,
    draft_of,
)
from mcp_tools_proxy.json_schema.model_api.convert import Schema, SchemaConverter, allows_arrays
from mcp_tools_proxy.json_schema.model_api.flatten import TopLevelFlattener
from mcp_tools_proxy.json_schema.model_api.rules import SchemaRules
from mcp_tools_proxy.wire.text import quote

MAX_WARNINGS = 10
"""How many changes of one schema are told."""

MAX_SHOWN_DEPTH = 160
"""How deep objects and lists lie in each other in what was rewritten, which makes it deeper: what
reads and writes JSON takes no more than about 200, with what lists put around a schema."""

_HOLDERS = SINGLES | LISTS | TABLES
_LOOKED_AT = _HOLDERS | {"type", "pattern", "$ref", "exclusiveMinimum", "exclusiveMaximum"}
_REWRITTEN = (IDENTIFICATION_KEYWORDS - {"$defs"}) | {
    *("dependencies", "additionalItems", "$dynamicRef", "$recursiveRef")
}
_TO_DEFINITION = "#/$defs/"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_OBJECT: Schema = {"type": "object"}

_TO_REWRITE = {
    draft: _REWRITTEN
    | {key for key, since in INTRODUCED_IN.items() if since > draft}
    | ({"$ref", "id"} if draft <= LAST_DRAFT_REF_OVERRIDES_SIBLINGS else set())
    for draft in (4, 6, 7, 2019, DRAFT_2020)
}
"""What a schema of a draft may not hold to be shown as it is."""


@dataclass(frozen=True, slots=True)
class AdaptedSchema:
    """A schema as an API takes it; ``warnings`` say where it accepts more than the original."""

    schema: JsonObject
    warnings: tuple[str, ...] = ()


def adapt_schema(schema: JsonObject, rules: SchemaRules) -> AdaptedSchema:
    """Show ``schema``, which validators accept in its draft, by the rules of an API.

    Gives the very same object when it is acceptable as it stands. The result is a schema of
    2020-12 without ``$schema``. Pure: ``schema`` is never changed.
    """
    bare = schema
    if "$schema" in schema:
        bare = {key: value for key, value in schema.items() if key != "$schema"}
    if _needs_no_change(bare, rules, draft_of(schema)):
        return AdaptedSchema(bare)
    conversion = SchemaConverter(schema, rules)
    if conversion.warnings and conversion.has_references:
        conversion = SchemaConverter(schema, rules, trusts_references=False)
    top = TopLevelFlattener(conversion.definitions)
    whole = top.joined(conversion.top)
    warnings = [*conversion.warnings, *top.warnings]
    warnings += [
        f'inputSchema: "#/{key}" is left out: this API takes none at the top level'
        for key in whole
        if key in rules.refused_at_top
    ]
    whole = {key: value for key, value in whole.items() if key not in rules.refused_at_top}
    whole = whole | _OBJECT if "type" in whole else _OBJECT | whole
    _drop_invalid_property_names(whole, rules, warnings)
    if rules.needs_properties:
        whole.setdefault("properties", {})
    if used := _used_definitions(whole, conversion.definitions):
        whole["$defs"] = used
    if _is_too_deep(whole):
        whole = _OBJECT | ({"properties": {}} if rules.needs_properties else {})
        warnings = ["inputSchema: is nested too deeply, so any object is shown in its place"]
    return AdaptedSchema(whole, _told(warnings))


def _needs_no_change(schema: Node, rules: SchemaRules, draft: int) -> bool:
    """Tell whether nothing has to change; one walk without recursion."""
    if not _is_acceptable_on_top(schema, rules):
        return False
    to_rewrite = _TO_REWRITE[draft]
    definitions = schema.get("$defs", {})
    nodes: list[Any] = [schema]
    for node in nodes:  # grows meanwhile
        if not isinstance(node, Mapping) or not to_rewrite.isdisjoint(node):
            return False
        for key in _LOOKED_AT.intersection(node):
            if not _is_acceptable_at(key, node, rules, definitions):
                return False
            if key in _HOLDERS:
                nodes += _held(key, node[key])
    return True


def _is_acceptable_on_top(schema: Node, rules: SchemaRules) -> bool:
    if schema.get("type") != "object" or "$ref" in schema:
        return False
    if not rules.refused_at_top.isdisjoint(schema):
        return False
    properties = schema.get("properties")
    if properties is None:
        return not rules.needs_properties
    return rules.argument_name is None or all(map(rules.takes_argument, properties))


def _is_acceptable_at(key: str, node: Node, rules: SchemaRules, definitions: Node) -> bool:
    value = node[key]
    match key:
        case "type":
            return not rules.needs_items or "items" in node or not allows_arrays(node)
        case "pattern":
            return rules.takes_pattern(value)
        case "patternProperties":
            return all(map(rules.takes_pattern, value))
        case "$ref":
            name = value.removeprefix(_TO_DEFINITION) if value.startswith("#") else ""
            return name in definitions and _PLAIN_NAME.fullmatch(name) is not None
        case "exclusiveMinimum" | "exclusiveMaximum":
            return not isinstance(value, bool)
        case "$defs":
            return value is definitions
        case _:
            return True


def _held(key: str, value: Any) -> Any:
    """Give the schemas at a place; what is not one there stops the walk."""
    if key in TABLES:
        return value.values()
    if key in LISTS:
        return value
    return () if key in MAY_BE_BOOLEAN and isinstance(value, bool) else (value,)


def _drop_invalid_property_names(whole: Schema, rules: SchemaRules, warnings: list[str]) -> None:
    """Leave out the properties that the API has no name for."""
    properties = whole.get("properties", {})
    unnameable = dict.fromkeys(name for name in properties if not rules.takes_argument(name))
    if not unnameable:
        return
    whole["properties"] = {k: v for k, v in properties.items() if k not in unnameable}
    required = dict.fromkeys(whole.get("required", ()))
    for name in unnameable:
        place = quote(f"#/properties/{name}")
        warnings.append(
            f"inputSchema: {place} is required, but this API takes no argument of such a name; "
            "no call through it can be complete"
            if name in required
            else f"inputSchema: {place} is left out: this API takes no argument of such a name"
        )
    if required:
        whole["required"] = [name for name in required if name not in unnameable]


def _is_too_deep(schema: Node) -> bool:
    """Tell whether objects and lists lie deeper in each other than MAX_SHOWN_DEPTH."""
    level: list[Any] = [schema]
    for _ in range(MAX_SHOWN_DEPTH):
        values = chain.from_iterable(it.values() if isinstance(it, Mapping) else it for it in level)
        level = [value for value in values if isinstance(value, Mapping | list)]
        if not level:
            return False
    return True


def _used_definitions(whole: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Give the definitions that references still lead to, in the order of their first use."""
    used: Schema = {}
    nodes: list[Node] = [whole]
    for node in nodes:  # grows meanwhile
        for key, value in node.items():
            if key in _HOLDERS:
                nodes += _held(key, value)
        name = str(node.get("$ref", "")).removeprefix(_TO_DEFINITION)
        if name and name not in used:
            used[name] = definitions[name]
            nodes.append(used[name])
    return used


def _told(warnings: list[str]) -> tuple[str, ...]:
    """Tell each warning once, and of many the first and how many more there are."""
    distinct = list(dict.fromkeys(warnings))
    left_out = len(distinct) - MAX_WARNINGS
    if left_out <= 0:
        return tuple(distinct)
    return (*distinct[:MAX_WARNINGS], f"inputSchema: {left_out} more parts of it were changed")
