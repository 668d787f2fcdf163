"""Word files as documents, including malicious ones (contract §5)."""

from pathlib import Path

import pytest

from mcp_tools_proxy.documents.importers import xml_archive
from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.docx import import_docx
from mcp_tools_proxy.documents.importers.xml_archive import MAX_PARTS, MAX_XML_BYTES
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import (
    DOCUMENT,
    document_xml,
    docx_of,
    picture_xml,
    relations_of,
    text_xml,
    zip_of,
)
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="leave-rules")
ATTRIBUTES = " ".join(f'w:a{number}=""' for number in range(1000))
LAUGHS = "".join(
    f'<!ENTITY l{number} "{f"&l{number - 1};" * 10 if number else "ha"}">' for number in range(12)
)


SAMPLES = Path(__file__).parents[2] / "data/documents"
"""Files made by hand, free to use."""


def imported(data: bytes) -> Document:
    return import_docx(data, ORIGIN)


MAX_TOKENS = 5_000


@pytest.fixture
def few_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limit, to avoid reading half a million elements."""
    monkeypatch.setattr(xml_archive, "MAX_TOKENS", MAX_TOKENS)


def refused(data: bytes) -> str:
    with pytest.raises(ImportFailed) as failed:
        imported(data)
    assert "\n" not in failed.value.reason
    return failed.value.reason


def with_document(xml: bytes) -> bytes:
    return docx_of("text", parts={DOCUMENT: xml})


def test_headings_become_sections_and_the_first_becomes_the_title() -> None:
    document = imported(docx_of((1, "Leave"), "Twenty days.", (2, "Sick"), "Call first."))
    assert document.pages == ("# Leave\n\nTwenty days.\n\n## Sick\n\nCall first.",)
    assert (document.title, list(document.sections)) == ("Leave", ["leave", "sick"])


def test_without_headings_the_title_is_the_file_name() -> None:
    document = imported(docx_of("Twenty days."))
    assert (document.title, document.pages) == ("leave-rules", ("Twenty days.",))


def test_a_table_keeps_its_rows() -> None:
    cells = [f"<w:tc>{text_xml(it)}</w:tc>" for it in ("name", "days", "Ann", "20")]
    rows = [f"<w:tr>{''.join(cells[at : at + 2])}</w:tr>" for at in (0, 2)]
    body = f"<w:tbl>{''.join(rows)}</w:tbl>"
    assert "| Ann | 20 |" in imported(with_document(document_xml(body))).pages[0]


def test_a_file_without_text_is_refused_as_empty() -> None:
    assert refused(docx_of()).startswith("is empty: ")


@each_row(
    "declared",
    [
        f"<!DOCTYPE w [{LAUGHS}]>",
        f'<!DOCTYPE w [<!ENTITY l11 "{"x" * 100_000}">]>',
        '<!DOCTYPE w [<!ENTITY l11 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE w SYSTEM "http://127.0.0.1:1/evil.dtd" [<!ENTITY l11 "x">]>',
        '<!DOCTYPE w [<!ENTITY % p SYSTEM "file:///etc/passwd">%p;<!ENTITY l11 "x">]>',
    ],
    ids=["billion laughs", "quadratic", "a local file", "another host", "a parameter"],
)
@each_row("encoding", ["utf-8", "utf-16"])
def test_xml_with_entity_declarations_is_refused(declared: str, encoding: str) -> None:
    xml = document_xml(text_xml("&l11;" * 10), prolog=declared).decode()
    reason = refused(with_document(xml.encode(encoding)))
    assert reason.startswith("has an XML part with a document type or entities, ")


BOMB = f"<!DOCTYPE w [{LAUGHS}]><w>&l11;</w>".encode()


@each_row("name", ["word/styles.xml", "word/Other.XML", "_rels/.rels"])
def test_every_xml_part_is_checked(name: str) -> None:
    assert "document type" in refused(docx_of("text", parts={name: BOMB}))


@each_row("name", ["word/media/image1.svg", "word/afchunk.htm"])
def test_markup_in_other_parts_is_not_parsed(name: str) -> None:
    assert imported(docx_of("text", parts={name: BOMB})).pages == ("text",)


@each_row("name", ["word/media/image1.svg", "word/document.bin"])
def test_text_is_taken_from_checked_parts_only(name: str) -> None:
    relations = relations_of(("officeDocument", name))
    parts = {name: document_xml(text_xml("unseen")), "_rels/.rels": relations}
    assert "is not a readable .docx file" in refused(docx_of("text", parts=parts))


@each_row("target", ["media/image1.png", "/word/media/image1.png", "NULL", "/NULL"])
def test_the_description_of_a_picture_is_its_text(target: str) -> None:
    picture = b"\x89PNG" + bytes(1_000)
    body = f"{text_xml('Sign here.')}{picture_xml('r7', 'a map')}{picture_xml('r7', 'a plan')}"
    parts = {
        DOCUMENT: document_xml(body),
        "word/_rels/document.xml.rels": relations_of(("image", target), first=7),
        "word/media/image1.png": picture,
    }
    assert imported(docx_of(parts=parts)).pages == ("Sign here.\n\na map\n\na plan",)


def test_a_zip_bomb_is_refused_before_unpacking() -> None:
    bomb = docx_of("text", parts={"word/footnotes.xml": b" " * (MAX_XML_BYTES + 1)})
    assert len(bomb) < 100_000
    assert f"the limits are {MAX_PARTS}," in refused(bomb)


def test_a_part_larger_than_its_declared_size_is_refused() -> None:
    size = 1_000_000
    bomb = docx_of("text", parts={"word/footnotes.xml": b" " * size})
    lying = bomb.replace(size.to_bytes(4, "little"), (1_000).to_bytes(4, "little"))
    assert (
        refused(lying)
        == "is not a readable .docx file: it is damaged, or was cut short; save it again"
    )


def test_too_many_parts_are_refused() -> None:
    parts = {f"word/media/{number}": b"" for number in range(MAX_PARTS)}
    assert "unpacks to" in refused(docx_of("text", parts=parts))


@pytest.mark.parametrize(
    "body",
    [
        text_xml("a") * (MAX_TOKENS // 3),
        "<w:p/>" * MAX_TOKENS,
        f"<w:p {ATTRIBUTES}/>" * (MAX_TOKENS // 1000),
        f"<w:tbl><w:tr><w:tc>{text_xml('a')}</w:tc></w:tr></w:tbl>" * (MAX_TOKENS // 6),
    ],
    ids=["paragraphs", "empty", "attributes", "tables"],
)
@pytest.mark.usefixtures("few_tokens")
def test_a_small_file_that_unpacks_to_many_elements_is_refused(body: str) -> None:
    """A file of 41 kB took minutes: two tenants could block the imports of all others."""
    data = with_document(document_xml(body))
    assert f"has more than {MAX_TOKENS} elements" in refused(data)


@pytest.mark.usefixtures("few_tokens")
def test_elements_of_all_parts_count_towards_the_limit() -> None:
    half = document_xml("<w:p/>" * (MAX_TOKENS // 2))
    parts = {DOCUMENT: half, "word/footnotes.xml": half, "word/comments.xml": half}
    assert f"has more than {MAX_TOKENS} elements" in refused(docx_of("text", parts=parts))


@each_row("prefix", ["w", "other"])
def test_unterminated_fields_are_refused(prefix: str) -> None:
    """Each field was read again for every run after it: 100,000 fields took hours."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    field = f'<{prefix}:fldChar xmlns:{prefix}="{space}" {prefix}:fldCharType="begin"/>'
    body = "<w:p>" + f"<w:r>{field}</w:r>" * 100 + text_xml("a") + "</w:p>"
    assert "fields within each other" in refused(with_document(document_xml(body)))


