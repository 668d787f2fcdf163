import os

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.wire.text import (
    Cut,
    ascii_text,
    cut_text,
    cut_utf8,
    cut_utf8_tail,
    estimate_tokens,
    file_name_text,
    quote,
    utf8_len,
)
from tests.support.tables import each_row

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
limits = st.integers(min_value=4, max_value=300)


@given(texts, limits)
def test_a_cut_is_within_the_limit(text: str, limit: int) -> None:
    assert len(cut_utf8(text, limit).encode()) <= limit


@given(texts, limits)
def test_a_cut_is_the_longest_prefix_that_fits(text: str, limit: int) -> None:
    cut = cut_utf8(text, limit)
    longer = text[: len(cut) + 1]
    assert text.startswith(cut)
    assert cut == text or len(longer.encode()) > limit


@given(texts, limits)
def test_cutting_again_changes_nothing(text: str, limit: int) -> None:
    assert cut_utf8(cut_utf8(text, limit), limit) == cut_utf8(text, limit)


@given(texts, limits)
def test_a_tail_is_the_longest_suffix_that_fits(text: str, limit: int) -> None:
    tail = cut_utf8_tail(text, limit)
    longer = text[len(text) - len(tail) - 1 :] if len(tail) < len(text) else ""
    assert text.endswith(tail)
    assert len(tail.encode()) <= limit
    assert tail == text or len(longer.encode()) > limit


@given(st.lists(texts, max_size=8), limits)
def test_consecutive_reads_return_the_whole_text(parts: list[str], limit: int) -> None:
    read, start = "", 0
    while True:
        cut = cut_text(parts, start_char=start, max_bytes=limit)
        assert len(cut.text.encode()) <= limit
        read += cut.text
        if cut.next_start_char is None:
            break
        assert cut.next_start_char > start
        start = cut.next_start_char
    assert read == "".join(parts)


@given(st.lists(texts, max_size=8), st.integers(min_value=0, max_value=2000), limits)
def test_parts_are_read_as_if_joined(parts: list[str], start: int, limit: int) -> None:
    assert cut_text(parts, start_char=start, max_bytes=limit) == cut_text(
        ["".join(parts)], start_char=start, max_bytes=limit
    )


def test_only_required_parts_are_read() -> None:
    def parts() -> list[str]:
        raise AssertionError("read too far")

    def lazily() -> object:
        yield "12345"
        yield parts()

    assert cut_text(lazily(), start_char=0, max_bytes=4) == Cut("1234", 4)  # type: ignore[arg-type]


@given(texts)
def test_utf8_len_counts_bytes(text: str) -> None:
    assert utf8_len(text) == len(text.encode())


@each_row(("characters", "tokens"), [(0, 0), (3, 0), (4, 1), (2003, 500)])
def test_the_token_count_is_a_quarter_of_the_characters(characters: int, tokens: int) -> None:
    assert estimate_tokens(characters) == tokens


@given(st.text(max_size=300))
def test_a_quoted_string_is_short_and_printable(text: str) -> None:
    shown = quote(text)
    assert shown.isprintable()
    assert len(shown) <= 128 * 10 + 3


def test_quotes_and_newlines_are_escaped() -> None:
    assert quote('a"b\n\u2028') == '"a\\"b\\n\\u2028"'


def test_ascii_text_is_truncated_and_escaped_without_quotes() -> None:
    assert ascii_text("дa\n'b", 4) == "\\u0434a\\n'"


def test_bytes_of_a_file_name_that_are_not_utf_8_are_escaped() -> None:
    assert file_name_text(os.fsdecode("ä.json".encode("latin-1"))) == "\\xe4.json"
    assert file_name_text("ä.json") == "ä.json"
