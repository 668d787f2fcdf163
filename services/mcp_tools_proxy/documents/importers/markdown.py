"""Imports Markdown (CommonMark with tables)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token

from mcp_tools_proxy.documents.importers.base import (
    NO_FACTS,
    FileFacts,
    Heading,
    ImportFailed,
    ImportOptions,
    build_document,
    clean,
    one_line,
    paginate,
)
from mcp_tools_proxy.documents.importers.front_matter import split_front_matter
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.domain.document import Document, ImportWarning
from mcp_tools_proxy.domain.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Block:
    """A top-level block: its offset in the text; ``heading`` is its level and title, if any."""

    start: int
    heading: tuple[int, str] | None


def import_markdown(data: bytes, options: ImportOptions) -> Document:
    """Build a document from Markdown: headings become sections, pages are at most 8 kB.

    Front matter, which is removed, gives the title, tags, date and language. Headings
    inside quotes, lists or code do not start sections; text before the first heading is outside all
    sections. Raises ImportFailed if ``data`` is empty or cannot be decoded.
    """
    decoded = decode_text(data, options)
    facts, text = split_front_matter(clean(decoded.text))
    return build_from_markdown(text, options, facts=facts, warnings=decoded.warnings)


def build_from_markdown(
    text: str,
    options: ImportOptions,
    *,
    facts: FileFacts = NO_FACTS,
    warnings: Sequence[ImportWarning] = (),
) -> Document:
    """Build a document from Markdown text; without a title, the first heading is used.

    Raises ImportFailed if there is no text.
    """
    if not text.strip():
        raise ImportFailed("is empty")
    blocks = list(_blocks(text))
    pages = paginate(text, _page_edges(blocks))
    headings = _place_headings(blocks, pages)
    if not own_title(facts.title):
        facts = replace(facts, title=headings[0].title if headings else "")
    return build_document(
        options,
        facts=facts,
        pages=pages,
        headings=headings,
        text_format="markdown",
        warnings=warnings,
    )


def _blocks(text: str) -> Iterator[_Block]:
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    # only headings need inline parsing
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    references: dict[str, object] = {}
    tokens = parser.parse(text, references)
    for number, token in enumerate(tokens):
        if token.level == 0 and token.map is not None:
            heading = None
            if token.type == "heading_open":
                heading = int(token.tag[1:]), _plain(tokens[number + 1].content, parser, references)
            yield _Block(starts[token.map[0]], heading)


def _plain(heading: str, parser: MarkdownIt, references: dict[str, object]) -> str:
    parts: list[Token] = []
    parser.inline.parse(heading, parser, references, parts)
    return one_line(
        "".join(
            " " if part.type in {"softbreak", "hardbreak"} else part.content
            for part in parts
            if part.type != "html_inline"
        )
    )


def _page_edges(blocks: Sequence[_Block]) -> list[int]:
    """Return the starts of blocks, except those after a heading, which stay with it."""
    edges: list[int] = []
    after_heading = False
    for block in blocks:
        if not after_heading:
            edges.append(block.start)
        after_heading = block.heading is not None
    return edges


def _place_headings(blocks: Sequence[_Block], pages: Sequence[str]) -> list[Heading]:
    page_starts = [0, *accumulate(len(page) for page in pages)]
    headings: list[Heading] = []
    for block in blocks:
        if block.heading is not None and block.heading[1]:
            level, title = block.heading
            page = bisect_right(page_starts, block.start)
            char = block.start - page_starts[page - 1]
            headings.append(Heading(level=level, title=title, page=page, char=char))
    return headings
