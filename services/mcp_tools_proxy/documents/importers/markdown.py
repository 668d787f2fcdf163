"""Imports Markdown (CommonMark with tables)."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import unescape
from itertools import accumulate

from markdown_it.token import Token

from mcp_tools_proxy.documents.importers.base import (
    EMPTY,
    NO_FACTS,
    FileFacts,
    Heading,
    ImportFailed,
    ImportOptions,
    build_document,
    check_headings,
    clean,
    one_line,
    paginate,
)
from mcp_tools_proxy.documents.importers.front_matter import split_front_matter
from mcp_tools_proxy.documents.importers.markdown_hidden import without_hidden
from mcp_tools_proxy.documents.importers.markdown_prose import Edit, MarkdownBlocks, MarkdownProse
from mcp_tools_proxy.documents.importers.markdown_writer import script_text
from mcp_tools_proxy.documents.importers.pipe_table import cut_tables
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.domain.document import Document, ImportWarning
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_LINK = re.compile(
    r"!?\[(?P<text>(?:[^\[\]\\]|\\.|\[[^\[\]]*\])*)\]"
    r"(?:\(\s*(?:<[^<>\n]*>|(?:[^()\s\\]|\\.|\([^()\s]*\))*)"
    r"(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*\)|\[(?P<name>[^\[\]]*)\])"
)
_DEFINITION = re.compile(r"^ {0,3}\[(?!\^)([^\[\]]+)\]:[ \t]*\S+.*(?:\n|\Z)", re.MULTILINE)
_ANCHOR = re.compile(r"</?a(?:\s[^<>]*)?>", re.IGNORECASE)

_SCRIPT = re.compile(
    r"\\.|\$\$[^$]*+\$\$|\$(?=\S)[^$\n]*+(?<=\S)\$(?!\d)|<[^<>]*+>|\]\([^()\s]*+\)"
    r"|\b(?:https?|ftp|mailto):\S++"
    r"|(?P<mark>(?<!~)~(?!~)|(?<!\^)\^(?!\^))(?P<inner>(?:[^\s\\^~\[\]`$<>|\0]|\\[ ])++)"
    r"(?P=mark)(?!(?P=mark))",
    re.DOTALL,
)
"""Pandoc's superscripts and subscripts; formulas, tags and addresses are passed over."""

_ATTRIBUTES = re.compile(r"(?<=\S)[ \t]+\{(?:[#.][^{}]*+|-|[\w:-]++=[^{}]*+)\}$")
"""Attributes at the end of a heading, such as its id: {#install .short}."""

