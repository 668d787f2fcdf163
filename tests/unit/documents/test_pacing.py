import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tools_proxy.documents import pacing
from mcp_tools_proxy.documents.pacing import parse_paced
from mcp_tools_proxy.wire.strict_json import RepeatedKey, TooManyItems

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.text('a"\\{}[],:é', max_size=4)
)
VALUES = st.recursive(
    SCALARS,
    lambda it: st.lists(it, max_size=6) | st.dictionaries(st.text("ab", max_size=2), it),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("abcd", max_size=2), VALUES)
EDITS = st.lists(
    st.tuples(
        st.integers(0, 200), st.sampled_from([*'",[]{}: \\', '"a":1,', ",,", ""]), st.integers(0, 2)
    ),
    max_size=2,
)


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> object:
    """Parts of a few bytes, so that short JSON has several parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing, "PART_BYTES", 40)
        patch.setattr(pacing, "PART_ITEMS", 3)
        yield


def outcome(data: bytes, **options: int) -> object:
    try:
        return parse_paced(data, **options)
    except RepeatedKey as error:
        return error.place
    except ValueError as error:
        return type(error)


@given(OBJECTS, st.sampled_from([None, 1]))
def test_valid_json_parsed_in_parts_gives_the_same_value(
    value: dict[str, object], indent: int | None
) -> None:
    data = json.dumps(value, indent=indent).encode()
    assert parse_paced(data, whole_bytes=0) == value


@given(OBJECTS, EDITS)
@example({"a": [1, 2, 3]}, [(12, ",", 0)])
@example({"a": 1, "b": 2, "c": 3}, [(23, ",", 0)])
def test_json_refused_as_a_whole_is_refused_in_parts(
    value: dict[str, object], edits: list[tuple[int, str, int]]
) -> None:
    text = json.dumps(value)
    for at, new, left_out in edits:
        text = text[:at] + new + text[at + left_out :]
    at_once = outcome(text.encode(), whole_bytes=1_000)
    in_parts = outcome(text.encode(), whole_bytes=0)
    if isinstance(at_once, dict | tuple):
        assert in_parts == at_once
    else:  # not an object, or invalid: a repeated key may be found first
        assert in_parts == [] or isinstance(in_parts, type | tuple)


@given(OBJECTS, st.integers(1, 30))
def test_parsing_in_parts_counts_the_same_number_of_values(
    value: dict[str, object], limit: int
) -> None:
    data = json.dumps(value).encode()
    at_once = outcome(data, max_items=limit, whole_bytes=1_000)
    assert (at_once is TooManyItems) is (
        outcome(data, max_items=limit, whole_bytes=0) is TooManyItems
    )


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ('{"a": 0, "b": [{}, {}, {}, {}, {"c": 1, "c": 2}]}', ("b", 4, "c")),
        ('{"a": 0, "b": {"c": [{"d": 1, "d": 2}]}}', ("b", "c", 0, "d")),
        ('{"a": 0, "b": 1, "c": 2, "d": 3, "a": 4}', ("a",)),
        ('{"a": [], "b": 1, "a": []}', ("a",)),
    ],
)
def test_a_repeated_key_is_reported_with_its_position(data: str, place: tuple[object, ...]) -> None:
    with pytest.raises(RepeatedKey) as refused:
        parse_paced(data.encode(), whole_bytes=0)
    assert refused.value.place == place


def test_an_error_names_its_part() -> None:
    with pytest.raises(ValueError, match=r"counted from byte \d+"):
        parse_paced(b'{"a": [1, 2, 3, 4, 5, tru]}', whole_bytes=0)
