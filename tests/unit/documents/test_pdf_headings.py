"""Sections of PDFs without bookmarks (contract §5)."""

from collections.abc import Sequence

from fpdf import FPDF

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from mcp_tools_proxy.domain.document import Document

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="scan-7")

TEXT = "This paragraph has a few sentences that fill the page. It is long enough to be text. " * 4


def book_of(
    titles: Sequence[str], *, size: float = 15, style: str = "B", per_page: int = 2
) -> Document:
    """Import a book without bookmarks: titles with text below, under a running title."""
    pdf = FPDF()
    for number, title in enumerate(titles):
        if number % per_page == 0:
            pdf.add_page()
            pdf.set_font("helvetica", style="B", size=11)
            pdf.text(10, 8, f"HANDBOOK OF THE HOUSE {number}")
        pdf.set_font("helvetica", style=style, size=size)
        pdf.ln(6)
        pdf.multi_cell(0, text=title, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(2)
        pdf.set_font("helvetica", size=10)
        pdf.multi_cell(0, text=TEXT, new_x="LMARGIN", new_y="NEXT")
    return import_pdf(bytes(pdf.output()), ORIGIN)


def titles_of(document: Document) -> list[str]:
    return [section.title for section in document.sections.values()]


def test_numbered_titles_are_sections() -> None:
    titles = ["1 Purpose", "1.1 Scope", "1.2 Terms", "2 Rules", "2.1 Leave", "3 Contact"]
    document = book_of(titles)
    assert titles_of(document) == titles
    purpose = document.sections["1-purpose"]
    assert (purpose.page_start, purpose.page_end) == (1, 2)


def test_numbered_titles_with_equal_words_are_sections() -> None:
    titles = ["1 Purpose", "1.1 Details", "2 Rules", "2.1 Details", "3 Contact", "3.1 Details"]
    assert titles_of(book_of(titles)) == titles


def test_titles_of_one_style_are_sections() -> None:
    titles = ["Purpose", "Scope of the rules", "Leave", "Travel", "Contact", "Changes"]
    assert titles_of(book_of(titles)) == titles


def test_a_title_of_two_lines_is_one_section() -> None:
    long = (
        "3 A title that is so long that it needs two lines because nobody has made it any shorter"
    )
    assert titles_of(book_of(["1 Purpose", "2 Scope", long, "4 Rules"])) == [
        "1 Purpose",
        "2 Scope",
        long,
        "4 Rules",
    ]


def test_uncertain_titles_are_no_sections() -> None:
    assert titles_of(book_of(["Purpose", "Scope"])) == ["scan-7"]
    assert titles_of(book_of(["7 Purpose", "2 Scope", "9 Rules"], size=10, style="")) == ["scan-7"]
    assert titles_of(book_of(["Note"] * 6)) == ["scan-7"]


def test_bookmarks_are_preferred() -> None:
    pdf = FPDF()
    for number in range(4):
        pdf.add_page()
        pdf.set_font("helvetica", style="B", size=16)
        if number == 1:
            pdf.start_section("The only bookmark")
        pdf.multi_cell(0, text=f"{number + 1} Title", new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("helvetica", size=10)
        pdf.multi_cell(0, text=TEXT)
    assert titles_of(import_pdf(bytes(pdf.output()), ORIGIN)) == ["The only bookmark"]
