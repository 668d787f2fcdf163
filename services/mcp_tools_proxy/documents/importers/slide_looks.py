"""How text of slides looks, by its run, the shape, the layout and the master: who can see it."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.css_colours import BLACK, WHITE, Colour
from mcp_tools_proxy.documents.importers.office_colours import (
    Paint,
    theme_colours,
)
from mcp_tools_proxy.documents.importers.office_styles import SMALLEST_POINTS
from mcp_tools_proxy.documents.importers.slide_places import TITLES, child

_FILLS = ("a:noFill", "a:solidFill", "a:gradFill", "a:blipFill", "a:pattFill", "a:grpFill")
_SAME_COLOUR = 10
"""Difference of red, green or blue that is not visible."""

_USUAL_SIZE = 1800
_LEAST_OUTLINE = 3175
"""A quarter of a point."""

_FIRST_BACKGROUND = 1001
"""The number of the first of a theme's fills for backgrounds; those of shapes start at 1."""

_OTHERS = ("dt", "ftr", "sldNum")


class ShapeFill(NamedTuple):
    """The fill of a shape; its colour is None if it is a picture, a gradient or unknown."""

    is_filled: bool = False
    colour: Colour | None = None


class TextLook(NamedTuple):
    """The colours of letters and of their outline, and their size; None are unknown colours."""

    paints: Sequence[Paint] | None = (Paint(BLACK),)
    size: float = _USUAL_SIZE
    outline: Sequence[Paint] | None = ()
    scale: float = 1.0

    def is_unseen(self, grounds: Sequence[Colour | None]) -> bool:
        """Return whether letters cannot be seen on any of the colours that may be behind them."""
        if self.size * self.scale <= 100 * SMALLEST_POINTS:
            return True
        return _is_unseen(self.outline, grounds) and _is_unseen(self.paints, grounds)


def _is_unseen(paints: Sequence[Paint] | None, grounds: Sequence[Colour | None]) -> bool:
    return paints is not None and all(
        paint.is_unseen(ground, _SAME_COLOUR) for paint in paints for ground in grounds
    )


class SlideTheme:
    """The colours of a theme, and its fills of shapes and backgrounds."""

    def __init__(self, root: Element | None) -> None:
        self.colours = theme_colours(root)
        self.fills, self.backgrounds = (
            [] if root is None else [it for found in root.iter(tag) for it in found]
            for tag in ("a:fillStyleLst", "a:bgFillStyleLst")
        )


