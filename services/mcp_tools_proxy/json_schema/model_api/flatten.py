"""Flattens the top level of a tool's schema to one plain object, without ``$ref`` or ``anyOf``.

Model APIs refuse references and combinations at the top level, and the whole request with them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_tools_proxy.json_schema.keywords import ANNOTATIONS
from mcp_tools_proxy.json_schema.model_api.convert import Schema
from mcp_tools_proxy.wire.text import quote

MAX_PARTS = 250
"""Parts of a top level that are joined, which bounds the depth too; others count as ``{}``."""

MAX_WORK = 8_000_000
"""Characters of schemas compared to join one top level; parts beyond it are left out. Without the
bound a few kilobytes could expand to gigabytes: each part may constrain all others' properties."""

MAX_CHOICES_DEPTH = 16
"""Deepest nesting of alternatives that is joined; deeper ones count as ``{}``."""

_NAME_WORK = 32
"""Cost of looking up one property in one alternative, in characters."""

_REJECT_ALL: Schema = {"not": {}}
_CHOICES = ("anyOf", "oneOf")
_CONDITION = ("if", "then", "else")


@dataclass(slots=True)
class TopLevelFlattener:
    """Joins the parts of a converted schema that constrain the arguments as a whole.

    ``allOf`` and references are joined without loss wherever one object schema can express it;
    alternatives become one object with the properties of all. ``warnings`` name what that relaxes.
    """

    definitions: Mapping[str, Schema]
    warnings: list[str] = field(default_factory=list)
    _parts: int = 0
    _work: int = 0
    _depth: int = 0

    def flatten(self, schema: Schema, seen: frozenset[str] = frozenset()) -> Schema:
        """Return ``schema`` without $ref, allOf, anyOf and oneOf; ``seen`` are its ancestors."""
        parts, choices, seen = self._decompose(schema, seen)
        restricting = [
            part for part in parts if not part.keys() <= ANNOTATIONS | {"type", "$comment"}
        ]
        alone = len(restricting) == 1 and not choices
        whole = parts[0]
        for part in parts[1:]:
            whole = self._intersect(whole, part if alone else self._without_unevaluated(part))
        if choices:
            whole = {key: whole[key] for key in whole if key != "unevaluatedProperties"}
        for key, branches in choices:
            whole = self._intersect(whole, self._union(branches, seen, whole.get("properties", {})))
            self._warn(f"#/{key}", "is shown as one object with the properties of all alternatives")
        return whole

    def _decompose(
        self, schema: Schema, seen: frozenset[str]
    ) -> tuple[list[Schema], list[tuple[str, list[Schema]]], frozenset[str]]:
        """Return the parts that all have to hold, the choices, and the definitions followed."""
        parts: list[Schema] = []
        choices: list[tuple[str, list[Schema]]] = []
        pending = [schema]
        for found in pending:  # the loop appends to it
            self._parts += 1
            if self._parts > MAX_PARTS:
                self._warn("#", "has too many parts to be joined; some are left out")
                parts.append({})
                break
            part = dict(found)
            if not _accepts_objects(part):
                self._warn("#", "allows no object in a part of it, so no call can be accepted")
            name = str(part.pop("$ref", "")).removeprefix("#/$defs/")
            if name and name not in seen:
                seen |= {name}
                pending.append(self.definitions[name])
            pending += part.pop("allOf", ())
            for key in [key for key in _CHOICES if key in part]:
                branches = [branch for branch in part.pop(key) if _accepts_objects(branch)]
                if len(branches) > 1:
                    choices.append((key, branches))
                else:
                    pending += branches or [_REJECT_ALL]
            if "if" not in part:
                part = {key: part[key] for key in part if key not in _CONDITION}
            parts.append(part)
        return parts, choices, seen

    def _without_unevaluated(self, part: Schema) -> Schema:
        """Remove ``unevaluatedProperties``, whose meaning changes when parts are joined."""
        if part.get("unevaluatedProperties", True) in (True, {}):
            return part
        self._warn("#", "holds unevaluatedProperties in a part of it, which is left out")
        return {key: part[key] for key in part if key != "unevaluatedProperties"}

    def _within_budget(self, schemas: Iterable[Schema], names: int) -> bool:
        """Add the cost of comparing ``schemas``, each by ``names`` names.

        Returns whether the budget allows it.
        """
        for schema in schemas:
            if self._work > MAX_WORK:
                break
            others = _NAME_WORK + len(repr(schema.get("additionalProperties", "")))
            self._work += len(repr(schema)) + names * others
        return self._work <= MAX_WORK

    def _intersect(self, one: Schema, other: Schema) -> Schema:
        """Join two object schemas into one that accepts what both accept."""
        if not self._within_budget((one, other), max(map(_count_of_names, (one, other)))):
            self._warn("#", "is too large to be joined; some parts are left out")
            return one
        if _names_overlap(one, other) or _names_overlap(other, one):
            self._warn("#", "holds additionalProperties in a part of it, which is left out")
            one = {key: one[key] for key in one if key != "additionalProperties"}
            other = {key: other[key] for key in other if key != "additionalProperties"}
        if "if" in one and "if" in other:
            self._warn("#/if", "holds twice, so one of the two is left out")
            other = {key: other[key] for key in other if key not in _CONDITION}
        joined = {**one, **{key: value for key, value in other.items() if key not in one}}
        for key in [key for key in one if key in other]:
            if key in _INTERSECTIONS:
                joined[key] = _INTERSECTIONS[key](one[key], other[key])
            elif key in ("enum", "const") and one[key] != other[key]:
                self._warn(f"#/{key}", "holds twice, so one of the two is left out")
        if "properties" in joined:
            joined["properties"] = _intersect_properties(one, other)
        return joined

    def _union(
        self, branches: list[Schema], seen: frozenset[str], known: Mapping[str, Schema]
    ) -> Schema:
        """Return one object schema that accepts what any of ``branches`` accepts.

        A property that some branch does not constrain stays unconstrained, and is left out if it
        is among the ``known`` ones, which other parts declare.
        """
        if self._depth >= MAX_CHOICES_DEPTH:
            return {}
        warnings_before = len(self.warnings)
        self._depth += 1
        flat = [self.flatten(branch, seen) for branch in branches]
        self._depth -= 1
        del self.warnings[warnings_before:]  # the caller warns of the choice as a whole
        names = dict.fromkeys(name for branch in flat for name in branch.get("properties", ()))
        if not self._within_budget(flat, len(names)):
            return {}
        properties: Schema = {}
        for name in names:
            schemas = [_property_schema(branch, name) for branch in flat]
            if None not in schemas or name not in known:
                properties[name] = _any_schema(
                    {} if schema is None else schema for schema in schemas
                )
        whole: Schema = {"properties": properties} if properties else {}
        required_by_all = set.intersection(*(set(branch.get("required", ())) for branch in flat))
        if required := [name for name in flat[0].get("required", ()) if name in required_by_all]:
            whole["required"] = required
        if all(_is_closed(branch) and "patternProperties" not in branch for branch in flat):
            others = [branch["additionalProperties"] for branch in flat]
            open_to = [schema for schema in others if schema is not False]
            whole["additionalProperties"] = _any_schema(open_to) if open_to else False
        return whole

    def _warn(self, path: str, change: str) -> None:
        self.warnings.append(f"inputSchema: {quote(path)} {change}")


