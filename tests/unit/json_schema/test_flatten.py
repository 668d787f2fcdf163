"""The top level as one plain object."""

import pytest
from pydantic_core import to_json

from mcp_tools_proxy.json_schema.model_api.adapt import adapt_schema
from mcp_tools_proxy.json_schema.model_api.rules import ANTHROPIC, OPENAI, SchemaRules
from tests.unit.json_schema.adapted_schema import Schema, argument, relaxed, shown, with_argument


def test_one_alternative_is_no_alternative() -> None:
    whole = {"anyOf": [with_argument({"type": "string"}), {"type": "null"}]}
    assert shown(whole) == with_argument({"type": "string"})


def test_parts_that_all_hold_are_joined() -> None:
    parts = [
        {"properties": {"a": {"type": "string"}}, "required": ["a"], "minProperties": 1},
        {"properties": {"a": {"minLength": 2}, "b": {}}, "required": ["b"], "minProperties": 2},
    ]
    assert shown({"type": "object", "allOf": parts}) == {
        "type": "object",
        "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 2}]}, "b": {}},
        "required": ["a", "b"],
        "minProperties": 2,
    }


def test_a_closed_part_forbids_what_only_its_neighbour_names() -> None:
    closed = {**with_argument({"type": "string"}), "additionalProperties": False}
    whole = {"allOf": [closed, {"properties": {"a": {}, "b": {}}}]}
    assert shown(whole)["properties"] == {"a": {"type": "string"}}


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        ({"maxProperties": 3}, {"maxProperties": 2}, {"maxProperties": 2}),
        ({"propertyNames": {}}, {"propertyNames": {}}, {"propertyNames": {}}),
        (
            {"propertyNames": {"minLength": 1}},
            {"propertyNames": {"maxLength": 2}},
            {"propertyNames": {"allOf": [{"minLength": 1}, {"maxLength": 2}]}},
        ),
        (
            {"additionalProperties": {}},
            {"additionalProperties": False},
            {"additionalProperties": False},
        ),
        (
            {"additionalProperties": {"minLength": 1}},
            {"additionalProperties": {"maxLength": 2}},
            {"additionalProperties": {"allOf": [{"minLength": 1}, {"maxLength": 2}]}},
        ),
        (
            {"patternProperties": {"x": {"minLength": 1}, "y": {}}},
            {"patternProperties": {"x": {"maxLength": 2}}},
            {"patternProperties": {"x": {"allOf": [{"minLength": 1}, {"maxLength": 2}]}, "y": {}}},
        ),
        (
            {"dependentRequired": {"x": ["y"]}},
            {"dependentRequired": {"x": ["z"], "w": ["x"]}},
            {"dependentRequired": {"x": ["y", "z"], "w": ["x"]}},
        ),
        (
            {"not": {"required": ["a"]}},
            {"not": {"required": ["b"]}},
            {"not": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}},
        ),
        ({"description": "one"}, {"description": "other"}, {"description": "one"}),
        (
            {"unevaluatedProperties": False},
            {"unevaluatedProperties": True},
            {"unevaluatedProperties": True},
        ),
    ],
)
def test_two_parts_say_together_what_both_say(one: Schema, other: Schema, joined: Schema) -> None:
    assert shown({"type": "object", **one, "allOf": [other]}) == {"type": "object", **joined}


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        ({"if": {}, "then": {"required": ["a"]}}, {"if": {}, "else": {}}, "one"),
        ({"enum": [{}]}, {"enum": [{"a": 1}]}, "one"),
        ({"const": {}}, {"const": {"a": 1}}, "one"),
        (
            {"required": ["a"]},
            {"unevaluatedProperties": False, "minProperties": 1},
            "less",
        ),
        ({"patternProperties": {"a": {}}}, {"additionalProperties": False}, "patterns"),
        ({"minProperties": 1}, {"type": "string"}, "one"),
        ({"minProperties": 1}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "nothing"),
    ],
)
def test_what_one_object_cannot_say_is_left_out(one: Schema, other: Schema, joined: str) -> None:
    schema, _ = relaxed({"type": "object", **one, "allOf": [other]})
    assert (
        schema
        == {
            "one": {"type": "object", **one},
            "less": {"type": "object", **one, "minProperties": 1},
            "patterns": {"type": "object", **one},
            "nothing": {"type": "object", **one, "not": {}},
        }[joined]
    )


