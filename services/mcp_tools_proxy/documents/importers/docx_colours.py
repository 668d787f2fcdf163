"""Colours of text and its background in Word files, and which text they hide."""

import re
from collections.abc import Mapping
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.css_colours import BLACK, WHITE, Colour, is_same
from mcp_tools_proxy.documents.importers.office_colours import (
    colour_of_digits,
    mixed,
    theme_colours,
    with_lightness,
)

Properties = Mapping[str, Element]
"""Elements of ``w_rPr`` or ``w_pPr`` by name."""

_SAME_COLOUR = 24
"""Difference of red, green or blue up to which text has the colour of its background."""

_LEAST_OUTLINE = 3175
"""A quarter of a point: an outline of this width shows letters without a colour of their own."""

_HIGHLIGHTS = {
    "black": "000000",
    "blue": "0000FF",
    "cyan": "00FFFF",
    "darkBlue": "000080",
    "darkCyan": "008080",
    "darkGray": "808080",
    "darkGreen": "008000",
    "darkMagenta": "800080",
    "darkRed": "800000",
    "darkYellow": "808000",
    "green": "00FF00",
    "lightGray": "C0C0C0",
    "magenta": "FF00FF",
    "red": "FF0000",
    "white": "FFFFFF",
    "yellow": "FFFF00",
}
_PLAIN_NAMES = {
    "dark1": "dk1",
    "light1": "lt1",
    "dark2": "dk2",
    "light2": "lt2",
    "hyperlink": "hlink",
    "followedHyperlink": "folHlink",
    **{f"accent{number}": f"accent{number}" for number in range(1, 7)},
}
_MAPPED_NAMES = {
    "background1": "bg1",
    "text1": "t1",
    "background2": "bg2",
    "text2": "t2",
    **{f"accent{number}": f"accent{number}" for number in range(1, 7)},
    "hyperlink": "hyperlink",
    "followedHyperlink": "followedHyperlink",
}
_USUAL = {"bg1": "light1", "t1": "dark1", "bg2": "light2", "t2": "dark2"}
_DRAWING_NAMES = {"bg1": "bg1", "tx1": "t1", "bg2": "bg2", "tx2": "t2"}
_PATTERN = re.compile(r"pct(\d{1,3})")


class WordColours:
    """The colours of a file, by its theme and what its settings call them."""

    def __init__(self, theme: Element | None, settings: Element | None) -> None:
        mapping = None if settings is None else settings.find("w_clrSchemeMapping")
        own = {} if mapping is None else dict(mapping.attrib)

        def scheme_name(name: str) -> str:
            value = own.get(f"w_{name}", _USUAL.get(name, name))
            return _PLAIN_NAMES.get(value, value)

        plain = theme_colours(theme)
        self.drawings = plain.mapped({it: scheme_name(at) for it, at in _DRAWING_NAMES.items()})
        names = {name: plain.named(it) for name, it in _PLAIN_NAMES.items()}
        names |= {name: plain.named(scheme_name(it)) for name, it in _MAPPED_NAMES.items()}
        self._theme = names

    def read(self, element: Element, value: str, theme: str) -> Colour | None:
        """Return the colour of two attributes; None if it is unknown or automatic.

        A colour of the theme precedes the other, which is for programs without themes.
        """
        colour = self._theme.get(element.get(theme, ""))
        if colour is None:
            return colour_of_digits(element.get(value, "").removeprefix("#"))
        start = theme.removesuffix("Color")
        tint, shade = (_part(element.get(f"{start}{it}")) for it in ("Tint", "Shade"))
        if tint < 1:
            colour = with_lightness(colour, tint, 1 - tint)
        return with_lightness(colour, shade, 0) if shade < 1 else colour

    def behind(self, shading: Element | None, background: Colour | None) -> Colour | None:
        """Return the colour behind a text with a shading (``w_shd``); None if it is unknown."""
        if shading is None:
            return background
        pattern = shading.get("w_val", "clear")
        has_fill = not _is_automatic(shading, "w_fill", "w_themeFill")
        if pattern in ("clear", "nil") and not has_fill:
            return background
        ground = self.read(shading, "w_fill", "w_themeFill") if has_fill else WHITE
        if pattern in ("clear", "nil"):
            return ground
        is_automatic = _is_automatic(shading, "w_color", "w_themeColor")
        ink = BLACK if is_automatic else self.read(shading, "w_color", "w_themeColor")
        if ink is None or pattern == "solid" or ink == ground:
            return ink
        share = _PATTERN.fullmatch(pattern)
        if ground is None or share is None:
            return None
        return mixed(ink, ground, min(int(share[1]), 100) / 100)

    def hides(self, properties: Properties, background: Colour | None) -> bool:
        """Return whether text cannot be seen on the colour behind its paragraph."""
        ground = self._behind_run(properties, background)
        outline, fill = properties.get("w14_textOutline"), properties.get("w14_textFill")
        if outline is not None and self._is_drawn(outline, ground):
            return False
        if fill is not None and len(fill):
            return self._is_unseen(fill, ground)
        colour = properties.get("w_color")
        if colour is None or ground is None:
            return False
        text = self.read(colour, "w_val", "w_themeColor")
        return text is not None and is_same(text, ground, _SAME_COLOUR)

    def _behind_run(self, properties: Properties, background: Colour | None) -> Colour | None:
        highlight = properties.get("w_highlight")
        if highlight is not None and (name := highlight.get("w_val", "none")) != "none":
            return colour_of_digits(_HIGHLIGHTS.get(name, ""))
        return self.behind(properties.get("w_shd"), background)

    def _is_drawn(self, outline: Element, ground: Colour | None) -> bool:
        width = outline.get("w14_w", "")
        is_wide = width.isdecimal() and int(width[:9]) >= _LEAST_OUTLINE
        return is_wide and len(outline) > 0 and not self._is_unseen(outline, ground)

    def _is_unseen(self, holder: Element, ground: Colour | None) -> bool:
        """Return whether the fill in an element shows nothing."""
        paints = self.drawings.paints(holder[0])
        return paints is not None and all(it.is_unseen(ground, _SAME_COLOUR) for it in paints)


def _is_automatic(element: Element, value: str, theme: str) -> bool:
    return element.get(theme, "none") == "none" and element.get(value, "auto") in ("auto", "")


def _part(value: str | None) -> float:
    """Return a hexadecimal number of 255; 1 without one."""
    if value is None or not re.fullmatch("[0-9a-fA-F]{1,2}", value):
        return 1.0
    return int(value, 16) / 255
