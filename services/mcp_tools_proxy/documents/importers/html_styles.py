"""Finds text of web pages that readers cannot see, by the styles of its elements.

Handles display, visibility, content-visibility, opacity, filter: opacity(), font-size, zoom,
scale, moves, positions off the page, clip, clip-path, mask, boxes without area, and text in the
colour behind it. Text that is hidden only by the layout stays: behind or outside of other boxes,
in pictures, masks and other filters.
"""

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from mcp_tools_proxy.documents.importers.css_colours import WHITE, Colour, is_same, parse_colour
from mcp_tools_proxy.documents.importers.css_values import (
    each_side,
    length_px,
    ratio,
    words_of,
)
from mcp_tools_proxy.documents.importers.html_sheet import NO_DECLARATIONS, StyleSheet

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

NOT_TEXT = frozenset(
    {
        *("area", "audio", "base", "canvas", "col", "colgroup", "datalist", "embed", "frame"),
        *("frameset", "head", "iframe", "link", "map", "meta", "noembed", "noframes", "object"),
        *("param", "rp", "script", "source", "style", "title", "track", "video", "wbr"),
        *("desc", "metadata"),
    }
)
"""Elements whose content is not text of the page."""

HIDDEN_ELEMENTS = frozenset({"template", "noscript"})

ALMOST_SAME = 10
"""Difference of two colours, of 255 in each part, that is not visible."""

LEAST_OPACITY = 0.05
LEAST_SCALE = 0.05

FAR_OFF_PX = 500
"""Distance of text before the start of the page."""

FAR_AFTER_PX = 5_000
"""Distance of text beside the page; columns and slides are nearer."""

LEAST_FONT_PX = 1
LEAST_BOX_PX = 2


_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,((?:[^()]|\((?:[^()]|\([^()]*\))*\))*))?\)")
_MOST_VARIABLES = 500
_MOST_VALUE_CHARS = 1_000
"""Limits of variables, which can multiply each other."""

_BLOCK = ("block", "flex", "grid", "list-item", "table", "flow-root", "table-row")


class Drawing(Enum):
    """Where text is: in a page, or in an SVG drawing, which shows only that of some elements."""

    NONE = auto()
    SHAPES = auto()
    TEXT = auto()


class Clip(Enum):
    """What a box without area around an element hides: boxes that are placed elsewhere stay."""

    NOTHING = auto()
    FLOW = auto()
    """All text but that with a position of its own."""
    PLACED = auto()
    """All text but that with a fixed position."""


class Appearance(NamedTuple):
    """The inherited styles that decide whether text is visible."""

    removed: bool = False
    clipped: Clip = Clip.NOTHING
    invisible: bool = False
    font_px: float = 16.0
    root_font_px: float = 16.0
    opacity: float = 1.0
    colour: Colour | None = (0, 0, 0)
    fill: str = ""
    """The colour that replaces ``colour``, if it is stated."""
    background: Colour | None = WHITE
    """None if it is a picture or a gradient."""
    variables: Mapping[str, str] = NO_DECLARATIONS
    paint: str = ""
    """The fill of text in drawings, if it is stated."""
    outline: str = ""
    drawing: Drawing = Drawing.NONE
    view: tuple[float, ...] = ()
    """The part of a drawing that is seen: left, top, width, height; () if it is not known."""
    scale: float = 1.0
    """Pixels of one unit of a drawing."""

    @property
    def is_hidden(self) -> bool:
        """Whether text of this appearance cannot be seen."""
        return (
            self.removed
            or self.clipped is not Clip.NOTHING
            or self.invisible
            or self.drawing is Drawing.SHAPES
            or self.font_px * self.scale <= LEAST_FONT_PX
            or self.opacity <= LEAST_OPACITY
            or self._has_own_background
        )

    @property
    def _has_own_background(self) -> bool:
        return self.background is not None and is_same_colour(self.ink, self.background)

    @property
    def ink(self) -> Colour | None:
        """The colour of the text, None if it is not known."""
        if self.drawing is Drawing.TEXT:
            if self.outline not in {"", "none"}:
                return None
            return self.paint_colour
        return parse_colour(self.fill, self.background) if self.fill else self.colour

    @property
    def paint_colour(self) -> Colour | None:
        """The colour of text and shapes in drawings."""
        if self.paint == "none":
            return self.background
        if self.paint == "currentcolor":
            return self.colour
        return parse_colour(self.paint, self.background) if self.paint else (0, 0, 0)


