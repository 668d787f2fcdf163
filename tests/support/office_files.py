"""Builds .docx files by hand, good and hostile ones."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

DOCUMENT = "word/document.xml"


def docx_of(*paragraphs: str | tuple[int, str], parts: Mapping[str, bytes] | None = None) -> bytes:
    """Return a Word file of paragraphs, or headings (level, text); ``parts`` replace its own."""
    return zip_of({**_parts("".join(map(_paragraph, paragraphs))), **(parts or {})})


def document_xml(body: str, *, prolog: str = "") -> bytes:
    """Return the main part of a Word file, with ``prolog`` before its root."""
    return (
        f'<?xml version="1.0"?>{prolog}<w:document xmlns:w="{_WORD}">'
        f"<w:body>{body}</w:body></w:document>"
    ).encode()


def text_xml(text: str) -> str:
    """Return a paragraph whose text is the XML given."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def zip_of(parts: Mapping[str, bytes]) -> bytes:
    """Return a packed archive of parts."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _paragraph(paragraph: str | tuple[int, str]) -> str:
    if isinstance(paragraph, str):
        return text_xml(paragraph)
    level, text = paragraph
    style = f'<w:pPr><w:pStyle w:val="Heading{level}"/></w:pPr>'
    return f"<w:p>{style}<w:r><w:t>{text}</w:t></w:r></w:p>"


def _parts(body: str) -> dict[str, bytes]:
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}">'
        f'<w:name w:val="heading {level}"/></w:style>'
        for level in (1, 2)
    )
    return {
        "[Content_Types].xml": (
            f'<Types xmlns="{_PACKAGE}/content-types">'
            '<Default Extension="xml" ContentType="application/xml"/></Types>'
        ).encode(),
        "_rels/.rels": _relations([("officeDocument", DOCUMENT)]),
        "word/_rels/document.xml.rels": _relations([("styles", "styles.xml")]),
        "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>'.encode(),
        DOCUMENT: document_xml(body),
    }


def _relations(named: Sequence[tuple[str, str]]) -> bytes:
    relations = "".join(
        f'<Relationship Id="r{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(named)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}</Relationships>'.encode()
