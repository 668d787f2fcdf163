"""Imports PPTX slide shows: each slide becomes HTML, which is converted to Markdown."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import (
    EMPTY,
    FileFacts,
    Heading,
    ImportFailed,
    ImportOptions,
    build_document,
    one_line,
)
from mcp_tools_proxy.documents.importers.html import html_to_markdown
from mcp_tools_proxy.documents.importers.slide_places import child
from mcp_tools_proxy.documents.importers.slide_shapes import (
    SlidePackage,
    SlideReader,
    letters_in,
    text_of,
)
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.domain.document import Document

_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_POWERPOINT = "{http://schemas.microsoft.com/office/powerpoint/2010/main}"
_DEFAULT_SECTION = re.compile(
    r"(?:default|untitled) section|standardabschnitt|abschnitt ohne titel"
    r"|section (?:par défaut|sans titre)|secci[óo]n (?:predeterminada|sin título)"
    r"|sezione (?:predefinita|senza titolo)",
    re.IGNORECASE,
)
_SIZE = (9_144_000, 6_858_000)


class _Slide(NamedTuple):
    """A slide with text."""

    slide_id: str
    title: str
    page: int


def import_slides(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a slide show: a slide is a page, and a section if it has text.

    Slides are within the sections of the show. Hidden slides are empty pages, so that numbers stay
    those of the slides. Raises ImportFailed.
    """
    package = SlidePackage(data)
    main = next(package.related("", "officeDocument"), "ppt/presentation.xml")
    show = package.parse(main)
    relations = package.relations(main)
    pages: list[str] = []
    shown: list[_Slide] = []
    hidden_chars = 0
    for slide in show.iter("p:sldId"):
        relation = relations.get(slide.get("r:id", ""))
        part = relation.target if relation else ""
        reader = SlideReader(package, part, _size(show), child(show, "p:defaultTextStyle"))
        if reader.root.get("show") in ("0", "false"):
            hidden_chars += letters_in(reader.root)
            pages.append("")
            continue
        title, html = reader.read()
        title = title if any(map(str.isprintable, title.split())) else ""
        heading = f"<h2>{escape(title)}</h2>" if title else ""
        notes = _notes(package, relation.target) if relation and options.with_notes else ""
        converted = html_to_markdown(
            f"{heading}{html}{notes}", with_link_targets=options.with_link_targets
        )
        pages.append(converted.markdown)
        hidden_chars += reader.hidden_chars + converted.hidden_chars
        if converted.markdown.strip():
            name = title or f"Slide {len(pages)}"
            shown.append(_Slide(slide.get("id", ""), name, len(pages)))
    if not shown:
        raise ImportFailed(
            EMPTY if not hidden_chars else "has no visible text: show its hidden text, and save it"
        )
    return build_document(
        options,
        facts=FileFacts(title=_title(package) or shown[0].title),
        pages=tuple(pages),
        headings=list(_headings(shown, _sections(show))),
        text_format="markdown",
        hidden_chars=hidden_chars,
    )


def _sections(show: Element) -> Mapping[str, tuple[int, str]]:
    """Return the number and name of the section of each slide, by the slide's id."""
    return {
        slide.get("id", ""): (number, name)
        for number, section in enumerate(show.iter(f"{_POWERPOINT}section"))
        if (name := own_title(one_line(section.get("name", ""))))
        if not _DEFAULT_SECTION.fullmatch(name)
        for slide in section.iter(f"{_POWERPOINT}sldId")
    }


def _headings(
    slides: Sequence[_Slide], sections: Mapping[str, tuple[int, str]]
) -> Iterator[Heading]:
    last = None
    for slide in slides:
        section = sections.get(slide.slide_id)
        if section is not None and section != last:
            yield Heading(level=1, title=section[1], page=slide.page, char=0)
        last = section
        level = 1 if section is None else 2
        yield Heading(level=level, title=slide.title, page=slide.page, char=0)


def _size(show: Element) -> tuple[float, float]:
    size = child(show, "p:sldSz")
    values = [it for name in ("cx", "cy") if (it := "" if size is None else size.get(name, ""))]
    if len(values) < 2 or not all(it.isdigit() for it in values):
        return _SIZE
    return float(values[0]), float(values[1])


def _notes(package: SlidePackage, slide: str) -> str:
    """Return the speaker's notes and reviewers' comments, marked."""
    parts = []
    for notes in package.related(slide, "notesSlide"):
        for shape in package.parse(notes).iter("p:sp"):
            placeholder = next(shape.iter("p:ph"), None)
            if placeholder is not None and placeholder.get("type") == "body":
                parts.append(_marked("Notes", text_of(shape)))
    for comments in package.related(slide, "comments"):
        for comment in package.parse(comments):
            text = "".join(it.text or "" for it in comment.iter("p:text"))
            parts.append(_marked("Comment", text or text_of(comment)))
    return "".join(parts)


def _marked(mark: str, text: str) -> str:
    lines = [escape(line) for line in text.splitlines() if line.strip()]
    return f"<p>[{mark}: {'<br>'.join(lines)}]</p>" if lines else ""


def _title(package: SlidePackage) -> str:
    found = package.parse("docProps/core.xml").iter(_TITLE)
    title = "".join(it.text or "" for it in found).strip()
    return own_title(title)
