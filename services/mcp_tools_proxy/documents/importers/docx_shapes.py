"""Shapes of Word files: the text boxes in them, and which of them are hidden."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.css_colours import Colour, parse_colour
from mcp_tools_proxy.documents.importers.docx_colours import WordColours
from mcp_tools_proxy.documents.importers.docx_sections import TWIP, PageArea

_EMU = {"pt": 12_700, "in": 914_400, "cm": 360_000, "mm": 36_000, "px": 9_525, "pc": 152_400}
_LENGTH = re.compile(r"(-?\d{1,9}(?:\.\d{1,9})?|-?\.\d{1,9})(pt|in|cm|mm|px|pc)?")
_SMALLEST = 12_700
"""A point: no letter in a shape of this width or height can be read."""

_SMALLEST_PICTURE = 6 * 12_700
"""A picture or fill behind a letter is larger."""

_VML_SHAPES = frozenset(
    f"v_{it}" for it in ("shape", "rect", "roundrect", "oval", "group", "line", "polyline", "arc")
)
_PARTS = ("w_txbxContent", "v_textpath", "v_imagedata")
_FILLS = ("a_solidFill", "a_gradFill", "a_pattFill")
_ALL_FILLS = (*_FILLS, "a_noFill", "a_blipFill", "a_grpFill")
_OFF = ("f", "false", "0")


_Size = tuple[int | None, int | None]
"""Width and height; None if they depend on the page."""


class ShapePart(NamedTuple):
    """A text box, word art or picture of a shape, with the colour behind it."""

    element: Element
    is_hidden: bool
    background: Colour | None = None


class _WordShape(NamedTuple):
    """A shape around others; a free one is not in a group, which has coordinates of its own."""

    is_hidden: bool = False
    background: Colour | None = None
    is_free: bool = True
    is_in_cell: bool = False


_TOP = _WordShape()


class WordShapes:
    """Reads the shapes of a file; those in VML can have types, which parts define."""

    def __init__(self, colours: WordColours, page: PageArea) -> None:
        self._colours = colours
        self._page = page
        self._types: dict[str, Element] = {}
        self._behind: Colour | None = None
        """The colour behind shapes without a fill, if it is known."""

    def add_types(self, root: Element) -> None:
        """Store the types of shapes that a part defines."""
        for element in root.iter("v_shapetype"):
            self._types[element.get("id", "")] = element

    def set_page_colour(self, colour: Colour | None, parts: Iterable[Element]) -> None:
        """Set the colour behind shapes without a fill of a file without pictures.

        It stays unknown if filled shapes or shaded text in the parts can be behind them.
        """
        for element in (it for part in parts for it in part.iter()):
            match element.tag:
                case "w_drawing":
                    is_ground = self.covers(element)
                case "w_pict":
                    is_ground = self.covers_in_vml(element)
                case "w_shd":
                    is_ground = self._colours.behind(element, colour) != colour
                case _:
                    continue
            if is_ground:
                return
        self._behind = colour

    def is_drawing_hidden(self, drawing: Element, *, is_in_cell: bool) -> bool:
        """Return whether a drawing (``w_drawing``) is hidden, too small, or off the page."""
        for place in drawing:
            properties = place.find("wp_docPr")
            if (properties is not None and _is_true(properties.get("hidden"))) or _is_true(
                place.get("hidden")
            ):
                return True
            size = place.find("wp_extent")
            width, height = (
                None if size is None else _whole(size.get(it, "")) for it in ("cx", "cy")
            )
            is_relative = any(it.tag.endswith(("sizeRelH", "sizeRelV")) for it in place)
            if is_relative:
                width = height = None
            if _is_small(width, height, fits=next(place.iter("a_spAutoFit"), None) is not None):
                return True
            if self._is_anchor_off(place, (width, height), is_in_cell=is_in_cell):
                return True
        return False

    def is_frame_off(self, frame: Element) -> bool:
        """Return whether a frame of paragraphs (``w_framePr``) is off the page."""
        width, height = (_whole(frame.get(name, "")) for name in ("w_w", "w_h"))
        if frame.get("w_hRule") != "exact":
            height = None
        return any(
            (place := _whole(frame.get(f"w_{axis}", ""))) is not None
            and f"w_{axis}Align" not in frame.attrib
            and self._page.is_off(
                place * TWIP,
                size and size * TWIP,
                frame.get(f"w_{anchor}Anchor", "text"),
                is_vertical=axis == "y",
            )
            for axis, anchor, size in (("x", "h", width), ("y", "v", height))
        )

    def covers(self, drawing: Element) -> bool:
        """Return whether text of any colour can stand on a drawing."""
        anchor = drawing.find("wp_anchor")
        if anchor is None:
            return False
        size = anchor.find("wp_extent")
        sides = [] if size is None else [_whole(size.get(it, "")) for it in ("cx", "cy")]
        if any(it is not None and it < _SMALLEST_PICTURE for it in sides):
            return False
        return _is_true(anchor.get("behindDoc")) or _has_fill(anchor)

    def parts(self, drawing: Element, *, is_in_cell: bool) -> list[ShapePart]:
        """Return the parts with text of a drawing or of a picture in VML, each once."""
        is_hidden = drawing.tag == "w_drawing" and self.is_drawing_hidden(
            drawing, is_in_cell=is_in_cell
        )
        return list(
            self._parts_in(drawing, _TOP._replace(is_hidden=is_hidden, is_in_cell=is_in_cell))
        )

    def covers_in_vml(self, picture: Element) -> bool:
        """Return whether text of any colour can stand on a picture in VML."""
        return any(
            "z-index:-" in _style_text(shape)
            or (
                shape.get("fillcolor")
                and shape.tag != "v_group"
                and shape.get("filled", "t") not in _OFF
            )
            for shape in picture.iter()
            if shape.tag in _VML_SHAPES and not self._vml(shape, _TOP).is_hidden
        )

    def _parts_in(self, element: Element, outer: _WordShape) -> Iterator[ShapePart]:
        for child in element:
            if child.tag in _PARTS:
                yield ShapePart(child, outer.is_hidden, outer.background)
            elif child.tag in _VML_SHAPES:
                yield from self._parts_in(child, self._vml(child, outer))
            else:
                yield from self._parts_in(child, self._drawn(child, outer))

    def _drawn(self, shape: Element, outer: _WordShape) -> _WordShape:
        """Return a shape or group of DrawingML."""
        properties = next((it for it in shape if it.tag.endswith("cNvPr")), None)
        if properties is not None and _is_true(properties.get("hidden")):
            outer = outer._replace(is_hidden=True)
        if shape.tag == "wps_wsp":
            return outer._replace(background=self._fill(shape))
        return outer

    def _fill(self, shape: Element) -> Colour | None:
        """Return the colour behind the text of a shape."""
        properties = shape.find("wps_spPr")
        fill = (
            next((it for it in properties if it.tag in _ALL_FILLS), None)
            if (properties is not None)
            else None
        )
        reference = shape.find("wps_style/a_fillRef")
        if fill is None and reference is not None and reference.get("idx", "0") != "0":
            return None
        if fill is None or fill.tag == "a_noFill":
            return self._behind
        paints = self._colours.drawings.paints(fill) if fill.tag == "a_solidFill" else None
        return paints[0].colour if paints and paints[0].opacity == 1 else None

    def _vml(self, shape: Element, outer: _WordShape) -> _WordShape:
        kind = self._types.get(shape.get("type", "").removeprefix("#"))
        style = {**({} if kind is None else _style(kind)), **_style(shape)}
        is_hidden = style.get("visibility") == "hidden" or style.get("display") == "none"
        width, height = (_length(style.get(it, "")) for it in ("width", "height"))
        if outer.is_free:
            boxes = (_style_text(it) for it in shape.iter("v_textbox"))
            width = None if "mso-width-percent" in style else width
            height = None if "mso-height-percent" in style else height
            is_hidden = (
                is_hidden
                or _is_small(
                    width, height, fits=any("mso-fit-shape-to-text:t" in it for it in boxes)
                )
                or self._is_vml_off(style, (width, height), is_in_cell=outer.is_in_cell)
            )
        return _WordShape(
            outer.is_hidden or is_hidden,
            self._vml_fill(shape, kind),
            is_free=shape.tag != "v_group" and outer.is_free,
            is_in_cell=outer.is_in_cell,
        )

    def _vml_fill(self, shape: Element, kind: Element | None) -> Colour | None:
        looks = [it for it in (shape, kind) if it is not None]
        filled, colour = (
            next((value for it in looks if (value := it.get(name))), default)
            for name, default in (("filled", "t"), ("fillcolor", "white"))
        )
        if filled in _OFF:
            return self._behind
        if any(it.find("v_fill") is not None for it in looks):
            return None
        return parse_colour(colour.partition("[")[0].strip().lower(), None)

    def _is_anchor_off(self, place: Element, size: _Size, *, is_in_cell: bool) -> bool:
        if _is_true(place.get("simplePos")):
            point = place.find("wp_simplePos")
            found = [(0 if point is None else _whole(point.get(it, "")), "page") for it in "xy"]
        else:
            found = [
                (
                    _whole((position.findtext("wp_posOffset") or "").strip()),
                    position.get("relativeFrom", "column"),
                )
                if (position := place.find(f"wp_position{it}")) is not None
                else (None, "page")
                for it in "HV"
            ]
        return self._is_off_page(found, size, is_in_cell=is_in_cell)

    def _is_vml_off(self, style: Mapping[str, str], size: _Size, *, is_in_cell: bool) -> bool:
        if style.get("position") != "absolute":
            return False
        found = [
            (
                None
                if style.get(f"mso-position-{axis}", "absolute") != "absolute"
                else _length(style.get(f"margin-{side}") or style.get(side) or ""),
                style.get(f"mso-position-{axis}-relative", "text").removesuffix("-area"),
            )
            for axis, side in (("horizontal", "left"), ("vertical", "top"))
        ]
        return self._is_off_page(found, size, is_in_cell=is_in_cell)

    def _is_off_page(
        self, places: list[tuple[int | None, str]], size: _Size, *, is_in_cell: bool
    ) -> bool:
        return any(
            place is not None
            and self._page.is_off(
                place,
                extent,
                "cell" if is_in_cell and base in ("column", "text") else base,
                is_vertical=number == 1,
            )
            for number, ((place, base), extent) in enumerate(zip(places, size, strict=True))
        )


def _is_true(value: str | None) -> bool:
    return value in ("1", "true", "t", "on")


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _is_small(width: int | None, height: int | None, *, fits: bool) -> bool:
    """Return whether no letter can be seen in a shape; one that ``fits`` its text grows down."""
    return (width is not None and width <= _SMALLEST) or (
        height is not None and height <= _SMALLEST and not fits
    )


def _has_fill(drawing: Element) -> bool:
    """Return whether a floating shape is filled: text before it can have any colour."""
    for shape in drawing.iter("wps_spPr"):
        if any(shape.find(kind) is not None for kind in _FILLS):
            return True
    return any(it.get("idx", "0") != "0" for it in drawing.iter("a_fillRef"))


def _style_text(shape: Element) -> str:
    return shape.get("style", "").replace(" ", "").lower()


def _style(shape: Element) -> Mapping[str, str]:
    parts = (it.partition(":") for it in _style_text(shape).split(";"))
    return {name: value for name, _, value in parts if value}


def _length(text: str) -> int | None:
    """Return a length of VML in the units of DrawingML."""
    found = _LENGTH.fullmatch(text)
    return None if found is None else round(float(found[1]) * _EMU[found[2] or "px"])
