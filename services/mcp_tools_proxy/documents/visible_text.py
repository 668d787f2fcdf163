"""The text of a page that a reader sees: without the markup of Markdown and tables.

A scan of lines and of the inline marks in each block, in linear time: a complete parser of Markdown
takes several times as long and gives no positions.
"""

import re
from array import array
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from mcp_tools_proxy.documents.inline_marks import Edit, InlineMarks, folded_label
from mcp_tools_proxy.documents.mapped_text import MappedText, TextEditor
from mcp_tools_proxy.documents.pacing import paced
from mcp_tools_proxy.domain.fast_dataclass import dataclass

MARKDOWN = "markdown"

CELL_JOINT = "\t"
"""Separates the cells of a table's row in the visible text."""

_LINES_BETWEEN_PAUSES = 1_000

_KEPT_PAGES = 256
_KEPT_PAGE_CHARS = 10_000
"""Visible texts that are kept for snippets: about 5 MB."""

_CONTAINER = re.compile(
    r"[ \t]*+(?P<marks>(?:(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])|\[[ xX]\](?=[ \t]))[ \t]*+)*+)"
)
"""Indentation and the marks of quotations and lists."""

_INDENTED = re.compile(r" {4}|\t")
_FENCE = re.compile(r"(`{3,}+|~{3,}+)([^\n]*+)")
_RULE = re.compile(
    r"(?:(?:-[ \t]*+){2,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+|=++[ \t]*+)$",
    re.MULTILINE,
)
"""A line that separates parts or underlines a heading."""

_HEADING = re.compile(r"#{1,6}(?:[ \t]++|$)", re.MULTILINE)
_HEADING_END = re.compile(r"[ \t]#++[ \t]*+$")
_DELIMITER = re.compile(
    r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$", re.MULTILINE
)
_BARRED = {
    True: re.compile(r"[ \t]*+\|.*\|[ \t]*+$", re.MULTILINE),
    False: re.compile(r"[ \t]*+\|[ \t].*[ \t]\|[ \t]*+$", re.MULTILINE),
}
"""A table's row, in Markdown and in plain text."""

_BAR = re.compile(r"\\.|\|", re.DOTALL)
_DEFINITION = re.compile(
    r"^[ ]{0,3}\[(?!\^)(?P<label>[^\[\]\n]{1,200})\]:[ \t]*+(?:<[^<>\n]*+>|[^\s<]\S*+)"
    r"(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'|\([^()\n]*+\)))?[ \t]*+$",
    re.MULTILINE,
)
_NOTE = re.compile(r"\[\^[^\[\]\s]{1,50}\]:[ \t]*+")
_RAW = re.compile(r"<(?:(?P<name>script|style|template)\b|!--)", re.IGNORECASE)


class Table(NamedTuple):
    """A table in the visible text: one line per row, cells separated by CELL_JOINT."""

    start: int
    end: int
    has_header: bool


@dataclass(frozen=True, slots=True, eq=False)
class VisibleText(MappedText):
    """A visible text, its map to the original, and its tables in order."""

    tables: tuple[Table, ...] = ()


def visible_text(text: str, *, text_format: str | None) -> VisibleText:
    """Return the text that a reader sees; in plain text, only tables have markup.

    Slow (0.2 s per MB of Markdown): call in a worker thread; pauses for others.
    """
    if text_format != MARKDOWN and "|" not in text:
        return VisibleText(text, array("I", (0,)), array("I", (0,)))
    return _Scan(text, is_markdown=text_format == MARKDOWN).visible()


def visible_page(text: str, *, text_format: str | None) -> VisibleText:
    """Return the visible text of a page; those of the last pages are kept."""
    if len(text) > _KEPT_PAGE_CHARS or (text_format != MARKDOWN and "|" not in text):
        return visible_text(text, text_format=text_format)
    return _kept_page(text, text_format)


def whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the start and end of the lines of a part; a table's outer bars are not visible."""
    following = text.find("\n", end)
    return text.rfind("\n", 0, start) + 1, len(text) if following < 0 else following


@lru_cache(_KEPT_PAGES)
def _kept_page(text: str, text_format: str | None) -> VisibleText:
    return visible_text(text, text_format=text_format)