def is_same_colour(one: Colour | None, other: Colour | None) -> bool:
    """Return whether two colours are known and look the same."""
    return one is not None and other is not None and is_same(one, other, ALMOST_SAME)


def appearance(
    inherited: Appearance, declared: Mapping[str, str], attributes: Mapping[str, str | None]
) -> Appearance:
    """Return the appearance of an element's text."""
    if not declared and _STYLES.isdisjoint(attributes):
        return inherited
    values = {name: value.partition("!")[0].strip() for name, value in declared.items()}
    variables = _variables(values, inherited)
    values = {name: _substituted(value, variables) for name, value in values.items()}
    visibility = values.get("visibility", "inherit")
    invisible = inherited.invisible
    if visibility not in {"inherit", "unset"}:
        invisible = visibility in {"hidden", "collapse"}
    background = _background(values, attributes, inherited)
    return inherited._replace(
        removed=inherited.removed or _has_hidden(attributes, values) or _is_removed(values),
        clipped=_clip(values, inherited.clipped),
        invisible=invisible,
        font_px=_font_px(inherited, values.get("font-size", "")),
        opacity=inherited.opacity * _opacity(values),
        colour=_colour(values, attributes, inherited, background),
        fill=_fill(values, inherited),
        background=background,
        variables=variables,
        paint=_paint(values, inherited),
        outline=_inherited(values, "stroke", inherited.outline),
    )


def _paint(values: Mapping[str, str], inherited: Appearance) -> str:
    opacity = ratio(values.get("fill-opacity"))
    is_clear = opacity is not None and opacity <= LEAST_OPACITY
    return "none" if is_clear else _inherited(values, "fill", inherited.paint)


def _inherited(values: Mapping[str, str], name: str, inherited: str) -> str:
    value = values.get(name, "inherit")
    if value in {"inherit", "unset"}:
        return inherited
    return "" if value == "initial" else value


def _variables(values: Mapping[str, str], inherited: Appearance) -> Mapping[str, str]:
    own = {name: value for name, value in values.items() if name.startswith("--")}
    if not own or len(inherited.variables) > _MOST_VARIABLES:
        return inherited.variables
    return {**inherited.variables, **own}


def _substituted(value: str, variables: Mapping[str, str]) -> str:
    """Return a value with the values of variables; an unknown one stays, and is not decided."""
    for _ in range(5):
        if "var(" not in value or len(value) > _MOST_VALUE_CHARS:
            break
        value = _VARIABLE.sub(lambda it: variables.get(it[1], it[2] or it[0]), value)
    return value.strip()


_STYLES = frozenset({"background", "bgcolor", "color", "hidden", "text"})


def page_appearance(styles: StyleSheet, tree: "LexborHTMLParser") -> Appearance:
    """Return the appearance of a page's text by its html and body elements.

    What hides the whole page is left out: a script shows the page when it has loaded.
    """
    seen = Appearance(background=WHITE if styles.is_whole else None)
    for node, is_root in ((tree.root, True), (tree.body, False)):
        if node is not None:
            attributes = node.attributes
            seen = appearance(seen, styles.declarations(node, attributes.get("style")), attributes)
            if is_root:
                seen = seen._replace(root_font_px=seen.font_px or 16.0)
            size = seen.font_px if seen.font_px > LEAST_FONT_PX else 16.0
            seen = seen._replace(
                removed=False,
                clipped=Clip.NOTHING,
                invisible=False,
                opacity=1.0,
                font_px=size,
            )
    return seen


