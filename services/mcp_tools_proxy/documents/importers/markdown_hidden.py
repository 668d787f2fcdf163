"""Leaves out text of Markdown that readers cannot see: comments, and HTML by the rules of pages."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import TYPE_CHECKING, NamedTuple

from mcp_tools_proxy.documents.importers.base import hidden_letters
from mcp_tools_proxy.documents.importers.html_styles import (
    HIDDEN_ELEMENTS,
    NOT_TEXT,
    Appearance,
    StyleSheet,
    appearance,
    parse_declarations,
)
from mcp_tools_proxy.documents.importers.markdown_prose import MarkdownProse

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z][\w:-]*+)"
    r"(?P<attributes>(?:[\s/]++|[^\s/<>=\"']++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s<>\"']*+))*+)>"
)
_ATTRIBUTE = re.compile(r"([^\s/=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"']*+)))?")
_MOST_BACKSLASHES = 100
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source"}
    | {"track", "wbr"}
)
_COMMENT_START = re.compile(r"<!--|<[?!](?P<instruction>[^<>]*+)>")
_LINE = r"\n(?![ \t]*\n)"
_DEFINED_COMMENT = re.compile(
    r"^ {0,3}\[[^\[\]\n]*\]:[ \t]*(?:#|<>)(?:[ \t]+|[ \t]*\n[ \t]*)"
    rf"(?P<hidden>\(.*\)|\".*\"|'.*'|\((?:[^()\n]|{_LINE})*\)|\"(?:[^\"\n]|{_LINE})*\""
    rf"|'(?:[^'\n]|{_LINE})*')[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)


class _Element(NamedTuple):
    """An open element: its tag, the appearance around it, and the visible parts before it."""

    number: int
    around: Appearance
    visible: int


_HiddenPart = tuple[int, int, str]
"""The start and end of a part to remove, and its text that is counted."""


def without_hidden(source: MarkdownProse) -> int:
    """Remove hidden text from Markdown, and return the number of its letters.

    An element is hidden only if it is closed: prose names tags, such as the <template> element.
    """
    letters = 0
    if "<" not in source.text and "]:" not in source.text:
        return 0
    for find in (_comments, _hidden_elements, _defined_comments):
        found = sorted(find(source.prose))
        letters += hidden_letters(it[2] for it in found)
        source.edit((start, end, "") for start, end, _ in found)
    return letters


def _comments(text: str) -> Iterator[_HiddenPart]:
    """Yield comments, and instructions and declarations, which pages do not show either."""
    at = 0
    last = text.rfind("-->")
    while found := _COMMENT_START.search(text, at):
        at = found.end()
        if _is_escaped(text, found.start()):
            continue
        if found[0] == "<!--" and at <= last:
            end = text.index("-->", at)
            yield found.start(), end + 3, text[at:end]
            at = end + 3
        elif found[0] == "<!--" and (text[found.start() - 1] if found.start() else "\n") == "\n":
            yield found.start(), len(text), text[at:]  # renderers show nothing after it
            return
        elif found["instruction"]:
            yield *found.span(), found["instruction"]


def _is_escaped(text: str, at: int) -> bool:
    before = text[max(at - _MOST_BACKSLASHES, 0) : at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _defined_comments(text: str) -> Iterator[_HiddenPart]:
    for found in _DEFINED_COMMENT.finditer(text):
        yield *found.span(), found["hidden"]


def _hidden_elements(text: str) -> Iterator[_HiddenPart]:
    tags = [
        it
        for it in _TAG.finditer(text)
        if it["name"].lower() not in _VOID and not _is_escaped(text, it.start())
    ]
    ends = _ends(tags)
    if not ends:
        return
    sheet = _TagStyles(text, tags, ends)
    opened: list[_Element] = []
    seen, at, visible = Appearance(), 0, 0
    for number, tag in enumerate(tags):
        if between := text[at : tag.start()].strip():
            if seen.is_hidden:
                name = tags[opened[-1].number]["name"].lower()
                yield at, tag.start(), "" if name in NOT_TEXT else between
            else:
                visible += 1
        at = tag.end()
        if number in ends:
            opened.append(_Element(number, seen, visible))
            seen = sheet.appearance(number, seen)
        while opened and ends[opened[-1].number] == number:
            element = opened.pop()
            if seen.is_hidden and visible == element.visible:
                start = tags[element.number]
                is_own = start["name"].lower() == tag["name"].lower()
                yield start.start(), tag.end() if is_own else tag.start(), ""
            seen = element.around


def _ends(tags: Sequence[re.Match[str]]) -> dict[int, int]:
    """Return the tags that end elements, by the tags that start them; others have no end."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()
    for number, tag in enumerate(tags):
        name = tag["name"].lower()
        if not tag["end"]:
            opened.append(number)
            names[name] += 1
            continue
        while names[name]:
            last = opened.pop()
            ends[last] = number
            closed = tags[last]["name"].lower()
            names[closed] -= 1
            if closed == name:
                break
    return ends


class _TagStyles:
    """The styles of the tags in Markdown, by their attributes and by style elements."""

    def __init__(self, text: str, tags: Sequence[re.Match[str]], ends: Mapping[int, int]) -> None:
        self._tags = tags
        self._sheet: StyleSheet | None = None
        self._nodes: dict[int, LexborNode] = {}
        if any(tags[number]["name"].lower() == "style" for number in ends):
            self._read_sheet(text, ends)

    def _read_sheet(self, text: str, ends: Mapping[int, int]) -> None:
        try:
            from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 - an extra
        except ImportError:
            return
        closing = set(ends.values())
        page: list[str] = []
        for number, tag in enumerate(self._tags):
            name = tag["name"].lower()
            if number in ends:
                page.append(f"<{name} data-number={number} {tag['attributes']}>")
                if name == "style":
                    page.append(text[tag.end() : self._tags[ends[number]].start()])
            elif number in closing:
                page.append(f"</{name}>")
        tree = LexborHTMLParser("".join(page), scripting=True)
        self._sheet = StyleSheet(tree)
        for node in tree.css("[data-number]"):
            self._nodes[int(node.attributes["data-number"] or 0)] = node

    def appearance(self, number: int, around: Appearance) -> Appearance:
        """Return the appearance of the text in the element of a tag."""
        name = self._tags[number]["name"].lower()
        if name in NOT_TEXT or name in HIDDEN_ELEMENTS:
            return around._replace(removed=True)
        attributes = _attributes(self._tags[number]["attributes"])
        node = self._nodes.get(number)
        style = attributes.get("style")
        if self._sheet is not None and node is not None:
            declared = self._sheet.declarations(node, style)
        else:
            declared = parse_declarations(style) if style else {}
        return appearance(around, declared, attributes)


def _attributes(text: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, *values in _ATTRIBUTE.findall(text):
        found.setdefault(name.lower(), unescape("".join(values)))
    return found
