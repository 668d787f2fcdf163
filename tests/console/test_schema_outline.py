"""The readable outline of any JSON Schema from a server."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.console.page_text import page_cost, page_text
from mcp_tools_proxy.console.pages.offered_items import OutlineLine, outline_of
from mcp_tools_proxy.console.schema_forms.form_builder import build_form

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

REFERENCES = ("#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/$defs/a/anyOf/0", "#/none")
PARTS = st.recursive(
    st.sampled_from([{"$ref": it} for it in REFERENCES]) | JSON,
    lambda inner: (
        st.dictionaries(st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, max_size=4))
        | st.dictionaries(st.sampled_from(["items", "additionalProperties"]), inner)
        | st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("ab"), inner)})
    ),
    max_leaves=12,
)
NAMED = st.fixed_dictionaries({"a": PARTS, "b": PARTS})
DOCUMENTS = st.fixed_dictionaries({"$defs": NAMED, "properties": NAMED})


def lines_of(schema: Any) -> dict[str, OutlineLine]:
    return {line.name: line for line in outline_of(schema, 10_000).lines}


def properties(**named: Any) -> dict[str, Any]:
    return {"type": "object", "properties": named}


def test_types_are_described_in_words() -> None:
    schema = properties(
        a={"type": "array", "items": {"type": "integer"}},
        b={"anyOf": [{"type": "string"}, {"type": "null"}]},
        c={"type": ["number", "null"]},
        d={},
        e={"const": 1},
    )
    assert {name: line.kind for name, line in lines_of(schema).items()} == {
        "a": "list of integer",
        "b": "string or null",
        "c": "number or null",
        "d": "any",
        "e": "one of",
    }


def test_all_of_and_references_are_merged() -> None:
    one = {"$ref": "#/$defs/one"}
    schema = {
        "$defs": {"one": {**properties(x={"type": "string"}), "required": ["x"]}},
        **properties(both={"allOf": [one, properties(y={"type": "number"})]}),
    }
    children = lines_of(schema)["both"].children
    assert [(it.name, it.required) for it in children] == [("x", True), ("y", False)]


def test_a_recursive_schema_ends() -> None:
    schema = {"$defs": {"node": properties(next={"$ref": "#/$defs/node"})}, **properties()}
    schema["properties"] = {"first": {"$ref": "#/$defs/node"}}
    (after,) = lines_of(schema)["first"].children
    assert (after.name, after.kind, after.children) == ("next", "see #/$defs/node", ())


def test_nested_alternatives_are_shortened() -> None:
    number: dict[str, Any] = {"type": "number"}
    inner = {"anyOf": [{"type": "string"}, {"anyOf": [number, {"anyOf": [number]}]}]}
    assert lines_of(properties(a=inner))["a"].kind == "string or number or one of several types"
    definitions: dict[str, Any] = {
        f"n{level}": {"anyOf": [{"$ref": f"#/$defs/n{level + 1}"}] * 6} for level in range(30)
    }
    line = lines_of({"$defs": definitions, **properties(a={"$ref": "#/$defs/n0"})})["a"]
    assert line.kind == "one of several types"


def test_a_recursive_union_ends() -> None:
    loop = {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "string"}]}
    line = lines_of({"$defs": {"loop": loop}, **properties(a={"$ref": "#/$defs/loop"})})["a"]
    assert line.kind == "see #/$defs/loop or string"


def test_parts_that_cannot_be_merged_are_shown_separately() -> None:
    parts = [properties(x={}), {"$ref": "#/$defs/none"}]
    children = lines_of(properties(a={"allOf": parts}))["a"].children
    assert [(it.name, it.kind) for it in children] == [
        ("part 1", "object"),
        ("part 2", "see #/$defs/none"),
    ]


def test_an_oversized_schema_is_truncated_with_a_note() -> None:
    outline = outline_of(properties(**{f"p{it}": {} for it in range(1_000)}), 10_000)
    assert (outline.is_cut, 20 < len(outline.lines) < 100) == (True, True)
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = properties(inner=deep)
    assert outline_of(deep, 10_000).is_cut


def test_a_large_part_is_read_once_for_all_references() -> None:
    large: dict[str, Any] = properties(**{f"p{it}": {} for it in range(10_000)})
    members = {f"a{it}": {"$ref": "#/$defs/large"} for it in range(20)}
    schema = {"$defs": {"large": {"allOf": [large, {"type": "object"}]}}, **properties(**members)}
    outline = outline_of(schema, 1_000_000_000)
    read = [line for line in outline.lines if line.kind != "see #/$defs/large"]
    assert (outline.is_cut, 0 < len(read) < 5) == (True, True)


def test_a_long_value_is_truncated_without_rendering_it() -> None:
    long = [{"a": 1}] * 10_000
    line = lines_of(properties(a={"enum": [long, {"a": long}, "x" * 10_000, [1]]}))["a"]
    assert line.values == ["[…]", "{…}", f'"{"x" * 59}…', "[1]"]


@given(JSON)
def test_any_schema_has_an_outline(schema: Any) -> None:
    outline_of(schema, 2_000)


@given(DOCUMENTS)
def test_any_reference_has_an_outline(schema: Any) -> None:
    outline_of(schema, 2_000)
    build_form(schema)


@given(st.text(), st.integers(0, 50))
def test_a_text_is_truncated_to_its_size_on_the_page(text: str, most: int) -> None:
    cut = page_text(text, most)
    assert page_cost(cut.text) <= most
    assert text.startswith(cut.text)
    assert len(cut.text) + cut.left_out == len(text)
    assert page_text(text, 20 * len(text)).left_out == 0