class _Scan:
    """One scan of a text, line by line; inline marks are read per block."""

    def __init__(self, text: str, *, is_markdown: bool) -> None:
        self._text = text
        self._is_markdown = is_markdown
        self._editor = TextEditor(text)
        self._edits: list[Edit] = []
        """Edits of the open block."""
        self._block: tuple[int, int] | None = None
        self._fence = ""
        self._is_after_blank = True
        self._is_in_list = False
        self._table: tuple[int, int, bool] | None = None
        self._tables: list[tuple[int, int, bool]] = []
        self._hidden_to = 0
        self._unclosed: set[str] = set()
        """Ends that do not occur after the present position."""
        self._labels: frozenset[str] = frozenset()
        if is_markdown and "]:" in text:
            found = _DEFINITION.finditer(text)
            self._labels = frozenset(folded_label(it["label"]) for it in found)

    def visible(self) -> VisibleText:
        line = self._markdown_line if self._is_markdown else self._plain_line
        for start, end in paced(_lines(self._text), every=_LINES_BETWEEN_PAUSES):
            line(start, end)
        self._end_table()
        self._end_block()
        mapped = self._editor.finish()
        tables = (
            Table(mapped.level_of(start), mapped.level_of(end), has_header)
            for start, end, has_header in self._tables
        )
        return VisibleText(mapped.text, mapped.levels, mapped.places, tuple(tables))

    def _plain_line(self, start: int, end: int) -> None:
        is_blank = start == end or self._text[start:end].isspace()
        is_first, self._is_after_blank = self._is_after_blank, is_blank
        if not (is_blank or self._read_table(start, start, end, is_first=is_first)):
            self._end_table()
        self._flush()

    def _markdown_line(self, start: int, end: int) -> None:
        if self._fence:
            self._read_fenced(start, end)
            return
        if end <= self._hidden_to:
            return
        start = max(start, self._hidden_to)
        container = _CONTAINER.match(self._text, start, end)
        content = start if container is None else container.end()
        if content >= end:
            self._end_block()
            self._hide(start, end)
            self._flush()
            self._is_after_blank = True
            return
        is_first, self._is_after_blank = self._is_after_blank, False
        if is_first and not self._is_in_list and _INDENTED.match(self._text, start, end):
            self._is_after_blank = True  # a line of code
            self._end_block()
            return
        if container is not None and container["marks"].strip("> \t"):
            self._is_in_list = True
            self._end_block()
        elif is_first and not self._text[start].isspace():
            self._is_in_list = False
        self._read_line(start, content, end, is_first=is_first)

    def _read_line(self, start: int, content: int, end: int, *, is_first: bool) -> None:
        """Read a line that is neither empty nor code."""
        if self._block is None and self._read_special(content, start, end):
            return
        if self._read_rule(start, end) or self._read_table(start, content, end, is_first=is_first):
            return
        self._end_table()
        self._hide(start, content)
        if not (self._read_fence(content, end) or self._read_heading(content, end)):
            self._block = (content if self._block is None else self._block[0], end)

    def _read_fenced(self, start: int, end: int) -> None:
        """Read a line of code between fences."""
        place = _text_start(self._text, start, end, " \t>")
        found = _FENCE.match(self._text, place, end)
        if found and found[1].startswith(self._fence) and not found[2].strip():
            self._hide(start, end)
            self._fence = ""
        self._flush()

    def _read_fence(self, content: int, end: int) -> bool:
        found = _FENCE.match(self._text, content, end)
        if found is None or (found[1][0] == "`" and "`" in found[2]):
            return False
        self._end_block()
        self._fence = found[1]
        self._hide(content, end)
        self._flush()
        return True

    def _read_heading(self, content: int, end: int) -> bool:
        found = _HEADING.match(self._text, content, end)
        if found is None:
            return False
        self._end_block()
        closing = None
        if self._text[end - 1] == "#":
            closing = _HEADING_END.search(self._text, found.end(), end)
        last = closing.start() if closing else end
        self._hide(content, found.end())
        self._hide(last, end)
        self._read_inline(found.end(), last)
        self._flush()
        return True

    def _read_special(self, content: int, start: int, end: int) -> bool:
        """Hide comments, scripts, and definitions of links and notes at the start of a block."""
        text = self._text
        if text[content] == "<" and (raw := _RAW.match(text, content)):
            closing = f"</{raw['name'].lower()}" if raw["name"] else "-->"
            stop = self._find_end(closing, raw.end())
            if stop < 0:
                return False
            if raw["name"]:
                stop = text.find(">", stop) + 1 or len(text)
            self._hide(start, stop)
            self._flush()
            self._hidden_to = stop
            if stop < end:
                self._markdown_line(stop, end)
            return True
        if text[content] != "[":
            return False
        if found := _NOTE.match(text, content, end):
            self._hide(start, found.end())
            self._block = (found.end(), end)
            return True
        if _DEFINITION.match(text, start, end):
            self._hide(start, end)
            self._flush()
            return True
        return False

    def _find_end(self, closing: str, place: int) -> int:
        """Return the position after a closing mark, or -1; a missing one is sought once."""
        if closing in self._unclosed:
            return -1
        found = self._text.find(closing, place)
        if found < 0 and closing != "-->":
            found = self._text.find(closing.upper(), place)
        if found < 0:
            self._unclosed.add(closing)
            return -1
        return found + len(closing)

    def _read_rule(self, start: int, end: int) -> bool:
        text = self._text
        first = _text_start(text, start, end)
        if text[first] not in "-=*_" or not _RULE.match(text, first, end):
            return False
        if text[first] == "=" and self._block is None:
            return False
        self._end_block()
        self._end_table()
        self._hide(start, end)
        self._flush()
        return True

    def _read_table(self, start: int, content: int, end: int, *, is_first: bool = False) -> bool:
        """Read a line of a table; after an empty line, only one with outer bars.

        A new header starts another table.
        """
        text = self._text
        if text.find("|", content, end) < 0:
            return False
        if is_first and self._table and self._is_before_delimiter(end):
            self._end_table()
        table = self._table
        if table is not None and _DELIMITER.match(text, content, end):
            self._hide(start, min(end + 1, len(text)))
            self._flush()
            is_second_row = text.find("\n", table[0]) + 1 == start
            self._table = (table[0], end, table[2] or is_second_row)
            return True
        is_barred = _BARRED[self._is_markdown].match(text, content, end) is not None
        is_known = self._is_before_delimiter(end) if table is None else table[2]
        if self._is_markdown:
            is_row = is_barred or (is_known and not (table and is_first))
        else:
            is_row = is_barred and is_known
        if is_row:
            self._end_block()
            self._hide(start, content)
            self._read_row(content, end)
            self._table = (table[0], end, table[2]) if table else (start, end, False)
        return is_row

    def _is_before_delimiter(self, end: int) -> bool:
        """Return whether the line after ``end`` is the second one of a table."""
        following = self._text.find("\n", end + 1)
        stop = len(self._text) if following < 0 else following
        return (
            self._text.find("|", end + 1, stop) >= 0
            and _DELIMITER.match(self._text, end + 1, stop) is not None
        )

    def _read_row(self, start: int, end: int) -> None:
        text = self._text
        bars = [it.start() for it in _BAR.finditer(text, start, end) if it[0] == "|"]
        if not self._is_markdown:
            escaped = (it.start() for it in _BAR.finditer(text, start, end) if it[0] == "\\|")
            self._edits += ((place, place + 1, "") for place in escaped)
        first, last = _text_start(text, start, end), _text_end(text, start, end)
        stop = start  # an empty cell has its space in the edit of the bar before it
        for bar in bars:
            is_edge = bar in {first, last - 1}
            begin, stop = max(stop, _text_end(text, start, bar)), _text_start(text, bar + 1, end)
            self._edits.append((begin, stop, "" if is_edge else CELL_JOINT))
        if self._is_markdown:
            self._read_inline(start, end)
        self._flush()

    def _end_table(self) -> None:
        if self._table is not None:
            self._tables.append(self._table)
            self._table = None

    def _end_block(self) -> None:
        if self._block is not None:
            self._read_inline(*self._block)
            self._block = None
        self._flush()

    def _hide(self, start: int, end: int) -> None:
        if start < end:
            self._edits.append((start, end, ""))

    def _read_inline(self, start: int, end: int) -> None:
        self._edits += InlineMarks(self._text, start, end, self._labels).edits

    def _flush(self) -> None:
        """Apply the edits of a finished block."""
        if self._block is not None or not self._edits:
            return
        if len(self._edits) > 1:
            self._edits.sort()
        for start, end, new in self._edits:
            if start >= self._editor.done:
                self._editor.replace(start, end, new)
            elif end > self._editor.done:
                self._editor.replace(self._editor.done, end, "")
        self._edits.clear()


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        yield start, end
        start = end + 1


def _text_start(text: str, start: int, end: int, skipped: str = " \t") -> int:
    """Return the position of the first character that is not one of the skipped ones."""
    while start < end and text[start] in skipped:
        start += 1
    return start


def _text_end(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1] in " \t":
        end -= 1
    return end
