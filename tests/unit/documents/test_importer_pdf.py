"""PDF files as documents (contract §5)."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fpdf import FPDF

from mcp_tools_proxy.documents.document_file import dump_document
from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

SAMPLES = Path(__file__).parents[2] / "data/documents"
"""Files made by hand, without content of others."""

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="scan-7")

Line = str | tuple[int, str]
"""A line of text, or an outline level and a title, which is printed too."""


def pdf_of(pages: Sequence[Sequence[Line]], *, title: str = "") -> FPDF:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    if title:
        pdf.set_title(title)
    for page in pages:
        pdf.add_page()
        for line in page:
            if isinstance(line, tuple):
                pdf.start_section(line[1], level=line[0])
                line = line[1]  # noqa: PLW2901 # the title is printed like any other line
            pdf.multi_cell(0, text=line, new_x="LMARGIN", new_y="NEXT")
    return pdf


def imported(pdf: FPDF) -> Document:
    document = import_pdf(bytes(pdf.output()), ORIGIN)
    dump_document(document)  # valid in a file
    return document


BOOK: Sequence[Sequence[Line]] = [
    ["Cover"],
    [(0, "Intro"), "Hello.", (0, "Setup"), "Install it.", (1, "Linux"), "Use apt."],
    ["More apt.", (1, "Mac"), "Use brew."],
    [(0, "Use"), "Run it."],
]


def text_of(document: Document, section_id: str) -> str:
    section = document.sections[section_id]
    pages = list(document.pages[section.page_start - 1 : section.page_end])
    pages[-1] = pages[-1][: section.end_char]
    pages[0] = pages[0][section.start_char or 0 :]
    return " | ".join(" ".join(page.split()) for page in pages)


def test_each_pdf_page_is_a_page() -> None:
    document = imported(pdf_of(BOOK))
    assert [page.split()[0] for page in document.pages] == ["Cover", "Intro", "More", "Use"]


def test_lines_end_with_a_single_newline() -> None:
    assert imported(pdf_of([["one", "two"]])).pages == ("one\ntwo",)


@each_row(
    ("section_id", "text"),
    [
        ("intro", "Intro Hello."),
        ("setup", "Setup Install it. Linux Use apt. | More apt. Mac Use brew."),
        ("linux", "Linux Use apt. | More apt."),
        ("mac", "Mac Use brew."),
        ("use", "Use Run it."),
    ],
)
def test_outline_entries_become_sections_with_their_text(section_id: str, text: str) -> None:
    assert text_of(imported(pdf_of(BOOK)), section_id) == text


def test_sections_are_in_the_order_of_the_outline() -> None:
    assert list(imported(pdf_of(BOOK)).sections) == ["intro", "setup", "linux", "mac", "use"]


def test_a_numbered_heading_is_found_by_its_title() -> None:
    pdf = pdf_of([["See the Setup first."]])
    pdf.start_section("Setup")
    pdf.multi_cell(0, text="Chapter 2. Setup", new_x="LMARGIN", new_y="NEXT")
    pdf.multi_cell(0, text="Install it.")
    assert text_of(imported(pdf), "setup") == "Chapter 2. Setup Install it."


def test_sections_whose_titles_are_not_in_the_text_share_their_page() -> None:
    pdf = pdf_of([["Text."], ["More."]])
    pdf.start_section("Alpha")
    pdf.start_section("Beta")
    document = imported(pdf)
    assert [text_of(document, name) for name in ("alpha", "beta")] == ["More.", "More."]


def test_a_pdf_without_outline_is_one_section_named_after_it() -> None:
    (section,) = imported(pdf_of([["a"], ["b"]], title="The book")).sections.values()
    assert (section.title, section.page_start, section.page_end) == ("The book", 1, 2)


def test_the_title_comes_from_the_metadata() -> None:
    assert imported(pdf_of([["a"]], title="The\nbook")).title == "The book"


def test_without_metadata_the_title_is_the_file_name() -> None:
    assert imported(pdf_of(BOOK)).title == "scan-7"


@each_row("title", ["untitled", "Microsoft Word - travel.doc", "PowerPoint Presentation"])
def test_the_default_title_of_a_program_is_not_used(title: str) -> None:
    assert imported(pdf_of(BOOK, title=title)).title == "scan-7"


def test_a_word_hyphenated_at_a_line_end_is_joined() -> None:
    assert imported(pdf_of([["the docu-\nment ends"]])).pages == ("the document ends",)


def test_hyphens_at_line_ends_are_kept_in_compounds() -> None:
    data = (SAMPLES / "09-hyphen-at-line-end.pdf").read_bytes()
    assert import_pdf(data, ORIGIN).pages == (
        "The information is state-of-the-art and the non-linear term is self-contained. Call 555-\n"
        "0199 for pages 12-\n15. The range is A-B.",
    )


def test_a_page_without_text_keeps_its_number() -> None:
    document = imported(pdf_of([["a"], [], ["c"]]))
    assert document.pages == ("a", "", "c")
    (found,) = document.warnings
    assert found.code == "pages_without_text"
    assert found.message == "page 2 of 3 has no text and cannot be searched"


def test_progress_is_reported_for_each_page() -> None:
    progress: list[tuple[int, int]] = []
    data = bytes(pdf_of(BOOK).output())
    import_pdf(data, ORIGIN, lambda done, total: progress.append((done, total)))
    assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_pdf_without_text_is_refused() -> None:
    with pytest.raises(ImportFailed) as refused:
        import_pdf(bytes(pdf_of([[], []]).output()), ORIGIN)
    assert "no text" in refused.value.reason


def test_a_pdf_with_a_password_is_refused_with_the_reason() -> None:
    pdf = pdf_of([["secret"]])
    pdf.set_encryption(owner_password="owner", user_password="user")
    with pytest.raises(ImportFailed) as refused:
        import_pdf(bytes(pdf.output()), ORIGIN)
    assert "encrypted" in refused.value.reason


def test_an_encrypted_pdf_with_an_empty_password_is_read() -> None:
    pdf = pdf_of([["text"]])
    pdf.set_encryption(owner_password="owner")
    assert imported(pdf).pages == ("text",)


@each_row("cut", [0, 20, 400])
def test_a_broken_pdf_is_refused(cut: int) -> None:
    with pytest.raises(ImportFailed):
        import_pdf(bytes(pdf_of([["text"]]).output())[:cut], ORIGIN)


def test_a_file_that_is_not_a_pdf_is_refused() -> None:
    with pytest.raises(ImportFailed):
        import_pdf(b"# Markdown\n", ORIGIN)


def test_a_bookmark_with_an_invalid_title_is_skipped() -> None:
    pdf = pdf_of([[(0, "Good"), "text"]])
    data = bytes(pdf.output()).replace(b"/Title (Good)", b"/Title(\xfe\xff\xd8\x00\x00a)")
    document = import_pdf(data, ORIGIN)
    assert [section.title for section in document.sections.values()] == ["scan-7"]
