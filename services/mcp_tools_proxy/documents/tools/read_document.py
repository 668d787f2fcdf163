"""Reading a document: read_doc_pages, read_doc_section and read_doc_metadata."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, NotRequired, Self

from pydantic import Field, model_validator
from pydantic_core import to_json
from typing_extensions import TypedDict

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import Wanted
from mcp_tools_proxy.documents.tools.local_tool import (
    ConflictingArguments,
    Id,
    LocalTool,
    Natural,
    Positive,
    StartChar,
    VersionArguments,
    build_local_tool,
    version_finder,
)
from mcp_tools_proxy.documents.tools.sources import Source, sources_of
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import Result
from mcp_tools_proxy.domain.document import PageSpan, Section
from mcp_tools_proxy.domain.errors import PagesNotFound, PageSpanTooLarge, SectionNotFound
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import Cut, cut_text, estimate_tokens, quote

PAGE_SEPARATOR = "\n\n"
"""Joins pages by a blank line (contract §2)."""

MAX_SPANS = 100
"""Maximum pages in one answer: each has a source of some 150 bytes, more than the text of pages
with a few characters."""


class PagesArguments(VersionArguments):
    """Arguments of read_doc_pages: pages (1-based, inclusive) and offset."""

    page_start: Positive
    page_end: Annotated[Positive, Field(description="Inclusive.")]
    start_char: StartChar = 0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.page_end < self.page_start:
            raise ConflictingArguments("page_end is before page_start", "page_start", "page_end")
        return self


class PagesText(TypedDict):
    """The pages' text, joined by a blank line; the range is clamped to the document."""

    text: str
    tokens: int
    page_start: int
    page_end: int
    doc_id: str
    truncated: bool
    next_start_char: NotRequired[int]
    sources: NotRequired[list[Source]]


def _wanted(arguments: PagesArguments) -> Wanted:
    return Wanted(pages=(arguments.page_start, arguments.page_end))


def pages_tool(
    repository: DocumentRepository, *, max_pages_per_call: int, max_text_bytes: int
) -> LocalTool[PagesArguments, CachedDocument]:
    """Build read_doc_pages (contract §2)."""

    def check_span(arguments: PagesArguments) -> None:
        span = arguments.page_end - arguments.page_start + 1
        if span > max_pages_per_call:
            raise PageSpanTooLarge(
                f"{span} pages were asked for, the limit is {max_pages_per_call}; read them in "
                "several calls",
                details={"pages": span, "max_pages_per_call": max_pages_per_call},
            )

    async def read_pages(
        arguments: PagesArguments, _call: Call, document: CachedDocument
    ) -> Result:
        page_count = document.head.page_count
        if arguments.page_start > page_count:
            raise PagesNotFound(
                f"page_start is {arguments.page_start}, but the document has {page_count} "
                "pages; use a smaller page_start",
                details={"pages": page_count},
            )
        page_end = min(arguments.page_end, page_count)
        pages = document.pages(arguments.page_start, page_end)
        part = cut_pages(
            page_spans(arguments.page_start, pages),
            pages,
            start_char=arguments.start_char,
            max_bytes=max_text_bytes,
        )
        cut = part.cut
        tokens = estimate_tokens(len(cut.text))
        result: PagesText = {
            "text": cut.text,
            "tokens": tokens,
            "page_start": arguments.page_start,
            "page_end": page_end,
            "doc_id": arguments.doc_id,
            "truncated": cut.next_start_char is not None,
            "sources": sources_of(document.head, part.spans),
        }
        if cut.next_start_char is not None:
            result["next_start_char"] = cut.next_start_char
        return Result(value=result, tokens=tokens)

    return build_local_tool(
        name="read_doc_pages",
        description=(
            f"Read consecutive pages of a document, at most {max_pages_per_call} in one call. "
            f"Returns at most {max_text_bytes} bytes of text; if truncated is true, repeat the "
            "call with start_char set to next_start_char."
        ),
        arguments=PagesArguments,
        result=PagesText,
        function=read_pages,
        find_document=version_finder(repository, _wanted),
        check=check_span,
        ignores_unknown_arguments=True,
    )


