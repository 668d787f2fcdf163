"""Flattens the top level of a tool's schema to one plain object, without ``$ref`` or ``anyOf``.

Model APIs refuse references and combinations at the top level, and the whole request with them.
The object has the properties of all parts. It accepts whatever the original accepts, and often
more: the gateway checks every call's arguments against the original.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.json_schema.keywords import ANNOTATIONS
from mcp_tools_proxy.json_schema.model_api.subschema_converter import Schema

MAX_SIZE = 2_000
"""Parts and properties that are joined, which bounds the time; parts beyond it are left out."""

MAX_DEPTH = 16
"""Deepest nesting of alternatives that is joined; deeper ones count as ``{}``."""

_REJECT_ALL: Schema = {"not": {}}
_DESCRIBING = ANNOTATIONS | {"type", "$comment"}
_JOINED_EXACTLY = _DESCRIBING | {"properties", "required"}


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a join keeps of an object schema.

    ``properties`` maps names to schemas of which any may hold; ``closed`` allows no other names.
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
        """Return the parts that all have to hold, and the alternatives of each choice."""
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
                pending.append(self.definitions[part.pop("$ref").removeprefix("#/$defs/")])
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
        """Join parts and choices that all have to hold; alternatives are taken apart in turn."""
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
    """Return whether ``joined`` has all conditions of ``parts``: each property is in one only."""
    properties = sum(len(part.get("properties", ())) for part in parts)
    return properties == len(joined.properties) and all(
        part.keys() <= _JOINED_EXACTLY and _accepts_objects(part) for part in parts
    )


def _shape_of(part: Schema) -> _Shape:
    properties = {name: [schema] for name, schema in part.get("properties", {}).items()}
    closed = part.get("additionalProperties") is False and "patternProperties" not in part
    return _Shape(properties, part.get("required", ()), closed)


def _all_of(shapes: Sequence[_Shape]) -> _Shape:
    """Join shapes that all have to hold; of several schemas of a property the first is kept."""
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
    """Join alternatives; a property that an open one does not name may have any value."""
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
    """Return a schema that accepts what any of ``schemas`` accepts; ``{}`` comes last in it."""
    once = {id(schema): schema for schema in schemas}
    distinct = {repr(schema): schema for schema in once.values()}  # True == 1, but not their reprs
    restricting = [it for it in distinct.values() if it and it != _REJECT_ALL]
    if "{}" in distinct:
        return {"anyOf": [*restricting, {}]} if restricting else {}
    if len(restricting) == 1:
        return restricting[0]
    return {"anyOf": restricting} if restricting else _REJECT_ALL
