import json

import pytest

from mcp_tools_proxy.wire.json_schema.api_rules import (
    ANTHROPIC,
    MAX_DEPTH,
    OPENAI,
    SchemaRules,
)
from mcp_tools_proxy.wire.json_schema.schema_adapter import MAX_WARNINGS, adapt_schema
from tests.support.tables import each_row
from tests.unit.wire.json_schema.adapted_schema import (
    DRAFT_4,
    DRAFT_7,
    DRAFT_2019,
    DRAFT_2020,
    Schema,
    argument,
    relaxed,
    shown,
    with_argument,
)

BOTH = pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])


TYPICAL: Schema = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for", "pattern": "^a+$"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"$ref": "#/$defs/Place"},
        "not": {"type": "object", "properties": {"ref": {"type": "string"}}},
        "items": {"type": "integer", "exclusiveMinimum": 0},
    },
    "required": ["query"],
    "additionalProperties": False,
    "$defs": {"Place": {"type": "object", "properties": {"near": {"$ref": "#/$defs/Place"}}}},
}


@BOTH
def test_a_schema_without_changes_is_the_same_object(rules: SchemaRules) -> None:
    assert adapt_schema(TYPICAL, rules).schema is TYPICAL


@BOTH
@pytest.mark.parametrize("draft", [DRAFT_4, DRAFT_7, DRAFT_2019, DRAFT_2020])
def test_the_name_of_the_draft_is_removed(rules: SchemaRules, draft: str) -> None:
    schema = with_argument({"type": "string"})
    assert shown({"$schema": draft, **schema}, rules) == schema


def test_the_order_of_keys_is_kept() -> None:
    schema = {
        "title": "T",
        "properties": {"b": True, "a": {"type": "string"}},
        "type": ["object", "null"],
        "description": "D",
    }
    assert list(shown(schema)) == ["title", "properties", "type", "description"]
    assert list(shown(schema)["properties"]) == ["b", "a"]


def test_a_missing_type_at_the_top_becomes_object() -> None:
    assert shown({"properties": {}}) == {"type": "object", "properties": {}}


def test_for_openai_empty_properties_are_added() -> None:
    assert shown({"type": "object"}, OPENAI) == {"type": "object", "properties": {}}


@each_row(
    "schema", [{"type": "array"}, {"type": ["string", "array"]}, {"type": "array", "minItems": 1}]
)
def test_for_openai_items_are_added_to_every_array(schema: Schema) -> None:
    whole = with_argument({"anyOf": [schema, {"type": "null"}]})
    assert argument(shown(whole, OPENAI))["anyOf"][0] == {**schema, "items": {}}


def test_boolean_schemas_become_objects() -> None:
    whole = {"type": "object", "properties": {"a": True, "b": False, "c": {"items": False}}}
    expected = {"a": {}, "b": {"not": {}}, "c": {"items": {"not": {}}}}
    assert shown(whole)["properties"] == expected


def test_data_is_not_treated_as_a_schema() -> None:
    data = {"type": "array", "$ref": "nowhere", "items": [1], "dependencies": True}
    argument_schema = {"enum": [data], "default": data, "examples": [data], "const": data}
    whole = with_argument(argument_schema)
    assert adapt_schema(whole, ANTHROPIC).schema is whole