def _accepts_objects(schema: Schema) -> bool:
    kind = schema.get("type", "object")
    return schema != _REJECT_ALL and (
        kind == "object" or (isinstance(kind, list) and "object" in kind)
    )


def _is_closed(schema: Schema) -> bool:
    """Return whether ``additionalProperties`` constrains the properties that are not named."""
    return schema.get("additionalProperties", True) not in (True, {})


def _names_overlap(one: Schema, other: Schema) -> bool:
    """Return whether patterns decide which properties of ``other`` are additional for ``one``."""
    patterns, others = one.get("patternProperties"), other.get("patternProperties")
    return _is_closed(one) and bool(others or (patterns and other.get("properties")))


def _property_schema(schema: Schema, name: str) -> Any:
    """Return the schema of a property; None for one unconstrained, or by patterns only."""
    named: Any = schema.get("properties", {}).get(name)
    if named is not None or "patternProperties" in schema or not _is_closed(schema):
        return named
    others = schema["additionalProperties"]
    return _REJECT_ALL if others is False else others


def _intersect_properties(one: Schema, other: Schema) -> Schema:
    """Join the schemas of each property; ``additionalProperties`` covers those either forbids."""
    joined: Schema = {}
    for name in dict.fromkeys([*one.get("properties", ()), *other.get("properties", ())]):
        both = filter(None, (_property_schema(one, name), _property_schema(other, name)))
        schemas = _distinct(part for schema in both for part in _parts_of("allOf", schema))
        if _REJECT_ALL not in schemas or not _is_sealed(one, other):
            joined[name] = {"allOf": schemas} if len(schemas) > 1 else dict(*schemas)
    return joined


