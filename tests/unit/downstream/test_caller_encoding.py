import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tools_proxy.downstream.caller_values import (
    encode_argument,
    encode_header,
    encode_segment,
    encode_variable,
    encode_within_text,
)
from tests.support.tables import each_row

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
WITHIN_TEXT = (encode_within_text(encode_variable), encode_within_text(encode_argument))
NAMES = ("segment", "header", "variable", "argument", "variable-beside", "argument-beside")
ENCODINGS = (encode_segment, encode_header, encode_variable, encode_argument, *WITHIN_TEXT)
VALUES = st.sampled_from(HOSTILE) | st.text("ab._-%2e/\\\n\0é", max_size=6) | st.text(max_size=6)


@each_row(
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


@pytest.mark.parametrize("encode", ENCODINGS, ids=NAMES)
@given(first=VALUES, second=VALUES)
@example(first="_2e", second=".")
@example(first="%2D", second="-")
@example(first="%2E%2E", second="..")
@example(first="a%2Fb", second="a/b")
@example(first="a%5Cb", second="a\\b")
def test_different_values_have_different_encodings(
    encode: Callable[[str], str], first: str, second: str
) -> None:
    assert (encode(first) == encode(second)) is (first == second)


@given(VALUES)
def test_values_cannot_escape_their_position(value: str) -> None:
    assert re.fullmatch(r"(?!\.)[A-Za-z0-9_.-]*", encode_segment(value))
    assert re.fullmatch(r'[^\x00-\x20\x7f-\U0010ffff,;"\\]*', encode_header(value))
    assert encode_variable(value).isprintable()
    assert not encode_argument(value).startswith(("-", "@"))


def test_encodings_of_hostile_values_differ() -> None:
    for encode in ENCODINGS:
        assert len({encode(value) for value in HOSTILE}) == len(HOSTILE)


@each_row(
    ("value", "encoded"),
    [
        ("acme_west", "acme_west"),
        ("../globex", "..%2Fglobex"),
        ("..\\globex", "..%5Cglobex"),
        ("/etc", "%2Fetc"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "%2E%2E%2E"),
        (".hidden", ".hidden"),
        ("%2e%2e", "%252e%252e"),
        ("a\0b", "a%00b"),
        ("a b", "a b"),
        # letters for every file system: neither separators nor parent folders
        ("\u2024\u2024", "\u2024\u2024"),
        ("\uff0e\uff0e\uff0fglobex", "\uff0e\uff0e\uff0fglobex"),
        ("a\u2215b", "a\u2215b"),
    ],
)
@each_row("encode", WITHIN_TEXT, ids=NAMES[-2:])
def test_a_value_next_to_other_text_is_one_path_segment(
    encode: Callable[[str], str], value: str, encoded: str
) -> None:
    assert encode(value) == encoded


@pytest.mark.parametrize("encode", WITHIN_TEXT, ids=NAMES[-2:])
@given(VALUES)
def test_a_value_next_to_other_text_cannot_escape_its_segment(
    encode: Callable[[str], str], value: str
) -> None:
    encoded = encode(value)
    assert not set(encoded) & {"/", "\\", "\0"}
    assert encoded == "" or encoded.strip(".")
