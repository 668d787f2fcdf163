"""Which text sections and page spans hold."""

import pytest

from mcp_tools_proxy.documents.layout import page_parts, section_parts
from mcp_tools_proxy.domain.document import Section

PAGES = ("abcdef", "ghijkl", "mnopqr")


@pytest.mark.parametrize(
    ("page_start", "start_char", "page_end", "end_char", "text"),
    [
        (1, None, 1, None, "abcdef"),
        (1, 2, 1, 4, "cd"),
        (1, 4, 3, 2, "ef\n\nghijkl\n\nmn"),
        (2, 0, 2, 0, ""),
        (2, None, 3, None, "ghijkl\n\nmnopqr"),
    ],
)
def test_a_section_holds_its_own_text(
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
    assert "".join(section_parts(section, PAGES[page_start - 1 : page_end])) == text


def test_pages_are_joined_by_a_blank_line() -> None:
    assert "".join(page_parts(PAGES[1:])) == "ghijkl\n\nmnopqr"
