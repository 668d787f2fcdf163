"""The shapes of slides, layouts and masters, with their places."""

from collections.abc import Iterator, Mapping
from math import cos, radians, sin
from typing import NamedTuple
from xml.etree.ElementTree import Element

TITLES = ("title", "ctrTitle")
_DEGREE = 60_000
_ROUNDING = 1


_MAX_GROUPS = 20


class SlideFrame(NamedTuple):
    """A rectangle on a slide."""

    left: float
    top: float
    width: float
    height: float

    def shared(self, other: "SlideFrame") -> tuple[float, float]:
        """Return the width and height that both have; they are negative if there is none."""
        return (
            min(self.left + self.width, other.left + other.width) - max(self.left, other.left),
            min(self.top + self.height, other.top + other.height) - max(self.top, other.top),
        )

    def contains(self, other: "SlideFrame") -> bool:
        """Return whether another frame is within this one."""
        width, height = self.shared(other)
        return width >= other.width - _ROUNDING and height >= other.height - _ROUNDING

    def wider(self, x: float, y: float) -> "SlideFrame":
        """Return a frame with more room on each side."""
        return SlideFrame(self.left - x, self.top - y, self.width + 2 * x, self.height + 2 * y)

    def turned(self, degrees: float) -> "SlideFrame":
        """Return the frame around this one if it is turned about its centre."""
        angle = radians(degrees)
        across, along = abs(cos(angle)), abs(sin(angle))
        width = self.width * across + self.height * along
        height = self.width * along + self.height * across
        return SlideFrame(
            self.left + (self.width - width) / 2,
            self.top + (self.height - height) / 2,
            width,
            height,
        )


class _Scale(NamedTuple):
    """From the coordinates in a group to those of the slide."""

    x: float = 1
    y: float = 1
    left: float = 0
    top: float = 0

    def apply(self, frame: SlideFrame) -> SlideFrame:
        return SlideFrame(
            frame.left * self.x + self.left,
            frame.top * self.y + self.top,
            frame.width * self.x,
            frame.height * self.y,
        )


class SlideShape(NamedTuple):
    """A shape, picture or table; its frame is None if it is that of its layout."""

    element: Element
    frame: SlideFrame | None
    placeholder: Element | None
    is_hidden: bool = False


class Relation(NamedTuple):
    """A relation of a part: the last word of its type, and the part or address."""

    kind: str
    target: str


def first_target(relations: Mapping[str, Relation], kind: str) -> str:
    """Return the first part that another one names as ``kind``, or ""."""
    return next((it.target for it in relations.values() if it.kind == kind), "")


class SlideLayer:
    """The shapes of a layout or master; slides refer to its placeholders."""

    def __init__(self, root: Element, relations: Mapping[str, Relation]) -> None:
        self.root = root
        self.relations = relations
        self.shapes = shapes_of(root)
        self._placeholders: dict[tuple[str | None, str | None], SlideShape] = {}
        for shape in self.shapes:
            if shape.placeholder is not None:
                kind, number = shape.placeholder.get("type", "obj"), shape.placeholder.get("idx")
                for key in ((kind, number), (None, number), (kind, None)):
                    self._placeholders.setdefault(key, shape)

    def placeholder(self, element: Element) -> SlideShape | None:
        """Return the placeholder on which another one (``p:ph``) is based."""
        kind, number = element.get("type", "obj"), element.get("idx")
        kinds = _SAME_KINDS.get(kind, (kind, "body"))
        keys: list[tuple[str | None, str | None]] = [(it, None) for it in kinds]
        if number is not None:
            keys = [(kind, number), (None, number), *keys]
        return next((self._placeholders[it] for it in keys if it in self._placeholders), None)


_SAME_KINDS = {
    "title": TITLES,
    "ctrTitle": TITLES,
    **{it: (it,) for it in ("dt", "ftr", "sldNum")},
}


def child(element: Element | None, *path: str) -> Element | None:
    """Return the first descendant by the tags on the way to it."""
    for tag in path:
        if element is None:
            return None
        element = next(children(element, tag), None)
    return element


def children(element: Element, tag: str) -> Iterator[Element]:
    """Yield the children with a tag."""
    return (it for it in element if it.tag == tag)


def geometry_of(element: Element) -> str:
    """Return the form of a shape, such as ``rect``."""
    found = child(element, "p:spPr", "a:prstGeom")
    return "" if found is None else found.get("prst", "")


def whole_number(element: Element, name: str, default: int) -> int:
    """Return the number in an attribute."""
    value = element.get(name, "").removesuffix("%")
    return int(value) if value.lstrip("-").isdigit() and len(value) < 16 else default


def _tree(root: Element) -> Element:
    found = child(root, "p:cSld", "p:spTree")
    return Element("") if found is None else found


def shapes_of(root: Element) -> list[SlideShape]:
    """Return the shapes of a slide or layout; those of groups one after another."""
    shapes: list[SlideShape] = []
    _add_shapes(_tree(root), _Scale(), shapes, 0, is_hidden=False)
    return shapes


def _add_shapes(
    tree: Element, scale: _Scale, shapes: list[SlideShape], depth: int, *, is_hidden: bool
) -> None:
    for element in tree:
        if element.tag == "p:grpSp" and depth < _MAX_GROUPS:
            inside = _group_scale(element, scale)
            is_inner_hidden = is_hidden or _has_hidden(element)
            _add_shapes(element, inside, shapes, depth + 1, is_hidden=is_inner_hidden)
        elif element.tag in ("p:sp", "p:graphicFrame", "p:pic"):
            frame = _frame(element)
            placeholder = next(element.iter("p:ph"), None)
            shapes.append(
                SlideShape(
                    element,
                    frame and scale.apply(frame),
                    placeholder,
                    is_hidden or _has_hidden(element),
                )
            )


def _has_hidden(element: Element) -> bool:
    """Return whether a shape or group is hidden itself."""
    properties = next((it for part in element for it in part if it.tag == "p:cNvPr"), None)
    return properties is not None and properties.get("hidden") in ("1", "true")


def _frame(element: Element) -> SlideFrame | None:
    transform = child(element, "p:spPr", "a:xfrm")
    if transform is None:
        transform = child(element, "p:xfrm")
    if transform is None:
        return None
    frame = _box(transform, "a:off", "a:ext")
    turn = whole_number(transform, "rot", 0) / _DEGREE
    return frame and (frame.turned(turn) if turn else frame)


def _box(transform: Element, place: str, size: str) -> SlideFrame | None:
    off, ext = child(transform, place), child(transform, size)
    if off is None or ext is None:
        return None
    return SlideFrame(
        whole_number(off, "x", 0),
        whole_number(off, "y", 0),
        whole_number(ext, "cx", 0),
        whole_number(ext, "cy", 0),
    )


def _group_scale(group: Element, outer: _Scale) -> _Scale:
    transform = child(group, "p:grpSpPr", "a:xfrm")
    outside = None if transform is None else _box(transform, "a:off", "a:ext")
    inside = None if transform is None else _box(transform, "a:chOff", "a:chExt")
    if outside is None or inside is None or not (inside.width and inside.height):
        return outer
    x, y = outside.width / inside.width, outside.height / inside.height
    return _Scale(
        outer.x * x,
        outer.y * y,
        outer.left + outer.x * (outside.left - inside.left * x),
        outer.top + outer.y * (outside.top - inside.top * y),
    )


def kind_of(shape: SlideShape) -> str | None:
    """Return the type of a placeholder."""
    return None if shape.placeholder is None else shape.placeholder.get("type")