def test_deeply_nested_parts_become_one_line() -> None:
    depth = 500
    nested = "<w:sdt><w:sdtContent>" * depth + text_xml("x") + "</w:sdtContent></w:sdt>" * depth
    assert "too deep" in refused(with_document(document_xml(nested)))


WHOLE = docx_of((1, "Leave"), "Twenty days.")


@each_row("size", [0, 1, 30, 200, len(WHOLE) // 2, len(WHOLE) - 1])
def test_a_truncated_file_is_refused(size: int) -> None:
    assert (
        refused(WHOLE[:size])
        == "is not a readable .docx file: it is damaged, or was cut short; save it again"
    )


@each_row(
    ("data", "reason"),
    [
        (b"plain text", "is not a readable .docx file"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and more",
            "has a password, or is in an older format: save it as .docx",
        ),
        (zip_of({"xl/workbook.xml": b"<a/>"}), "is not a .docx file"),
        (with_document(b"<w:document"), "is not a readable .docx file"),
        (with_document(b"<other/>"), "is not a readable .docx file"),
    ],
)
def test_a_file_that_is_not_a_word_file_is_refused(data: bytes, reason: str) -> None:
    assert reason in refused(data)


@each_row(
    ("name", "text"),
    [
        (
            "02-integral-loses-all-equations",
            "The area is $A=πr$ here.\n\nThe sum is $\\int_{0}^{1}x dx$ there.",
        ),
        (
            "03-merged-cells",
            "| Region | Year | Sales |\n| --- | --- | --- |\n"
            "| North | 2025 | 10 |\n| North | 2026 | 20 |",
        ),
        ("06-superscript", "Dose 5 x 10^3 units per m^2."),
        ("08-clause-numbers", "## 2.2 Late payment\n\n2.2.1 The party shall act"),
        ("12-header-lost", "[Header: Policy number HR-77, valid until 31 March 2027]"),
        ("13-field-lost", "Total: 4,250 EUR"),
    ],
)
def test_a_sample_has_the_text_that_word_shows(name: str, text: str) -> None:
    document = imported((SAMPLES / f"{name}.docx").read_bytes())
    assert text in document.pages[0]
    assert document.warnings == ()


def test_the_title_is_the_paragraph_in_the_style_title() -> None:
    document = imported((SAMPLES / "07-title.docx").read_bytes())
    assert (document.title, list(document.sections)) == ("Travel policy 2027", ["introduction"])


def test_inserted_documents_are_a_warning_or_refused_if_there_is_nothing_else() -> None:
    inserted = {
        "word/_rels/document.xml.rels": relations_of(("aFChunk", "part.html")),
        "word/part.html": b"<p>Inserted.</p>",
    }
    (warning,) = imported(docx_of("Seen.", parts=inserted)).warnings
    assert (warning.code, warning.message) == (
        "inserted_documents",
        "1 inserted document was left out",
    )
    assert "inserted documents" in refused(docx_of(parts=inserted))
