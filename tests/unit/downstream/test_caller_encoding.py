"""A caller's value as one value at its place: no two ids give one, and none escapes its place."""

import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tools_proxy.downstream.callers.encoding import (
    encode_argument,
    encode_header,
    encode_segment,
    encode_variable,
)

HOSTILE = (
    *("../globex", "x/../globex", ".", "..", "a\r\nX-Admin: 1", "a\0b", "${secret:globex}"),
    *(
        "--force",
        "@file",
        "a,b",
        "a;b",
        "a b",
        " a",
        "a ",
        "%2e",
        "_",
        "__",
        "_2e",
        "a.b",
        "x" * 256,
    ),
    *(unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD")),
    *("\ud800", "\u2028", "\x85", "\x7f", "Ж", "İ", "\u202e"),
)
ENCODINGS = (encode_segment, encode_header, encode_variable, encode_argument)
VALUES = st.sampled_from(HOSTILE) | st.text("ab._-%2e/\n\0é", max_size=6) | st.text(max_size=6)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("acme", "acme"),
        ("Acme-1.eu", "Acme-1.eu"),
        ("a_b", "a__b"),
        (".a", "_2ea"),
        ("..", "_2e."),
        ("x/../globex", "x_2f.._2fglobex"),
        ("é", "_c3_a9"),
        ("a b\0", "a_20b_00"),
    ],
)
def test_a_value_is_one_segment_of_a_path(value: str, encoded: str) -> None:
    assert encode_segment(value) == encoded


@pytest.mark.parametrize("encode", ENCODINGS)
@given(first=VALUES, second=VALUES)
@example(first="_2e", second=".")
@example(first="%2D", second="-")
def test_two_values_are_two(encode: Callable[[str], str], first: str, second: str) -> None:
    assert (encode(first) == encode(second)) is (first == second)


@given(VALUES)
def test_no_value_leaves_its_place(value: str) -> None:
    assert re.fullmatch(r"(?!\.)[A-Za-z0-9_.-]*", encode_segment(value))
    assert re.fullmatch(r'[^\x00-\x20\x7f-\U0010ffff,;"\\]*', encode_header(value))
    assert encode_variable(value).isprintable()
    assert not encode_argument(value).startswith(("-", "@"))


def test_hostile_values_are_all_different_everywhere() -> None:
    for encode in ENCODINGS:
        assert len({encode(value) for value in HOSTILE}) == len(HOSTILE)
