"""Numbers of lists and headings in OpenDocument texts, counted as LibreOffice does."""

import re
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.docx_numbering import (
    MAX_LABEL_CHARS,
    format_number,
    letters_of,
)

_OUTLINE = "Outline"
"""The name of the numbers of headings, also of those that are not in a list."""

_MOST_LEVELS = 10
_PLACEHOLDER = re.compile(r"%(10|[1-9])%")
_FORMATS = {
    "1": "decimal",
    "i": "lowerRoman",
    "I": "upperRoman",
    "①": "decimalEnclosedCircle",
    "一": "chineseCounting",
    "甲": "ideographTraditional",
    "子": "ideographZodiac",
    "ア": "aiueoFullWidth",
    "イ": "irohaFullWidth",
    "가": "ganada",
    "ㄱ": "chosung",
    "ก": "thaiLetters",
}
"""By the first number; LibreOffice writes ``①, ②, ③, ...``."""

_HTML_TYPES = ("1", "a", "A", "i", "I")
_LETTERS = {"a": "lowerLetter", "A": "upperLetter"}

_DEFAULT = Element(
    "text:list-level-style-number", {"style:num-format": "1", "style:num-suffix": "."}
)
"""Levels that a list style leaves out."""

_BULLET = Element("text:list-level-style-bullet")
"""Levels of lists without a style."""

_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"


class OpenLabel(NamedTuple):
    """The label of an item as shown, and its number."""

    text: str = ""
    value: int = 0
    is_bullet: bool = False


class _OpenList:
    """A list or sublist; ``counts`` are those of all levels, None before the first item."""

    def __init__(self, style: str, counts: list[int | None]) -> None:
        self.style = style
        self.counts = counts
        self.item_has_text = False