def script_tag(declared: Mapping[str, str]) -> str:
    """Return "sup" or "sub" for an element that is raised or lowered by its style, or ""."""
    place = declared.get("vertical-align", "").partition("!")[0].strip()
    return {"super": "sup", "sub": "sub"}.get(place, "")


def is_struck(declared: Mapping[str, str]) -> bool:
    """Return whether a line through the text of an element marks it as no longer valid."""
    names = ("text-decoration", "text-decoration-line")
    return any("line-through" in declared.get(it, "") for it in names)


def is_block(declared: Mapping[str, str]) -> bool:
    """Return whether an element is displayed as a block."""
    return declared.get("display", "").startswith(_BLOCK)


def is_closed_box(
    tag: str, attributes: Mapping[str, str | None], declared: Mapping[str, str]
) -> bool:
    """Return whether an element shows only when a button or script opens it."""
    is_box = (tag == "dialog" and "open" not in attributes) or "popover" in attributes
    return is_box and declared.get("display", "revert").startswith("revert")


def _has_hidden(attributes: Mapping[str, str | None], values: Mapping[str, str]) -> bool:
    """Return whether the attribute ``hidden`` is there, and no display of the page overrides it."""
    if "hidden" not in attributes:
        return False
    is_until_found = (attributes["hidden"] or "").strip().lower() == "until-found"
    return is_until_found or values.get("display", "revert").startswith("revert")


def _is_removed(values: Mapping[str, str]) -> bool:
    return (
        values.get("display") == "none"
        or values.get("content-visibility") == "hidden"
        or _is_scaled_away(values)
        or _is_off_page(values)
        or _is_cut_away(values.get("clip-path", ""))
        or any(_NO_MASK.fullmatch(values.get(name, "")) for name in _MASKS)
    )


def _opacity(values: Mapping[str, str]) -> float:
    stated = [values.get("opacity", ""), *_FILTER.findall(values.get("filter", ""))]
    whole = 1.0
    for opacity in stated:
        part = ratio(opacity.strip())
        if part is not None:
            whole *= min(max(part, 0.0), 1.0)
    return whole


_ARGUMENTS = r"([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*)\)"
_FILTER = re.compile(rf"\bopacity\({_ARGUMENTS}")
_SCALE = re.compile(rf"\bscale(?:3d|x|y)?\({_ARGUMENTS}")
_MOVE = re.compile(rf"\btranslate(?:3d|(?P<axis>[xyz]))?\({_ARGUMENTS}")
_ON_EDGE = re.compile(r"\brotate[xy]\(-?(?:90deg|0?\.25turn)\)")
_MATRIX = re.compile(r"\bmatrix\(([^()]*)\)")
_MASKS = ("mask", "mask-image")
_NO_MASK = re.compile(
    r"(?:linear|radial|conic)-gradient\((?:transparent|#0000|rgba?\([^()]*[,/]\s*0%?\)|to|left|right"
    r"|top|bottom|[\d.]+(?:deg|%|px)|[\s,])++\)"
)


def _is_scaled_away(values: Mapping[str, str]) -> bool:
    transform = values.get("transform", "")
    if _ON_EDGE.search(transform):
        return True
    scales = [values.get("scale", ""), *_SCALE.findall(transform)]
    numbers = (ratio(part) for it in scales for part in words_of(it)[:2])
    if any(number is not None and abs(number) <= LEAST_SCALE for number in numbers):
        return True
    for found in _MATRIX.findall(transform):
        parts = [ratio(part) or 0.0 for part in found.replace(" ", "").split(",")]
        if len(parts) == 6 and abs(parts[0] * parts[3] - parts[1] * parts[2]) <= LEAST_SCALE**2:
            return True
    zoom = ratio(values.get("zoom"))
    return zoom is not None and 0 < zoom <= LEAST_SCALE


