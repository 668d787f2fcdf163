import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.config.field_types import read_path
from mcp_tools_proxy.domain.bindings import Binding
from mcp_tools_proxy.wire.json_schema.bound_offers import NamedElsewhere, without_property
from tests.support.tables import each_row

Json = dict[str, Any]
TEXT = {"type": "string"}
TWO: Json = {"type": "object", "properties": {"text": TEXT, "tenant": TEXT}, "required": ["tenant"]}
ONE: Json = {"type": "object", "properties": {"text": TEXT}}
NODES = {"Node": {"$dynamicAnchor": "node", "type": "object"}}
NESTED = {"properties": {"filter": TWO, "page": TEXT}}


@each_row(
    ("schema", "path", "expected"),
    [
        (TWO, ("tenant",), ONE),
        (TWO, ("other",), None),
        ({"properties": {"a.b": TEXT}}, ("a.b",), {"properties": {}}),
        (NESTED, ("filter", "tenant"), {"properties": {"filter": ONE, "page": TEXT}}),
        (NESTED, ("page", "tenant"), None),
        ({"$ref": "#/$defs/Args", "$defs": {"Args": TWO}}, ("tenant",), ONE),
        (
            {"properties": {"a": {"$ref": "#/$defs/F"}, "b": {"$ref": "#/$defs/F"}}}
            | {"$defs": {"F": TWO}},
            ("a", "tenant"),
            {"properties": {"a": ONE, "b": {"$ref": "#/$defs/F"}}, "$defs": {"F": TWO}},
        ),
        (
            {**TWO, "additionalProperties": False},
            ("tenant",),
            {**ONE, "additionalProperties": False},
        ),
        (
            {"properties": {"tenant": TEXT, "tree": {"$dynamicRef": "#node"}}, "$defs": NODES},
            ("tenant",),
            {"properties": {"tree": {"$dynamicRef": "#node"}}, "$defs": NODES},
        ),
        (
            {**TWO, "anyOf": [{"required": ["text"]}]},
            ("tenant",),
            {**ONE, "anyOf": [{"required": ["text"]}]},
        ),
    ],
)
def test_a_property_is_removed(schema: Json, path: tuple[str, ...], expected: Json | None) -> None:
    before = json.dumps(schema)
    assert without_property(schema, path) == expected
    assert json.dumps(schema) == before


@each_row(
    "more",
    [
        {"anyOf": [{"required": ["tenant"]}, {"required": ["text"]}]},
        {"allOf": [{"properties": {"tenant": {"minLength": 2}}}]},
        {"allOf": [{"$ref": "#/$defs/Base"}], "$defs": {"Base": TWO}},
        {"allOf": [{"$ref": "https://elsewhere.example/schema"}]},
        {"if": {"properties": {"tenant": {"const": "a"}}}, "then": {"required": ["text"]}},
        {"dependentRequired": {"text": ["tenant"]}},
        {"patternProperties": {"^ten": TEXT}},
        {"patternProperties": {"(?<a": TEXT}},
        {"propertyNames": {"enum": ["tenant", "text"]}},
        {"not": {"required": ["tenant"]}},
        {"$ref": "#/$defs/Base", "$defs": {"Base": TWO}},
        {"$ref": "#/$defs/Missing"},
        {"$dynamicRef": "#base", "$defs": {"Base": {**TWO, "$dynamicAnchor": "base"}}},
        {"allOf": [{"$dynamicRef": "#base"}], "$defs": {"Base": {"$dynamicAnchor": "base"}}},
        {"$recursiveRef": "#", "$recursiveAnchor": True},
    ],
)
def test_a_schema_that_mentions_the_property_elsewhere_is_refused(more: Json) -> None:
    with pytest.raises(NamedElsewhere):
        without_property({**TWO, **more}, ("tenant",))


def test_circular_references_are_refused() -> None:
    circle = {
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        "$ref": "#/$defs/A",
    }
    with pytest.raises(NamedElsewhere):
        without_property(circle, ("tenant",))


@given(st.lists(st.text(min_size=1).filter(lambda name: "\0" not in name), min_size=1, max_size=4))
def test_a_path_round_trips(names: list[str]) -> None:
    assert read_path(Binding(path=tuple(names), value=1).text) == tuple(names)


@each_row("text", ["", ".", "a.", ".a", "a..b", "a\\b", "a\\", "a\0"])
def test_an_invalid_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        read_path(text)