class OpenNumbering:
    """Counts the items of lists by the levels of their styles, and headings outside lists."""

    def __init__(self) -> None:
        self._levels: dict[tuple[str, int], Element] = {}
        self._names: set[str] = set()
        self._open: list[_OpenList] = []
        self._by_id: dict[str, list[int | None]] = {}
        self._last: _OpenList | None = None
        self._outline: list[int | None] = [None] * _MOST_LEVELS

    def add_styles(self, root: Element) -> None:
        """Add the list styles of a part."""
        for style in root.iter("text:list-style"):
            self._add_levels(style.get("style:name", ""), style)
        for style in root.iter("text:outline-style"):
            self._add_levels(_OUTLINE, style)

    def _add_levels(self, name: str, style: Element) -> None:
        self._names.add(name)
        for level in style:
            if (number := level.get("text:level", "")).isdigit():
                self._levels[name, int(number)] = level

    def open_list(self, element: Element) -> None:
        """Start a list, which can continue the numbers of another."""
        style = element.get("text:style-name", "")
        is_continued = element.get("text:continue-numbering") == "true"
        counts: list[int | None] = [None] * _MOST_LEVELS
        if self._open:
            outer, depth = self._open[-1], len(self._open)
            style, counts = style or outer.style, outer.counts
            if outer.item_has_text and not is_continued:
                counts[depth:] = [None] * (_MOST_LEVELS - depth)
        else:
            if style == _OUTLINE:
                counts = self._outline
            elif is_continued and self._last is not None and self._last.style == style:
                counts = self._last.counts
            counts = self._by_id.get(element.get("text:continue-list", ""), counts)
            self._last = _OpenList(style, counts)
            if name := element.get(_XML_ID):
                self._by_id[name] = counts
        self._open.append(_OpenList(style, counts))

    def close_list(self) -> None:
        """End a list."""
        self._open.pop()

    @property
    def html_type(self) -> str:
        """The type of the open list in HTML if all its labels are such as ``1.``, or ""."""
        number = len(self._open)
        level = self._level(self._open[-1].style, number)
        kind = _number_format(level) or ""
        template = _template(level)
        if template is None and _whole(level, "text:display-levels") == 1:
            before, after = level.get("style:num-prefix", ""), level.get("style:num-suffix", "")
            template = f"{before}%{number}%{after}"
        is_repeated = level.get("style:num-letter-sync") == "true"
        is_simple = kind in _HTML_TYPES and template == f"%{number}%." and not is_repeated
        return kind if is_simple else ""

    def next_label(self, item: Element) -> OpenLabel:
        """Count an item of the open list; return its label."""
        current, number = self._open[-1], len(self._open)
        first = next(iter(item), None)
        current.item_has_text = first is not None and first.tag != "text:list"
        is_header = first is not None and first.get("text:is-list-header") == "true"
        if number > _MOST_LEVELS or item.tag == "text:list-header" or is_header:
            return OpenLabel()
        style = item.get("text:style-override") or current.style
        return self._counted(style, number, current.counts, item, is_counted=current.item_has_text)

    def next_heading(self, heading: Element, number: int) -> str:
        """Count a heading outside lists; return its number as shown, or ""."""
        if not 1 <= number <= _MOST_LEVELS or (_OUTLINE, number) not in self._levels:
            return ""
        return self._counted(_OUTLINE, number, self._outline, heading, is_counted=True).text

    def _counted(
        self, style: str, number: int, counts: list[int | None], item: Element, *, is_counted: bool
    ) -> OpenLabel:
        """Count an item; one with nothing but a sublist counts only if it is the first."""
        level = self._level(style, number)
        value = counts[number - 1]
        if not is_counted and value is not None:
            return OpenLabel()
        if item.get("text:start-value"):
            value = _whole(item, "text:start-value")
        else:
            value = _whole(level, "text:start-value") if value is None else value + 1
        counts[number - 1] = value
        counts[number:] = [None] * (_MOST_LEVELS - number)
        if not is_counted:
            return OpenLabel()
        if _number_format(level) is None:
            return OpenLabel(is_bullet=bool(level.get("text:bullet-char", "-").strip()))
        return OpenLabel(self._text(style, number, counts), value)

    def _text(self, style: str, number: int, counts: list[int | None]) -> str:
        level = self._level(style, number)
        template = _template(level)
        if template is None:
            shown = _whole(level, "text:display-levels")
            parts = (
                self._written(style, it, counts)
                for it in range(max(1, number - shown + 1), number + 1)
            )
            label = ".".join(filter(None, parts))
            before, after = level.get("style:num-prefix", ""), level.get("style:num-suffix", "")
            return f"{before[:MAX_LABEL_CHARS]}{label}{after[:MAX_LABEL_CHARS]}".strip()
        return _PLACEHOLDER.sub(
            lambda found: self._written(style, int(found[1]), counts), template[:MAX_LABEL_CHARS]
        ).strip()

    def _written(self, style: str, number: int, counts: list[int | None]) -> str:
        """Return the number of a level in its format."""
        level = self._level(style, number)
        kind = _number_format(level)
        if not kind:
            return ""
        value = counts[number - 1]
        if value is None:
            value = _whole(level, "text:start-value")
        if kind.startswith("0"):
            return str(value).zfill(len(kind.partition(",")[0][:10]))
        if kind in _LETTERS and value > 0:
            is_repeated = level.get("style:num-letter-sync") == "true"
            return format_number(value, _LETTERS[kind]) if is_repeated else letters_of(value, kind)
        return format_number(value, _FORMATS.get(kind[0], "decimal"))

    def _level(self, style: str, number: int) -> Element:
        found = self._levels.get((style, number))
        if found is not None:
            return found
        return _DEFAULT if style in self._names else _BULLET


def _number_format(level: Element) -> str | None:
    """Return the format of a level; "" without numbers, None for bullets."""
    if not level.tag.endswith(("-number", ":outline-level-style")):
        return None
    return level.get("style:num-format", "")


def _template(level: Element) -> str | None:
    """Return the label in newer files: ``(%1%.%2%)``."""
    return level.get("style:num-list-format") or level.get("loext:num-list-format")


def _whole(element: Element, name: str) -> int:
    value = element.get(name, "1")
    return int(value) if value.isdecimal() and len(value) < 6 else 1
