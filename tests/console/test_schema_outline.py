"""The outline of a JSON Schema for people, of any schema that a server sends."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.console.pages.servers.bounded_text import page_cost, page_text
from mcp_tools_proxy.console.pages.servers.schema_outline import OutlineLine, outline_of

KEYS = (
    "type",
    "properties",
    "items",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "enum",
    "const",
    "required",
    "description",
    "default",
    "additionalProperties",
    "minimum",
    "$defs",
    "a",
    "#",
    "#/properties/a",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(KEYS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=30,
)


def lines_of(schema: Any) -> dict[str, OutlineLine]:
    return {line.name: line for line in outline_of(schema, 10_000).lines}


def properties(**named: Any) -> dict[str, Any]:
    return {"type": "object", "properties": named}


def test_kinds_are_told_in_words() -> None:
    schema = properties(
        a={"type": "array", "items": {"type": "integer"}},
        b={"anyOf": [{"type": "string"}, {"type": "null"}]},
        c={"type": ["number", "null"]},
        d={},
        e={"const": 1},
    )
    assert {name: line.kind for name, line in lines_of(schema).items()} == {
        "a": "list of whole number",
        "b": "text or null",
        "c": "number or null",
        "d": "anything",
        "e": "one of these",
    }


def test_parts_of_all_of_and_references_are_joined() -> None:
    one = {"$ref": "#/$defs/one"}
    schema = {
        "$defs": {"one": {**properties(x={"type": "string"}), "required": ["x"]}},
        **properties(both={"allOf": [one, properties(y={"type": "number"})]}),
    }
    children = lines_of(schema)["both"].children
    assert [(it.name, it.required) for it in children] == [("x", True), ("y", False)]


def test_a_schema_that_holds_itself_ends() -> None:
    schema = {"$defs": {"node": properties(next={"$ref": "#/$defs/node"})}, **properties()}
    schema["properties"] = {"first": {"$ref": "#/$defs/node"}}
    (after,) = lines_of(schema)["first"].children
    assert (after.name, after.kind, after.children) == ("next", "as #/$defs/node", ())


def test_a_schema_that_is_too_large_is_cut_and_says_so() -> None:
    outline = outline_of(properties(**{f"p{it}": {} for it in range(1_000)}), 10_000)
    assert (outline.is_cut, 20 < len(outline.lines) < 100) == (True, True)
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = properties(inner=deep)
    assert outline_of(deep, 10_000).is_cut


@given(JSON)
def test_no_schema_breaks_it(schema: Any) -> None:
    outline_of(schema, 2_000)


@given(st.text(), st.integers(0, 50))
def test_a_text_is_cut_to_what_it_takes_up(text: str, most: int) -> None:
    cut = page_text(text, most)
    assert page_cost(cut.text) <= most
    assert text.startswith(cut.text)
    assert len(cut.text) + cut.left_out == len(text)
    assert page_text(text, 20 * len(text)).left_out == 0
