"""Finds the text that SVG drawings in web pages show: its attributes are styles, too."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcp_tools_proxy.documents.importers.css_values import (
    NUMBER,
    declarations_of,
    length_px,
)
from mcp_tools_proxy.documents.importers.html_styles import (
    FAR_OFF_PX,
    Appearance,
    Drawing,
    appearance,
    is_same_colour,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

SHAPES = frozenset(
    {"circle", "ellipse", "image", "line", "path", "polygon", "polyline", "rect", "use"}
)
"""Elements that can be the background of text."""

_NEVER_SHOWN = frozenset(
    {
        *("clippath", "defs", "filter", "lineargradient", "marker", "mask", "pattern"),
        *("radialgradient", "symbol"),
    }
)
_TABLE = frozenset({"table", "thead", "tbody", "tfoot", "tr", "td", "th"})
_ATTRIBUTES = {
    "color": frozenset({"font", "basefont"}),
    "text": frozenset({"body"}),
    "bgcolor": _TABLE | {"body", "marquee"},
    "background": _TABLE | {"body"},
}
"""The elements that an attribute with a colour or picture applies to, outside of drawings."""

_STYLES = (
    *("color", "clip-path", "display", "fill", "fill-opacity", "font-size", "opacity", "overflow"),
    *("stroke", "transform", "visibility"),
)
"""Attributes that are declarations."""

_NUMBERS = re.compile(rf"[-+]?{NUMBER}")
_NO_SCALE = re.compile(r"(?:scale|matrix)\(\s*[-+]?(?:0+\.?0*|\.0+)\s*[,)]")
_WINDOW_PX = 1280.0
_VIEWS_AWAY = 3
"""Widths or heights of a drawing from its edge, where text is hidden."""


def element_appearance(
    around: Appearance,
    tag: str,
    attributes: Mapping[str, str | None],
    declared: Mapping[str, str],
) -> Appearance:
    """Return the appearance of the text in an element of a page or drawing."""
    tag = tag.lower()
    if tag != "svg" and around.drawing is Drawing.NONE:
        return appearance(around, declared, _own_attributes(tag, attributes))
    declared = _declared(tag, attributes, declared)
    seen = appearance(around, declared, attributes)
    if tag == "svg":
        return _opened(seen, attributes, declared)
    if tag in _NEVER_SHOWN:
        return seen._replace(removed=True)
    if "transform" in attributes or "transform" in declared:
        seen = seen._replace(view=())
    if tag == "foreignobject":
        return seen._replace(drawing=Drawing.NONE, view=())
    if tag == "text":
        seen = seen._replace(drawing=Drawing.TEXT)
    if _is_outside(seen, attributes):
        return seen._replace(removed=True)
    return seen


def _own_attributes(tag: str, attributes: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Return attributes without the colours that other elements have."""
    if _ATTRIBUTES.keys().isdisjoint(attributes):
        return attributes
    return {it: value for it, value in attributes.items() if tag in _ATTRIBUTES.get(it, {tag})}


def covers_page(shape: Appearance, tag: str) -> bool:
    """Return whether a shape can be seen, so that it can be the background of text after it."""
    if shape.removed or shape.invisible or shape.background is None:
        return False
    if tag in {"image", "use"} or shape.outline not in {"", "none"}:
        return True
    return not is_same_colour(shape.paint_colour, shape.background)


def is_alternative(node: "LexborNode") -> bool:
    """Return whether a drawing shows another element instead: the first one of a switch."""
    if node.parent is None or node.parent.tag != "switch":
        return False
    before = node.prev
    while before is not None and not before.is_element_node:
        before = before.prev
    return before is not None


def _declared(
    tag: str, attributes: Mapping[str, str | None], declared: Mapping[str, str]
) -> dict[str, str]:
    """Return the declarations of an element, and of its attributes, which count less."""
    names = (*_STYLES, "width", "height") if tag == "svg" else _STYLES
    stated = [f"{name}:{_with_unit(name, attributes.get(name) or '')}" for name in names]
    values = {**declarations_of(stated), **declared}
    if tag == "svg":
        return {"overflow-x": "hidden", "overflow-y": "hidden", **values}
    if _NO_SCALE.search(values.get("transform", "")) is None:
        values.pop("transform", None)  # of the drawing, which can be far larger than a page
    return values


def _with_unit(name: str, value: str) -> str:
    is_size = name in {"font-size", "width", "height"}
    return f"{value}px" if is_size and _NUMBERS.fullmatch(value.strip()) else value


def _opened(
    seen: Appearance, attributes: Mapping[str, str | None], declared: Mapping[str, str]
) -> Appearance:
    """Return the appearance at the start of a drawing: its part that is seen, and its scale."""
    box = attributes.get("viewbox") or attributes.get("viewBox") or ""
    sizes = [float(it) for it in _NUMBERS.findall(box.lower())]
    width = length_px(declared.get("width"), percent=0) or 0
    height = length_px(declared.get("height"), percent=0) or 0
    if len(sizes) != 4 or min(sizes[2:]) <= 0:
        sizes = [0, 0, width or _WINDOW_PX, height or _WINDOW_PX]
    # without a size, readers see it as large as they like
    scale = min(max(width / sizes[2] or max(_WINDOW_PX / sizes[2], 1), 1e-6), 1e6)
    return seen._replace(drawing=Drawing.SHAPES, view=tuple(sizes), scale=scale)


def _is_outside(seen: Appearance, attributes: Mapping[str, str | None]) -> bool:
    """Return whether text is far outside of the part of a drawing that is seen."""
    if seen.drawing is not Drawing.TEXT or len(seen.view) != 4:
        return False
    left, top, width, height = seen.view
    for name, start, size in (("x", left, width), ("y", top, height)):
        place = length_px((attributes.get(name) or "").strip(), percent=size / 100)
        margin = max(size * _VIEWS_AWAY, FAR_OFF_PX / seen.scale)
        if place is not None and not start - margin <= place <= start + size + margin:
            return True
    return False
