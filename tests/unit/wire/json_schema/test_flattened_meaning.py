"""A flattened top level accepts every object that the original accepts."""

from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from mcp_tools_proxy.wire.json_schema.api_rules import ANTHROPIC
from mcp_tools_proxy.wire.json_schema.schema_adapter import adapt_schema
from tests.support.examples import at_most

Schema = dict[str, Any]

NAMES = ("a", "b", "c")
OBJECTS = [
    {name: value for name, value in zip(NAMES, values, strict=True) if value is not None}
    for values in product((None, 1, "x"), repeat=len(NAMES))
]
"""Almost all objects that the schemas below can distinguish."""

NAME_LISTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
VALUES = st.sampled_from([{}, {"type": "integer"}, {"type": "string"}, {"const": 1}, False])
CONDITIONS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["object", "string", ["object", "null"]]),
    "properties": st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=3),
    "required": NAME_LISTS,
    "additionalProperties": st.just(False) | VALUES,
    "patternProperties": st.dictionaries(st.sampled_from(["a", "[bc]"]), VALUES, max_size=2),
    "unevaluatedProperties": st.just(False) | VALUES,
    "minProperties": st.integers(1, 2),
    "maxProperties": st.integers(1, 2),
    "not": st.builds(lambda names: {"required": names}, NAME_LISTS),
    "title": st.just("T"),
}
MOST_DRAWN = ("properties", "required", "additionalProperties", "unevaluatedProperties")


@cache
def parts(depth: int) -> st.SearchStrategy[Schema]:
    """Draw a part of a top level: some conditions and nested parts."""
    joins = ("allOf", "anyOf", "oneOf", "$ref") if depth else ()
    keywords = st.sampled_from([*CONDITIONS, *MOST_DRAWN, *joins, *joins])

    @st.composite
    def drawn(draw: st.DrawFn) -> Schema:
        part: Schema = {}
        for keyword in draw(st.lists(keywords, max_size=4, unique=True)):
            if keyword == "$ref":
                part[keyword] = f"#/$defs/{depth - 1}"
            elif keyword in joins:
                part[keyword] = draw(st.lists(parts(depth - 1), min_size=1, max_size=3))
            else:
                part[keyword] = draw(CONDITIONS[keyword])
        return part

    return drawn()


@pytest.mark.slow
@at_most(500)
@given(
    whole=parts(2),
    definitions=st.fixed_dictionaries({str(depth): parts(depth) for depth in (0, 1)}),
)
def test_a_flat_top_level_never_accepts_less_and_without_a_warning_not_more(
    whole: Schema, definitions: Schema
) -> None:
    schema = {**whole, "$defs": definitions}
    result = adapt_schema(schema, ANTHROPIC)
    original, shown = validator_for(schema), validator_for(dict(result.schema))
    for instance in OBJECTS:
        before, after = original.is_valid(instance), shown.is_valid(instance)
        assert after >= before if result.warnings else after == before
    assert {"$ref", "allOf", "anyOf", "oneOf"}.isdisjoint(result.schema)
