from typing import Any

from mcp_tools_proxy.wire.json_schema.listed_schemas import (
    output_schema_problem,
    with_object_properties,
    without_null_keywords,
)
from mcp_tools_proxy.wire.json_schema.validator import compile_check
from tests.support.tables import each_row


def of(value: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"s": value}}


REFUSED = {
    "missing definition": of({"$ref": "#/$defs/Gone"}),
    "other document": of({"$ref": "https://example.com/x"}),
    "flags in a pattern": of({"pattern": "(?i)^a$"}),
    "group of Python": of({"pattern": "(?P<name>a)"}),
    "escape of a plain character": of({"pattern": "^a\\-b$"}),
    "range with a class": of({"pattern": "[\\w-.]"}),
    "pattern of names": {"type": "object", "patternProperties": {"(?i)a": {}}},
    "possessive quantifier": of({"pattern": "a++"}),
    "id of draft 4": of({"id": "https://example.com/s"}),
    "bound of draft 4": of({"minimum": 1, "exclusiveMinimum": True}),
    "nullable without type": of({"nullable": True}),
    "empty enum": of({"enum": []}),
    "anchor twice": of({"anyOf": [{"$anchor": "a"}, {"$anchor": "a"}]}),
    "required as text": {"type": "object", "required": "s"},
}
ACCEPTED = {
    "nullable with type": of({"type": "string", "nullable": True}),
    "property id": {"type": "object", "properties": {"id": {"type": "string"}}},
    "usual patterns": of({"pattern": r"^(?:[\w.-]+|\d{1,3}\.?)\/(?!x)[^\]\-]*?(?<n>é)\k<n>$"}),
    "reference to a property": {
        "type": "object",
        "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}},
    },
    "boolean": of(True),
}


@each_row("name", REFUSED)
def test_a_schema_that_clients_cannot_compile_has_a_problem(name: str) -> None:
    assert output_schema_problem(REFUSED[name])


@each_row("name", ACCEPTED)
def test_other_schemas_are_accepted(name: str) -> None:
    assert output_schema_problem(ACCEPTED[name]) is None


def test_boolean_properties_are_written_as_objects_at_any_depth() -> None:
    schema = of(True) | {
        "$defs": {"A": of(False)},
        "anyOf": [of({"items": of(True)})],
        "additionalProperties": False,
        "default": {"properties": {"s": True}},
    }
    assert with_object_properties(schema) == of({}) | {
        "$defs": {"A": of({"not": {}})},
        "anyOf": [of({"items": of({})})],
        "additionalProperties": False,
        "default": {"properties": {"s": True}},
    }


def test_a_property_named_properties_is_a_schema() -> None:
    schema = {"properties": {"properties": {"properties": {"a": True}}}}
    assert with_object_properties(schema) == {
        "properties": {"properties": {"properties": {"a": {}}}}
    }


def test_the_written_schema_accepts_the_same_values() -> None:
    schema = {"type": "object", "properties": {"a": True, "b": False}}
    written = compile_check(with_object_properties(schema))
    assert (written.mismatch({"a": [1]}, "v"), bool(written.mismatch({"b": 1}, "v"))) == (
        None,
        True,
    )


def test_a_schema_without_boolean_properties_is_returned_unchanged() -> None:
    schema = of({"additionalProperties": True})
    assert with_object_properties(schema) is schema


def test_null_keywords_are_removed_at_any_depth() -> None:
    inner = {"type": "string", "description": None, "enum": None, "pattern": None}
    schema = {
        "type": "object",
        "title": None,
        "properties": {"a": inner, "b": None, "required": {"type": None}},
        "required": None,
        "anyOf": [{"items": None}, {"items": {"items": None}}],
        "additionalProperties": None,
        "$defs": {"x": {"properties": None}},
    }
    assert without_null_keywords(schema) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {}, "required": {}},
        "anyOf": [{}, {"items": {}}],
        "$defs": {"x": {}},
    }


def test_null_values_are_kept() -> None:
    schema = {
        "properties": {"a": {"const": None, "default": None, "enum": [None], "x-own": None}},
        "examples": [{"items": None}],
    }
    assert without_null_keywords(schema) is schema
