"""Adapted schemas are accepted by model APIs, and never accept fewer arguments."""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema_rs import ValidationError, Validator, meta, validator_for

from mcp_tools_proxy.wire.json_schema.api_rules import ANTHROPIC, OPENAI, SchemaRules
from mcp_tools_proxy.wire.json_schema.schema_adapter import AdaptedSchema, adapt_schema
from tests.support.examples import at_most

pytestmark = pytest.mark.slow

Schema = dict[str, Any]

SINGLES = ("items", "contains", "propertyNames", "not", "if", "then", "else")
OPEN_OR_CLOSED = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
TABLES = ("properties", "patternProperties", "dependentSchemas", "$defs")
DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
ARGUMENT_NAME = re.compile(r"^[a-zA-Z0-9_.-]{1,64}$")


def nodes_of(node: Any) -> Iterator[Any]:
    """Yield each subschema of a 2020-12 schema."""
    yield node
    for key, value in node.items() if isinstance(node, Mapping) else ():
        inner: Iterable[Any] = ()
        if key in SINGLES or (key in OPEN_OR_CLOSED and not isinstance(value, bool)):
            inner = (value,)
        elif key in TABLES:
            inner = value.values()
        elif key in LISTS:
            inner = value
        for schema in inner:
            yield from nodes_of(schema)


def refusals_of(schema: Schema, rules: SchemaRules) -> list[str]:
    """Return the reasons for which an API would refuse a schema, independently of the product."""
    found = []
    nodes = list(nodes_of(schema))
    if schema.get("type") != "object":
        found.append("type must be object")
    found += [f"{key} at the top" for key in ("anyOf", "oneOf", "allOf", "$ref") if key in schema]
    meta.validate({**schema, "$schema": DRAFTS[-1]})
    validator_for(schema)  # every reference can be resolved
    found += ["a boolean" for node in nodes if isinstance(node, bool)]
    found += [
        name
        for node in nodes
        if isinstance(node, Mapping)
        for name in node.get("properties", {})
        if not ARGUMENT_NAME.match(name)
    ]
    if rules is ANTHROPIC:
        return found
    found += [f"{key} at the top" for key in ("enum", "const", "not") if key in schema]
    if "properties" not in schema:
        found.append("object schema missing properties")
    for node in nodes:
        if "array" in ([t] if isinstance(t := node.get("type"), str) else t or []):
            found += [] if "items" in node else ["array schema missing items"]
        for pattern in [*node.get("patternProperties", ()), node.get("pattern", "")]:
            re.compile(pattern)
            found += ["lookaround"] if re.search(r"\(\?<?[=!]", pattern) else []
    return found


# Generated schemas use few names and values, so that instances often match.

NAMES = st.sampled_from(["a", "b", "c", "a b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "ab", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
PATTERNS = st.sampled_from(["a", "^b", "^(?!a)", "^.$"])
TYPES = st.sampled_from(["object", "string", "integer", "array", "null"])
REFERENCES = st.sampled_from(["#", "#/$defs/x", "#/$defs/y", "#/properties/a", "#/allOf/0"])

# A reference is one value deeper than its schema, so that validators do not loop.
DEEPER = REFERENCES.flatmap(
    lambda reference: st.sampled_from(
        [{"properties": {"a": {"$ref": reference}}}, {"items": {"$ref": reference}}]
    )
)

SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "minimum": st.integers(-1, 2),
    "minLength": st.integers(0, 2),
    "pattern": PATTERNS,
    "required": st.lists(NAMES, min_size=1, max_size=2, unique=True),
    "maxProperties": st.integers(1, 3),
    "maxContains": st.integers(0, 1),
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True), max_size=2),
}
NESTING = (
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "items", "contains", "allOf", "anyOf", "oneOf", "not", "if", "then"),
    *("else", "dependentSchemas", "dependencies"),
)


