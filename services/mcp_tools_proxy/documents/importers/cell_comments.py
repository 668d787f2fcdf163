"""Names of the cells of sheets, and comments on cells: notes and threads."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from posixpath import basename, dirname, join, normpath
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.documents.importers.xml_archive import XmlArchive

COMMENT_PARTS = ("xl/*comment*.xml", "xl/persons/*.xml")

_PREFIXES = {
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "s",
    "http://purl.oclc.org/ooxml/spreadsheetml/main": "s",
    "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments": "t",
    "http://schemas.openxmlformats.org/package/2006/relationships": "p",
}
_REFERENCE = re.compile(rb"([A-Z]{1,3})(\d{1,7})")
_THREAD = "tc="
"""Starts the author of a note that repeats a thread for older programs."""


class CellComment(NamedTuple):
    """A comment on a cell, whose row and column count from 0."""

    row: int
    column: int
    author: str
    text: str

    @property
    def marked_text(self) -> str:
        """The comment on one line, or "" if it is empty."""
        author = one_line(self.author)
        text = one_line(self.text)
        if author:  # programs start a note with its author
            text = text.removeprefix(f"{author}:").lstrip()
        by = f" by {author}" if author else ""
        return f"[Comment on {cell_name(self.row, self.column)}{by}: {text}]" if text else ""


def cell_name(row: int, column: int) -> str:
    """Return the name of a cell, such as ``B2`` for row 1 and column 1."""
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row + 1}"


def cell_place(name: bytes, row: int, column: int) -> tuple[int, int]:
    """Return the row and column of a cell by its name, otherwise those that are given."""
    match = _REFERENCE.fullmatch(name)
    if match is None:
        return row, column
    number = 0
    for letter in match[1]:
        number = number * 26 + letter - ord("A") + 1
    return int(match[2]) - 1, number - 1


def commenters(archive: XmlArchive) -> Mapping[str, str]:
    """Return the names of those who wrote in threads, by their id. Raises ImportFailed."""
    parts = (part for part in archive.names if part.startswith("xl/persons/"))
    people = chain.from_iterable(_root(archive, part) for part in parts)
    return {it.get("id", ""): it.get("displayName", "") for it in people}


def comments_of_sheet(
    archive: XmlArchive, sheet: str, people: Mapping[str, str], read: set[str]
) -> list[CellComment]:
    """Return the comments on the cells of an XLSX sheet, row by row. Raises ImportFailed.

    ``read`` are the parts of earlier sheets: if 800 sheets named one part, it took 45 s.
    """
    folder = dirname(sheet)
    notes: dict[str, list[CellComment]] = {}
    threads: dict[str, list[CellComment]] = {}
    for relation in _root(archive, join(folder, "_rels", f"{basename(sheet)}.rels")):
        kind = relation.get("Type", "").rpartition("/")[2]
        part = normpath(join("/", folder, relation.get("Target", ""))).lstrip("/")
        if part in read:
            continue
        read.add(part)
        if kind == "comments":
            notes[part] = list(_notes(_root(archive, part)))
        elif kind == "threadedComment":
            threads[part] = list(_threads(_root(archive, part), people))
    found = list(chain.from_iterable(threads.values()))
    in_threads = {it[:2] for it in found}
    for note in chain.from_iterable(notes.values()):
        if not note.author.startswith(_THREAD):
            found.append(note)
        elif note[:2] not in in_threads:
            found.append(note._replace(author=""))
    return sorted(found, key=lambda it: it[:2])


def _root(archive: XmlArchive, part: str) -> Element:
    root = archive.parse(part, _PREFIXES)
    return Element("") if root is None else root


def _notes(root: Element) -> Iterator[CellComment]:
    authors = ["".join(it.itertext()) for it in root.iter("s:author")]
    for comment in root.iter("s:comment"):
        author = comment.get("authorId", "")
        is_known = author.isdecimal() and len(author) < 6 and int(author) < len(authors)
        runs = (run for run in comment.iter() if run.tag in ("s:text", "s:r"))
        text = "".join(it.text or "" for run in runs for it in run if it.tag == "s:t")
        yield CellComment(*_place(comment), authors[int(author)] if is_known else "", text)


def _threads(root: Element, people: Mapping[str, str]) -> Iterator[CellComment]:
    for comment in root.iter("t:threadedComment"):
        text = "".join(it.text or "" for it in comment if it.tag == "t:text")
        yield CellComment(*_place(comment), people.get(comment.get("personId", ""), ""), text)


def _place(comment: Element) -> tuple[int, int]:
    return cell_place(comment.get("ref", "").encode(), 0, 0)
