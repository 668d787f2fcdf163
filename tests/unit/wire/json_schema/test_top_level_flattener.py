from mcp_tools_proxy.wire.json_schema.api_rules import ANTHROPIC, OPENAI
from mcp_tools_proxy.wire.json_schema.schema_adapter import MAX_SIZE
from tests.support.tables import each_row
from tests.unit.wire.json_schema.adapted_schema import (
    Schema,
    argument,
    relaxed,
    shown,
    with_argument,
)


def closed(*names: str, **more: object) -> Schema:
    """Build a part that allows only these properties."""
    return {"properties": {name: {} for name in names}, "additionalProperties": False, **more}


def test_a_single_alternative_is_inlined() -> None:
    whole = {"anyOf": [with_argument({"type": "string"}), {"type": "null"}]}
    assert shown(whole) == with_argument({"type": "string"})


def test_a_top_level_reference_is_replaced_by_its_target_without_loss() -> None:
    target = with_argument({"type": "string"}, minProperties=1, unevaluatedProperties=False)
    whole = {"title": "T", "type": "object", "$ref": "#/$defs/all", "$defs": {"all": target}}
    assert shown(whole) == {"title": "T", **target}


def test_parts_with_distinct_properties_are_merged_without_loss() -> None:
    parts = [
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"b": {}}, "required": ["b", "a"], "description": "second"},
    ]
    assert shown({"type": "object", "description": "first", "allOf": parts}) == {
        "type": "object",
        "description": "first",
        "properties": {"a": {"type": "string"}, "b": {}},
        "required": ["a", "b"],
    }


def test_the_first_schema_of_a_property_in_two_parts_is_used() -> None:
    whole = with_argument({"type": "string"}, allOf=[with_argument({"minLength": 2})])
    assert relaxed(whole)[0] == with_argument({"type": "string"})


def test_a_closed_part_removes_properties_that_only_others_name() -> None:
    schema, _ = relaxed({"allOf": [closed("a"), {"properties": {"a": {}, "b": {}}}]})
    assert schema == {"type": "object", **closed("a")}


def test_pattern_properties_keep_a_part_open() -> None:
    part = closed("a", patternProperties={"^x": {}})
    schema, _ = relaxed({"type": "object", "allOf": [part, {"properties": {"b": {}}}]})
    assert schema == {"type": "object", "properties": {"a": {}, "b": {}}}


@each_row(
    "condition",
    [
        {"if": {"required": ["b"]}, "then": {"required": ["c"]}},
        {"enum": [{"a": 1}]},
        {"minProperties": 1},
        {"patternProperties": {"x": {}}},
        {"dependentRequired": {"x": ["y"]}},
        {"not": {"required": ["b"]}},
        {"type": "string"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ],
)
def test_a_condition_is_kept_at_the_top_and_removed_from_other_parts(condition: Schema) -> None:
    whole = with_argument({})
    assert relaxed({**whole, "allOf": [condition]})[0] == whole
    if condition.keys().isdisjoint({"type", "anyOf"}):
        assert relaxed({**whole, **condition, "allOf": [with_argument(True)]})[0] == {
            **whole,
            **condition,
        }


def test_properties_evaluated_by_other_parts_are_allowed() -> None:
    whole = with_argument({}, unevaluatedProperties=False, allOf=[{"minProperties": 1}])
    assert relaxed(whole)[0] == with_argument({})


def test_one_warning_reports_merged_parts() -> None:
    choices = [with_argument({}), {"required": ["b"]}]
    _, warning = relaxed({"type": "object", "anyOf": choices, "oneOf": choices})
    assert warning == (
        'inputSchema: "#" is shown as one object with the properties of all its parts, '
        "without some of their conditions"
    )


def test_closed_alternatives_are_one_closed_object() -> None:
    branches = [closed("a", required=["a"]), closed("b", required=["b"])]
    schema, _ = relaxed({"type": "object", "oneOf": branches})
    assert schema == {"type": "object", **closed("a", "b")}


def test_one_open_alternative_opens_the_object() -> None:
    branches = [closed("a", required=["a"]), {"properties": {"b": {}}}]
    schema, _ = relaxed({"type": "object", "anyOf": branches})
    assert schema == {"type": "object", "properties": {"a": {}, "b": {}}}


@each_row("key", ["anyOf", "oneOf"])
def test_alternatives_become_one_object_with_all_properties(key: str) -> None:
    one = {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["b", "a"]}
    other = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
    schema, _ = relaxed({"type": "object", key: [one, other]})
    assert schema == {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "b": {}},
        "required": ["a"],
    }


def test_a_property_with_equal_schemas_in_alternatives_has_one_schema() -> None:
    branches = [with_argument({"const": 1}, required=[name]) for name in "bc"]
    assert argument(relaxed({"type": "object", "oneOf": branches})[0]) == {"const": 1}


def test_alternatives_that_only_require_properties_are_removed() -> None:
    whole = with_argument({"type": "string"}, additionalProperties=False)
    schema, _ = relaxed({**whole, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
    assert schema == whole


def test_a_property_unrestricted_in_one_alternative_stays_unrestricted() -> None:
    branches = [with_argument({"type": "string"}), {"required": ["b"]}]
    schema, _ = relaxed({"type": "object", "anyOf": branches})
    assert argument(schema) == {"anyOf": [{"type": "string"}, {}]}


@each_row("key", ["not", "enum", "const"])
def test_for_openai_conditions_at_the_top_are_removed(key: str) -> None:
    condition = {"not": {"required": ["b"]}, "enum": [{"a": 1}], "const": {"a": 1}}[key]
    whole = with_argument({}, **{key: condition})
    schema, warning = relaxed(whole, OPENAI)
    assert (schema, shown(whole, ANTHROPIC)) == (with_argument({}), whole)
    assert f'"#/{key}"' in warning


def test_nesting_of_alternatives_is_limited() -> None:
    definitions = {
        f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]}
        for i in range(1_000)
    }
    whole = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**definitions, "d1000": {}}}
    assert relaxed(whole, OPENAI)[0] == {"type": "object", "properties": {}}


@each_row("key", ["anyOf", "allOf"])
def test_a_part_that_refers_to_the_root_is_cut(key: str) -> None:
    whole = with_argument({}, **{key: [{"$ref": "#"}, {"required": ["b"]}]})
    assert argument(relaxed(whole)[0]) == {}


@each_row("key", ["anyOf", "allOf"])
def test_parts_beyond_the_limit_are_dropped(key: str) -> None:
    """Each part refers to all properties, 800,000 in total."""
    names = {f"p{number}": {"const": number} for number in range(MAX_SIZE // 4)}
    parts = [{"$ref": "#/$defs/all", "required": [str(number)]} for number in range(1_600)]
    whole = {"type": "object", key: parts, "$defs": {"all": {"properties": names}}}
    schema, _ = relaxed(whole)
    shown_as = {name: {"anyOf": [it, {}]} for name, it in names.items()}
    assert schema["properties"] == (names if key == "allOf" else shown_as)
    assert len(schema.get("required", ())) < MAX_SIZE


def test_a_property_of_nested_alternatives_has_each_schema_once() -> None:
    """Each level refers twice to the level below: 256 paths reach the last one."""
    definitions: Schema = {
        f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2 + [with_argument({"const": i})]}
        for i in range(8)
    }
    definitions["d8"] = with_argument({"const": 8})
    schema, _ = relaxed({"type": "object", "$ref": "#/$defs/d0", "$defs": definitions})
    assert argument(schema) == {"anyOf": [{"const": i} for i in reversed(range(9))]}
