"""Document reader pages: outline, text of a page or section, and page images."""

from base64 import b64decode
from collections.abc import Mapping, Sequence

from starlette.responses import Response

from mcp_tools_proxy.console.api_client import READERS
from mcp_tools_proxy.console.page_endpoint import refusal_view
from mcp_tools_proxy.console.page_request import (
    PAGE_HEADERS,
    PageRequest,
    PageResult,
    PageView,
    Routes,
)
from mcp_tools_proxy.console.pages.document_pages import (
    DOCUMENTS_PATH,
    ShownDocument,
    load_document,
    named_document,
    or_list,
)
from mcp_tools_proxy.console.pages.tool_calls import reader_of, run_tool
from mcp_tools_proxy.domain.errors import Forbidden, InvalidRequest
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.api.document_models import DocumentSection

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
"""Media types of page images; HTML and SVG could contain scripts."""


async def show_picture(page: PageRequest) -> PageResult:
    """Send the image of a page. Raises ApiRefused if it does not exist."""
    if page.is_from_elsewhere:
        raise Forbidden("this image was requested from another site; open it in the console")
    key = named_document(page)
    readers = (await page.api.read(READERS, key)).readers
    number = page.query("page")
    arguments = {"doc_id": key["doc_id"], "page": int(number[:9]) if number.isdecimal() else 1}
    run = await run_tool(
        page, "view_doc_page", arguments, reader_of(page, key["tenant_id"], readers)
    )
    (image,) = run.result["content"]
    if image["mimeType"] not in IMAGE_TYPES:
        return refusal_view(
            404, "PAGE_IMAGE_UNAVAILABLE", "the tool did not return an image of the page", {}
        )
    return Response(b64decode(image["data"]), 200, PAGE_HEADERS, image["mimeType"])


PART_CHARS = 8_000
"""Characters of text per console page; pages of documents rarely exceed it."""

OUTLINE_ROWS = 60

PICTURE_VIEWS = ("picture", "drawn")
"""Views of a page besides its text: the form that requests its image, and the image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A range of characters on one page; the end is exclusive."""

    page: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadText:
    """The text to show: heading, position, and queries of the previous and next text."""

    heading: str
    stretches: Sequence[Stretch]
    query: Mapping[str, object]
    previous: Mapping[str, object] | None
    following: Mapping[str, object] | None


