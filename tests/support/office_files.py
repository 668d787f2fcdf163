from collections.abc import Mapping
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

DOCUMENT = "word/document.xml"
_PLACES = {"core": "docProps/core.xml"}


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


def word_file(body: str, **parts: str) -> bytes:
    """Return a Word file with the given body; ``parts`` are the contents of parts by name.

    Parts such as ``footnotes``, ``numbering``, ``styles`` and ``header1`` can be referred to by
    their name; ``core`` are the properties. Prefixes are declared.
    """
    names = [
        f'xmlns:{prefix}="{space}"'
        for prefix, space in {
            "w": _WORD,
            "r": _OFFICE,
            "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
            "wp": f"{_DRAWING}/wordprocessingDrawing",
            "w14": "http://schemas.microsoft.com/office/word/2010/wordml",
            "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
            "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
            "v": "urn:schemas-microsoft-com:vml",
            "o": "urn:schemas-microsoft-com:office:office",
        }.items()
    ]
    kinds = {name: name.rstrip("123456789") for name in parts}
    relations = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/{kind}" Target="{name}.xml"/>'
        for name, kind in kinds.items()
    )
    tags = {"header": "hdr", "footer": "ftr"}
    contents = {
        _PLACES.get(
            name, f"word/{name}.xml"
        ): f"<w:{tag} {' '.join(names)}>{content}</w:{tag}>".encode()
        for name, content in {"document": f"<w:body>{body}</w:body>", **parts}.items()
        for tag in [tags.get(name.rstrip("123456789"), name.rstrip("123456789"))]
    }
    links = (
        f'<Relationship Id="link" Type="{_OFFICE}/hyperlink" Target="https://example.com/a" '
        'TargetMode="External"/>'
    )
    return zip_of(
        {
            "_rels/.rels": relations_of(("officeDocument", DOCUMENT)),
            "word/_rels/document.xml.rels": (
                f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}{links}'
                "</Relationships>"
            ).encode(),
            **contents,
        }
    )


def run_xml(text: str, properties: str = "") -> str:
    """Return a run of a paragraph; ``properties`` are those of ``w:rPr``."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph_xml(*content: str, properties: str = "") -> str:
    """Return a paragraph of runs or texts; ``properties`` are those of ``w:pPr``."""
    runs = "".join(it if it.startswith("<") else run_xml(it) for it in content)
    return f"<w:p><w:pPr>{properties}</w:pPr>{runs}</w:p>"