_INSET = re.compile(r"inset\((.*?)(?:\bround\b.*)?\)", re.DOTALL)
_CORNERS = re.compile(r"(rect|xywh)\((.*?)(?:\bround\b.*)?\)", re.DOTALL)
_NO_PATH = re.compile(r"path\((?:\s*(?:evenodd|nonzero)\s*,)?\s*[\"'][mz\d\s.,+-]*[\"']\s*\)")


def _is_cut_away(clip_path: str) -> bool:
    if found := _INSET.fullmatch(clip_path):
        sides = each_side(found[1].split())
        top, right, bottom, left = (length_px(it) or 0 for it in sides or ("",) * 4)
        return top + bottom >= _WHOLE_PX or left + right >= _WHOLE_PX
    if found := _CORNERS.fullmatch(clip_path):
        sides = each_side(found[2].split())
        one, two, three, four = (length_px(it) for it in sides or ("",) * 4)
        if found[1] == "xywh":
            return three == 0 or four == 0
        return _is_less(three, one) or _is_less(two, four)
    if found := re.fullmatch(r"polygon\((?:\w+\s*,)?([^()]*)\)", clip_path):
        points = [it.split() for it in found[1].split(",")]
        return any(
            len({point[axis] for point in points if len(point) == 2}) == 1 for axis in (0, 1)
        )
    if _NO_PATH.fullmatch(clip_path):
        return True
    return re.match(rf"(?:circle|ellipse)\(\s*{_ZERO}[\s)]", clip_path) is not None


_WHOLE_PX = 1000
"""100 %, as the size of a box is not known."""

_ZERO = r"[-+]?(?:0+\.?0*|\.0+)(?:[a-z]+|%)?"


def _is_less(end: float | None, start: float | None) -> bool:
    return end is not None and start is not None and end - start <= 1


_CLIPPED = re.compile(r"rect\((.*)\)")
_OFF_WINDOW = {"left": 1_780, "right": 1_780, "top": 1_300, "bottom": 1_300}
"""Sizes of the window, and FAR_OFF_PX."""

_OFF_PAGE = dict.fromkeys(("left", "right", "bottom"), FAR_AFTER_PX)


def _is_off_page(values: Mapping[str, str]) -> bool:
    indent = length_px(values.get("text-indent", "").split(" ")[0]) or 0
    if indent <= -FAR_OFF_PX or (indent >= _WHOLE_PX and _clips(values)):
        return True
    # a margin of -100% is that of a column beside another
    margins = [length_px(values.get(f"margin-{it}"), percent=3.3) or 0 for it in ("top", "left")]
    if min(margins) <= -FAR_OFF_PX or margins[1] >= FAR_AFTER_PX:
        return True
    return _is_moved_off(values) or _is_placed_off(values)


def _is_moved_off(values: Mapping[str, str]) -> bool:
    moves = [("", values.get("translate", "")), *_MOVE.findall(values.get("transform", ""))]
    for axis, move in moves:
        # one percent is of the element itself
        sizes = [length_px(it, percent=0.5) or 0 for it in words_of(move) or [""]]
        if axis != "z" and min(sizes) <= -FAR_OFF_PX:
            return True
        if axis in {"", "x"} and sizes[0] >= FAR_AFTER_PX:
            return True
    return False


def _is_placed_off(values: Mapping[str, str]) -> bool:
    position = values.get("position", "").removeprefix("-webkit-")
    if position not in {"absolute", "fixed", "relative", "sticky"}:
        return False
    most = _OFF_WINDOW if position == "fixed" else _OFF_PAGE
    for side in ("left", "top", "right", "bottom"):
        size = length_px(values.get(side)) or 0
        if size <= -FAR_OFF_PX or size >= most.get(side, size + 1):
            return True
    found = _CLIPPED.fullmatch(values.get("clip", ""))
    if found is None or position not in {"absolute", "fixed"}:
        return False
    sizes = [length_px(it) for it in re.split(r"[\s,]+", found[1].strip())]
    if len(sizes) != 4:
        return False
    top, right, bottom, left = sizes
    return _is_less(bottom, top) or _is_less(right, left)


