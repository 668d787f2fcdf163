"""Reads from XLSX files which texts of cells cannot be seen, and which are raised or lowered."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from math import isfinite
from typing import NamedTuple, TypeVar
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import clean
from mcp_tools_proxy.documents.importers.css_colours import WHITE, Colour, is_same
from mcp_tools_proxy.documents.importers.markdown_writer import script_text
from mcp_tools_proxy.documents.importers.office_colours import colour_of_digits, with_lightness
from mcp_tools_proxy.documents.importers.office_styles import SMALLEST_POINTS

_Item = TypeVar("_Item")

SAME_COLOUR = 2
"""Difference of two levels that comes from rounding."""

_THEME_COLOUR = re.compile(
    r"<a:(dk1|lt1|dk2|lt2|accent[1-6]|hlink|folHlink)>\s*<a:\w+\b[^<>]*?"
    r"\b(?:lastClr|val)=\"([0-9a-fA-F]{6})\""
)
_THEME_ORDER = (
    *("lt1", "dk1", "lt2", "dk2"),
    *(f"accent{number}" for number in range(1, 7)),
    *("hlink", "folHlink"),
)
_FIRST_COLOURS = ("000000", "FFFFFF", "FF0000", "00FF00", "0000FF", "FFFF00", "FF00FF", "00FFFF")
_PALETTE = (
    *_FIRST_COLOURS,
    *_FIRST_COLOURS,
    *("800000", "008000", "000080", "808000", "800080", "008080", "C0C0C0", "808080"),
    *("9999FF", "993366", "FFFFCC", "CCFFFF", "660066", "FF8080", "0066CC", "CCCCFF"),
    *("000080", "FF00FF", "FFFF00", "00FFFF", "800080", "800000", "008080", "0000FF"),
    *("00CCFF", "CCFFFF", "CCFFCC", "FFFF99", "99CCFF", "FF99CC", "CC99FF", "FFCC99"),
    *("3366FF", "33CCCC", "99CC00", "FFCC00", "FF9900", "FF6600", "666699", "969696"),
    *("003366", "339966", "003300", "333300", "993300", "993366", "333399", "333333"),
)
"""The colours that a file names by number, if it does not define its own."""

_SHARED = re.compile(rb"<(?:\w+:)?si\b[^<>]*>")
_RUN = re.compile(rb"<(?:\w+:)?r(?:\s[^<>]*)?>")
_SCRIPT = re.compile(rb"vertAlign\s[^<>]*?val=[\"'](super|sub)script")
_LETTERS = re.compile(rb"<(?:\w+:)?t(?:\s[^<>]*)?>([^<]*)")
_COLOUR = re.compile(rb"<(?:\w+:)?color\s")
_INLINE = re.compile(rb"(?:[^<]++|<(?!/?(?:\w+:)?(?:c|row)\b))*+")
"""The content of a cell."""
_CONTEXT = 40


class InvisibleStyles(NamedTuple):
    """The numbers of styles whose text cannot be seen: on a fill, and on the white of a sheet."""

    on_fill: frozenset[int] = frozenset()
    on_sheet: frozenset[int] = frozenset()


def invisible_styles(styles: Element, theme: str) -> InvisibleStyles:
    """Return the styles with invisible text; ``theme`` is the XML of the colours of the file."""
    colours = _StyleColours(styles, theme)
    found: dict[bool, set[int]] = {True: set(), False: set()}
    formats = (xf for part in styles if part.tag == "s:cellXfs" for xf in part)
    for number, xf in enumerate(formats):
        text = _item(colours.texts, xf.get("fontId"))
        if _item(colours.are_tiny, xf.get("fontId")):
            found[True].add(number)
        if text is None:
            continue
        fill = _item(colours.fills, xf.get("fillId"))
        if fill is None:
            continue
        ground, is_filled = fill
        if ground is not None and is_same(text, ground, SAME_COLOUR):
            found[is_filled].add(number)
    return InvisibleStyles(frozenset(found[True]), frozenset(found[False]))


def _item(items: Sequence[_Item], number: str | None) -> _Item | None:
    at = int(number) if number and number.isdecimal() and len(number) < 8 else len(items)
    return items[at] if at < len(items) else None


class _StyleColours:
    """The colours of the fonts, and those of the fills with whether there is one; None: unknown."""

    def __init__(self, styles: Element, theme: str) -> None:
        named = dict(_THEME_COLOUR.findall(theme))
        self._theme = [colour_of_digits(named.get(name, "")) for name in _THEME_ORDER]
        own = [it.get("rgb", "")[-6:] for it in styles.iter("s:rgbColor")]
        self._palette = [colour_of_digits(it) for it in own or _PALETTE]
        parts = {part.tag: part for part in styles}
        self.texts = [self._read(it.find("s:color")) for it in parts.get("s:fonts", ())]
        self.are_tiny = [_is_tiny(it.find("s:sz")) for it in parts.get("s:fonts", ())]
        self.fills = [self._fill(it) for it in parts.get("s:fills", ())]

    def _fill(self, fill: Element) -> tuple[Colour | None, bool]:
        pattern = fill.find("s:patternFill")
        if pattern is None:
            return None, True
        kind = pattern.get("patternType", "none")
        if kind == "none":
            return WHITE, False
        return self._read(pattern.find("s:fgColor")) if kind == "solid" else None, True

    def _read(self, colour: Element | None) -> Colour | None:
        """Return a colour; None if it is automatic or unknown."""
        if colour is None or colour.get("auto"):
            return None
        found = colour_of_digits(colour.get("rgb", "")[-6:])
        found = found or _item(self._palette, colour.get("indexed"))
        found = found or _item(self._theme, colour.get("theme"))
        return found and _tinted(found, colour.get("tint", "0"))


def _is_tiny(size: Element | None) -> bool:
    try:
        return size is not None and float(size.get("val", "")) <= SMALLEST_POINTS
    except ValueError:
        return False


def _tinted(colour: Colour, tint: str) -> Colour | None:
    """Return a colour made darker (down to -1) or lighter (up to 1); None for another tint."""
    try:
        share = float(tint)
    except ValueError:
        return None
    if not isfinite(share):
        return None
    if share < 0:
        return with_lightness(colour, 1 + share, 0)
    return with_lightness(colour, 1 - share, share)


class RichText(NamedTuple):
    """The text if parts of it are raised or lowered, and whether runs have a colour."""

    text: str | None
    is_coloured: bool


def shared_rich_texts(content: bytes) -> Mapping[bytes, RichText]:
    """Return those of the shared texts of a workbook by their numbers as cells write them."""
    if b"vertAlign" not in content and not _COLOUR.search(content):
        return {}
    items = (rich_text(item) for item in _SHARED.split(content)[1:])
    return {str(number).encode(): it for number, it in enumerate(items) if it is not None}


def inline_rich_text(sheet: bytes, start: int) -> RichText | None:
    """Return the rich text of the cell whose content starts at ``start``, if it has one."""
    content = _INLINE.match(sheet, start)
    return rich_text(content[0]) if content else None


def rich_text(item: bytes) -> RichText | None:
    """Return a text with its exponents as ``^`` and its indices as ``_``; None without runs."""
    _, *runs = _RUN.split(item)
    if not runs:
        return None
    is_raised = any(_SCRIPT.search(run) for run in runs)
    text = clean("".join(_written(list(map(_run, runs))))).strip() if is_raised else None
    return RichText(text, any(_COLOUR.search(run) for run in runs))


def _run(run: bytes) -> tuple[str, str]:
    """Return the kind of a run ("^", "_" or "") and its text."""
    script = _SCRIPT.search(run)
    kind = "" if script is None else "^" if script[1] == b"super" else "_"
    return kind, unescape(b"".join(_LETTERS.findall(run)).decode("utf-8", "replace"))


def _written(runs: list[tuple[str, str]]) -> Iterator[str]:
    before = ""
    for number, (kind, text) in enumerate(runs):
        after = runs[number + 1][1] if number + 1 < len(runs) else ""
        shown = script_text(kind, text.strip(), before, after) if kind and text.strip() else text
        before = (before + shown)[-_CONTEXT:]
        yield shown
