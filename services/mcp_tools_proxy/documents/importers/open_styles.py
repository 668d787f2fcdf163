"""Styles of OpenDocument texts: their names, and how text in them looks, as CSS."""

import re
from collections.abc import Iterator, Mapping, Set
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.office_styles import SMALLEST_POINTS, inherited

_FAMILIES = {
    **dict.fromkeys(("text:p", "text:h"), "paragraph"),
    **dict.fromkeys(("text:span", "text:a"), "text"),
    "text:section": "section",
    "table:table": "table",
    "table:table-row": "table-row",
    "table:table-cell": "table-cell",
}
_ANY = ""
_MAX_NAMES = 10
"""Styles that are examined for a heading, one derived from another."""

_POINTS = {"pt": 1.0, "in": 72.0, "cm": 28.35, "mm": 2.835, "pc": 12.0, "px": 0.75}
_LENGTH = re.compile(r"(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})(pt|in|cm|mm|pc|px|%)")
_SMALLEST_ROW = 1.0
_LEAST_PERCENT = 5
_WHITE = "#ffffff"
_AUTOMATIC = "windowtext"
"""A colour of CSS that is not known: letters in it are seen on any background."""

_Key = tuple[str, str]
_NO_LOOK: Mapping[str, str] = {}


class OpenStyles:
    """The styles of a file by their families; they inherit from their parents."""

    def __init__(self) -> None:
        self._styles: dict[_Key, Element] = {}
        self._looks: dict[_Key, Mapping[str, str]] = {}
        self._page_grounds: set[str] = set()
        self._margin_grounds: set[str] = set()

    def add(self, root: Element) -> None:
        """Add the styles of a part."""
        for style in root.iter("style:style"):
            key = (style.get("style:family", _ANY), style.get("style:name", ""))
            self._styles[key] = style
        for part, grounds in (
            ("style:page-layout-properties", self._page_grounds),
            ("style:header-footer-properties", self._margin_grounds),
        ):
            grounds |= {_ground(it) for it in root.iter(part)}

    @property
    def page(self) -> Mapping[str, str]:
        """How pages look: text has an automatic colour, which is seen on any background."""
        return _paper(self._page_grounds or {_WHITE})

    @property
    def margin(self) -> Mapping[str, str]:
        """How headers and footers look."""
        return _paper((self._page_grounds or {_WHITE}) | self._margin_grounds)

    def names(self, element: Element) -> Iterator[str]:
        """Yield the name of an element's style, then those of its parents."""
        key = self._key(element)
        for _ in range(_MAX_NAMES):
            yield key[1]
            based = self._based(key)
            if based is None:
                return
            _, key = based

    def list_name(self, element: Element) -> str | None:
        """Return the list of a paragraph's style; "" if it has no number, None if unstated."""
        family = self._key(element)[0]
        styles = (self._styles.get(self._known((family, it))) for it in self.names(element))
        found = (it.get("style:list-style-name") for it in styles if it is not None)
        return next((it for it in found if it is not None), None)

    def properties(self, element: Element) -> Iterator[Element]:
        """Yield the properties of an element's style, then those of its parents."""
        key = self._key(element)
        for name in self.names(element):
            yield from self._styles.get(self._known((key[0], name)), ())

    def look(self, element: Element) -> Mapping[str, str]:
        """Return how the style of an element makes text look, as declarations of CSS."""
        return inherited(
            self._key(element),
            self._looks,
            _NO_LOOK,
            self._based,
            lambda base, style: {**base, **_own_look(style)},
        )

    def _based(self, key: _Key) -> tuple[Element, _Key] | None:
        """Return a style, and the key of its parent."""
        style = self._styles.get(key)
        if style is None:
            return None
        return style, self._known((key[0], style.get("style:parent-style-name", "")))

    def _key(self, element: Element) -> _Key:
        name = element.get("text:style-name") or element.get("table:style-name") or ""
        return self._known((_FAMILIES.get(element.tag, _ANY), name))

    def _known(self, key: _Key) -> _Key:
        return key if key in self._styles else (_ANY, key[1])


def is_hidden(element: Element) -> bool:
    """Return whether an element itself says that it is hidden."""
    return (
        element.get("text:display") == "none"
        or element.get("text:is-hidden") == "true"
        or element.get("table:visibility") in ("collapse", "filter")
    )


def css_of(look: Mapping[str, str]) -> str:
    """Return declarations as CSS."""
    return ";".join(f"{name}:{value}" for name, value in look.items())


def _ground(properties: Element) -> str:
    """Return the background of pages or margins; "" for a picture."""
    has_picture = properties.get("draw:fill", "none") not in ("none", "solid") or any(
        it.tag == "style:background-image" and (len(it) or it.get("xlink:href"))
        for it in properties
    )
    ground = properties.get("fo:background-color", "transparent")
    return "" if has_picture else ground.replace("transparent", _WHITE)


def _paper(grounds: Set[str]) -> Mapping[str, str]:
    ground = next(iter(grounds)) if len(grounds) == 1 else ""
    name = "background-color" if ground else "background-image"
    return {"color": _AUTOMATIC, name: ground or "url(x)"}


def _own_look(style: Element) -> Mapping[str, str]:
    look: dict[str, str] = {}
    for properties in style:
        if display := properties.get("text:display"):
            look["visibility"] = "hidden" if display == "none" else "visible"
        if colour := _colour(properties):
            look["color"] = colour
        ground = properties.get("fo:background-color")
        if ground and (ground != "transparent" or "background-color" not in look):
            look["background-color"] = ground
        if size := properties.get("fo:font-size"):
            is_tiny = _is_at_most(size, SMALLEST_POINTS) or _is_at_most(size, _LEAST_PERCENT, "%")
            look["font-size"] = "0" if is_tiny else size
        if line := properties.get("style:text-line-through-style"):
            look["text-decoration"] = "none" if line == "none" else "line-through"
        if _is_at_most(properties.get("style:row-height"), _SMALLEST_ROW):
            look["display"] = "none"
    return look


def _colour(properties: Element) -> str | None:
    if _is_at_most(properties.get("loext:opacity"), _LEAST_PERCENT, "%"):
        return "transparent"
    is_automatic = properties.get("style:use-window-font-color") == "true"
    return _AUTOMATIC if is_automatic else properties.get("fo:color")


def _is_at_most(length: str | None, most: float, unit: str = "") -> bool:
    """Return whether a length is at most ``most`` points, or per cent."""
    found = _LENGTH.fullmatch(length or "")
    if found is None or (found[2] == "%") != (unit == "%"):
        return False
    return float(found[1]) * _POINTS.get(found[2], 1.0) <= most
