"""Finds the notes of an HTML page, and the marks that refer to them."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.superscripts import SuperscriptKind, superscript_kind

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_NOTE_MARK = re.compile(
    r"\b(?:foot)?note-?(?:ref|call|link|anchor)\b|\breference\b|\bfnref", re.IGNORECASE
)
_NOTE_LIST = re.compile(r"\b(?:foot|end)?notes?\b", re.IGNORECASE)
_NOTE_HEADING = re.compile(
    r"(?:(?:foot|end)?notes|anmerkungen|fußnoten|notes de bas de page|notas|note"
    r"|примечания|przypisy)\W*",
    re.IGNORECASE,
)
_MAX_NOTES = 999
_INLINE = frozenset({"sup", "span", "small", "font", "b", "strong", "i", "em", "a"})
_LINES = frozenset({"p", "div", "li", "td", "dd", "dt", "aside", "footer", "section"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "p", "b", "strong"})
_MAX_DEPTH = 5


def listed_notes(tree: "LexborHTMLParser") -> set[str]:
    """Return the marks of notes: those raised at the start of a line, and the items of a list."""
    found = {
        node.text()
        for node in tree.css("sup")
        if _starts_line(node)
        and superscript_kind(node.text(), "", text_after(node)) is SuperscriptKind.NOTE
    }
    for notes in tree.css("ol"):
        around = [it.attributes for it in (notes, notes.parent) if it is not None]
        is_named = any(_NOTE_LIST.search(_names_of(it)) for it in around)
        if is_named or _NOTE_HEADING.fullmatch(_heading_before(notes)):
            items = sum(child.tag == "li" for child in notes.iter())
            found.update(map(str, range(1, min(items, _MAX_NOTES) + 1)))
    return found


def _starts_line(node: "LexborNode") -> bool:
    inner: LexborNode | None = node
    for _ in range(_MAX_DEPTH):
        if inner is None or inner.tag not in _INLINE:
            break
        before = _before(inner)
        if before is not None:
            return before.tag == "br"
        inner = inner.parent
    return inner is not None and inner.tag in _LINES


def _heading_before(node: "LexborNode") -> str:
    before = _before(node)
    return before.text().strip() if before is not None and before.tag in _HEADINGS else ""


def _before(node: "LexborNode") -> "LexborNode | None":
    """Return the sibling before an element, without white space."""
    before = node.prev
    while before is not None and before.tag == "-text" and not (before.text_content or "").strip():
        before = before.prev
    return before


def text_after(node: "LexborNode") -> str:
    """Return the start of the text after an element."""
    return (node.next.text_content or "")[:8] if node.next is not None else ""


def is_note_mark(attributes: Mapping[str, str | None]) -> bool:
    """Return whether an element is, or is the link of, the mark of a note."""
    target = attributes.get("href") or ""
    return target.startswith("#") or names_note_mark(attributes)


def names_note_mark(attributes: Mapping[str, str | None]) -> bool:
    """Return whether the names of an element say that it is the mark of a note."""
    return _NOTE_MARK.search(_names_of(attributes)) is not None


def _names_of(attributes: Mapping[str, str | None]) -> str:
    return " ".join(attributes.get(name) or "" for name in _NOTE_NAMES)


_NOTE_NAMES = ("class", "id", "role", "epub:type", "rel")
