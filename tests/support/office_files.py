from collections.abc import Mapping
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

DOCUMENT = "word/document.xml"


def docx_of(*paragraphs: str | tuple[int, str], parts: Mapping[str, bytes] | None = None) -> bytes:
    """Return a Word file of paragraphs, or headings (level, text); ``parts`` replace its own."""
    return zip_of({**_parts("".join(map(_paragraph, paragraphs))), **(parts or {})})


def document_xml(body: str, *, prolog: str = "") -> bytes:
    return (
        f'<?xml version="1.0"?>{prolog}<w:document xmlns:w="{_WORD}">'
        f"<w:body>{body}</w:body></w:document>"
    ).encode()


def text_xml(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def picture_xml(relation: str, description: str) -> str:
    return (
        f'<w:p xmlns:r="{_OFFICE}" xmlns:a="{_DRAWING}/main" xmlns:pic="{_DRAWING}/picture" '
        f'xmlns:wp="{_DRAWING}/wordprocessingDrawing"><w:r><w:drawing><wp:inline>'
        f'<wp:docPr id="1" name="p" descr="{description}"/><a:graphic><a:graphicData><pic:pic>'
        f'<pic:blipFill><a:blip r:embed="{relation}"/></pic:blipFill></pic:pic></a:graphicData>'
        "</a:graphic></wp:inline></w:drawing></w:r></w:p>"
    )


def relations_of(*named: tuple[str, str], first: int = 0) -> bytes:
    """Return relations as a part: the kind and the target of each; ids are r0, r1 …"""
    relations = "".join(
        f'<Relationship Id="r{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(named, start=first)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}</Relationships>'.encode()


def zip_of(parts: Mapping[str, bytes]) -> bytes:
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
        "_rels/.rels": relations_of(("officeDocument", DOCUMENT)),
        "word/_rels/document.xml.rels": relations_of(("styles", "styles.xml")),
        "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>'.encode(),
        DOCUMENT: document_xml(body),
    }