@pytest.mark.parametrize(
    ("others", "expected"),
    [([False, False], False), ([False, {"minLength": 1}], {"minLength": 1})],
)
def test_closed_alternatives_are_one_closed_object(others: list[object], expected: object) -> None:
    branches = [
        {"required": [name], "additionalProperties": o}
        for name, o in zip("ab", others, strict=True)
    ]
    schema, _ = relaxed({"type": "object", "oneOf": branches})
    assert schema == {"type": "object", "additionalProperties": expected}


def test_an_object_whose_alternatives_are_merged_allows_what_they_evaluate() -> None:
    branches = [{"additionalProperties": True}, {"required": ["a"]}]
    schema, _ = relaxed({"type": "object", "anyOf": branches, "unevaluatedProperties": False})
    assert schema == {"type": "object"}


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_alternatives_become_one_object_with_all_properties(key: str) -> None:
    one = {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"]}
    other = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
    schema, warning = relaxed({"type": "object", key: [one, other]})
    assert schema == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "b": {}},
        "required": ["a"],
    }
    assert f'"#/{key}"' in warning


def test_alternatives_that_only_require_are_left_out() -> None:
    whole = with_argument({"type": "string"})
    schema, _ = relaxed({**whole, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
    assert schema == whole


def test_what_one_alternative_leaves_free_is_shown_and_stays_free() -> None:
    branches = [with_argument({"type": "string"}), {"required": ["b"]}]
    schema, _ = relaxed({"type": "object", "anyOf": branches})
    assert argument(schema) == {"anyOf": [{"type": "string"}, {}]}


@pytest.mark.parametrize("key", ["not", "enum", "const"])
def test_openai_takes_no_bare_condition_at_the_top(key: str) -> None:
    condition = {"not": {"required": ["b"]}, "enum": [{"a": 1}], "const": {"a": 1}}[key]
    whole = with_argument({}, **{key: condition})
    schema, warning = relaxed(whole, OPENAI)
    assert (schema, shown(whole, ANTHROPIC)) == (with_argument({}), whole)
    assert f'"#/{key}"' in warning


def test_alternatives_of_alternatives_end() -> None:
    definitions = {
        f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]}
        for i in range(1_000)
    }
    whole = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**definitions, "d1000": {}}}
    assert relaxed(whole, OPENAI)[0] == {"type": "object", "properties": {}}


def test_an_alternative_that_is_the_whole_ends() -> None:
    whole = with_argument({}, anyOf=[{"$ref": "#"}, {"required": ["b"]}])
    assert relaxed(whole)[0] == with_argument({})


def parts(count: int, **more: object) -> list[Schema]:
    """Make parts of 25 properties each, which are no other part's."""
    return [
        {"properties": {f"p{part}_{n}": {"type": "string"} for n in range(25)}, **more}
        for part in range(count)
    ]


@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize(
    "whole",
    [
        {"allOf": parts(200, additionalProperties={"type": "string", "description": "x" * 100})},
        {"allOf": [*parts(200), {"additionalProperties": {"description": "x" * 100_000}}]},
        {"anyOf": parts(200)},
    ],
)
def test_what_is_too_large_to_be_joined_is_left_out(whole: Schema, rules: SchemaRules) -> None:
    result = adapt_schema({"type": "object", **whole}, rules)
    assert 'inputSchema: "#" is too large to be joined; some parts are left out' in result.warnings
    assert len(to_json(result.schema)) < 2 * len(to_json(whole))


@pytest.mark.parametrize(
    "key", ["properties", "additionalProperties", "propertyNames", "patternProperties", "not"]
)
def test_many_parts_that_say_much_of_one_thing_stay_flat(key: str) -> None:
    asked = [{"minLength": length} for length in range(240)]
    in_table = key in ("properties", "patternProperties")
    whole = {"allOf": [{key: {"a": schema} if in_table else schema} for schema in asked]}
    schema = shown({"type": "object", **whole})
    joined = "anyOf" if key == "not" else "allOf"
    assert (schema[key]["a"] if in_table else schema[key]) == {joined: asked}


def test_alternatives_of_many_others_are_no_deeper_than_what_writes_them_takes() -> None:
    definitions: Schema = {
        f"d{i}": {
            "allOf": [
                with_argument({"minLength": i}),
                {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, with_argument({"const": i})]},
            ]
        }
        for i in range(80)
    }
    whole = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**definitions, "d80": {}}}
    assert to_json({"tools": [{"function": {"parameters": relaxed(whole)[0]}}]})
