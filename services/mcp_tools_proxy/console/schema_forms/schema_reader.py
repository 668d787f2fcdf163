"""Resolves schemas for forms: follows references, merges ``allOf``, and finds alternatives."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.json_schema.keywords import References

Schema = Mapping[str, Any]

MAX_STEPS = 16
"""References followed per field, and parts per ``allOf``."""
MAX_BRANCHES = 12
MAX_REFERENCE_CHARS = 1_000
MAX_WORK = 50_000
"""Keywords and members read per schema; a part counts each time it is referenced. Sixty references
to an object with 10,000 properties took 8 s.
"""

LIMITS: Mapping[str, str] = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "length at least {}",
    "maxLength": "length at most {}",
    "minItems": "number of items at least {}",
    "maxItems": "number of items at most {}",
    "format": "format {}",
    "pattern": "pattern {}",
}
"""Limits of a value as hints."""

_ALTERNATIVES = ("anyOf", "oneOf")


class NoForm(Exception):
    """A schema cannot be shown as fields; the text is the reason, to follow "it"."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A schema without references; ``places`` are the definitions followed to it."""

    schema: Schema
    places: frozenset[str]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Alternative schemas of a value; with ``has_null`` it can also be null."""

    schemas: Sequence[Schema]
    has_null: bool


class SchemaReader:
    """Resolves the parts of one schema, up to MAX_WORK keywords."""

    def __init__(self, root: Schema) -> None:
        self._references = References(root)
        self._left = MAX_WORK

    @property
    def is_exhausted(self) -> bool:
        """Whether the work limit is reached."""
        return self._left < 0

    def resolve(self, schema: object, places: frozenset[str], depth: int = 0) -> Resolved:
        """Return a schema without ``$ref`` and ``allOf``. Raises NoForm.

        ``places`` are the definitions that contain the schema.
        """
        for _ in range(MAX_STEPS):
            if schema is True:
                schema = {}
            if not isinstance(schema, Mapping):
                raise NoForm("has no schema")
            self._spend(schema)
            if "$ref" in schema:
                schema, places = self._target(schema, places)
            elif isinstance(schema.get("allOf"), list) and schema["allOf"]:
                schema, places = self._joined(schema, places, depth)
            else:
                return Resolved(schema, places)
        raise NoForm("has a chain of references that is too long")

    def _target(self, schema: Schema, places: frozenset[str]) -> tuple[object, frozenset[str]]:
        reference = schema["$ref"]
        is_short = isinstance(reference, str) and len(reference) <= MAX_REFERENCE_CHARS
        found = self._references.find(reference) if is_short else None
        if found is None:
            raise NoForm("refers to a definition that is not in the schema")
        place, target = found
        if place in places:
            raise NoForm("refers to itself")
        if not isinstance(target, Mapping):
            return target, places
        own = {key: value for key, value in schema.items() if key != "$ref"}
        return {**target, **own}, places | {place}

    def _joined(
        self, schema: Schema, places: frozenset[str], depth: int
    ) -> tuple[object, frozenset[str]]:
        parts = schema["allOf"]
        if len(parts) > MAX_STEPS or depth > MAX_STEPS:
            raise NoForm("has too many parts")
        joined: dict[str, Any] = {}
        for part in parts:
            resolved = self.resolve(part, places, depth + 1)
            joined = _join(joined, resolved.schema)
            self._spend(joined)
            places |= resolved.places
        return _join(joined, {key: it for key, it in schema.items() if key != "allOf"}), places

    def _spend(self, schema: Schema) -> None:
        """Count keywords before they are read. Raises NoForm above MAX_WORK."""
        if not self.is_exhausted:
            held = (len(it) for it in schema.values() if isinstance(it, Mapping | list))
            self._left -= 1 + len(schema) + sum(held)
        if self.is_exhausted:
            raise NoForm("has too many parts for one page")


def alternatives_of(schema: Schema) -> Alternatives:
    """Return the alternatives of a resolved schema; most have one. Raises NoForm."""
    if "enum" in schema or "const" in schema or "properties" in schema:
        return _without_null_type(schema)
    for keyword in _ALTERNATIVES:
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches:
            own = {key: it for key, it in schema.items() if key not in (keyword, "title")}
            kept = [it for it in branches if not _is_null(it)]
            return _alternatives(own, kept, has_null=len(kept) < len(branches))
    types = schema.get("type")
    if isinstance(types, list):
        kept = [{"type": it} for it in types if it != "null"]
        return _alternatives(schema, kept, has_null="null" in types)
    return Alternatives([schema], has_null=False)


def type_of(schema: Schema) -> str:
    """Return the type of a value, "" if several are possible."""
    named = schema.get("type")
    if isinstance(named, str):
        return named
    if "properties" in schema:
        return "object"
    return "array" if isinstance(schema.get("items"), Mapping) else ""


def properties_of(schema: Schema) -> Mapping[str, object]:
    """Return the properties of an object's schema."""
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def required_of(schema: Schema) -> frozenset[str]:
    """Return the required property names."""
    found = schema.get("required")
    return (
        frozenset(it for it in found if isinstance(it, str))
        if isinstance(found, list)
        else (frozenset())
    )


def _without_null_type(schema: Schema) -> Alternatives:
    """Return a schema as the only alternative; null comes from ``enum`` or ``type``."""
    types = schema.get("type")
    has_null = isinstance(types, list) and "null" in types and "enum" not in schema
    if isinstance(types, list) and "properties" in schema:
        schema = {**schema, "type": "object"}
    return Alternatives([schema], has_null=has_null)


def _alternatives(own: Schema, branches: Sequence[object], *, has_null: bool) -> Alternatives:
    """Merge the common keywords into each alternative."""
    if len(branches) > MAX_BRANCHES:
        raise NoForm(f"has more than {MAX_BRANCHES} alternatives")
    joined = [{**own, **it} if isinstance(it, Mapping) else {} for it in branches]
    return Alternatives(joined or [{}], has_null=has_null)


def _is_null(schema: object) -> bool:
    return isinstance(schema, Mapping) and (
        schema.get("type") == "null" or schema.get("const", ...) is None
    )


def _join(one: Mapping[str, Any], other: Schema) -> dict[str, Any]:
    """Merge two schemas: properties and required names of both, other keywords of the latter."""
    joined = {**one, **other}
    if one.get("properties") and other.get("properties"):
        joined["properties"] = {**properties_of(one), **properties_of(other)}
    if one.get("required") and other.get("required"):
        joined["required"] = sorted(required_of(one) | required_of(other))
    return joined
