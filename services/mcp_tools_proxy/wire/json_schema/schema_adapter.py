"""Adapts a tool's input schema to the rules of a model API without a change of meaning.

If an API cannot express a constraint, the adapted schema accepts more, never less: the gateway
checks arguments against the original.

Model APIs refuse requests for a reference or combination at the top level, which is flattened to
one plain object with the properties of all parts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.json_schema.api_rules import (
    Schema,
    SchemaRules,
    SubschemaConverter,
    allows_arrays,
)
from mcp_tools_proxy.wire.json_schema.argument_names import (
    Aliases,
    aliases_of,
    rename_properties,
)
from mcp_tools_proxy.wire.json_schema.keywords import (
    ANNOTATIONS,
    DEFINITION,
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
from mcp_tools_proxy.wire.problem_texts import first_of

MAX_WARNINGS = 10
MAX_RESULT_DEPTH = 160
"""Maximum nesting of a rewritten schema. JSON parsers and serializers accept about 200 levels,
including those around the schema."""

_SUBSCHEMA_KEYWORDS = SINGLES | LISTS | TABLES
_CHECKED_KEYWORDS = _SUBSCHEMA_KEYWORDS | {
    "type",
    "pattern",
    "$ref",
    "exclusiveMinimum",
    "exclusiveMaximum",
}
_ALWAYS_REWRITTEN = (IDENTIFICATION_KEYWORDS - {"$defs"}) | {
    *("dependencies", "additionalItems", "$dynamicRef", "$recursiveRef")
}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_OBJECT: Schema = {"type": "object"}
_FLATTENED_WARNING = (
    'inputSchema: "#" is shown as one object with the properties of all its parts, '
    "without some of their conditions"
)

_REWRITTEN_IN_DRAFT = {
    draft: _ALWAYS_REWRITTEN
    | {key for key, since in INTRODUCED_IN.items() if since > draft}
    | ({"$ref", "id"} if draft <= LAST_DRAFT_REF_OVERRIDES_SIBLINGS else set())
    for draft in (4, 6, 7, 2019, DRAFT_2020)
}
"""Draft → keywords that make rewriting necessary."""


@dataclass(frozen=True, slots=True)
class AdaptedSchema:
    """A schema that an API accepts; ``warnings`` name the relaxed parts.

    ``renamed`` are the properties listed under other names.
    """

    schema: JsonObject
    warnings: tuple[str, ...] = ()
    renamed: Aliases = field(default_factory=dict)


def adapt_schema(
    schema: JsonObject, rules: SchemaRules, aliases: Aliases | None = None
) -> AdaptedSchema:
    """Rewrite ``schema``, valid in its draft, to follow the rules of an API.

    ``aliases`` are those of the whole tool. Returns the same object if possible, otherwise a new
    2020-12 schema without ``$schema``.
    """
    bare = schema
    if "$schema" in schema:
        bare = {key: value for key, value in schema.items() if key != "$schema"}
    if _needs_no_change(bare, rules, draft_of(schema)):
        return AdaptedSchema(bare)
    converter = SubschemaConverter(schema, rules)
    if converter.warnings and converter.has_references:
        converter = SubschemaConverter(schema, rules, trusts_references=False)
    top = TopLevelFlattener(converter.definitions)
    whole = top.flatten(converter.top)
    warnings = converter.warnings
    if not top.is_exact:
        warnings.append(_FLATTENED_WARNING)
    whole = _adapt_top_level(whole, rules, warnings)
    if used := _used_definitions(whole, converter.definitions):
        whole["$defs"] = used
    if _is_too_deep(whole):
        whole = _adapt_top_level({}, rules, warnings)
        warnings = ["inputSchema: is nested too deeply; any object is shown instead"]
    aliases = aliases_of(schema) if aliases is None else aliases
    renamed = {k: alias for k, alias in aliases.items() if not rules.accepts_argument_name(k)}
    if renamed:
        whole = rename_properties(whole, renamed)
    return AdaptedSchema(whole, _limit_warnings(warnings), renamed)


def _adapt_top_level(whole: Node, rules: SchemaRules, warnings: list[str]) -> dict[str, Any]:
    """Return the schema as an object with the keywords that the API accepts."""
    refused = [key for key in whole if key in rules.refused_at_top]
    warnings += [
        f'inputSchema: "#/{key}" is left out: this API does not accept it at the top level'
        for key in refused
    ]
    rest = {key: value for key, value in whole.items() if key not in refused}
    adapted = rest | _OBJECT if "type" in rest else _OBJECT | rest
    if rules.needs_properties:
        adapted.setdefault("properties", {})
    return adapted


def _needs_no_change(schema: Node, rules: SchemaRules, draft: int) -> bool:
    """Return whether the schema is acceptable unchanged; one walk without recursion."""
    if not _is_acceptable_on_top(schema, rules):
        return False
    to_rewrite = _REWRITTEN_IN_DRAFT[draft]
    definitions = schema.get("$defs", {})
    nodes: list[Any] = [schema]
    for node in nodes:  # the loop appends to it
        if not isinstance(node, Mapping) or not to_rewrite.isdisjoint(node):
            return False
        for key in _CHECKED_KEYWORDS.intersection(node):
            if not _is_acceptable_at(key, node, rules, definitions):
                return False
            if key in _SUBSCHEMA_KEYWORDS:
                nodes += _subschemas_at(key, node[key])
    return True


def _is_acceptable_on_top(schema: Node, rules: SchemaRules) -> bool:
    if schema.get("type") != "object" or "$ref" in schema:
        return False
    if not rules.refused_at_top.isdisjoint(schema):
        return False
    return "properties" in schema or not rules.needs_properties


def _is_acceptable_at(key: str, node: Node, rules: SchemaRules, definitions: Node) -> bool:
    value = node[key]
    match key:
        case "type":
            return not rules.needs_items or "items" in node or not allows_arrays(node)
        case "pattern":
            return rules.accepts_pattern(value)
        case "properties":
            return rules.argument_name is None or all(map(rules.accepts_argument_name, value))
        case "patternProperties":
            return all(map(rules.accepts_pattern, value))
        case "$ref":
            name = value.removeprefix(DEFINITION) if value.startswith("#") else ""
            return name in definitions and _PLAIN_NAME.fullmatch(name) is not None
        case "exclusiveMinimum" | "exclusiveMaximum":
            return not isinstance(value, bool)
        case "$defs":
            return value is definitions
        case _:
            return True


def _subschemas_at(key: str, value: Any) -> Any:
    """Return the subschemas under a keyword; the caller rewrites nodes with invalid ones."""
    if key in TABLES:
        return value.values()
    if key in LISTS:
        return value
    return () if key in MAY_BE_BOOLEAN and isinstance(value, bool) else (value,)


def _is_too_deep(schema: Node) -> bool:
    level: list[Any] = [schema]
    for _ in range(MAX_RESULT_DEPTH):
        values = chain.from_iterable(it.values() if isinstance(it, Mapping) else it for it in level)
        level = [value for value in values if isinstance(value, Mapping | list)]
        if not level:
            return False
    return True


def _used_definitions(whole: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return the referenced definitions, in the order of their first use."""
    used: Schema = {}
    nodes: list[Node] = [whole]
    for node in nodes:  # the loop appends to it
        for key, value in node.items():
            if key in _SUBSCHEMA_KEYWORDS:
                nodes += _subschemas_at(key, value)
        name = str(node.get("$ref", "")).removeprefix(DEFINITION)
        if name and name not in used:
            used[name] = definitions[name]
            nodes.append(used[name])
    return used


