from contextlib import nullcontext
from typing import Any

import pytest

from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.wire.json_schema.validator import BrokenSchema, CostlyCheck, compile_check
from tests.support.tables import each_row

Json = dict[str, Any]

TREE: Json = {
    "type": "object",
    "properties": {"child": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}},
    "additionalProperties": False,
}
"""Each level of arguments doubles the number of checks."""

FILTER: Json = {
    "type": "object",
    "properties": {"filter": {"$ref": "#/$defs/filter"}},
    "$defs": {
        "filter": {"anyOf": [{"$ref": "#/$defs/both"}, {"$ref": "#/$defs/leaf"}]},
        "both": {
            "type": "object",
            "properties": {"and": {"type": "array", "items": {"$ref": "#/$defs/filter"}}},
            "required": ["and"],
        },
        "leaf": {
            "type": "object",
            "properties": {"equals": {"type": "string"}},
            "required": ["equals"],
        },
    },
}
"""A structure used by many legitimate servers."""


def doubling(levels: int, keyword: str = "anyOf") -> Json:
    """Build definitions that each refer twice to the previous one."""
    definitions: Json = {"d0": {"required": ["never"]}}
    for level in range(1, levels + 1):
        before = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {keyword: [before, dict(before)]}
    return {"type": "object", "$defs": definitions, "allOf": [{"$ref": f"#/$defs/d{levels}"}]}


def nested(levels: int, innermost: Json) -> Json:
    value = innermost
    for _ in range(levels):
        value = {"child": value}
    return value


@each_row("keyword", ["anyOf", "oneOf", "allOf"])
def test_a_schema_that_expands_to_a_billion_checks_is_refused(keyword: str) -> None:
    with pytest.raises(BrokenSchema, match="more than 10000000 steps"):
        compile_check(doubling(30, keyword))


