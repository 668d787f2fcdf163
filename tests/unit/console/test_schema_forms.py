"""Forms generated from JSON Schema: input is never lost, and any schema can be rendered."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tools_proxy.console.schema_forms.drafts import (
    ABSENT,
    Letter,
    Unread,
    add_row,
    name_of,
    parse_name,
    problems_of,
    read_draft,
    read_json,
    remove_row,
    value_of,
)
from mcp_tools_proxy.console.schema_forms.form_builder import MAX_FIELDS, build_form
from mcp_tools_proxy.console.schema_forms.form_fields import FieldKind, FormField
from tests.support.tables import each_row
from tests.unit.console.schema_forms import all_fields, by_label, resent, sent

PLACE = {
    "type": "object",
    "description": "A place.",
    "properties": {"name": {"type": "string"}, "country": {"enum": ["DE", "FR"], "default": "DE"}},
    "required": ["name"],
}
SCHEMA: dict[str, Any] = {
    "$defs": {"Place": PLACE},
    "properties": {
        "place": {"$ref": "#/$defs/Place"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
        "tags": {"type": "array", "items": {"type": "string"}},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}, {"$ref": "#/$defs/Place"}]},
        "exact": {"type": "boolean"},
        "kind": {"const": "x"},
        "weight": {"type": ["number", "null"]},
        "price": {"type": "number", "exclusiveMinimum": 0},
        "any": {},
    },
    "required": ["place", "kind"],
}
ARGUMENTS = {
    "place": {"name": " two\nlines ", "country": "FR"},
    "days": 2,
    "tags": ["a", "b"],
    "stops": [{"name": "x"}, {"name": ""}],
    "note": None,
    "either": {"name": "q"},
    "exact": False,
    "kind": "x",
    "weight": 2.5,
    "any": [1, {"b": None}],
    "unknown": {"kept": True},
}


def test_arguments_round_trip_through_their_form() -> None:
    assert value_of(resent(SCHEMA, ARGUMENTS)) == ARGUMENTS


def test_empty_fields_are_not_sent() -> None:
    assert value_of(resent(SCHEMA, ABSENT)) == {"place": {}, "kind": "x"}


REQUIRED: dict[str, Any] = {
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "choice": {"enum": ["a", "b"]},
        "any": {},
        "rows": {"type": "array", "items": {"type": "string"}},
        "inside": {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        "optional": {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        "or_null": {"type": ["string", "null"]},
    },
    "required": ["text", "number", "choice", "any", "rows", "inside", "or_null"],
}


def missing(draft: object) -> set[str]:
    """Return the fields that need a value before a call."""
    form = build_form(REQUIRED, draft, needs_values=True)
    return {it.label for it in all_fields(form) if it.problem}


def test_an_empty_required_field_needs_a_value() -> None:
    empty = resent(REQUIRED, ABSENT)
    assert missing(empty) == {"text", "number", "choice", "any", "name", "or_null"}
    assert build_form(REQUIRED, empty).has_problem is False
    filled = {"text": "x", "number": 0, "choice": "a", "any": False, "or_null": None}
    assert missing(resent(REQUIRED, {**filled, "rows": [], "inside": {"name": "x"}})) == set()


def test_an_empty_text_is_a_value_if_entered_as_json_or_default() -> None:
    schema = {"properties": {"a": {"type": "string", "default": ""}}, "required": ["a"]}
    for draft in (ABSENT, {"a": ""}):
        assert value_of(resent(schema, draft)) == {"a": ""}
        assert not build_form(schema, resent(schema, draft), needs_values=True).has_problem


def test_each_type_of_value_has_a_field_type() -> None:
    fields = by_label(build_form(SCHEMA))
    kinds = {label: field.kind for label, field in fields.items() if label}
    assert kinds == {
        "place": FieldKind.OBJECT,
        "name": FieldKind.TEXT,
        "country": FieldKind.CHOICE,
        "days": FieldKind.NUMBER,
        "tags": FieldKind.ARRAY,
        "stops": FieldKind.ARRAY,
        "note": FieldKind.TEXT,
        "either": FieldKind.TEXT,
        "exact": FieldKind.CHOICE,
        "kind": FieldKind.FIXED,
        "weight": FieldKind.NUMBER,
        "price": FieldKind.NUMBER,
        "any": FieldKind.JSON,
    }
    assert fields["country"].placeholder == "Not sent (default: DE)"
    assert [it.label for it in fields["exact"].options] == ["true", "false"]
    assert (fields["days"].hint, fields["days"].placeholder) == ("integer, 1 to 14", "3")
    assert [it.label for it in fields["either"].branches] == ["string", "integer", "Place"]
    assert fields["price"].hint == "number, more than 0"
    assert fields["note"].null_name
    assert fields["place"].description == "A place."


def test_a_required_value_starts_with_its_default_only_once() -> None:
    schema = {"properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]}
    assert value_of(resent(schema, ABSENT)) == {"a": "x"}
    emptied = read_draft([(name_of(Letter.SENT_OBJECT, ()), "")])
    assert value_of(resent(schema, emptied)) == {}


@each_row("text", ["abc", "2.5", "1e3", "--1", "٣a", "1 2", "9" * 400])
def test_an_invalid_integer_is_kept_and_reported(text: str) -> None:
    schema = {"properties": {"days": {"type": "integer"}}}
    draft = read_draft(
        [(name_of(Letter.OBJECT, ()), ""), (name_of(Letter.INTEGER, ("days",)), text)]
    )
    assert list(problems_of(draft)) == ["Enter a whole number."]
    field = by_label(build_form(schema, draft))["days"]
    assert (field.text, field.problem) == (text, "Enter a whole number.")
    assert value_of(draft, keep_texts=True) == {"days": text}


def test_rows_are_added_and_removed_at_their_position() -> None:
    draft = resent(SCHEMA, ARGUMENTS)
    assert add_row(draft, ("tags",)) == ("tags", 2)
    remove_row(draft, ("tags", 0))
    assert add_row(draft, ("stops",)) == ("stops", 2)
    for odd in ((), ("nothing", 1), ("tags", 99), ("place", "name")):
        remove_row(draft, odd)
    assert add_row(draft, ("place",)) is None
    form = by_label(build_form(SCHEMA, draft, focus=("tags", 1)))
    assert [(it.text, it.has_focus) for it in form["tags"].parts] == [("b", False), ("", True)]
    assert len(form["stops"].parts) == 3
    value = value_of(resent(SCHEMA, draft))
    assert isinstance(value, dict)
    assert (value["tags"], value["stops"][2]) == (["b"], {})


def test_selecting_another_alternative_keeps_the_input() -> None:
    fields = dict(sent(build_form(SCHEMA, {"either": "abc"})))
    draft = read_draft([*fields.items(), (name_of(Letter.BRANCH, ("either",)), "1")])
    field = by_label(build_form(SCHEMA, draft))["either"]
    assert (field.kind, field.text) == (FieldKind.NUMBER, "abc")


def test_values_of_another_type_and_without_a_field_are_shown_as_json() -> None:
    form = build_form(SCHEMA, {"days": [1], "place": 5, "tags": {}, "more": 1})
    texts = {it.label: it.text for it in all_fields(form) if it.kind is FieldKind.JSON}
    assert texts == {"days": "[\n  1\n]", "place": "5", "tags": "{}", "any": ""}
    assert form.others is not None
    assert form.others.text == '{\n  "more": 1\n}'


HIDDEN = ["a\u200db", "\u202ex", "a\rb", "\x00", "\U000e0041"]


@each_row("text", HIDDEN)
def test_a_text_that_a_browser_would_change_is_edited_as_json(text: str) -> None:
    field = by_label(build_form(SCHEMA, {"note": text}))["note"]
    assert (field.kind, field.text.isascii()) == (FieldKind.JSON, True)
    assert value_of(resent(SCHEMA, {"note": text, "kind": "x"})) == {
        "note": text,
        "kind": "x",
        "place": {},
    }


NAMES = ["csrf", "do", "tool", "a.b", "a[0]", "q\"'<b>", "", "ключ", "0", "__proto__", "s.WyJhIl0"]


def test_property_names_do_not_collide_with_other_fields() -> None:
    schema = {"properties": {name: {"type": "string"} for name in NAMES}}
    arguments = {name: f"value of {name}" for name in NAMES}
    names = [name for name, _ in sent(build_form(schema, arguments))]
    assert len(set(names)) == len(NAMES) + 1
    assert all(name.isascii() and "." in name[1:2] for name in names)
    assert value_of(resent(schema, arguments)) == arguments


@each_row("name", ["csrf", "do", "q.WyJhIl0", "s.!", "s.WzEuNV0", "s.eA", "ss.WyJhIl0"])
def test_other_form_fields_are_not_part_of_the_arguments(name: str) -> None:
    assert parse_name(name) is None


def _deep(keyword: str, levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        inner: Any = [schema] if keyword in ("allOf", "anyOf", "oneOf") else schema
        schema = {"properties": {"a": schema}} if keyword == "properties" else {keyword: inner}
    return schema


def _referring(part: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a schema with 60 members that refer to the same part."""
    members = {f"a{n}": {"$ref": "#/$defs/part"} for n in range(60)}
    return {"$defs": {"part": part, **more}, "properties": members}