def _is_sealed(one: Schema, other: Schema) -> bool:
    """Return whether both together allow only properties that ``properties`` of either names."""
    closed = any(schema.get("additionalProperties") is False for schema in (one, other))
    return closed and "patternProperties" not in one.keys() | other.keys()


def _any_schema(schemas: Iterable[Schema]) -> Schema:
    """Return a schema that accepts what any of the schemas accepts; ``{}`` comes last in it."""
    alternatives = _distinct(part for schema in schemas for part in _parts_of("anyOf", schema))
    restricting = [schema for schema in alternatives if schema not in ({}, _REJECT_ALL)]
    if {} in alternatives:
        return {"anyOf": [*restricting, {}]} if restricting else {}
    return {"anyOf": restricting} if len(restricting) > 1 else (restricting or alternatives)[0]


def _count_of_names(schema: Schema) -> int:
    return len(schema.get("properties", ()))


def _parts_of(key: str, schema: Schema) -> list[Any]:
    """Return the members of a schema that is only ``key``, so that joins do not nest."""
    return schema[key] if schema.keys() == {key} else [schema]


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return each value once, in order; compares by ``repr``, because True == 1 in Python."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(repr(value), value)
    return list(found.values())


def _intersect_schemas(one: Any, other: Any) -> Any:
    if one == other:
        return one
    return {"allOf": _distinct([*_parts_of("allOf", one), *_parts_of("allOf", other)])}


def _intersect_additional(one: Any, other: Any) -> Any:
    if one is False or other is False:
        return False
    return _intersect_schemas(*({} if value is True else value for value in (one, other)))


def _intersect_tables(one: Mapping[str, Any], other: Mapping[str, Any]) -> Schema:
    shared = {key: _intersect_schemas(one[key], other[key]) for key in one if key in other}
    return {**one, **other, **shared}


def _merge_names(one: list[str], other: list[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


def _merge_dependencies(one: Mapping[str, Any], other: Mapping[str, Any]) -> Schema:
    shared = {key: _merge_names(one[key], other[key]) for key in one if key in other}
    return {**one, **other, **shared}


_INTERSECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "required": _merge_names,
    "minProperties": max,
    "maxProperties": min,
    "propertyNames": _intersect_schemas,
    "additionalProperties": _intersect_additional,
    "patternProperties": _intersect_tables,
    "dependentSchemas": _intersect_tables,
    "dependentRequired": _merge_dependencies,
    "unevaluatedProperties": lambda _, evaluated: evaluated,  # an open part evaluates all names
    "not": lambda one, other: _any_schema((one, other)),
}
