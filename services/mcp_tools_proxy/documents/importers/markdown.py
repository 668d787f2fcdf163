"""Imports Markdown (CommonMark with tables)."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
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
    hidden_text,
    one_line,
    paginate,
)
from mcp_tools_proxy.documents.importers.front_matter import split_front_matter
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.domain.document import Document, ImportWarning
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_CODE = r"(?<!`)(`+)(?!`)(?:(?!\n[ \t]*\n)[\s\S])+?(?<!`)\1(?!`)"
"""Code within a paragraph."""

_TAIL_CHARS = 1000
"""Characters after the last comment, in which code can end."""

_COMMENT = re.compile(rf"{_CODE}|<!--(?P<hidden>.*?)-->", re.DOTALL)
_DEFINED_COMMENT = re.compile(
    r"^ {0,3}\[[^\[\]\n]*\]:[ \t]*(?:#|<>)[ \t]+(?P<hidden>\(.*\)|\".*\"|'.*')[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
_HIDDEN_START = re.compile(
    rf"{_CODE}"
    r"|<(?P<tag>template\b|\w{1,20}\b(?=[^<>]{0,2000}\s(?:hidden\b|style\s*=\s*[\"'][^\"'<>]*"
    r"(?:display:\s*none|visibility:\s*hidden|opacity:\s*0(?![.\d])|font-size:\s*0(?!\.)))))"
    r"[^<>]*>",
    re.DOTALL | re.IGNORECASE,
)
_ELEMENT_EDGE = re.compile(rf"{_CODE}|<(?P<end>/?)(?P<tag>\w{{1,20}})\b[^<>]*>")
_TAG = re.compile(r"<[^<>]*>")
_LINK = re.compile(
    rf"{_CODE}"
    r"|!?\[(?P<text>(?:[^\[\]\\]|\\.|\[[^\[\]]*\])*)\]"
    r"(?:\(\s*(?:<[^<>\n]*>|(?:[^()\s\\]|\\.|\([^()\s]*\))*)"
    r"(?:\s+(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?\s*\)|\[(?P<name>[^\[\]]*)\])"
)
_DEFINITION = re.compile(r"^ {0,3}\[(?!\^)([^\[\]]+)\]:[ \t]*\S+.*(?:\n|\Z)", re.MULTILINE)
_ANCHOR = re.compile(r"</?a(?:\s[^<>]*)?>", re.IGNORECASE)


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
    visible, hidden = _without_hidden(text)
    if not options.with_link_targets:
        visible = _without_link_targets(visible)
    warnings = (*decoded.warnings, *hidden_text(hidden))
    return build_from_markdown(visible, options, facts=facts, warnings=warnings)


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


def _without_hidden(text: str) -> tuple[str, int]:
    """Return Markdown without comments and hidden HTML, and the number of their letters."""
    letters = 0

    def remove(found: re.Match[str]) -> str:
        nonlocal letters
        if found["hidden"] is None:
            return found[0]
        letters += _letters(found["hidden"])
        return ""

    def remove_all(part: str) -> str:
        nonlocal letters
        # each comment without an end would be searched for it
        last = part.rfind("-->")
        end = last + _TAIL_CHARS if last >= 0 else 0
        part = _COMMENT.sub(remove, part[:end]) + part[end:]
        part, hidden = _without_hidden_elements(part)
        letters += hidden
        return _DEFINED_COMMENT.sub(remove, part)

    is_suspect = "<" in text or "]:" in text
    return (_outside_code(text, remove_all) if is_suspect else text), letters


def _without_hidden_elements(text: str) -> tuple[str, int]:
    """Return Markdown without hidden HTML elements, and the number of their letters."""
    starts = [it.start() for it in _HIDDEN_START.finditer(text) if it["tag"]]
    ends = _ends_of_elements(text) if starts else {}
    parts: list[str] = []
    at = letters = 0
    for start in starts:
        end = ends.get(start)
        if end is not None and start >= at:
            parts.append(text[at:start])
            letters += _letters(text[start:end])
            at = end
    return "".join((*parts, text[at:])), letters


def _ends_of_elements(text: str) -> dict[int, int]:
    """Return the ends of the HTML elements that are closed, by their starts."""
    ends: dict[int, int] = {}
    opened: defaultdict[str, list[int]] = defaultdict(list)
    for found in _ELEMENT_EDGE.finditer(text):
        if found["tag"]:
            starts = opened[found["tag"].lower()]
            if not found["end"]:
                starts.append(found.start())
            elif starts:
                ends[starts.pop()] = found.end()
    return ends


def _letters(html: str) -> int:
    return len("".join(_TAG.sub("", html).split()))


def _without_link_targets(text: str) -> str:
    """Return Markdown with the text of links and the descriptions of pictures only."""
    names = {found[1].lower() for found in _DEFINITION.finditer(text)}

    def keep_text(found: re.Match[str]) -> str:
        if found["text"] is None:
            return found[0]
        name = found["name"]
        if name is not None and (name or found["text"]).lower() not in names:
            return found[0]
        return found["text"]

    def drop(part: str) -> str:
        for _ in range(2):  # a picture can be the text of a link
            part = _LINK.sub(keep_text, part)
        return _ANCHOR.sub("", _DEFINITION.sub("", part))

    return _outside_code(text, drop)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return text with a change of the parts outside blocks of code."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    parts: list[str] = []
    at = 0
    for token in parser.parse(text):
        if token.type in {"fence", "code_block"} and token.map is not None:
            start, end = starts[token.map[0]], min(starts[token.map[1]], len(text))
            parts += [change(text[at:start]), text[start:end]]
            at = end
    return "".join((*parts, change(text[at:])))


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
