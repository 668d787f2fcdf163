"""Converts HTML to Markdown, and imports web pages (extra formats).

Lexbor (selectolax) parses it as browsers do. Nothing is fetched or run.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.base import (
    NO_FORMATS,
    TOO_DEEP,
    FileFacts,
    ImportFailed,
    ImportOptions,
    clean,
    iso_date,
    language_tag,
    one_line,
)
from mcp_tools_proxy.documents.importers.html_walk import PageContext, PageWalk
from mcp_tools_proxy.documents.importers.markdown import build_from_markdown
from mcp_tools_proxy.documents.importers.text_encoding import DecodedText, decode_text
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.fast_dataclass import dataclass

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_ELEMENTS = 500_000

MAX_DEPTH = 20_000
"""Nested elements; parsing takes the square of their number: 12 s for 100,000."""

_NESTING = re.compile(
    r"<(/?)(?:a|article|b|blockquote|code|details|div|em|font|form|i|main|nav|ol|section|small|"
    r"span|strong|sub|sup|table|u|ul)\b",
    re.IGNORECASE,
)

_HEAD_BYTES = 8192
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_CHARSET = re.compile(
    rb"<meta\b[^>]{0,999}?charset\s*=\s*[\"']?\s*([\w.:-]+)"
    rb"|^\s*<\?xml\b[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_LANG = re.compile(rb"<html\b[^>]{0,999}?\slang\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)

_TITLE_NAMES = (
    "citation_title",
    "dc.title",
    "dcterms.title",
    "og:title",
    "twitter:title",
)
"""Metadata that name a page whose title is missing or a default of a program."""

_MOST_TITLES = 20

_DATE_NAMES = frozenset(
    {
        "article:published_time",
        "citation_publication_date",
        "date",
        "dc.date",
        "dc.date.issued",
        "dcterms.created",
        "dcterms.date",
        "dcterms.issued",
        "pubdate",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedHtml:
    """Markdown of a page, the facts in its head, and the number of hidden letters."""

    markdown: str
    facts: FileFacts
    hidden_chars: int


def import_html(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a web page; headings become sections. Raises ImportFailed."""
    decoded = decode_html(data, options)
    converted = html_to_markdown(decoded.text, with_link_targets=options.with_link_targets)
    return build_from_markdown(
        converted.markdown,
        options,
        facts=converted.facts,
        warnings=decoded.warnings,
        hidden_chars=converted.hidden_chars,
    )


def decode_html(data: bytes, options: ImportOptions, *, declared: str | None = None) -> DecodedText:
    """Decode a page; ``declared`` is an encoding that goes before that in its head."""
    head = _COMMENT.sub(b"", data[:_HEAD_BYTES])
    return decode_text(
        data,
        options,
        declared=declared or _found(_CHARSET, head),
        language=_found(_LANG, head),
    )


def _found(pattern: re.Pattern[bytes], head: bytes) -> str | None:
    match = pattern.search(head)
    return match[match.lastindex or 0].decode("ascii", "replace") if match else None


def html_to_markdown(html: str, *, with_link_targets: bool) -> ConvertedHtml:
    """Convert HTML to Markdown without hidden text. Raises ImportFailed."""
    if html.count("<") - html.count("</") > MAX_ELEMENTS:
        raise ImportFailed(f"has more than {MAX_ELEMENTS} elements: cut it into parts")
    try:
        from selectolax.lexbor import (  # noqa: PLC0415 - an extra
            LexborDocumentOptions,
            LexborHTMLParser,
            SelectolaxError,
        )
    except ImportError as error:
        raise ImportFailed(NO_FORMATS) from error
    if _is_deep(html):
        raise ImportFailed(TOO_DEEP)
    try:
        tree = LexborHTMLParser(
            clean(html), scripting=True, options=LexborDocumentOptions.WO_EVENTS
        )
    except SelectolaxError as error:  # thousands of open tags are repeated in every paragraph
        raise ImportFailed("needs more memory than an import may use: cut it into parts") from error
    walk = PageWalk(PageContext(tree, with_link_targets=with_link_targets))
    if tree.body is not None:
        walk.read(tree.body)
    return ConvertedHtml(
        markdown=walk.text(), facts=_facts(tree), hidden_chars=walk.page.hidden_chars
    )


def _is_deep(html: str) -> bool:
    depth = 0
    for found in _NESTING.finditer(html):
        depth += -1 if found[1] else 1
        if depth > MAX_DEPTH:
            return True
        depth = max(depth, 0)
    return False


def _facts(tree: "LexborHTMLParser") -> FileFacts:
    root = tree.css_first("html")
    language = _attribute(root, "lang") if root is not None else ""
    metadata: dict[str, str] = {}
    for meta in tree.css("meta[content]"):
        name = (_attribute(meta, "name") or _attribute(meta, "property")).lower()
        metadata.setdefault(name, _attribute(meta, "content"))
    dates = (iso_date(text) for name, text in metadata.items() if name in _DATE_NAMES)
    titles = map(one_line, _titles(tree, metadata))
    return FileFacts(
        title=next(filter(own_title, titles), ""),
        date=next(filter(None, dates), None),
        language=language_tag(language),
    )


def _titles(tree: "LexborHTMLParser", metadata: Mapping[str, str]) -> Iterator[str]:
    """Yield the titles of a page, the best first: of browsers, of search engines, of Word."""
    for title in tree.css("title")[:_MOST_TITLES]:
        if not _is_in_picture(title):
            yield title.text()
    yield from (metadata.get(name, "") for name in _TITLE_NAMES)
    for title in tree.css("p.MsoTitle, p.MsoTitleCxSpFirst")[:1]:
        yield title.text()


def _is_in_picture(node: "LexborNode") -> bool:
    above = node.parent
    while above is not None and above.tag != "svg":
        above = above.parent
    return above is not None


def _attribute(node: "LexborNode", name: str) -> str:
    return node.attributes.get(name) or ""