@each_row(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"required": ["a"]}]},
        {"$dynamicAnchor": "all", "allOf": [{"$dynamicRef": "#all"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_schema_that_refers_to_itself_is_refused(schema: Json) -> None:
    with pytest.raises(BrokenSchema, match="refers to itself"):
        compile_check({"type": "object", **schema})


def test_a_chain_of_references_that_is_too_long_is_refused() -> None:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)} | {"d5000": {}}
    with pytest.raises(BrokenSchema, match="chain"):
        compile_check({"type": "object", "$ref": "#/$defs/d0", "$defs": chain})


def test_a_schema_of_very_many_parts_is_refused() -> None:
    with pytest.raises(BrokenSchema, match="more than 50000 parts"):
        compile_check({"type": "object", "allOf": [{} for _ in range(60_000)]})


@each_row(
    ("reference", "value", "fits"),
    [
        ("#/$defs/a~1b", 1, True),
        ("#/$defs/a~1b", "x", False),
        ("#/$defs/a%7E1b", "x", False),
        ("#here", "x", False),
        ("https://x.example/s#/$defs/a~1b", "x", False),
        ("https://x.example/s#/$defs/a~1b", 1, True),
        ("#/$defs/true", "x", True),
    ],
)
def test_references_within_the_schema_are_followed(
    reference: str, value: object, fits: bool
) -> None:
    check = compile_check(
        {
            "$id": "https://x.example/s",
            "type": "object",
            "properties": {"n": {"$ref": reference}},
            "$defs": {"a/b": {"$anchor": "here", "type": "integer"}, "true": True},
        }
    )

    with nullcontext() if fits else pytest.raises(InvalidArguments):
        check({"n": value})


@each_row("index", ["1", "00", "٠", "9" * 5_000])
def test_a_reference_beyond_the_end_of_a_list_is_refused(index: str) -> None:
    with pytest.raises(BrokenSchema, match="cannot be resolved"):
        compile_check({"allOf": [{"not": {"$ref": f"#/allOf/{index}"}}]})


@each_row(("named", "reference"), [({"$anchor": "x"}, "#x"), ({"$id": "urn:x"}, "#/$defs/string")])
def test_an_ambiguous_reference_is_refused(named: dict[str, str], reference: str) -> None:
    parts = {name: {**named, "type": name} for name in ("string", "integer")}
    with pytest.raises(BrokenSchema, match="ids or duplicate names"):
        compile_check({"properties": {"n": {"$ref": reference}}, "$defs": parts})


def test_deep_arguments_of_a_schema_with_doubling_are_refused_immediately() -> None:
    check = compile_check(TREE)

    with pytest.raises(InvalidArguments, match="send less at a time"):
        check(nested(40, {"wrong": 1}))


def test_arguments_of_usual_depth_are_validated_with_a_recursive_schema() -> None:
    check = compile_check(FILTER)
    good: Json = {"equals": "x"}
    for _ in range(6):
        good = {"and": [good, {"equals": "y"}]}

    check({"filter": good})
    with pytest.raises(InvalidArguments, match=r"arguments\.filter"):
        check({"filter": {"and": [{"equals": 1}]}})


def test_arguments_that_take_long_to_explain_are_refused_without_details() -> None:
    check = compile_check(doubling(20))

    with pytest.raises(CostlyCheck):
        check({})
    with pytest.raises(InvalidArguments, match="do not match this tool's inputSchema"):
        check.check_at_any_cost({}, ())


def test_many_values_for_an_enum_of_many_objects_are_refused_immediately() -> None:
    choices = {"enum": [{"number": number} for number in range(20_000)]}
    check = compile_check(
        {"type": "object", "properties": {"all": {"type": "array", "items": choices}}}
    )

    with pytest.raises(InvalidArguments, match="send less at a time"):
        check({"all": [{"number": 19_999}] * 50_000})
    with pytest.raises(CostlyCheck):
        check({"all": [{"number": 19_999}] * 50})
    check({"all": [{"number": 19_999}]})


def unevaluated(levels: int) -> Json:
    schema: Json = {}
    for _ in range(levels):
        schema = {
            "anyOf": [schema, {"properties": {"a": schema}}],
            "unevaluatedProperties": False,
        }
    return schema


def deep(levels: int) -> Json:
    value: Json = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@each_row(
    ("schema", "arguments"),
    [
        (
            {"properties": {"all": {"items": {"multipleOf": 1e-300}}}},
            {"all": [1e300] * 100_000},
        ),
        (
            {"properties": {"all": {"items": {"const": [*range(1_000)]}}}},
            {"all": [[*range(1_000)]] * 90},
        ),
        (
            {
                "properties": {
                    "all": {"items": {"dependentRequired": {"a": [str(n) for n in range(999)]}}}
                }
            },
            {"all": [{"a": 1, "b": 1}] * 9_000},
        ),
        (unevaluated(9), deep(9)),
        ({"properties": {"all": {"uniqueItems": True}}}, {"all": [2**63 + n for n in range(500)]}),
        ({"properties": {"all": {"items": {"const": 1e-300}}}}, {"all": [1e-300] * 5_000}),
        ({"properties": {"all": {"items": {"maximum": 2.5}}}}, {"all": [0.1] * 50_000}),
        ({"properties": {"all": {"items": {"enum": [1, 2, 3]}}}}, {"all": [10**300] * 3_000}),
    ],
)
def test_expensive_validation_requires_a_process(schema: Json, arguments: Json) -> None:
    with pytest.raises((CostlyCheck, InvalidArguments)) as caught:
        compile_check({"type": "object", **schema})(arguments)
    assert isinstance(caught.value, CostlyCheck) or "send less" in str(caught.value)


@each_row(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [n / 3 for n in range(5_000)]),
        ({"items": {"minimum": -1, "maximum": 1}}, [n / 5_000 for n in range(5_000)]),
        ({"items": {"enum": [*range(1_000)]}}, [*range(1_000)] * 20),
        ({"items": {"minimum": 0}, "uniqueItems": True}, [*range(40_000)]),
        ({"items": {"type": "string"}}, ["x" * 20] * 40_000),
    ],
)
def test_usual_lists_are_validated_inline(schema: Json, value: object) -> None:
    compile_check({"type": "object", "properties": {"all": schema}})({"all": value})


@each_row(
    ("pattern", "chars"),
    [(r"(?=.*[A-Z])(?=.*\d).{8,}", 1_000), (r"^(?:[ab]*a[ab]{300}c)$", 20_000), (r"\S", 200_000)],
)
def test_a_long_text_for_a_pattern_requires_a_process(pattern: str, chars: int) -> None:
    check = compile_check({"type": "object", "properties": {"text": {"pattern": pattern}}})

    with pytest.raises(CostlyCheck) as caught:
        check({"text": "a" * chars})
    longest = caught.value.longest_text()
    assert longest is not None
    assert (longest.place, longest.chars) == ("arguments.text", chars)


def test_a_long_text_without_a_pattern_is_validated_inline() -> None:
    check = compile_check({"type": "object", "properties": {"text": {"maxLength": 2_000_000}}})

    check({"text": "x" * 1_000_000})


@each_row("patterns", [["(a{1000}){1000}"], [f"(?:[ab]{{900}}){{{n}}}" for n in range(10, 30)]])
def test_a_schema_with_oversized_patterns_is_refused(patterns: list[str]) -> None:
    parts = [{"pattern": pattern} for pattern in patterns]
    with pytest.raises(BrokenSchema, match="pattern"):
        compile_check({"type": "object", "properties": {"text": {"anyOf": parts}}})
