"""The top level of a tool's schema as one plain object: without references and combinations."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_tools_proxy.json_schema.keywords import ANNOTATIONS
from mcp_tools_proxy.json_schema.model_api.convert import Schema
from mcp_tools_proxy.wire.text import quote

MAX_PARTS = 250
"""How many parts of a top level are joined, and so how deep; what is over is shown as anything."""

MAX_WORK = 8_000_000
"""How much text of schemas is compared to join one top level, in characters; what is over is left
out. Without it a few kilobytes could ask for gigabytes: each part may say something of every
property of all others."""

MAX_CHOICES_DEPTH = 16
"""How deep alternatives of alternatives are joined; what is deeper is shown as anything."""

_NAME_WORK = 32
"""What it takes to look up one property in one alternative, in characters."""

_NOTHING: Schema = {"not": {}}
_CHOICES = ("anyOf", "oneOf")
_CONDITION = ("if", "then", "else")


@dataclass(slots=True)
class TopLevelFlattener:
    """Joins what a converted schema asks of the arguments as a whole.

    ``allOf`` and references are joined without loss wherever JSON Schema lets one object say it;
    alternatives become one object with the properties of all. What that loosens is told in
    ``warnings``.
    """

    definitions: Mapping[str, Schema]
    warnings: list[str] = field(default_factory=list)
    _parts: int = 0
    _work: int = 0
    _depth: int = 0

    def joined(self, schema: Schema, seen: frozenset[str] = frozenset()) -> Schema:
        """Give ``schema`` without $ref, allOf, anyOf and oneOf; ``seen`` are its ancestors."""
        parts, choices, seen = self._decompose(schema, seen)
        telling = [part for part in parts if not part.keys() <= ANNOTATIONS | {"type", "$comment"}]
        alone = len(telling) == 1 and not choices
        whole = parts[0]
        for part in parts[1:]:
            whole = self._both(whole, part if alone else self._without_unevaluated(part))
        if choices:
            whole = {key: whole[key] for key in whole if key != "unevaluatedProperties"}
        for key, branches in choices:
            whole = self._both(whole, self._any_of(branches, seen, whole.get("properties", {})))
            self._tell(f"#/{key}", "is shown as one object with the properties of all alternatives")
        return whole

    def _decompose(
        self, schema: Schema, seen: frozenset[str]
    ) -> tuple[list[Schema], list[tuple[str, list[Schema]]], frozenset[str]]:
        """Give the parts that all have to hold, and the choices among several."""
        parts: list[Schema] = []
        choices: list[tuple[str, list[Schema]]] = []
        waiting = [schema]
        for found in waiting:  # grows meanwhile
            self._parts += 1
            if self._parts > MAX_PARTS:
                self._tell("#", "has too many parts to be joined; some are left out")
                parts.append({})
                break
            part = dict(found)
            if not _takes_objects(part):
                self._tell("#", "allows no object in a part of it, so no call can be accepted")
            name = str(part.pop("$ref", "")).removeprefix("#/$defs/")
            if name and name not in seen:
                seen |= {name}
                waiting.append(self.definitions[name])
            waiting += part.pop("allOf", ())
            for key in [key for key in _CHOICES if key in part]:
                branches = [branch for branch in part.pop(key) if _takes_objects(branch)]
                if len(branches) > 1:
                    choices.append((key, branches))
                else:
                    waiting += branches or [_NOTHING]
            if "if" not in part:
                part = {key: part[key] for key in part if key not in _CONDITION}
            parts.append(part)
        return parts, choices, seen

    def _without_unevaluated(self, part: Schema) -> Schema:
        """Drop what means other properties once its neighbours stand beside it."""
        if part.get("unevaluatedProperties", True) in (True, {}):
            return part
        self._tell("#", "holds unevaluatedProperties in a part of it, which is left out")
        return {key: part[key] for key in part if key != "unevaluatedProperties"}

    def _has_capacity(self, schemas: Iterable[Schema], names: int) -> bool:
        """Count the work of comparing ``schemas``, each of which has to do with ``names`` names."""
        for schema in schemas:
            if self._work > MAX_WORK:
                break
            others = _NAME_WORK + len(repr(schema.get("additionalProperties", "")))
            self._work += len(repr(schema)) + names * others
        return self._work <= MAX_WORK

    def _both(self, one: Schema, other: Schema) -> Schema:
        """Join two objects into one that accepts what both accept."""
        if not self._has_capacity((one, other), max(map(_count_of_names, (one, other)))):
            self._tell("#", "is too large to be joined; some parts are left out")
            return one
        if _names_overlap(one, other) or _names_overlap(other, one):
            self._tell("#", "holds additionalProperties in a part of it, which is left out")
            one = {key: one[key] for key in one if key != "additionalProperties"}
            other = {key: other[key] for key in other if key != "additionalProperties"}
        if "if" in one and "if" in other:
            self._tell("#/if", "holds twice, so one of the two is left out")
            other = {key: other[key] for key in other if key not in _CONDITION}
        joined = {**one, **{key: value for key, value in other.items() if key not in one}}
        for key in [key for key in one if key in other]:
            if key in _JOINS:
                joined[key] = _JOINS[key](one[key], other[key])
            elif key in ("enum", "const") and one[key] != other[key]:
                self._tell(f"#/{key}", "holds twice, so one of the two is left out")
        if "properties" in joined:
            joined["properties"] = _joined_properties(one, other)
        return joined

    def _any_of(
        self, branches: list[Schema], seen: frozenset[str], known: Mapping[str, Schema]
    ) -> Schema:
        """Give one object that accepts what any of ``branches`` accepts.

        A property that some branch leaves free stays free: ``known`` ones need not be named again.
        """
        if self._depth >= MAX_CHOICES_DEPTH:
            return {}
        told = len(self.warnings)
        self._depth += 1
        flat = [self.joined(branch, seen) for branch in branches]
        self._depth -= 1
        del self.warnings[told:]  # the choice itself is told of
        names = dict.fromkeys(name for branch in flat for name in branch.get("properties", ()))
        if not self._has_capacity(flat, len(names)):
            return {}
        properties: Schema = {}
        for name in names:
            asked = [_asked_of(branch, name) for branch in flat]
            if None not in asked or name not in known:
                properties[name] = _any({} if schema is None else schema for schema in asked)
        whole: Schema = {"properties": properties} if properties else {}
        required_by_all = set.intersection(*(set(branch.get("required", ())) for branch in flat))
        if required := [name for name in flat[0].get("required", ()) if name in required_by_all]:
            whole["required"] = required
        if all(_is_closed(branch) and "patternProperties" not in branch for branch in flat):
            others = [branch["additionalProperties"] for branch in flat]
            open_to = [schema for schema in others if schema is not False]
            whole["additionalProperties"] = _any(open_to) if open_to else False
        return whole

    def _tell(self, path: str, change: str) -> None:
        self.warnings.append(f"inputSchema: {quote(path)} {change}")


def _takes_objects(schema: Schema) -> bool:
    kind = schema.get("type", "object")
    return schema != _NOTHING and (
        kind == "object" or (isinstance(kind, list) and "object" in kind)
    )


def _is_closed(schema: Schema) -> bool:
    """Tell whether other properties than the named ones are not simply allowed."""
    return schema.get("additionalProperties", True) not in (True, {})


def _names_overlap(one: Schema, other: Schema) -> bool:
    """Tell whether patterns decide which properties of ``other`` are additional for ``one``."""
    patterns, others = one.get("patternProperties"), other.get("patternProperties")
    return _is_closed(one) and bool(others or (patterns and other.get("properties")))


def _asked_of(schema: Schema, name: str) -> Any:
    """Give what ``schema`` asks of the property; None for nothing, or by patterns only."""
    named: Any = schema.get("properties", {}).get(name)
    if named is not None or "patternProperties" in schema or not _is_closed(schema):
        return named
    others = schema["additionalProperties"]
    return _NOTHING if others is False else others


def _joined_properties(one: Schema, other: Schema) -> Schema:
    """Give what both ask of each property; what either forbids is left to additionalProperties."""
    joined: Schema = {}
    for name in dict.fromkeys([*one.get("properties", ()), *other.get("properties", ())]):
        both = filter(None, (_asked_of(one, name), _asked_of(other, name)))
        asked = _distinct(part for schema in both for part in _parts_of("allOf", schema))
        if _NOTHING not in asked or not _is_sealed(one, other):
            joined[name] = {"allOf": asked} if len(asked) > 1 else dict(*asked)
    return joined


def _is_sealed(one: Schema, other: Schema) -> bool:
    """Tell whether both together allow no property that neither ``properties`` names."""
    closed = any(schema.get("additionalProperties") is False for schema in (one, other))
    return closed and "patternProperties" not in one.keys() | other.keys()


def _any(schemas: Iterable[Schema]) -> Schema:
    """Give what accepts all that any of the schemas accepts; what stays free comes last."""
    asked = _distinct(part for schema in schemas for part in _parts_of("anyOf", schema))
    telling = [schema for schema in asked if schema not in ({}, _NOTHING)]
    if {} in asked:
        return {"anyOf": [*telling, {}]} if telling else {}
    return {"anyOf": telling} if len(telling) > 1 else (telling or asked)[0]


def _count_of_names(schema: Schema) -> int:
    return len(schema.get("properties", ()))


def _parts_of(key: str, schema: Schema) -> list[Any]:
    """Give what a schema that says nothing but ``key`` joins, so that joins do not pile up."""
    return schema[key] if schema.keys() == {key} else [schema]


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Give each value once, in order; JSON's true is not its 1."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(repr(value), value)
    return list(found.values())


def _of_both(one: Any, other: Any) -> Any:
    if one == other:
        return one
    return {"allOf": _distinct([*_parts_of("allOf", one), *_parts_of("allOf", other)])}


def _others_of_both(one: Any, other: Any) -> Any:
    if one is False or other is False:
        return False
    return _of_both(*({} if value is True else value for value in (one, other)))


def _tables_of_both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Schema:
    shared = {key: _of_both(one[key], other[key]) for key in one if key in other}
    return {**one, **other, **shared}


def _names_of_both(one: list[str], other: list[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


def _needs_of_both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Schema:
    shared = {key: _names_of_both(one[key], other[key]) for key in one if key in other}
    return {**one, **other, **shared}


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "required": _names_of_both,
    "minProperties": max,
    "maxProperties": min,
    "propertyNames": _of_both,
    "additionalProperties": _others_of_both,
    "patternProperties": _tables_of_both,
    "dependentSchemas": _tables_of_both,
    "dependentRequired": _needs_of_both,
    "unevaluatedProperties": lambda _, evaluated: evaluated,  # an open part evaluates all
    "not": lambda one, other: _any((one, other)),
}