def _limit_warnings(warnings: list[str]) -> tuple[str, ...]:
    """Remove duplicates, and replace all but the first MAX_WARNINGS by their number."""
    return first_of(
        list(dict.fromkeys(warnings)),
        MAX_WARNINGS,
        str,
        lambda count: f"inputSchema: {count} more parts were changed",
    )


MAX_SIZE = 2_000
"""Joined parts and properties, to bound the time; parts beyond it are omitted."""

MAX_DEPTH = 16
"""Maximum nesting of joined alternatives; deeper ones count as ``{}``."""

_REJECT_ALL: Schema = {"not": {}}
_DESCRIBING = ANNOTATIONS | {"type", "$comment"}
_JOINED_EXACTLY = _DESCRIBING | {"properties", "required"}


@dataclass(frozen=True, slots=True)
class _Shape:
    """The parts of an object schema that survive a join.

    ``properties`` maps names to alternative schemas; ``closed`` allows no other names.
    """

    properties: Mapping[str, Sequence[Schema]]
    required: Iterable[str]
    closed: bool


@dataclass(slots=True)
class TopLevelFlattener:
    """Flattens one converted schema; ``is_exact`` turns False if the result accepts more."""

    definitions: Mapping[str, Schema]
    is_exact: bool = True
    _size: int = 0

    def flatten(self, schema: Schema) -> Schema:
        """Return ``schema`` as one object schema without $ref, allOf, anyOf and oneOf."""
        parts, choices = self._decompose(schema)
        whole = parts[0]
        restricting = [part for part in parts if not part.keys() <= _DESCRIBING]
        if len(restricting) <= 1 and not choices and all(map(_accepts_objects, parts)):
            for part in parts:
                whole |= {key: part[key] for key in part if key not in whole}
            return whole
        shape = self._join(parts, choices)
        if choices or not _is_exact_join(parts, shape):
            self.is_exact = False
        whole.pop("unevaluatedProperties", None)
        if shape.properties or "properties" in whole:
            whole["properties"] = {name: _any_schema(it) for name, it in shape.properties.items()}
        if required := list(shape.required):
            whole["required"] = required
        if shape.closed:
            whole["additionalProperties"] = False
        return whole

    def _decompose(self, schema: Schema) -> tuple[list[Schema], list[list[Schema]]]:
        """Return the parts that must all match, and the alternatives of each choice."""
        parts: list[Schema] = []
        choices: list[list[Schema]] = []
        pending = [schema]
        for found in pending:  # the loop appends to it
            if self._size > MAX_SIZE:
                self.is_exact = False
                break
            part = dict(found)
            self._size += 1 + len(part.get("properties", ()))
            if "$ref" in part:
                pending.append(self.definitions[part.pop("$ref").removeprefix(DEFINITION)])
            pending += part.pop("allOf", ())
            for key in [key for key in ("anyOf", "oneOf") if key in part]:
                branches = [branch for branch in part.pop(key) if _accepts_objects(branch)]
                if len(branches) > 1:
                    choices.append(branches)
                else:
                    pending += branches or [_REJECT_ALL]
            parts.append(part)
        return parts, choices

    def _join(
        self, parts: Iterable[Schema], choices: Iterable[Sequence[Schema]], depth: int = 0
    ) -> _Shape:
        """Join parts and choices that must all match, with recursion into alternatives."""
        shapes = [_shape_of(part) for part in parts]
        shapes += [
            _any_of([self._shape_of_branch(branch, depth + 1) for branch in branches])
            for branches in choices
        ]
        return _all_of(shapes)

    def _shape_of_branch(self, branch: Schema, depth: int) -> _Shape:
        return _all_of(()) if depth > MAX_DEPTH else self._join(*self._decompose(branch), depth)


