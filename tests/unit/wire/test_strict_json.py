"""Strict JSON: duplicate keys, number of values, depth; the content of strings is ignored."""

import json
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcp_tools_proxy.wire.strict_json import (
    LARGE_BYTES,
    MAX_DEPTH,
    RepeatedKey,
    TooManyItems,
    check_count,
    check_keys,
    parse_strict,
)
from tests.support.tables import each_row


class Written(NamedTuple):
    """JSON, its number of values, and whether it has a duplicate key."""

    text: str
    items: int
    repeats: bool


keys = st.sampled_from(["a", "b", ":", ",", "[", "\\", '"', "\\u003a", "\\u003", ""])
scalars = st.sampled_from(["1", "-0.5e3", "null", "true", '"\\\\u003A"'])
spaces = st.sampled_from(["", " ", "\n\t"])


@st.composite
def strings(draw: st.DrawFn) -> str:
    text = json.dumps(draw(keys))
    return text.replace(":", draw(st.sampled_from([":", "\\u003a", "\\u003A"])))


@st.composite
def written(draw: st.DrawFn, depth: int = 3) -> Written:
    kind = draw(st.sampled_from(["scalar", "text", "list", "object"] if depth else ["scalar"]))
    if kind == "scalar":
        return Written(draw(scalars), 1, repeats=False)
    if kind == "text":
        return Written(draw(strings()), 1, repeats=False)
    parts = draw(st.lists(written(depth - 1), max_size=3))
    space, names = draw(spaces), [draw(strings()) for _ in parts]
    items = 1 + sum(part.items for part in parts)
    repeats = any(part.repeats for part in parts)
    if kind == "list":
        joined = f"{space},{space}".join(part.text for part in parts)
        return Written(f"[{space}{joined}]", items, repeats)
    joined = f"{space},".join(
        f"{name}{space}:{part.text}" for name, part in zip(names, parts, strict=True)
    )
    repeats = repeats or len({json.loads(name) for name in names}) < len(names)
    return Written(f"{{{space}{joined}}}", items, repeats)


@given(written())
def test_duplicate_keys_are_detected_regardless_of_strings(given: Written) -> None:
    try:
        assert parse_strict(given.text.encode()) == json.loads(given.text)
        found = False
    except RepeatedKey:
        found = True
    assert found is given.repeats


@given(written())
def test_values_are_counted_exactly_regardless_of_strings(given: Written) -> None:
    data = given.text.encode()
    with pytest.raises(TooManyItems):
        parse_strict(data, max_items=given.items - 1)
    try:
        parse_strict(data, max_items=given.items)
    except RepeatedKey:
        assert given.repeats


@given(written())
def test_values_of_a_file_are_counted_exactly(given: Written) -> None:
    assume(given.items > 1)
    data = given.text.encode()
    check_count(data, given.items)
    with pytest.raises(TooManyItems):
        check_count(data, given.items - 1)


@given(written())
def test_keys_of_a_large_file_are_checked_without_encoding_it_again(given: Written) -> None:
    data = given.text.encode() + b" " * LARGE_BYTES
    try:
        check_keys(data, json.loads(given.text))
        found = False
    except RepeatedKey:
        found = True
    assert found is given.repeats


def test_unterminated_quotes_are_searched_once() -> None:
    data = b'{"a": "' + b'\\"' * 3_000_000 + b"\\"
    with pytest.raises(TooManyItems):
        check_count(b"," * 10 + data, 5)


@each_row(
    ("text", "place"),
    [
        ('{"a": 1, "a": 2}', ("a",)),
        ('{"a": {"b": [1, {"c": {}, "c": {}}]}}', ("a", "b", 1, "c")),
        ('{"\\u0061": 1, "a": 2}', ("a",)),
        ('{"a:": "\\u003a", "x": {"a\\u003a": 1, "a:": 1}}', ("x", "a:")),
        ('{"": 1, "": 1}', ("",)),
        ('{"a": [[]], "b": {}, "c": 1, "b": 2, "a": 3}', ("b",)),
    ],
)
def test_a_duplicate_key_is_reported_with_its_path(text: str, place: tuple[str | int, ...]) -> None:
    with pytest.raises(RepeatedKey) as caught:
        parse_strict(text.encode())
    assert caught.value.place == place


BEYOND = ["1" * 309 + "0", "-" + "9" * 4000, "1e309", '{"a": [-1E+999]}', "1" * 300 + "e20",
          "1" * 300 + ".5E+20", "9" * 211 + "e+99", "[-" + "1" * 230 + ".0e80]"]  # fmt: skip


@each_row("text", BEYOND)
def test_a_number_beyond_the_float_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="beyond 1e308"):
        parse_strict(text.encode())


@each_row(
    "text",
    [
        "1" * 300,
        "0." + "1" * 400,
        "1e-400",
        '"1e999"',
        "123E5",
        "1" * 300 + "e-5",
        "1" * 209 + "e99",
    ],
)
def test_other_numbers_are_accepted(text: str) -> None:
    assert parse_strict(text.encode()) == json.loads(text)


def test_a_duplicate_key_among_very_many_is_found_without_its_path() -> None:
    many = ",".join(f'"{number}": {{"a": 1}}' for number in range(10_000))
    text = f'{{{many}, "b": {{"c": 1, "c": 2}}}}'.encode()
    with pytest.raises(RepeatedKey) as of_a_request:
        parse_strict(text, max_items=100_000)
    with pytest.raises(RepeatedKey) as of_a_file:
        parse_strict(text)
    assert (of_a_request.value.place, of_a_file.value.place) == ((), ("b", "c"))


def test_values_from_another_parser_can_be_checked() -> None:
    check_keys(b'{"a": 1, "b": {"a": 1}}', {"a": 1, "b": {"a": 1}})
    with pytest.raises(RepeatedKey):
        check_keys(b'{"a": 1, "a": 1}', {"a": 1})


@each_row("opened", [b"[", b'{"a":'])
def test_depth_is_measured_exactly(opened: bytes) -> None:
    closed = b"]" if opened == b"[" else b"}"
    inner = b"1" if closed == b"}" else b""
    parse_strict(opened * MAX_DEPTH + inner + closed * MAX_DEPTH)
    with pytest.raises(ValueError, match="nested deeper"):
        parse_strict(opened * (MAX_DEPTH + 1) + inner + closed * (MAX_DEPTH + 1))


@each_row("text", ['"', '{"a": "', '["' + '\\"' * 5000, "[" * 5000, '"\\', ""])
def test_invalid_json_with_any_ending_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not valid JSON|JSON values|nested"):
        parse_strict(text.encode(), max_items=10)


@each_row("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "[1e400]"])
def test_nan_and_infinity_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not valid JSON|holds a number beyond 1e308"):
        parse_strict(text.encode())