SHOWN_SECTION_IDS = 50


class SectionArguments(VersionArguments):
    """Arguments of read_doc_section."""

    section_id: Id
    start_char: StartChar = 0


class SectionText(TypedDict):
    """A section's text; pages are 1-based and inclusive."""

    text: str
    tokens: int
    section_id: str
    doc_id: str
    truncated: bool
    next_start_char: NotRequired[int]
    title: str
    page_start: int
    page_end: int
    sources: NotRequired[list[Source]]


def _wanted_section(arguments: SectionArguments) -> Wanted:
    return Wanted(section_id=arguments.section_id)


def section_tool(
    repository: DocumentRepository, *, max_text_bytes: int
) -> LocalTool[SectionArguments, CachedDocument]:
    """Build read_doc_section (contract §2)."""

    async def read_section(
        arguments: SectionArguments, _call: Call, document: CachedDocument
    ) -> Result:
        sections = document.sections or {}
        section = sections.get(arguments.section_id)
        if section is None:
            raise _no_section(arguments, sections)
        pages = document.pages(section.page_start, section.page_end)
        part = cut_pages(
            section_spans(section, pages),
            pages,
            start_char=arguments.start_char,
            max_bytes=max_text_bytes,
        )
        cut = part.cut
        tokens = estimate_tokens(len(cut.text))
        result: SectionText = {
            "text": cut.text,
            "tokens": tokens,
            "section_id": section.section_id,
            "doc_id": arguments.doc_id,
            "truncated": cut.next_start_char is not None,
            "title": section.title,
            "page_start": section.page_start,
            "page_end": section.page_end,
            "sources": sources_of(document.head, part.spans),
        }
        if cut.next_start_char is not None:
            result["next_start_char"] = cut.next_start_char
        return Result(value=result, tokens=tokens)

    return build_local_tool(
        name="read_doc_section",
        description=(
            "Read one section of a document; read_doc_metadata lists the section ids. Returns at "
            f"most {max_text_bytes} bytes of text; if truncated is true, repeat the call with "
            "start_char set to next_start_char."
        ),
        arguments=SectionArguments,
        result=SectionText,
        function=read_section,
        find_document=version_finder(repository, _wanted_section),
        ignores_unknown_arguments=True,
    )


def _no_section(arguments: SectionArguments, sections: Iterable[str]) -> SectionNotFound:
    known = list(sections)
    named = f"document {quote(arguments.doc_id)} has no"
    return SectionNotFound(
        f"{named} section {quote(arguments.section_id)}; read_doc_metadata lists its sections"
        if known
        else f"{named} sections; use read_doc_pages",
        details={"section_ids": known[:SHOWN_SECTION_IDS]},
    )


class MetadataArguments(VersionArguments):
    """Arguments of read_doc_metadata."""

    start_section: Annotated[
        Natural, Field(description="To continue: next_start_section of the previous answer.")
    ] = 0


class SectionEntry(TypedDict):
    """One section; pages are 1-based and inclusive."""

    section_id: str
    title: str
    page_start: int
    page_end: int


class Metadata(TypedDict):
    """Metadata of a document; ``pages`` is the page count."""

    doc_id: str
    title: str
    pages: int
    section_count: int
    sections: list[SectionEntry]
    truncated: bool
    next_start_section: NotRequired[int]
    tags: list[str]
    tenant_id: str
    tokens: int


