"""Leaves out text of Markdown that readers cannot see.

Comments, HTML by the rules of pages, and what GitHub's Markdown does not show: footnotes and link
definitions that nothing refers to, and cells beyond the columns of a table.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import TYPE_CHECKING, NamedTuple

from markdown_it.token import Token

from mcp_tools_proxy.documents.importers.base import hidden_letters
from mcp_tools_proxy.documents.importers.css_values import parse_declarations
from mcp_tools_proxy.documents.importers.html_drawings import SHAPES, element_appearance
from mcp_tools_proxy.documents.importers.html_sheet import StyleSheet
from mcp_tools_proxy.documents.importers.html_styles import (
    HIDDEN_ELEMENTS,
    NOT_TEXT,
    Appearance,
    Drawing,
    is_closed_box,
)
from mcp_tools_proxy.documents.importers.markdown_prose import MarkdownBlocks, MarkdownProse

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
_DRAWN = SHAPES | {"animate", "g", "line", "polyline", "stop", "symbol", "text", "tspan"}
"""Elements of drawings, which end with ``/>``."""

_SWALLOWING = frozenset({"script", "style", "template"})
"""Elements that hide the rest of a page without an end, at the start of a block; prose names them,
such as the <template> element."""

_INLINE = frozenset(
    {*("abbr", "bdi", "bdo", "cite", "data", "del", "dfn", "ins", "kbd", "label", "mark")}
    | {*("output", "p", "q", "samp", "span", "sub", "sup", "time", "var")}
)
"""Elements that end with their paragraph; others stay open, or are opened again."""

_COMMENT_START = re.compile(r"<(?:!--|\?|!(?=[A-Za-z]|\[CDATA\[))")
_BLANK_LINE = re.compile(r"\n[ \t]*(?=\n)")
_LINE = r"\n(?![ \t]*\n)"
_DEFINED_COMMENT = re.compile(
    r"^ {0,3}\[[^\[\]\n]*\]:[ \t]*(?:#|<>)(?:[ \t]+|[ \t]*\n[ \t]*)"
    rf"(?P<hidden>\(.*\)|\".*\"|'.*'|\((?:[^()\n]|{_LINE})*\)|\"(?:[^\"\n]|{_LINE})*\""
    rf"|'(?:[^'\n]|{_LINE})*')[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.)++)\]")
_FOOTNOTE = re.compile(r"^ {0,3}\[\^([^\s\[\]]+)\]:", re.MULTILINE)
_FOOTNOTE_MARK = re.compile(r"\[\^([^\s\[\]]+)\]")
_BLOCK_START = re.compile(
    r" {0,3}(?:#{1,6}\s|>|[-*+]\s|\d{1,9}[.)]\s|```|~~~|\[\^[^\s\[\]]+\]:"
    r"|</?(?:address|article|aside|blockquote|center|details|div|dl|fieldset|figure|footer|form"
    r"|h[1-6]|header|hr|main|nav|ol|p|pre|script|section|style|table|ul)\b)",
    re.IGNORECASE,
)
_TABLE_RULE = re.compile(
    r"^[ \t]*(?=[^\n]*\|)\|?(?:[ \t]*:?-+:?[ \t]*(?:\||$))+[ \t]*$", re.MULTILINE
)
_CELL_END = re.compile(r"(?<!\\)\||\n")
_PIPE = re.compile(r"\\.|\|", re.DOTALL)


class _Element(NamedTuple):
    """An open element: its tag, the appearance around it, and the visible parts before it."""

    number: int
    around: Appearance
    visible: int


_HiddenPart = tuple[int, int, str]
"""The start and end of a part to remove, and its text that is counted."""


def without_hidden(source: MarkdownProse) -> int:
    """Remove hidden text from Markdown, and return the number of its letters."""
    letters = 0
    for sign, find in _FINDERS:
        if sign in source.text:
            found = sorted(find(source))
            letters += hidden_letters(it[2] for it in found)
            source.edit((start, end, "") for start, end, _ in found)
    return letters


def _comments(source: MarkdownProse) -> Iterator[_HiddenPart]:
    """Yield comments, and instructions and declarations, which pages do not show either."""
    text = source.prose
    ends = [it.start() for it in re.finditer(">", text)]
    blank = [*(it.start() for it in _BLANK_LINE.finditer(text)), len(text)]
    at = 0
    last = text.rfind("-->")
    while found := _COMMENT_START.search(text, at):
        start, at = found.span()
        if _is_escaped(text, start):
            continue
        is_first = start == 0 or text[start - 1] == "\n"
        if found[0] != "<!--":
            number = bisect_left(ends, at)
            most = len(text) if is_first else blank[bisect_left(blank, at)]
            if number < len(ends) and ends[number] < most:
                end = ends[number]
                yield start, end + 1, text[at:end]
                at = end + 1
        elif at <= last:
            end = text.index("-->", at)
            yield start, end + 3, text[at:end]
            at = end + 3
        elif is_first:
            yield start, len(text), text[at:]  # renderers show nothing after it
            return


def _is_escaped(text: str, at: int) -> bool:
    before = text[max(at - _MOST_BACKSLASHES, 0) : at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _defined_comments(source: MarkdownProse) -> Iterator[_HiddenPart]:
    for found in _DEFINED_COMMENT.finditer(source.prose):
        yield *found.span(), found["hidden"]


def _footnotes(source: MarkdownProse) -> Iterator[_HiddenPart]:
    """Yield the footnotes that the text does not refer to."""
    text = source.prose
    notes = [(it.start(), _note_end(source.text, it.end()), it) for it in _FOOTNOTE.finditer(text)]
    starts = [start for start, _, _ in notes]
    named: dict[int, set[str]] = {}
    for mark in _FOOTNOTE_MARK.finditer(text):
        number = bisect_right(starts, mark.start()) - 1
        is_in_note = number >= 0 and mark.start() < notes[number][1]
        if not is_in_note or mark.end() > notes[number][2].end():
            named.setdefault(number if is_in_note else -1, set()).add(mark[1].casefold())
    shown: set[str] = set()
    todo = named.get(-1, set())
    while todo:
        shown |= todo
        numbers = [at for at, it in enumerate(notes) if it[2][1].casefold() in todo]
        todo = set().union(*(named.get(at, ()) for at in numbers)) - shown
    for start, end, note in notes:
        if note[1].casefold() not in shown:
            yield start, end, source.text[note.end() : end]


def _note_end(text: str, at: int) -> int:
    """Return the end of a footnote: its paragraph, and the indented ones after it."""
    at = text.find("\n", at) + 1 or len(text)
    end = at
    is_open = True
    while at < len(text):
        after = text.find("\n", at) + 1 or len(text)
        line = text[at:after]
        if not line.strip():
            is_open = False
        elif line.startswith(("    ", "\t")):
            is_open, end = True, after
        elif is_open and _BLOCK_START.match(line) is None:
            end = after
        else:
            break
        at = after
    return end


def _definitions(source: MarkdownProse) -> Iterator[_HiddenPart]:
    """Yield the definitions of links that the text does not use."""
    text = source.text
    blocks = MarkdownBlocks(text)
    blocks.read(lambda _: None)
    found = [*blocks.definitions()]
    if not found:
        return
    ends = [0, *(it.end for it in found)]
    starts = [*(it.start for it in found), len(text)]
    outside = "".join(text[end:start] for end, start in zip(ends, starts, strict=True))
    used = {blocks.label(it[1]) for it in _LABEL.finditer(outside)}
    seen: set[str] = set()
    for it in found:
        if it.label in used and it.label not in seen:
            seen.add(it.label)
            continue
        name = it.label if len(it.label.split()) > 1 else ""
        yield it.start, it.end, f"{name} {it.title}"


def _cells(source: MarkdownProse) -> Iterator[_HiddenPart]:
    """Yield the cells of tables beyond the columns of their header."""
    text = source.prose
    at = 0
    for rule in _TABLE_RULE.finditer(text):
        if rule.start() < at:
            continue
        before = text.rfind("\n", 0, max(rule.start() - 1, 0)) + 1
        columns = len(_row(text, rule.start(), rule.end()))
        if columns != len(_row(text, before, rule.start() - 1)):
            continue
        at = rule.end() + 1
        while at < len(text):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            cells = _row(text, at, end)
            if not text[at:end].strip():
                break
            start = cells[columns - 1] + 1 if len(cells) > columns else end
            if excess := text[start:end].strip("| \t"):
                yield start, end, excess.replace("|", " ")
            at = end + 1


def _row(text: str, start: int, end: int) -> list[int]:
    """Return the ends of the cells of a row of a table."""
    line = text[start:end].rstrip()
    pipes = [start + it.start() for it in _PIPE.finditer(line) if it[0] == "|"]
    if pipes and not text[start : pipes[0]].strip():
        pipes = pipes[1:]
    if not line.endswith("|") or line.endswith("\\|"):
        pipes.append(start + len(line))
    return pipes


def _hidden_elements(source: MarkdownProse) -> Iterator[_HiddenPart]:
    return _TagWalk(source).read()


class _TagWalk:
    """Walks over the tags of Markdown once, and finds the text that they hide."""

    def __init__(self, source: MarkdownProse) -> None:
        self._text = source.prose
        self._tags = [
            it for it in _TAG.finditer(self._text) if not _is_escaped(self._text, it.start())
        ]
        self._ends = _ends(self._tags)
        self._sheet = _TagStyles(self._text, self._tags, self._ends)
        self._limits = _limits(source, self._tags, self._ends, self._sheet)
        self._opened: list[_Element] = []
        self._numbers: set[int] = set()
        """Those of the open elements; ``~number`` is the end of an element without an end tag."""
        self._seen = Appearance()
        self._visible = 0
        self._is_covered = False
        """Whether a shape of the open drawing can be behind its text."""

    def read(self) -> Iterator[_HiddenPart]:
        """Yield the hidden parts."""
        marks = [(*tag.span(), number) for number, tag in enumerate(self._tags)]
        marks += [(limit, limit, ~number) for number, limit in self._limits.items()]
        at = 0
        for start, end, number in sorted(marks):
            if between := self._text[at:start].strip():
                yield from self._between(at, start, between)
            at = max(at, end)
            if number >= 0:
                yield from self._open(number)
            yield from self._close(start, end, number)

    def _between(self, start: int, end: int, text: str) -> Iterator[_HiddenPart]:
        if not self._seen.is_hidden:
            self._visible += 1
            return
        name = self._tags[self._opened[-1].number]["name"].lower()
        yield start, end, "" if name in NOT_TEXT else text

    def _open(self, number: int) -> Iterator[_HiddenPart]:
        tag = self._tags[number]
        if number in self._ends or number in self._limits:
            self._opened.append(_Element(number, self._seen, self._visible))
            self._numbers.add(number)
            self._seen = self._sheet.appearance(number, self._seen)
            if self._seen.drawing is Drawing.TEXT and self._is_covered:
                self._seen = self._seen._replace(background=None)
        elif _is_void(tag) and self._is_hiding(number):
            yield *tag.span(), _attributes(tag["attributes"]).get("alt") or ""
        is_drawn = self._seen.drawing is not Drawing.NONE
        self._is_covered = is_drawn and (self._is_covered or tag["name"].lower() in SHAPES)

    def _is_hiding(self, number: int) -> bool:
        """Return whether an element in visible text is hidden; the shapes of drawings stay."""
        is_visible = self._seen.drawing is Drawing.NONE and not self._seen.is_hidden
        return is_visible and self._sheet.appearance(number, self._seen).is_hidden

    def _close(self, start: int, end: int, number: int) -> Iterator[_HiddenPart]:
        """Close the elements that a tag or the end of a block closes."""
        while self._opened and (
            ~number in self._numbers or self._ends.get(self._opened[-1].number) == number
        ):
            element = self._opened.pop()
            self._numbers.discard(element.number)
            if self._seen.is_hidden and self._visible == element.visible:
                tag = self._tags[element.number]
                is_own = number >= 0 and tag["name"].lower() == self._tags[number]["name"].lower()
                yield tag.start(), end if is_own else start, ""
            self._seen = element.around


def _is_void(tag: re.Match[str]) -> bool:
    name = tag["name"].lower()
    return name in _VOID or (name in _DRAWN and tag["attributes"].endswith("/"))


def _limits(
    source: MarkdownProse,
    tags: Sequence[re.Match[str]],
    ends: Mapping[int, int],
    sheet: "_TagStyles",
) -> dict[int, int]:
    """Return where elements without an end tag hide text up to, by their tags."""
    hiding = [
        number
        for number, tag in enumerate(tags)
        if not (tag["end"] or number in ends or _is_void(tag))
        and sheet.appearance(number, Appearance()).is_hidden
    ]
    if not hiding:
        return {}
    leaves = _Leaves(source.text)
    found: dict[int, int] = {}
    for number in hiding:
        tag = tags[number]
        name = tag["name"].lower()
        start, end, kind = leaves.around(tag.start())
        if name in NOT_TEXT or name in HIDDEN_ELEMENTS:
            if name in _SWALLOWING and kind == "html_block" and start == tag.start():
                found[number] = len(source.text)
        elif kind == "table":
            pipe = _CELL_END.search(source.prose, tag.end())
            found[number] = pipe.start() if pipe else end
        elif name == "p" or (name in _INLINE and kind != "html_block"):
            found[number] = end
        else:
            found[number] = len(source.text)
    return found


class _Leaves:
    """The blocks of Markdown that contain text: paragraphs, HTML, tables."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._blocks = MarkdownBlocks(text)
        self._found: list[tuple[int, int, str]] = []
        self._blocks.read(self._add)
        self._starts = [it[0] for it in self._found]

    def _add(self, tokens: list[Token]) -> None:
        kind = "table" if tokens[0].type == "table_open" else ""
        for it in tokens:
            if it.type in {"inline", "html_block"} and it.map:
                self._found.append((*self._blocks.span(it), kind or it.type))

    def around(self, at: int) -> tuple[int, int, str]:
        """Return the start, end and kind of the block that contains an offset."""
        number = bisect_right(self._starts, at) - 1
        if number < 0 or self._found[number][1] <= at:
            return at, at, ""
        start, end, kind = self._found[number]
        line = self._text[start:end]
        return start + len(line) - len(line.lstrip()), end, kind