@cache
def schemas(depth: int, most: int) -> st.SearchStrategy[Schema]:
    """Draw up to ``most`` keywords of any draft; some are unknown in the drawn draft. Drawing few
    keywords instead of a flag for each takes a third of the time."""
    known = [*SIMPLE, *NESTING, *NESTING] if depth else [*SIMPLE]

    @st.composite
    def drawn(draw: st.DrawFn) -> Schema:
        keywords = draw(st.lists(st.sampled_from(known), max_size=most, unique=True))
        return {keyword: draw(values_of(keyword, depth)) for keyword in keywords}

    return drawn()


@cache
def values_of(keyword: str, depth: int) -> st.SearchStrategy[Any]:
    """Return values for a keyword of a schema that nests up to ``depth`` levels."""
    if keyword in SIMPLE:
        return SIMPLE[keyword]
    inner = schemas(depth - 1, 3) | st.booleans() | DEEPER
    if keyword in LISTS:
        return st.lists(inner, min_size=1, max_size=3)
    if keyword in {*TABLES, "dependencies"}:
        names = PATTERNS if keyword == "patternProperties" else NAMES
        return st.dictionaries(names, inner, max_size=3)
    return inner


@st.composite
def tool_schemas(draw: st.DrawFn) -> Schema:
    """Draw a schema of any draft that a server could send, with internal references."""
    inner = schemas(2, 3)
    whole = {**draw(schemas(3, 6)), "$defs": {"x": draw(inner), "y": draw(inner)}}
    whole |= draw(st.sampled_from([{}, {"type": "object"}]))
    if draw(st.booleans()):
        whole["$schema"] = draw(st.sampled_from(DRAFTS))
    return whole


def compiled(schema: Mapping[str, Any]) -> Validator:
    """Compile a schema as discovery does; reject the example if it would be refused."""
    try:
        return validator_for(dict(schema), offline=True)
    except (ValidationError, ValueError):
        assume(False)
        raise


def with_names(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with renamed properties."""
    if isinstance(value, list):
        return [with_names(it, names) for it in value]
    if not isinstance(value, Mapping):
        return value
    return {names.get(key, key): with_names(it, names) for key, it in value.items()}


def accepts_no_less(result: AdaptedSchema, original: Validator, arguments: list[Schema]) -> bool:
    """Return whether the adapted schema accepts the arguments that the original accepts. Without a
    warning it must not accept others. Arguments use the renamed properties; enum values keep
    original names, so schemas with both are skipped."""
    shown = validator_for(dict(result.schema))
    if result.renamed and "enum" in repr(result.schema):
        return True
    for instance in arguments:
        named = with_names(instance, result.renamed)
        before, after = original.is_valid(instance), shown.is_valid(named)
        if before != after and (before or not result.warnings):
            return False
    return True


@at_most(60)
@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
@given(schema=tool_schemas(), arguments=st.lists(ARGUMENTS, min_size=1, max_size=6))
def test_an_adapted_schema_is_acceptable_and_never_accepts_less(
    rules: SchemaRules, schema: Schema, arguments: list[Schema]
) -> None:
    original = compiled(schema)
    before = copy.deepcopy(schema)
    result = adapt_schema(schema, rules)
    assert schema == before
    assert refusals_of(dict(result.schema), rules) == []
    assert adapt_schema(result.schema, rules).schema is result.schema
    assert accepts_no_less(result, original, arguments)


@at_most(60)
@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
@given(
    schema=tool_schemas(),
    draft=st.sampled_from(DRAFTS),
    arguments=st.lists(ARGUMENTS, min_size=1, max_size=6),
)
def test_an_already_acceptable_schema_keeps_the_meaning_of_its_draft(
    rules: SchemaRules, schema: Schema, draft: str, arguments: list[Schema]
) -> None:
    """Random schemas almost always need changes; adapted ones need none except for the draft."""
    compiled(schema)
    acceptable = {**adapt_schema(schema, rules).schema, "$schema": draft}
    original = compiled(acceptable)
    assert accepts_no_less(adapt_schema(acceptable, rules), original, arguments)
