from typing import Any

from pydantic import TypeAdapter

from mcp_tools_proxy.wire.json_schema.listed_schemas import why_nothing_satisfies
from mcp_tools_proxy.wire.json_schema.tool_formats import gemini_schema
from tests.support.gemini_types import ObjectSchema
from tests.support.tables import each_row

Schema = dict[str, Any]
WIDE = 30
ADAPTER = TypeAdapter(ObjectSchema)


def shown(part: Any, **keywords: Any) -> Any:
    """Return the adapted property, or None if it is omitted."""
    schema = {"type": "object", "properties": {"a": part, "other": {"type": "string"}}}
    whole = gemini_schema({**schema, **keywords})
    ADAPTER.validate_python(whole)
    assert whole is not None
    return whole["properties"].get("a")


ANYTHING = {
    "anyOf": [
        {"type": "STRING"},
        {"type": "NUMBER"},
        {"type": "BOOLEAN"},
        {"type": "OBJECT"},
        {"type": "ARRAY", "items": {"type": "STRING"}},
    ]
}
CASES: dict[str, tuple[Any, Any]] = {
    "text": (
        {"type": "string", "title": "A", "description": "d", "default": "x", "minLength": 1},
        {"type": "STRING", "description": "d", "minLength": 1},
    ),
    "pattern and unknown format": ({"type": "string", "pattern": "^a", "format": "uri"}, "STRING"),
    "time": ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
    "enum": ({"enum": ["x", "y"]}, {"type": "STRING", "enum": ["x", "y"]}),
    "enum with an empty text": ({"type": "string", "enum": ["", "y"]}, "STRING"),
    "enum with null": ({"enum": ["x", None], "type": ["string", "null"]}, None),
    "numbers": (
        {"type": "integer", "enum": [1, 2], "description": "d"},
        {"type": "INTEGER", "description": "d One of: 1, 2."},
    ),
    "constant": ({"const": "x"}, {"type": "STRING", "enum": ["x"]}),
    "constant number": ({"const": 5}, {"type": "NUMBER", "description": "Always 5."}),
    "bounds": (
        {"type": "number", "minimum": 0, "exclusiveMaximum": 9, "multipleOf": 2},
        {"type": "NUMBER", "minimum": 0},
    ),
    "nullable": ({"type": ["integer", "null"]}, {"type": "INTEGER", "nullable": True}),
    "nullable by anyOf": (
        {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d", "default": None},
        {"type": "STRING", "description": "d", "nullable": True},
    ),
    "only null": ({"type": "null"}, {"type": "STRING", "nullable": True}),
    "types": (
        {"type": ["boolean", "string"], "description": "d"},
        {"anyOf": [{"type": "BOOLEAN", "description": "d"}, {"type": "STRING"}]},
    ),
    "anything": ({}, ANYTHING),
    "true": (True, ANYTHING),
    "list": ({"type": "array"}, {"type": "ARRAY", "items": ANYTHING}),
    "list of texts": (
        {"type": "array", "items": {"type": "string"}, "maxItems": 3, "uniqueItems": True},
        {"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 3},
    ),
    "free object": ({"type": "object", "additionalProperties": {"type": "string"}}, "OBJECT"),
    "object": (
        {"properties": {"b": {"type": "string"}, "no": False}, "required": ["b", "c"]},
        {"type": "OBJECT", "properties": {"b": {"type": "STRING"}}, "required": ["b"]},
    ),
    "reference to a property": ({"$ref": "#/properties/other"}, "STRING"),
}


@each_row("name", CASES)
def test_a_property_has_one_type_and_the_keywords_of_that_type(name: str) -> None:
    part, expected = CASES[name]
    found = shown(part)
    if isinstance(expected, str):
        expected = {"type": expected}
    if expected is not None:
        assert found == expected


def test_a_property_that_accepts_nothing_is_omitted_and_not_required() -> None:
    schema = {"type": "object", "properties": {"a": False, "b": {"type": "string"}}}
    whole = gemini_schema({**schema, "required": ["b"], "additionalProperties": False})
    assert whole == {
        "type": "OBJECT",
        "properties": {"b": {"type": "STRING"}},
        "required": ["b"],
    }


def test_a_recursive_schema_is_cut() -> None:
    tree = {"type": "object", "properties": {"children": {"items": {"$ref": "#/$defs/Tree"}}}}
    found = shown({"$ref": "#/$defs/Tree"}, **{"$defs": {"Tree": tree}})
    children = found["properties"]["children"]
    assert children == {"type": "ARRAY", "items": ANYTHING}


@each_row("schema", [{"type": "object"}, {"type": "object", "properties": {}}])
def test_a_function_without_parameters_omits_them(schema: Schema) -> None:
    assert gemini_schema(schema) is None


def test_nested_alternatives_become_one_list() -> None:
    inner = {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}
    found = shown({"anyOf": [{"type": "string"}, inner, {"type": "null"}]})
    assert [it["type"] for it in found["anyOf"]] == ["STRING", "INTEGER", "BOOLEAN"]
    assert all(it["nullable"] for it in found["anyOf"])


@each_row("keyword", ["allOf", "anyOf", "oneOf"])
def test_nested_references_are_adapted_quickly(keyword: str) -> None:
    """Otherwise a server could block the gateway for years: 30 references of 30 each, ten levels
    deep."""
    definitions: Schema = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * WIDE} for n in range(10)
    }
    definitions["d10"] = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "required": ["a"],
        "$defs": definitions,
    }
    assert gemini_schema(schema) is not None
    assert why_nothing_satisfies(schema) is None
