"""Imports EPUB books: the chapters in reading order, through the importer of web pages."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from html import unescape
from posixpath import dirname, join, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import (
    FileFacts,
    ImportFailed,
    ImportOptions,
    hidden_letters,
    iso_date,
    language_tag,
    one_line,
)
from mcp_tools_proxy.documents.importers.front_matter import MAX_TAG_CHARS, MAX_TAGS
from mcp_tools_proxy.documents.importers.html import html_to_markdown
from mcp_tools_proxy.documents.importers.markdown import build_from_markdown
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.documents.importers.titles import own_title
from mcp_tools_proxy.documents.importers.xml_archive import XmlArchive
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_PREFIXES = {
    "urn:oasis:names:tc:opendocument:xmlns:container": "c",
    "http://www.idpf.org/2007/opf": "opf",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://www.w3.org/2001/04/xmlenc#": "enc",
}
_FONT_ALGORITHMS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_CHARSET = re.compile(rb"""^\s*<\?xml[^>]*\bencoding=["']([\w-]+)""")
_STYLES = re.compile(r"""<link\b[^>]*?\bhref=["']([^"':]+)["'][^>]*>""", re.IGNORECASE)
_IS_OTHER_STYLE = re.compile(r"""(?!.*\brel=["'][^"']*\bstylesheet\b)|.*\balternate\b""", re.DOTALL)
_MEDIA = re.compile(r"""\bmedia=["']([^"'<>]*)["']""")
_IMPORT = re.compile(r"""@import\s*(?:url\(\s*)?["']?([^"')\s;:]+)["']?[^;]*;?""", re.IGNORECASE)
_MAX_STYLE_CHARS = 200_000
_MAX_STYLES = 20
_HEAD_CHARS = 10_000
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_NAV_LINK = re.compile(
    r"""<a\b[^<>]*?\bhref=["']([^"'<>]*)["'][^<>]*>([^<]*(?:<(?!/a>)[^<]*)*)""", re.IGNORECASE
)
_NCX_ENTRY = re.compile(
    r"""<(?:\w+:)?text\b[^<>]*>([^<]*)|<(?:\w+:)?content\b[^<>]*?\bsrc=["']([^"'<>]*)"""
)
_INNER_LINK = re.compile(r"""\bhref=(["'])(?![a-zA-Z][\w+.-]*:)[^"']*\1""")
"""A link to another chapter: its address means nothing outside the book."""

_LINK_TAG = re.compile(r"<a\b[^<>]*>", re.IGNORECASE)
_TOC_LINK = re.compile(r"""\bepub:type=["'](?:[\w-]+ )*toc\b""")
_HREF = re.compile(r"""\bhref=["']([^"'<>]*)["']""")
_TAG_AND_TEXT = re.compile(r"<(/?)(\w+)[^<>]*?(/?)>([^<]*)")
_LINKS = frozenset({"a", "h1", "h2", "h3", "h4", "h5", "h6"})
_TAG = re.compile(r"<[^<>]*>")
_HEADING_TEXT = re.compile(r"<h[1-6]\b[^<>]*>[^<]*", re.IGNORECASE)


@dataclass(slots=True)
class _Book:
    """The parts of a book by name, in reading order, and the titles of its table of contents.

    ``contents`` are the parts that the book names as its tables of contents.
    """

    facts: FileFacts
    chapters: Sequence[str] = ()
    contents: set[str] = field(default_factory=set)
    titles: dict[str, str] = field(default_factory=dict)