def _accepts_objects(schema: Schema) -> bool:
    kind = schema.get("type", "object")
    return schema != _REJECT_ALL and (
        kind == "object" or (isinstance(kind, list) and "object" in kind)
    )


def _is_exact_join(parts: Sequence[Schema], joined: _Shape) -> bool:
    """Return whether ``joined`` keeps all conditions: no property occurs in two of ``parts``."""
    properties = sum(len(part.get("properties", ())) for part in parts)
    return properties == len(joined.properties) and all(
        part.keys() <= _JOINED_EXACTLY and _accepts_objects(part) for part in parts
    )


def _shape_of(part: Schema) -> _Shape:
    properties = {name: [schema] for name, schema in part.get("properties", {}).items()}
    closed = part.get("additionalProperties") is False and "patternProperties" not in part
    return _Shape(properties, part.get("required", ()), closed)


def _all_of(shapes: Sequence[_Shape]) -> _Shape:
    """Join shapes that must all match; of several schemas of a property, the first is kept."""
    properties: dict[str, Sequence[Schema]] = {}
    required: dict[str, None] = {}
    for shape in shapes:
        required |= dict.fromkeys(shape.required)
        for name, schemas in shape.properties.items():
            properties.setdefault(name, schemas)
    closed = [shape.properties for shape in shapes if shape.closed]
    allowed = [name for name in properties if all(name in names for names in closed)]
    return _Shape({name: properties[name] for name in allowed}, required, bool(closed))


def _any_of(shapes: Sequence[_Shape]) -> _Shape:
    """Join alternatives; a property missing in an open one accepts any value."""
    properties: dict[str, list[Schema]] = {}
    for shape in shapes:
        for name, schemas in shape.properties.items():
            properties.setdefault(name, []).extend(schemas)
    open_shapes = [shape for shape in shapes if not shape.closed]
    named_by_all = set(properties).intersection(*(shape.properties for shape in open_shapes))
    for name in properties.keys() - named_by_all:
        properties[name].append({})
    required = set(shapes[0].required).intersection(*(shape.required for shape in shapes))
    in_order = [name for name in shapes[0].required if name in required]
    return _Shape(properties, in_order, closed=not open_shapes)


def _any_schema(schemas: Iterable[Schema]) -> Schema:
    """Return a schema that accepts the values of any of ``schemas``, with ``{}`` last."""
    once = {id(schema): schema for schema in schemas}
    distinct = {repr(schema): schema for schema in once.values()}  # True equals 1
    restricting = [it for it in distinct.values() if it and it != _REJECT_ALL]
    if "{}" in distinct:
        return {"anyOf": [*restricting, {}]} if restricting else {}
    if len(restricting) == 1:
        return restricting[0]
    return {"anyOf": restricting} if restricting else _REJECT_ALL