_HTML_HEADING = re.compile(
    r"(?:\s|<(?!h[12]\b)[a-z/!][^<>]*>)*+<(h[12])(?:\s[^<>]*)?>(?P<text>.*?)</\1>",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(r"<[^<>]*>")
_START_CHARS = 4_000
"""A page of a program's README starts with a heading and a picture in HTML."""

_BASE = re.compile(r"[A-Za-zΑ-ω)\]}]")


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
    front = split_front_matter(clean(decoded.text))
    text = front.text
    source = MarkdownProse(text)
    hidden = without_hidden(source)
    if not options.with_link_targets:
        _without_link_targets(source)
    if "^" in text or "~" in text:
        source.edit(_scripts(source.prose))
    return build_from_markdown(
        source.text,
        options,
        facts=front.facts,
        warnings=(*decoded.warnings, *front.warnings),
        hidden_chars=hidden,
    )


def build_from_markdown(
    text: str,
    options: ImportOptions,
    *,
    facts: FileFacts = NO_FACTS,
    warnings: Sequence[ImportWarning] = (),
    hidden_chars: int = 0,
) -> Document:
    """Build a document from Markdown text; without a title, its heading is used.

    ``hidden_chars`` is the number of hidden letters that were left out. Raises ImportFailed if
    there is no text.
    """
    if not text.strip():
        raise ImportFailed(EMPTY)
    text = cut_tables(text)
    blocks = _blocks(text)
    pages = paginate(text, _page_edges(blocks))
    headings = _place_headings(blocks, pages)
    if not own_title(facts.title):
        facts = replace(facts, title=_html_heading(text) or _title_among(headings))
    return build_document(
        options,
        facts=facts,
        pages=pages,
        headings=headings,
        text_format="markdown",
        warnings=warnings,
        hidden_chars=hidden_chars,
    )


def _title_among(headings: Sequence[Heading]) -> str:
    """Return the only heading of level 1, otherwise the first heading."""
    tops = [it for it in headings if it.level == 1]
    named = tops if len(tops) == 1 else headings
    return named[0].title if named else ""


def _html_heading(text: str) -> str:
    """Return the heading at the start of a text that is written in HTML."""
    found = _HTML_HEADING.match(text[:_START_CHARS])
    return one_line(unescape(_TAG.sub("", found["text"]))) if found else ""


def _without_link_targets(source: MarkdownProse) -> None:
    """Keep the text of links and the descriptions of pictures only."""
    names = {found[1].lower() for found in _DEFINITION.finditer(source.prose)}

    def marks() -> Iterator[Edit]:
        for found in _LINK.finditer(source.prose):
            name = found["name"]
            if name is None or (name or found["text"]).lower() in names:
                yield found.start(), found.start("text"), ""
                yield found.end("text"), found.end(), ""

    for _ in range(2):  # a picture can be the text of a link
        source.edit(list(marks()))
    for pattern in (_DEFINITION, _ANCHOR):
        source.edit([(*found.span(), "") for found in pattern.finditer(source.prose)])


def _scripts(text: str) -> Iterator[Edit]:
    """Yield the superscripts and subscripts as all importers write them."""
    last = 0
    for found in _SCRIPT.finditer(text):
        if mark := found["mark"]:
            start, end = found.span()
            before, after = text[max(0, start - 40) : start], text[end : end + 3]
            if start == last:  # SO~4~^2-^
                before = before[:-1]
            inner = found["inner"].replace("\\ ", " ")
            if _is_script(mark, inner, before[-1:], after[:1]):
                last = end
                yield start, end, script_text("^" if mark == "^" else "_", inner, before, after)


def _is_script(mark: str, inner: str, before: str, after: str) -> bool:
    """Return whether marks are of a script: ranges (1~3,4~6), struck words, 2^3^4 are not."""
    if after.isdigit() or not (any(map(str.isalnum, inner)) or inner in {"+", "-", "−"}):
        return False
    if mark == "~":
        is_short = len(inner) <= 3 and "," not in inner
        return _BASE.fullmatch(before) is not None and (is_short or not after.isalpha())
    if before.isalnum() or before in {")", "]", "}"}:
        return inner.isdigit() or not after.isalpha()
    return inner.isdigit() and after.isupper() and not before.strip()


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    source = MarkdownBlocks(text)
    headings = 0

    def add(tokens: list[Token]) -> None:
        nonlocal headings
        heading = None
        if tokens[0].type == "heading_open":
            headings += 1
            check_headings(headings)
            heading = int(tokens[0].tag[1:]), tokens[1].content
        blocks.append(_Block(source.span(tokens[0])[0], heading))

    source.read(add)
    return [
        block if block.heading is None else replace(block, heading=_shown(block.heading, source))
        for block in blocks
    ]


def _shown(heading: tuple[int, str], source: MarkdownBlocks) -> tuple[int, str]:
    """Return a heading with its text, or with the descriptions of its pictures if it has none."""
    level, text = heading
    text = _ATTRIBUTES.sub("", text)
    parts: list[Token] = []
    source.parser.inline.parse(text, source.parser, source.references, parts)
    shown = [
        " " if part.type in {"softbreak", "hardbreak"} else part.content
        for part in parts
        if part.type not in {"html_inline", "image"}
    ]
    if not any(map(str.isalnum, "".join(shown))):
        shown = [part.content for part in parts if part.type != "html_inline"]
    return level, one_line("".join(shown))


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
