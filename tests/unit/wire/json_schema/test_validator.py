from typing import Any

import pytest

from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.wire.json_schema.validator import BrokenSchema, compile_check
from tests.support.tables import each_row

SECRET = "hunter2"


def refusal(schema: dict[str, Any], arguments: dict[str, Any]) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        compile_check(schema)(arguments)
    return caught.value


def accepts(schema: dict[str, Any], arguments: dict[str, Any]) -> bool:
    try:
        compile_check(schema)(arguments)
    except InvalidArguments:
        return False
    return True


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@each_row(
    ("arguments", "fits"),
    [({"a": 1, "b": "extra"}, True), ({}, True), ({"a": "1"}, False), ({"a": 1.5}, False)],
)
def test_valid_arguments_are_accepted(arguments: dict[str, Any], fits: bool) -> None:
    assert accepts(of(a={"type": "integer"}), arguments) is fits


def test_a_refusal_names_path_and_rule() -> None:
    error = refusal(of(filter=of(size={"type": "integer"})), {"filter": {"size": SECRET}})
    assert (error.message, error.details) == (
        'arguments.filter.size: is not of type "integer"',
        {"arguments": ["filter"]},
    )


@each_row(
    "rule",
    [
        {"type": "integer"},
        {"enum": ["a"]},
        {"const": "a"},
        {"maxLength": 2},
        {"pattern": "^a$"},
        {"not": {"type": "string"}},
        {"anyOf": [{"type": "integer"}, {"maxLength": 1}]},
        {"oneOf": [{"type": "string"}, {"maxLength": 99}]},
        False,
    ],
)
def test_a_refusal_never_contains_the_value(rule: object) -> None:
    assert SECRET not in refusal(of(a=rule), {"a": SECRET}).message


def test_a_missing_argument_is_named() -> None:
    error = refusal({"type": "object", "required": ["q"]}, {})
    assert (error.message, error.details) == ('arguments: "q" is missing', {"arguments": ["q"]})


def test_an_undeclared_argument_is_named() -> None:
    error = refusal({**of(a={}), "additionalProperties": False}, {"x\n": 1})
    assert error.message == r'arguments: "x\n" is not allowed here'


@each_row(
    ("schema", "message"),
    [
        ({**of(a={}), "unevaluatedProperties": False}, 'arguments: "b" is not allowed here'),
        (
            {"propertyNames": {"maxLength": 0}},
            "arguments: has a property whose name is not allowed; rename or remove it",
        ),
        ({"additionalProperties": False}, "is not allowed here; leave it out"),
    ],
)
def test_rules_about_names_are_explained(schema: dict[str, Any], message: str) -> None:
    assert message in refusal(schema, {"b": 1}).message


def test_the_first_five_problems_are_listed_and_the_others_counted() -> None:
    error = refusal(of(a={"items": {"type": "string"}}), {"a": list(range(8))})
    assert (error.message.count("arguments.a."), error.message[-12:]) == (5, "; and 3 more")


def test_the_first_of_very_many_problems_is_named() -> None:
    error = refusal(of(a={"items": {"type": "string"}}), {"a": [1] * 3_000})
    assert error.message == 'arguments.a.0: is not of type "string"'


def test_a_schema_without_a_draft_is_read_as_2020_12() -> None:
    refusal(of(a={"prefixItems": [{"type": "integer"}]}), {"a": ["x"]})


def test_an_older_draft_is_honoured() -> None:
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
    refusal({**draft_7, **of(a={"items": [{"type": "integer"}]})}, {"a": ["x"]})


def test_definitions_of_the_schema_itself_are_found() -> None:
    schema = {**of(a={"$ref": "#/$defs/N"}), "$defs": {"N": {"type": "number"}}}
    refusal(schema, {"a": "x"})


@each_row("ref", ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "#/$defs/no"])
def test_an_external_reference_is_never_fetched(ref: str) -> None:
    with pytest.raises(BrokenSchema, match=r"a \$ref cannot be resolved"):
        compile_check(of(a={"$ref": ref}))


@each_row(
    "schema", [{"type": "nonsense"}, of(a={"pattern": "("}), {"$schema": "http://example.com/mine"}]
)
def test_an_invalid_schema_is_refused_with_the_reason(schema: dict[str, Any]) -> None:
    with pytest.raises(BrokenSchema, match="cannot be compiled"):
        compile_check(schema)


def test_a_schema_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(BrokenSchema, match="deeply"):
        compile_check(schema)


def test_a_schema_nested_too_deeply_for_the_library_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(180):
        schema = {"not": schema}
    with pytest.raises(BrokenSchema, match="cannot be compiled"):
        compile_check(schema)


@each_row("pattern", ["^(a+)+$", r"^(?=(a+)+$)((a+)\2+)+$"])
def test_the_time_of_a_pathological_pattern_is_bounded(pattern: str) -> None:
    refusal(of(a={"pattern": pattern}), {"a": "a" * 200 + "!"})


def test_equal_schemas_share_one_compiled_check() -> None:
    assert compile_check(of(a={"type": "null"})) is compile_check(of(a={"type": "null"}))


def test_arguments_that_are_not_unicode_are_refused() -> None:
    assert "Unicode" in refusal(of(a={"type": "string"}), {"\ud800": 1}).message
