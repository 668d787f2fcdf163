"""Builds PPTX files of slides, whose shapes are given as XML."""

from collections.abc import Mapping, Sequence

from tests.support.office_files import relations_of, zip_of

_SPACES = " ".join(
    f'xmlns:{prefix}="http://schemas.openxmlformats.org/{name}"'
    for prefix, name in {
        "p": "presentationml/2006/main",
        "a": "drawingml/2006/main",
        "r": "officeDocument/2006/relationships",
        "c": "drawingml/2006/chart",
    }.items()
)


def shape_xml(
    *paragraphs: str,
    top: int = 0,
    left: int = 0,
    kind: str = "",
    more: str = "",
    hidden: bool = False,
) -> str:
    """Return a shape of paragraphs (``paragraph_xml``), 1000 wide and 100 high.

    ``kind`` is that of a placeholder, ``more`` XML of its fill.
    """
    placeholder = f'<p:ph type="{kind}" idx="1"/>' if kind else ""
    mark = 'hidden="1"' if hidden else ""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="x" {mark}/><p:cNvSpPr/>'
        f"<p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:spPr><a:xfrm>"
        f'<a:off x="{left}" y="{top}"/><a:ext cx="1000" cy="100"/></a:xfrm>{more}</p:spPr>'
        f"<p:txBody>{''.join(paragraphs)}</p:txBody></p:sp>"
    )


def paragraph_xml(text: str, *, properties: str = "", run: str = "") -> str:
    """Return a paragraph; ``properties`` are its own, ``run`` those of its text."""
    return f"<a:p>{properties}<a:r>{run}<a:t>{text}</a:t></a:r></a:p>"


def pptx_of(
    *slides: str,
    hidden: Sequence[int] = (),
    related: Mapping[int, Sequence[tuple[str, str]]] | None = None,
    parts: Mapping[str, bytes] | None = None,
    sections: Sequence[tuple[str, Sequence[int]]] = (),
) -> bytes:
    """Return a slide show, 10,000 wide and 5,000 high, of the shapes of each slide.

    ``sections`` are names and the numbers of their slides.

    ``hidden`` are numbers of slides, ``related`` relations of slides (kind and target).
    """
    numbers = range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{255 + it}" r:id="r{it}"/>' for it in numbers)
    return zip_of(
        {
            "[Content_Types].xml": b"<Types/>",
            "_rels/.rels": relations_of(("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": (
                f"<p:presentation {_SPACES}><p:sldIdLst>{listed}</p:sldIdLst>"
                f'<p:sldSz cx="10000" cy="5000"/>{_section_list(sections)}</p:presentation>'
            ).encode(),
            "ppt/_rels/presentation.xml.rels": relations_of(
                *(("slide", f"slides/slide{it}.xml") for it in numbers), first=1
            ),
            **{
                f"ppt/slides/slide{it}.xml": part_xml(
                    "p:sld",
                    f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>",
                    'show="0"' if it in hidden else "",
                )
                for it, shapes in zip(numbers, slides, strict=True)
            },
            **{
                f"ppt/slides/_rels/slide{it}.xml.rels": relations_of(*found)
                for it, found in (related or {}).items()
            },
            **(parts or {}),
        }
    )


def _section_list(sections: Sequence[tuple[str, Sequence[int]]]) -> str:
    listed = "".join(
        f'<p14:section name="{name}" id="{{{at}}}"><p14:sldIdLst>'
        + "".join(f'<p14:sldId id="{255 + it}"/>' for it in slides)
        + "</p14:sldIdLst></p14:section>"
        for at, (name, slides) in enumerate(sections)
    )
    space = "http://schemas.microsoft.com/office/powerpoint/2010/main"
    return (
        '<p:extLst><p:ext uri="{521415D9-36F7-43E2-AB2F-B90AF26B5E84}">'
        f'<p14:sectionLst xmlns:p14="{space}">{listed}</p14:sectionLst></p:ext></p:extLst>'
    )


def part_xml(tag: str, content: str, attributes: str = "") -> bytes:
    """Return a part whose root has the given tag and content."""
    return f"<{tag} {_SPACES} {attributes}>{content}</{tag}>".encode()