class SlideDesign:
    """The colours and text styles that a slide has from its layout, master and theme."""

    def __init__(
        self,
        slide: Element,
        layers: Sequence[Element],
        theme: SlideTheme,
        default_text: Element | None,
    ) -> None:
        master = layers[-1] if layers else None
        mapping = child(slide, "p:clrMapOvr", "a:overrideClrMapping")
        mapping = child(master, "p:clrMap") if mapping is None else mapping
        names = {} if mapping is None else dict(mapping.attrib)
        self._colours = theme.colours.mapped(names)
        self._theme = theme
        self._text_styles = child(master, "p:txStyles")
        self._default_text = default_text
        self.background = self._background([slide, *layers], is_light=names.get("bg1") != "dk1")

    def fill(self, shape: Element, templates: Sequence[Element]) -> ShapeFill:
        """Return the fill of a shape; a placeholder without one has that of its layout."""
        for it in (shape, *templates):
            properties = child(it, "p:spPr")
            own = None if properties is None else fill_in(properties)
            if own is not None:
                return ShapeFill(own.tag != "a:noFill", self.solid(own))
            reference = child(it, "p:style", "a:fillRef")
            if reference is not None and reference.get("idx", "0") != "0":
                return ShapeFill(True, self._styled(reference))
        return ShapeFill()

    def solid(self, fill: Element) -> Colour | None:
        """Return the colour of a fill; None if it is not a single one, or transparent."""
        paints = self._colours.paints(fill)
        if paints is None or len(paints) != 1 or paints[0].opacity < 1:
            return None
        return paints[0].colour

    def text(
        self, shape: Element, templates: Sequence[Element], kind: str | None, level: int
    ) -> TextLook:
        """Return how text of a level looks in a shape; ``kind`` is that of its placeholder."""
        look = TextLook((Paint(self._colours.named("tx1")),))
        name = f"a:lvl{level + 1}pPr"
        if kind is None and not templates:
            usual = child(self._default_text, name, "a:defRPr")
        else:
            style = "p:titleStyle" if kind in TITLES else "p:bodyStyle"
            style = "p:otherStyle" if kind in _OTHERS else style
            usual = child(self._text_styles, style, name, "a:defRPr")
        look = self.run(usual, look)
        for it in (*reversed(templates), shape):
            font = child(it, "p:style", "a:fontRef")
            if font is not None and len(font):
                look = look._replace(paints=[self._colours.paint(font[0])])
            look = self.run(child(it, "p:txBody", "a:lstStyle", name, "a:defRPr"), look)
        scale = child(shape, "p:txBody", "a:bodyPr", "a:normAutofit")
        share = "" if scale is None else scale.get("fontScale", "")
        if share.isdecimal() and len(share) < 8:
            return look._replace(scale=int(share) / 100_000)
        return look

    def run(self, properties: Element | None, inherited: TextLook) -> TextLook:
        """Return how text with properties of its own looks."""
        if properties is None:
            return inherited
        fill, line = fill_in(properties), child(properties, "a:ln")
        size = properties.get("sz", "")
        look = inherited
        if fill is not None:
            look = look._replace(paints=self._colours.paints(fill))
        if line is not None:
            look = look._replace(outline=self._outline(line))
        if size.isdecimal() and len(size) < 8:
            look = look._replace(size=int(size))
        if child(properties, "a:hlinkClick") is not None:
            look = look._replace(paints=None)  # links have a colour of their own
        return look

    def behind_run(
        self, properties: Element | None, grounds: Sequence[Colour | None]
    ) -> Sequence[Colour | None]:
        """Return the colours that may be behind a run: its highlight, or those behind the text."""
        found = child(properties, "a:highlight")
        return [
            self._colours.paint(it).colour for it in (() if found is None else found)
        ] or grounds

    def _outline(self, line: Element) -> Sequence[Paint] | None:
        width, fill = line.get("w", ""), fill_in(line)
        is_wide = width.isdecimal() and int(width[:9]) >= _LEAST_OUTLINE
        return self._colours.paints(fill) if fill is not None and is_wide else ()

    def _styled(self, reference: Element) -> Colour | None:
        """Return the colour of a fill of the theme, which has the colour of the reference."""
        number = reference.get("idx", "")
        at = int(number) if number.isdecimal() and len(number) < 6 else 0
        fills = self._theme.fills if at < _FIRST_BACKGROUND else self._theme.backgrounds
        at -= 1 if at < _FIRST_BACKGROUND else _FIRST_BACKGROUND
        own = self._colours.paint(reference[0]).colour if len(reference) else None
        if own is None or not 0 <= at < len(fills) or fills[at].tag != "a:solidFill":
            return None
        paints = self._colours.with_own(own).paints(fills[at])
        return paints[0].colour if paints else None

    def _background(self, layers: Sequence[Element], *, is_light: bool) -> Colour | None:
        for layer in layers:
            if (found := child(layer, "p:cSld", "p:bg")) is None:
                continue
            own, reference = child(found, "p:bgPr"), child(found, "p:bgRef")
            fill = None if own is None else fill_in(own)
            if fill is not None:
                return self.solid(fill)
            return None if reference is None else self._styled(reference)
        return WHITE if is_light else None


def fill_in(properties: Element) -> Element | None:
    """Return the fill among properties."""
    return next((it for it in properties if it.tag in _FILLS), None)