def _ends(tags: Sequence[re.Match[str]]) -> dict[int, int]:
    """Return the tags that end elements, by the tags that start them; others have no end."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()
    for number, tag in enumerate(tags):
        name = tag["name"].lower()
        if not tag["end"]:
            if _is_void(tag):
                continue
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
            if number in closing:
                page.append(f"</{name}>")
            elif not tag["end"]:
                page.append(f"<{name} data-number={number} {tag['attributes']}>")
                if name == "style" and number in ends:
                    page.append(text[tag.end() : self._tags[ends[number]].start()])
                elif number not in ends:
                    page.append(f"</{name}>")
        tree = LexborHTMLParser("".join(page), scripting=True)
        self._sheet = StyleSheet(tree)
        for node in tree.css("[data-number]"):
            self._nodes[int(node.attributes["data-number"] or 0)] = node

    def appearance(self, number: int, around: Appearance) -> Appearance:
        """Return the appearance of the text in the element of a tag."""
        name = self._tags[number]["name"].lower()
        attributes = _attributes(self._tags[number]["attributes"])
        if name in NOT_TEXT or name in HIDDEN_ELEMENTS:
            return around._replace(removed=True)
        node = self._nodes.get(number)
        style = attributes.get("style")
        if self._sheet is not None and node is not None:
            declared = self._sheet.declarations(node, style)
        else:
            declared = parse_declarations(style) if style else {}
        if is_closed_box(name, attributes, declared):
            return around._replace(removed=True)
        return element_appearance(around, name, attributes, declared)


def _attributes(text: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, *values in _ATTRIBUTE.findall(text):
        found.setdefault(name.lower(), unescape("".join(values)))
    return found


_FINDERS = (
    ("<", _comments),
    ("<", _hidden_elements),
    ("]:", _defined_comments),
    ("]:", _footnotes),
    ("]:", _definitions),
    ("|", _cells),
)
"""Kinds of hidden text, each with what it has."""