_SCROLLED = frozenset({"hidden", "clip", "auto", "scroll", "overlay"})


def _clips(values: Mapping[str, str]) -> bool:
    """Return whether an element hides text outside of it."""
    return (
        values.get("overflow-x") in _SCROLLED
        or values.get("overflow-y") in _SCROLLED
        or re.search(r"paint|strict|content", values.get("contain", "")) is not None
    )


def _clip(values: Mapping[str, str], around: Clip) -> Clip:
    position = values.get("position", "static").removeprefix("-webkit-")
    if position == "fixed" or (position == "absolute" and around is Clip.FLOW):
        around = Clip.NOTHING
    if around is Clip.NOTHING and not _has_no_area(values):
        return around
    return Clip.FLOW if position == "static" and around is not Clip.PLACED else Clip.PLACED


def _has_no_area(values: Mapping[str, str]) -> bool:
    return _clips(values) and (
        _is_flat(values, "width", ("left", "right"))
        or _is_flat(values, "height", ("top", "bottom"))
    )


def _is_flat(values: Mapping[str, str], size: str, sides: tuple[str, str]) -> bool:
    """Return whether a box has no room for text in one direction, its padding included."""
    inner = [length_px(values.get(name)) for name in (size, f"max-{size}")]
    known = [it for it in inner if it is not None and it >= 0]
    if not known:
        return False
    least = length_px(values.get(f"min-{size}")) or 0
    padding = sum(length_px(values.get(f"padding-{side}")) or 0 for side in sides)
    return max(min(known), least) + padding <= LEAST_BOX_PX


_FONT_SIZES = {
    "xx-small": 9.0,
    "x-small": 10.0,
    "small": 13.0,
    "medium": 16.0,
    "initial": 16.0,
    "large": 18.0,
    "x-large": 24.0,
    "xx-large": 32.0,
    "xxx-large": 48.0,
}


def _font_px(inherited: Appearance, size: str) -> float:
    around = inherited.font_px
    if size in {"smaller", "larger"}:
        return around * 1.2 if size == "larger" else around / 1.2
    if size in _FONT_SIZES:
        return _FONT_SIZES[size]
    px = length_px(size, percent=around / 100, em=around, rem=inherited.root_font_px)
    return around if px is None or px < 0 else min(px, _MOST_FONT_PX)


_MOST_FONT_PX = 10_000.0
"""Nested sizes multiply each other."""


def _colour(
    values: Mapping[str, str],
    attributes: Mapping[str, str | None],
    inherited: Appearance,
    background: Colour | None,
) -> Colour | None:
    attribute = attributes.get("color") or attributes.get("text") or ""
    value = values.get("color") or attribute.lower()
    if not value or value in {"inherit", "currentcolor"}:
        return inherited.colour
    return parse_colour(value, background)


def _fill(values: Mapping[str, str], inherited: Appearance) -> str:
    fill = values.get("-webkit-text-fill-color", "inherit")
    if fill in {"inherit", "unset"}:
        return inherited.fill
    return "" if fill in {"currentcolor", "initial"} else fill


def _background(
    values: Mapping[str, str], attributes: Mapping[str, str | None], inherited: Appearance
) -> Colour | None:
    images = values.get("background-image") or ("url(" if "background" in attributes else "")
    if "url(" in images or "gradient(" in images:
        return None
    value = values.get("background-color") or (attributes.get("bgcolor") or "").lower()
    words = _VALUES.findall(value)
    for word in words:
        if (colour := parse_colour(word, inherited.background)) is not None:
            return colour
    return None if any("(" in word for word in words) else inherited.background


_VALUES = re.compile(r"[\w-]+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[#\w]+")