def import_epub(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a book; headings of the chapters become sections.

    A chapter without headings has its title in the table of contents, which itself is left out.
    Chapters outside the reading order, such as answers, which reading systems open by links only,
    follow the others and do not interrupt them. Raises ImportFailed.
    """
    archive = XmlArchive(data, ".epub", xml=("*.opf", "*container.xml", "*encryption.xml"))
    _check_protection(archive)
    book = _book(archive, options)
    texts: list[str] = []
    hidden_chars = 0
    for chapter in book.chapters:
        html = _text(archive, chapter, options)
        is_named = chapter in book.contents and _is_navigation(html)
        if is_named or _repeats_contents(book, chapter, html):
            continue
        page = _INNER_LINK.sub("", _with_styles(archive, chapter, html))
        converted = html_to_markdown(page, with_link_targets=options.with_link_targets)
        hidden_chars += converted.hidden_chars
        text = converted.markdown.strip()
        title = book.titles.get(chapter, "")
        if text and title and not _HEADING.search(text):
            text = f"# {title}\n\n{text}"
        texts.append(text)
    return build_from_markdown(
        "\n\n".join(filter(None, texts)),
        options,
        facts=book.facts,
        hidden_chars=hidden_chars,
    )


def _check_protection(archive: XmlArchive) -> None:
    root = archive.parse("META-INF/encryption.xml", _PREFIXES)
    algorithms = () if root is None else root.iter("enc:EncryptionMethod")
    if any(it.get("Algorithm") not in _FONT_ALGORITHMS for it in algorithms):
        raise ImportFailed("is protected against copying (DRM): use a copy without protection")


def _book(archive: XmlArchive, options: ImportOptions) -> _Book:
    container = archive.parse("META-INF/container.xml", _PREFIXES)
    roots = () if container is None else container.iter("c:rootfile")
    part = next((it.get("full-path", "") for it in roots), "")
    package = archive.parse(part, _PREFIXES)
    if package is None:
        raise ImportFailed(
            "is not a readable .epub file: it has no list of chapters; convert it again"
        )
    items = {it.get("id", ""): it for it in package.iter("opf:item")}
    book = _Book(
        facts=FileFacts(
            title=own_title(_value(package, "dc:title")),
            language=language_tag(_value(package, "dc:language")),
            date=iso_date(_value(package, "dc:date")),
            tags=_tags(package),
        )
    )
    book.chapters = _chapters(part, package, items)
    book.contents.update(
        _part(part, it.get("href", ""))
        for it in package.iter("opf:reference")
        if it.get("type") == "toc"
    )
    for item in items.values():
        contents = _resolved(part, item.get("href", ""))
        if "nav" in item.get("properties", "").split():
            text = _text(archive, contents, options)
            book.contents.add(contents)
            book.contents.update(_part(contents, it) for it in _landmarks(text))
            _add_titles(book, contents, _NAV_LINK.findall(text))
        elif item.get("media-type") == "application/x-dtbncx+xml":
            _add_titles(book, contents, _ncx_links(_text(archive, contents, options)))
    return book


def _values(package: Element, tag: str) -> Iterator[str]:
    return ("".join(it.itertext()) for it in package.iter(tag))


def _value(package: Element, tag: str) -> str:
    return one_line(next(_values(package, tag), ""))


def _tags(package: Element) -> tuple[str, ...]:
    tags = (one_line(it) for text in _values(package, "dc:subject") for it in text.split(";"))
    return tuple(dict.fromkeys(it for it in tags if 0 < len(it) <= MAX_TAG_CHARS))[:MAX_TAGS]


def _chapters(part: str, package: Element, items: Mapping[str, Element]) -> list[str]:
    """Return the chapters in reading order, then those that are not part of it, each once."""
    found: dict[str, bool] = {}
    for reference in package.iter("opf:itemref"):
        item = items.get(reference.get("idref", ""))
        if item is not None and "html" in item.get("media-type", "html"):
            is_linear = reference.get("linear") != "no"
            found.setdefault(_part(part, item.get("href", "")), is_linear)
    return sorted(found, key=lambda it: not found[it])


def _is_navigation(html: str) -> bool:
    """Return whether links and headings are most of a page's text.

    A chapter can contain a table of contents. A link that does not end has no text.
    """
    navigation = others = 0
    is_nav, pending = False, None
    for end, name, is_empty, text in _TAG_AND_TEXT.findall(html[max(html.find("<body"), 0) :]):
        letters = hidden_letters([text])
        if name == "nav":
            is_nav = not end
        elif name in _LINKS and not is_empty:
            navigation += (pending or 0) if end else 0
            others += 0 if end else (pending or 0)
            pending = None if end else 0
        if is_nav:
            navigation += letters
        elif pending is None:
            others += letters
        else:
            pending += letters
    return navigation > others + (pending or 0)


def _repeats_contents(book: _Book, chapter: str, html: str) -> bool:
    """Return whether a page has only a heading, and links to chapters by their titles."""
    body = html[max(html.find("<body"), 0) :]
    found: set[str] = set()
    for target, text in _NAV_LINK.findall(body):
        part = _part(chapter, target)
        if book.titles.get(part) != one_line(unescape(_TAG.sub("", text))):
            return False
        found.add(part)
    rest = _TAG.sub("", _HEADING_TEXT.sub("", _NAV_LINK.sub("", body)))
    return len(found) > 1 and 2 * len(found) >= len(book.titles) and not hidden_letters([rest])


def _landmarks(text: str) -> Iterator[str]:
    """Yield the addresses of the tables of contents that a navigation page names."""
    for link in _LINK_TAG.findall(text):
        if _TOC_LINK.search(link):
            yield from _HREF.findall(link)


def _ncx_links(text: str) -> Iterator[tuple[str, str]]:
    title = ""
    for found, target in _NCX_ENTRY.findall(text):
        if target:
            yield target, title
        else:
            title = found


def _add_titles(book: _Book, contents: str, links: Iterable[tuple[str, str]]) -> None:
    for target, title in links:
        part = _part(contents, target)
        book.titles.setdefault(part, one_line(unescape(_TAG.sub("", title))))


def _part(part: str, target: str) -> str:
    """Return the part that an address in another part points to, without its fragment."""
    return _resolved(part, target.partition("#")[0])


def _resolved(part: str, target: str) -> str:
    return normpath(join(dirname(part), unquote(target)))


def _text(archive: XmlArchive, part: str, options: ImportOptions) -> str:
    content = archive.read(part)
    declared = _CHARSET.match(content[:200])
    return decode_text(
        content,
        replace(options, encoding=None),
        declared=declared[1].decode("ascii") if declared else "utf-8",
    ).text


def _with_styles(archive: XmlArchive, chapter: str, html: str) -> str:
    """Return a chapter with its style sheets, which can hide text, in place of their links."""
    read: set[str] = set()

    def style(link: re.Match[str]) -> str:
        if _IS_OTHER_STYLE.match(link[0].lower()):
            return link[0]
        text = _sheet(archive, _resolved(chapter, unescape(link[1])), read)
        media = _MEDIA.search(link[0])
        return f'<style media="{media[1] if media else ""}">{text.replace("</", "")}</style>'

    return _STYLES.sub(style, html[:_HEAD_CHARS]) + html[_HEAD_CHARS:]


def _sheet(archive: XmlArchive, part: str, read: set[str]) -> str:
    """Return a style sheet with those that it imports, each once in a chapter."""
    if part in read or len(read) >= _MAX_STYLES:
        return ""
    read.add(part)
    text = archive.read(part).decode("utf-8", "replace")[:_MAX_STYLE_CHARS]
    return _IMPORT.sub(lambda it: _sheet(archive, _resolved(part, it[1]), read), text)