def metadata_tool(
    repository: DocumentRepository, *, max_text_bytes: int
) -> LocalTool[MetadataArguments, CachedDocument]:
    """Build read_doc_metadata (contract §2)."""

    async def read_metadata(
        arguments: MetadataArguments, _call: Call, document: CachedDocument
    ) -> Result:
        head = document.head
        listed = document.sections or {}
        count = len(listed)
        first = min(arguments.start_section, count)
        sections = _fit_sections(islice(listed.values(), first, None), max_text_bytes)
        end = first + len(sections)
        result: Metadata = {
            "doc_id": arguments.doc_id,
            "title": head.title,
            "pages": head.page_count,
            "section_count": count,
            "sections": sections,
            "truncated": end < count,
            "tags": list(head.tags),
            "tenant_id": head.tenant_id,
            "tokens": 0,
        }
        if end < count:
            result["next_start_section"] = end
        result["tokens"] = estimate_tokens(len(to_json(result)))
        return Result(value=result, tokens=result["tokens"])

    return build_local_tool(
        name="read_doc_metadata",
        description=(
            "Describe a document: title, number of pages, tags, and sections with ids and pages. "
            f"Returns at most {max_text_bytes} bytes of sections; if truncated is true, "
            "repeat the call with start_section set to next_start_section, or search instead."
        ),
        arguments=MetadataArguments,
        result=Metadata,
        function=read_metadata,
        find_document=version_finder(repository, lambda _: Wanted(sections=True)),
        ignores_unknown_arguments=True,
    )


def _fit_sections(sections: Iterable[Section], max_bytes: int) -> list[SectionEntry]:
    """Return the first sections whose JSON list fits in ``max_bytes``, but at least one."""
    entries: list[SectionEntry] = []
    bytes_left = max_bytes - 1  # the opening bracket; each entry has a comma or the closing one
    for section in sections:
        entry: SectionEntry = {
            "section_id": section.section_id,
            "title": section.title,
            "page_start": section.page_start,
            "page_end": section.page_end,
        }
        bytes_left -= len(to_json(entry)) + 1
        if bytes_left < 0 and entries:
            break
        entries.append(entry)
    return entries


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPages:
    """A part of the joined text of pages, and its positions on the pages."""

    cut: Cut
    spans: Sequence[PageSpan]


def section_spans(section: Section, pages: Sequence[str]) -> list[PageSpan]:
    """Return the spans of a section on its ``pages``."""
    return page_spans(section.page_start, pages, section.start_char or 0, section.end_char)


def page_spans(
    first: int, pages: Sequence[str], start_char: int = 0, end_char: int | None = None
) -> list[PageSpan]:
    """Return the spans of pages, numbered from ``first``.

    ``start_char`` counts in the first page, ``end_char`` in the last one, None for its end.
    """
    starts = [start_char] + [0] * (len(pages) - 1)
    ends = [*map(len, pages)]
    if end_char is not None:
        ends[-1] = end_char
    return [*map(PageSpan, range(first, first + len(pages)), starts, ends)]


def cut_pages(
    spans: Sequence[PageSpan], pages: Sequence[str], *, start_char: int, max_bytes: int
) -> CutPages:
    """Return text from ``start_char`` of the joined ``spans``, at most ``max_bytes`` of UTF-8.

    ``pages`` has the page of each span. A text with more than MAX_SPANS spans is cut.
    """
    cut = cut_text(_joined(spans, pages), start_char=start_char, max_bytes=max_bytes)
    end_char = start_char + len(cut.text)
    inside: list[PageSpan] = []
    at = 0
    for page, start, end in spans:
        first = start + max(start_char - at, 0)
        last = min(end, start + end_char - at)
        if len(inside) == MAX_SPANS and first < last:
            cut = Cut(cut.text[: at - start_char], at)
            break
        if first < last:
            inside.append(PageSpan(page, first, last))
        at += end - start + len(PAGE_SEPARATOR)
    return CutPages(cut=cut, spans=inside)


def _joined(spans: Sequence[PageSpan], pages: Sequence[str]) -> Iterator[str]:
    for number, ((_, start, end), text) in enumerate(zip(spans, pages, strict=True)):
        if number:
            yield PAGE_SEPARATOR
        yield text[start:end]