async def show_text(page: PageRequest) -> PageResult:
    """Show a page, a section, or the image of a page."""
    document = await load_document(page)
    section_id = page.query("section")
    if section_id:
        reading = _section(document, section_id)
    else:
        reading = _page(document, _number(page, "page", 1, len(document.pages)))
    marked = _marked(page, document, reading)
    texts = [document.pages[it.page - 1][it.start : it.end] for it in reading.stretches]
    text = "\n\n".join(texts)
    parts = max(1, -(-len(text) // PART_CHARS))
    first_part = 1 if marked is None else min(parts, marked[0] // PART_CHARS + 1)
    part = _number(page, "part", first_part, parts)
    begin = (part - 1) * PART_CHARS
    shown_page = reading.stretches[0].page
    view = "" if section_id or page.query("view") not in PICTURE_VIEWS else page.query("view")
    return PageView(
        template="document_read.html",
        context={
            "document": document,
            "reading": reading,
            "pieces": _pieces(text[begin : begin + PART_CHARS], marked, begin),
            "text_part": part,
            "text_parts": parts,
            "page_number": shown_page,
            "section_id": section_id,
            "outline": _outline(page, document, shown_page, section_id),
            "sources": [
                document.citation(it.page, it.start, it.end) for it in reading.stretches[:20]
            ],
            "older_version": _older_version(page, document),
            "view": view,
            "as_picture": bool(view),
            "is_drawn": view == "drawn",
        },
    )


def _page(document: ShownDocument, number: int) -> ReadText:
    last = len(document.pages)
    return ReadText(
        heading=f"Page {number} of {last}",
        stretches=[Stretch(page=number, start=0, end=len(document.pages[number - 1]))],
        query={"page": number},
        previous={"page": number - 1} if number > 1 else None,
        following={"page": number + 1} if number < last else None,
    )


def _section(document: ShownDocument, section_id: str) -> ReadText:
    """Return a section's text. Raises InvalidRequest."""
    places = {it.section_id: place for place, it in enumerate(document.sections)}
    if section_id not in places:
        raise InvalidRequest(
            "the document no longer has this section; choose one from the list of sections"
        )
    place = places[section_id]
    section = document.sections[place]
    first, last = section.page_start, section.page_end
    ids = [*places]
    return ReadText(
        heading=section.title or section_id,
        stretches=[
            Stretch(
                page=number,
                start=section.start_char or 0 if number == first else 0,
                end=_end_of(document, section, number, is_last=number == last),
            )
            for number in range(first, last + 1)
        ],
        query={"section": section_id},
        previous={"section": ids[place - 1]} if place else None,
        following={"section": ids[place + 1]} if place + 1 < len(ids) else None,
    )


def _end_of(
    document: ShownDocument, section: DocumentSection, number: int, *, is_last: bool
) -> int:
    end = section.end_char if is_last else None
    return len(document.pages[number - 1]) if end is None else end


def _number(page: PageRequest, name: str, default: int, last: int) -> int:
    """Return a number of the query limited to 1 … ``last``, or the default."""
    text = page.query(name)
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
    return max(1, min(number, last))


def _marked(
    page: PageRequest, document: ShownDocument, reading: ReadText
) -> tuple[int, int] | None:
    """Return the marked characters in the query, if its version is the current one."""
    start, _, end = page.query("mark").partition("-")
    if "page" not in reading.query or not (start.isdecimal() and end.isdecimal()):
        return None
    return None if _older_version(page, document) else (int(start[:9]), int(end[:9]))


def _older_version(page: PageRequest, document: ShownDocument) -> str | None:
    version = page.query("version")
    return version if version and version != document.version else None


def _pieces(text: str, marked: tuple[int, int] | None, begin: int) -> Sequence[tuple[str, bool]]:
    """Split a text into marked and unmarked pieces."""
    if marked is None:
        return [(text, False)]
    start, end = (min(max(it - begin, 0), len(text)) for it in marked)
    pieces = [(text[:start], False), (text[start:end], True), (text[max(start, end) :], False)]
    return [it for it in pieces if it[0]]


def _section_at(sections: Sequence[DocumentSection], page: int) -> int:
    """Return the index of the first section on a page, otherwise of the last before it."""
    begins = [n for n, it in enumerate(sections) if it.page_start == page]
    before = [n for n, it in enumerate(sections) if it.page_start < page]
    return begins[0] if begins else before[-1] if before else 0


def _outline(
    page: PageRequest, document: ShownDocument, shown_page: int, section_id: str
) -> Mapping[str, object]:
    """Return the sections around the current one, and the rows of adjacent outline pages."""
    sections = document.sections
    here = next((n for n, it in enumerate(sections) if it.section_id == section_id), None)
    if here is None:
        here = _section_at(sections, shown_page)
    around = here // OUTLINE_ROWS * OUTLINE_ROWS + 1
    first = _number(page, "outline", around, max(len(sections), 1)) - 1
    rows = sections[first : first + OUTLINE_ROWS]
    return {
        "rows": rows,
        "current": sections[here].section_id if sections else None,
        "first": first + 1,
        "last": first + len(rows),
        "before": max(1, first + 1 - OUTLINE_ROWS) if first else None,
        "after": first + 1 + OUTLINE_ROWS if first + len(rows) < len(sections) else None,
    }


ROUTES: Routes = {
    f"{DOCUMENTS_PATH}/read": {"GET": or_list(show_text)},
    f"{DOCUMENTS_PATH}/picture": {"GET": show_picture},
}
