"""Imports EPUB books: the chapters in reading order, through the importer of web pages."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from html import unescape
from posixpath import dirname, join, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import (
    FileFacts,
    ImportFailed,
    ImportOptions,
    iso_date,
    language_tag,
    one_line,
)
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
_STYLES = re.compile(r"""<link\b[^>]*?\bhref=["']([^"']+\.css)["']""", re.IGNORECASE)
_MAX_STYLE_CHARS = 200_000
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_NAV_LINK = re.compile(
    r"""<a\b[^<>]*?\bhref=["']([^"'<>]*)["'][^<>]*>([^<]*(?:<(?!/a>)[^<]*)*)""", re.IGNORECASE
)
_NCX_ENTRY = re.compile(
    r"""<(?:\w+:)?text\b[^<>]*>([^<]*)|<(?:\w+:)?content\b[^<>]*?\bsrc=["']([^"'<>]*)"""
)
_INNER_LINK = re.compile(r"""\bhref=(["'])(?![a-zA-Z][\w+.-]*:)[^"']*\1""")
"""A link to another chapter: its address means nothing outside the book."""

_TAG = re.compile(r"<[^<>]*>")


@dataclass(slots=True)
class _Book:
    """The parts of a book by name, in reading order, and the titles of its table of contents."""

    facts: FileFacts
    chapters: dict[str, None] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)


def import_epub(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a book; headings of the chapters become sections.

    A chapter without headings has its title in the table of contents. Raises ImportFailed.
    """
    archive = XmlArchive(data, ".epub", xml=("*.opf", "*container.xml", "*encryption.xml"))
    _check_protection(archive)
    book = _book(archive, options)
    texts: list[str] = []
    hidden_chars = 0
    for chapter in book.chapters:
        html = _text(archive, chapter, options)
        page = f"{_style(archive, chapter, html)}{_INNER_LINK.sub('', html)}"
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
        raise ImportFailed("is not a readable .epub file: it has no list of chapters")
    items = {it.get("id", ""): it for it in package.iter("opf:item")}
    book = _Book(
        facts=FileFacts(
            title=own_title(_value(package, "dc:title")),
            language=language_tag(_value(package, "dc:language")),
            date=iso_date(_value(package, "dc:date")),
        )
    )
    for reference in package.iter("opf:itemref"):
        item = items.get(reference.get("idref", ""))
        if item is not None and "html" in item.get("media-type", "html"):
            book.chapters[_resolved(part, item.get("href", ""))] = None
    for item in items.values():
        contents = _resolved(part, item.get("href", ""))
        if "nav" in item.get("properties", "").split():
            links = _NAV_LINK.findall(_text(archive, contents, options))
            _add_titles(book, contents, links)
        elif item.get("media-type") == "application/x-dtbncx+xml":
            _add_titles(book, contents, _ncx_links(_text(archive, contents, options)))
    return book


def _value(package: Element, tag: str) -> str:
    return one_line(next(("".join(it.itertext()) for it in package.iter(tag)), ""))


def _ncx_links(text: str) -> Iterator[tuple[str, str]]:
    title = ""
    for found, target in _NCX_ENTRY.findall(text):
        if target:
            yield target, title
        else:
            title = found


def _add_titles(book: _Book, contents: str, links: Iterable[tuple[str, str]]) -> None:
    for target, title in links:
        part = _resolved(contents, target.partition("#")[0])
        book.titles.setdefault(part, one_line(unescape(_TAG.sub("", title))))


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


def _style(archive: XmlArchive, chapter: str, html: str) -> str:
    """Return the style sheets of a chapter, which can hide text."""
    sheets = (archive.read(_resolved(chapter, it)) for it in _STYLES.findall(html[:10_000]))
    text = "\n".join(sheet.decode("utf-8", "replace") for sheet in sheets)
    return f"<style>{text[:_MAX_STYLE_CHARS].replace('</', '')}</style>" if text else ""
