"""What table styles of Word files give to the text of a cell by its place in the table."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.docx_colours import Properties
from mcp_tools_proxy.domain.fast_dataclass import dataclass

NO_PROPERTIES: Properties = {}

_WHOLE = "wholeTable"
_TEXT = frozenset(
    {
        *("w_vanish", "w_sz", "w_color", "w_highlight", "w_shd"),
        *("w14_textFill", "w14_textOutline"),
    }
)
_SHADINGS = ("w_tcPr/w_shd", "w_tblPr/w_shd")
_FLAGS = {
    "firstRow": 0x20,
    "lastRow": 0x40,
    "firstColumn": 0x80,
    "lastColumn": 0x100,
    "noHBand": 0x200,
    "noVBand": 0x400,
}
"""Bits of the older attribute of ``w_tblLook``."""


_ENDS = {
    "firstRow": "firstRow",
    "lastRow": "lastRow",
    "firstColumn": "firstCol",
    "lastColumn": "lastCol",
}
_CORNERS = {
    "neCell": ("firstRow", "lastColumn"),
    "nwCell": ("firstRow", "firstColumn"),
    "seCell": ("lastRow", "lastColumn"),
    "swCell": ("lastRow", "firstColumn"),
}
_BANDS = ("band1Vert", "band2Vert", "band1Horz", "band2Horz")
_PARTS = frozenset({_WHOLE, *_BANDS, *_ENDS.values(), *_CORNERS})


class CellFormat(NamedTuple):
    """The properties of a cell's text, and its shading."""

    text: Properties
    shading: Element | None


@dataclass(frozen=True, slots=True)
class TableStyle:
    """The formats of the parts of a table, such as ``firstRow``."""

    formats: Mapping[str, CellFormat] = field(default_factory=dict)
    row_band: int = 1
    column_band: int = 1

    def derived(self, style: Element) -> "TableStyle":
        """Return a style that is based on this one."""
        formats = dict(self.formats)
        parts = [(_WHOLE, style)]
        parts += [
            (name, it)
            for it in style.iterfind("w_tblStylePr")
            if (name := it.get("w_type", _WHOLE)) in _PARTS
        ]
        for name, part in parts:
            text, shading = formats.get(name, _NOTHING)
            own = {it.tag: it for it in part.iterfind("w_rPr/*") if it.tag in _TEXT}
            own_shading = next((it for at in _SHADINGS if (it := part.find(at)) is not None), None)
            if own or own_shading is not None:
                formats[name] = CellFormat(
                    {**text, **own}, shading if own_shading is None else own_shading
                )
        return TableStyle(
            formats,
            _band(style, "w_tblStyleRowBandSize", self.row_band),
            _band(style, "w_tblStyleColBandSize", self.column_band),
        )


_NOTHING = CellFormat(NO_PROPERTIES, None)


class StyledTable:
    """A table with its style: the formats of its cells."""

    def __init__(self, style: TableStyle, properties: Element | None, rows: int) -> None:
        self._style = style
        self._rows = rows
        look = None if properties is None else properties.find("w_tblLook")
        self._is_known = look is not None
        self._merged: dict[tuple[str, ...], CellFormat] = {}
        self._flags = {name for name in _FLAGS if look is None or _is_flagged(look, name)}

    def cell(self, row: int, column: int, *, is_last: bool) -> CellFormat | None:
        """Return the format of a cell; None if the file does not name the parts that have one."""
        formats = self._style.formats
        if not formats:
            return _NOTHING
        parts = tuple(self._parts(row, column, is_last=is_last))
        if not self._is_known and any(it in formats for it in (*parts[1:], *_BANDS)):
            return None
        if parts not in self._merged:
            text, shading = _NOTHING
            for name in parts:
                part = formats.get(name, _NOTHING)
                text = {**text, **part.text}
                shading = shading if part.shading is None else part.shading
            self._merged[parts] = CellFormat(text, shading)
        return self._merged[parts]

    def _parts(self, row: int, column: int, *, is_last: bool) -> Iterator[str]:
        """Yield the parts in which a cell is; later ones precede."""
        flags = self._flags
        ends = {
            "firstRow": row == 0,
            "lastRow": row == self._rows - 1,
            "firstColumn": column == 0,
            "lastColumn": is_last,
        }
        inside = {name for name, is_there in ends.items() if is_there and name in flags}
        yield _WHOLE
        if "noVBand" not in flags:
            yield _band_name("Vert", column - ("firstColumn" in flags), self._style.column_band)
        if "noHBand" not in flags:
            yield _band_name("Horz", row - ("firstRow" in flags), self._style.row_band)
        for name, part in _ENDS.items():
            if name in inside:
                yield part
        for corner, names in _CORNERS.items():
            if inside.issuperset(names):
                yield corner


def _is_flagged(look: Element, name: str) -> bool:
    own = look.get(f"w_{name}")
    if own is not None:
        return own in ("1", "true", "on")
    try:
        return bool(int(look.get("w_val", ""), 16) & _FLAGS[name])
    except ValueError:
        return False


def _band_name(kind: str, place: int, size: int) -> str:
    return f"band{place // size % 2 + 1}{kind}"


def _band(style: Element, name: str, default: int) -> int:
    """Return the rows or columns of a band."""
    found = style.find(f"w_tblPr/{name}")
    value = "" if found is None else found.get("w_val", "")
    return int(value) if re.fullmatch("[1-9][0-9]?", value) else default
