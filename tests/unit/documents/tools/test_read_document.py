from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.tools.read_document import (
    MAX_SPANS,
    cut_pages,
    page_spans,
    section_spans,
)
from mcp_tools_proxy.domain.document import Section
from mcp_tools_proxy.wire.text import Cut
from tests.support.tables import each_row

PAGES = ("abcdef", "ghijkl", "mnopqr")


@each_row(
    ("page_start", "start_char", "page_end", "end_char", "text"),
    [
        (1, None, 1, None, "abcdef"),
        (1, 2, 1, 4, "cd"),
        (1, 4, 3, 2, "ef\n\nghijkl\n\nmn"),
        (2, 0, 2, 0, ""),
        (2, None, 3, None, "ghijkl\n\nmnopqr"),
    ],
)
def test_a_section_contains_its_own_text(
    page_start: int, start_char: int | None, page_end: int, end_char: int | None, text: str
) -> None:
    section = Section(
        section_id="s",
        title="s",
        page_start=page_start,
        start_char=start_char,
        page_end=page_end,
        end_char=end_char,
    )
    pages = PAGES[page_start - 1 : page_end]
    assert cut_pages(section_spans(section, pages), pages, start_char=0, max_bytes=99).cut == Cut(
        text, None
    )


def test_pages_are_joined_by_a_blank_line() -> None:
    pages = PAGES[1:]
    part = cut_pages(page_spans(2, pages), pages, start_char=0, max_bytes=99)
    assert part.cut.text == "ghijkl\n\nmnopqr"


@given(
    pages=st.lists(st.text("ab\u00e9\u4e2d", max_size=9), min_size=1, max_size=5),
    start_char=st.integers(0, 50),
    max_bytes=st.integers(4, 60),
)
def test_the_spans_of_a_part_contain_exactly_its_text(
    pages: list[str], start_char: int, max_bytes: int
) -> None:
    part = cut_pages(page_spans(1, pages), pages, start_char=start_char, max_bytes=max_bytes)
    text = "".join(pages[page - 1][start:end] for page, start, end in part.spans)
    assert text == part.cut.text.replace("\n", "")


def test_a_text_of_very_many_pages_is_cut_and_can_be_continued() -> None:
    pages = ["x"] * (MAX_SPANS + 1)
    part = cut_pages(page_spans(1, pages), pages, start_char=0, max_bytes=10**6)
    assert (len(part.spans), part.cut.text) == (MAX_SPANS, "x\n\n" * MAX_SPANS)
    rest = cut_pages(
        page_spans(1, pages), pages, start_char=part.cut.next_start_char or 0, max_bytes=10**6
    )
    assert (rest.cut, rest.spans) == (Cut("x", None), [(MAX_SPANS + 1, 0, 1)])