class TestVendors:
    @pytest.mark.parametrize("name", ["a b", "filter[x]", "ключ", "", "a" * 65, "$top"])
    def test_an_argument_with_a_refused_name_is_renamed(self, name: str) -> None:
        whole = {"type": "object", "properties": {"a": {}, name: {}}, "additionalProperties": False}
        schema = shown({**whole, "required": ["a", name]})
        first, alias = schema["properties"]
        assert first == "a"
        assert ANTHROPIC.accepts_argument_name(alias)
        assert schema == {**whole, "properties": {"a": {}, alias: {}}, "required": ["a", alias]}

    def test_names_inside_an_argument_are_changed_too(self) -> None:
        inner = {"type": "object", "properties": {"a b": {}}, "required": ["a b"]}
        whole = with_argument({"type": "array", "items": {"$ref": "#/$defs/$x"}})
        schema = shown({**whole, "$defs": {"$x": inner}})
        (definition,) = schema["$defs"].values()
        assert (definition["properties"], definition["required"]) == ({"a_b": {}}, ["a_b"])

    def test_conditions_use_the_new_name_of_an_argument(self) -> None:
        whole = {"type": "object", "properties": {"a b": {}, "c": {}}}
        schema = shown({**whole, "dependentRequired": {"a b": ["c"], "c": ["a b"]}})
        assert schema["dependentRequired"] == {"a_b": ["c"], "c": ["a_b"]}

    @pytest.mark.parametrize("pattern", [r"^\p{L}$", r"(?<name>a)", "^(?!undefined$)", "(?<=a)b"])
    def test_for_openai_unsupported_patterns_are_removed(self, pattern: str) -> None:
        schema, warning = relaxed(with_argument({"pattern": pattern}), OPENAI)
        assert argument(schema) == {}
        assert '"#/properties/a/pattern"' in warning

    def test_unsupported_pattern_properties_are_removed(self) -> None:
        inner = {"patternProperties": {"(?!a)": {}, "b": {}}, "additionalProperties": False}
        assert argument(relaxed(with_argument(inner), OPENAI)[0]) == {
            "patternProperties": {"b": {}}
        }

    def test_a_pattern_with_future_syntax_does_not_cause_python_warnings(self) -> None:
        assert adapt_schema(with_argument({"pattern": "[[a]"}), OPENAI).warnings == ()

    @pytest.mark.parametrize(
        ("around", "expected"),
        [
            ({"not": {"pattern": "(?=a)"}}, {}),
            ({"if": {"pattern": "(?=a)"}, "then": {}, "else": {}}, {}),
            (
                {"oneOf": [{"pattern": "(?=a)"}, {"minLength": 1}]},
                {"anyOf": [{}, {"minLength": 1}]},
            ),
            ({"contains": {"pattern": "(?=a)"}, "maxContains": 1}, {"contains": {}}),
            (
                {"oneOf": [{"pattern": "(?=a)"}], "anyOf": [{"type": "null"}]},
                {"anyOf": [{"type": "null"}], "allOf": [{"anyOf": [{}]}]},
            ),
            ({"not": {"$ref": "#/$defs/x"}}, {}),
        ],
    )
    def test_relaxing_a_part_never_tightens_the_whole(
        self, around: Schema, expected: Schema
    ) -> None:
        definitions = {"x": {"pattern": "(?=a)"}}
        result = adapt_schema(with_argument(around, **{"$defs": definitions}), OPENAI)
        assert argument(dict(result.schema)) == expected
        assert len(result.warnings) > 1


def test_a_part_nested_too_deeply_accepts_anything() -> None:
    deep: Schema = {"items": True}
    for _ in range(10 * MAX_DEPTH):
        deep = {"items": deep}
    result = adapt_schema(with_argument(deep), ANTHROPIC)
    assert "nested too deeply" in result.warnings[0]
    assert json.dumps(result.schema).count("items") == MAX_DEPTH


def test_a_schema_made_too_deep_by_changes_accepts_any_object() -> None:
    deep: Schema = {"pattern": "(?=a)"}
    for _ in range(MAX_DEPTH - 2):
        deep = {"oneOf": [deep, {"type": "string"}], "anyOf": [{"minLength": 1}]}
    schema, warning = relaxed(with_argument(deep), OPENAI)
    assert schema == {"type": "object", "properties": {}}
    assert "nested too deeply" in warning


def test_the_first_changes_are_named_and_the_others_counted() -> None:
    properties = {f"a{i}": {"pattern": "(?=a)"} for i in range(MAX_WARNINGS + 3)}
    warnings = adapt_schema({"type": "object", "properties": properties}, OPENAI).warnings
    assert len(warnings) == MAX_WARNINGS + 1
    assert "3 more" in warnings[-1]


def test_a_path_in_a_warning_is_quoted() -> None:
    schema = {"type": "object", "properties": {'"\n' + "x" * 300: {"pattern": "(?=a)"}}}
    (warning,) = adapt_schema(schema, OPENAI).warnings
    assert "\\n" in warning
    assert len(warning) < 300