LARGE: dict[str, Any] = {"properties": {f"p{n}": {} for n in range(5000)}}
UNIONS = {f"n{n}": {"anyOf": [{"$ref": f"#/$defs/n{n + 1}"}] * 6} for n in range(30)}
HOSTILE: dict[str, Any] = {
    **{it: _deep(it, 10_000) for it in ("properties", "items", "allOf", "anyOf", "oneOf")},
    "itself": {"$ref": "#"},
    "refs": {
        "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5000)},
        "$ref": "#/$defs/d0",
    },
    "tree": {"$defs": {"t": {"properties": {"l": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"},
    "wide": {"properties": {f"p{n}": {"type": "string"} for n in range(5000)}},
    "doubling": {
        "$defs": {
            f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}}
            for n in range(40)
        },
        "$ref": "#/$defs/d0",
    },
    "long name": {"properties": {"x" * 10_000: {"type": "string"}}},
    "long values": {"properties": {"a": {"enum": ["x" * 100_000]}}},
    "many values": {"properties": {"a": {"enum": list(range(10_000))}}},
    "deep default": {
        "properties": {"a": {"default": _deep("items", 10_000), "enum": [_deep("items", 10_000)]}}
    },
    "long text": {
        "properties": {"a": {"description": "x" * 1_000_000, "pattern": "y" * 1_000_000}}
    },
    "unions": _referring({"$ref": "#/$defs/n0"}, **UNIONS),
    "large part": _referring({"allOf": [LARGE, {"type": "object"}, {"title": "x"}]}),
    "many alternatives": _referring({**dict.fromkeys(map(str, range(5000))), "anyOf": [{}] * 5000}),
    "long reference": _referring({"$ref": "#/" + "a/" * 100_000}),
    "hidden characters": _referring({"const": "\u200b" * 100_000}),
    "hidden choices": _referring({"enum": ["\u200b" * 5_000]}),
    "nested values": _referring({"enum": [{"a": [1] * 100_000}]}),
    "long number": _referring({"type": "integer", "default": 10**4000, "minimum": 10**4000}),
    "odd": {
        "properties": {"a": 5, "b": None, "c": [], "d": True, "e": False},
        "required": {"a": 1},
    },
    "odd types": {"type": 7, "properties": [], "anyOf": {}, "items": 3, "enum": "abc"},
    "a list": [1],
    "none": None,
}


def _size(form: FormField) -> int:
    return sum(
        len(it.name)
        + len(it.text)
        + len(it.placeholder)
        + len(it.description)
        + len(it.hint)
        + len(it.label)
        + sum(len(option.text) + len(option.label) for option in it.options)
        for it in all_fields(form)
    )


@each_row("name", HOSTILE)
def test_hostile_schemas_do_not_break_or_inflate_the_page(name: str) -> None:
    form = build_form(HOSTILE[name], {"a": {"a": [1, "x"]}, "p1": "y"})
    assert len(list(all_fields(form))) <= MAX_FIELDS + 1
    assert _size(form) < 60_000
    assert value_of(resent(HOSTILE[name], {"a": 1})) == {"a": 1}


@each_row("part", [{"type": "string"}, {"enum": ["a"]}, {"enum": ["a", "b"]}])
def test_an_oversized_default_is_not_filled_in(part: dict[str, Any]) -> None:
    schema = _referring({**part, "default": "x" * 100_000})
    form = build_form({**schema, "required": [*schema["properties"]]})
    assert _size(form) < 60_000


def test_fields_edited_as_json_state_the_reason() -> None:
    why = {name: [it.hint for it in all_fields(build_form(HOSTILE[name]))] for name in HOSTILE}
    assert "Shown as JSON because it needs more than 80 fields on one page." in why["wide"]
    assert "Shown as JSON because it refers to itself." in why["tree"]
    for name in ("large part", "many alternatives"):
        assert "Shown as JSON because it has too many parts for one page." in why[name]
    for name in ("hidden characters", "nested values"):
        assert "Shown as JSON because it has choices that are too long." in why[name]
    assert "Shown as JSON because it has too many choices for one page." in why["hidden choices"]
    assert "Shown as JSON because it has a name of more than 100 characters." in why["long name"]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


OPTIONAL = json.loads(json.dumps(SCHEMA).replace('"required"', '"x-required"'))


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "z"]), JSON_VALUES))
@example({"days": 1e300})
def test_any_arguments_round_trip_through_the_form(arguments: dict[str, Any]) -> None:
    """Empty texts, lists and objects may be dropped."""
    value = value_of(resent(OPTIONAL, arguments))
    value = {} if value is ABSENT else value
    assert isinstance(value, dict)
    for key, typed in arguments.items():
        if typed not in ("", [], {}) and _has_no_empty(typed):
            assert value[key] == typed


def _has_no_empty(value: object) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(_has_no_empty(it) for it in value.values())
    if isinstance(value, list):
        return bool(value) and all(_has_no_empty(it) for it in value)
    return value != ""


@each_row("text", ["{", '{"a": 1, "a": 2}', "NaN", "[" * 100 + "]" * 100, "1e999"])
def test_invalid_json_is_kept_and_reported(text: str) -> None:
    read = read_json(text)
    assert isinstance(read, Unread)
    assert (read.text, read.problem.startswith("This ")) == (text, True)
