"""Sections of Word files: where they start, and the area of their pages."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.docx_styles import value_of

TWIP = 635
"""A twentieth of a point in the units of drawings."""


class PageArea(NamedTuple):
    """The largest page of a file, and the widest margins at its left and top."""

    width: int = 12_240 * TWIP
    height: int = 15_840 * TWIP
    left: int = 1_440 * TWIP
    top: int = 1_440 * TWIP
    has_columns: bool = False

    def is_off(self, place: int, size: int | None, base: str, *, is_vertical: bool) -> bool:
        """Return whether a shape is off the page; ``base`` is from where its place counts.

        A shape of unknown size can have that of a page.
        """
        length = self.height if is_vertical else self.width
        margin = self.top if is_vertical else self.left
        farthest = length
        if base == "page":
            farthest = 0
        elif base == "margin" or (base in ("column", "text") and not self.has_columns):
            farthest = length if is_vertical and base != "margin" else margin
        size = length if size is None else size
        return farthest + place + size <= 0 or place >= length

    def is_indent_off(
        self, indents: Iterable[Element | None], alignment: Element | None, base: str
    ) -> bool:
        """Return whether indentation moves text off the page; later ``indents`` replace earlier.

        Lines are at most as long as the page is wide, unless they end at the right or centre.
        """
        found = {name: value for it in indents if it is not None for name, value in it.items()}
        if not found:
            return False
        left, right = (
            _twips(found.get(f"w_{first}") or found.get(f"w_{second}"))
            for first, second in (("start", "left"), ("end", "right"))
        )
        left -= _twips(found.get("w_hanging"))
        size = max(self.width - 2 * self.left - left - right, 0)
        if alignment is None or alignment.get("w_val") in ("left", "start", "both"):
            size = min(size, self.width)
        return self.is_off(left, size, base, is_vertical=False)


def _twips(text: str | None) -> int:
    return int(text) * TWIP if text and re.fullmatch(r"-?\d{1,6}", text) else 0


def page_area(sections: list[Element]) -> PageArea:
    """Return the area that the pages of all sections have."""
    usual = PageArea()
    sizes = [it for section in sections for it in section.iterfind("w_pgSz")]
    margins = [it for section in sections for it in section.iterfind("w_pgMar")]
    columns = [it for section in sections for it in section.iterfind("w_cols")]
    return PageArea(
        width=_most(sizes, "w_w", usual.width),
        height=_most(sizes, "w_h", usual.height),
        left=_most(margins, "w_left", usual.left),
        top=_most(margins, "w_top", usual.top),
        has_columns=any(it.get("w_num", "1") != "1" for it in columns),
    )


def _most(elements: list[Element], name: str, usual: int) -> int:
    values = [it.get(name, "") for it in elements]
    return max((int(it) * TWIP for it in values if it.isdecimal() and len(it) < 7), default=usual)


def section_properties(body: Element) -> Iterator[Element]:
    """Yield the properties of each section."""
    for properties in body.iter("w_pPr"):
        section = properties.find("w_sectPr")
        if section is not None:
            yield section
    last = body.find("w_sectPr")
    if last is not None:
        yield last


def section_starts(sections: list[Element]) -> Iterator[bool]:
    """Yield of each section but the first whether it starts a page."""
    for section in sections[1:]:
        yield value_of(section, "w_type") not in {"continuous", "nextColumn"}
