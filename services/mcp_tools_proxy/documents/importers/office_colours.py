"""Colours of Office files: those of the theme, and of drawings with their changes."""

import colorsys
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from PIL import ImageColor

from mcp_tools_proxy.documents.importers.css_colours import BLACK, WHITE, Colour, is_same

_LEAST_OPACITY = 0.05
_WINDOW = {"window": WHITE, "windowText": BLACK}
_USUAL_THEME: Mapping[str, Colour] = {
    "lt2": (238, 236, 225),
    "dk2": (31, 73, 125),
    "accent1": (79, 129, 189),
    "accent2": (192, 80, 77),
    "accent3": (155, 187, 89),
    "accent4": (128, 100, 162),
    "accent5": (75, 172, 198),
    "accent6": (247, 150, 70),
    "hlink": (0, 0, 255),
    "folHlink": (128, 0, 128),
}
"""The theme of Office for files without one."""

_USUAL_NAMES = {"bg1": "lt1", "tx1": "dk1", "bg2": "lt2", "tx2": "dk2"}
_LOCAL_NAME = re.compile(r"[:_}](?=[^:_}]+\Z)")
_SHORT_NAME = re.compile(r"(dk|lt|med)(?=[A-Z])")
_LONG_NAMES = {"dk": "dark", "lt": "light", "med": "medium"}
_HLS_CHANGE = re.compile("(hue|lum|sat)(Mod|Off)?")
_FULL_TURN = 21_600_000


class Paint(NamedTuple):
    """A colour, None if it is unknown, and its opacity."""

    colour: Colour | None
    opacity: float = 1.0

    def is_unseen(self, ground: Colour | None, most: int) -> bool:
        """Return whether it cannot be told from the colour behind it; ``most`` as in is_same."""
        if self.opacity <= _LEAST_OPACITY:
            return True
        if self.colour is None or ground is None:
            return False
        return is_same(mixed(self.colour, ground, self.opacity), ground, most)


def mixed(one: Colour, other: Colour, share: float) -> Colour:
    """Return a colour of which ``share`` is the first."""
    red, green, blue = (round(a * share + b * (1 - share)) for a, b in zip(one, other, strict=True))
    return red, green, blue


def colour_of_digits(digits: str) -> Colour | None:
    """Return the colour of RRGGBB."""
    if not re.fullmatch("[0-9a-fA-F]{6}", digits):
        return None
    red, green, blue = bytes.fromhex(digits)
    return red, green, blue


def with_lightness(colour: Colour, factor: float, more: float) -> Colour:
    """Return a colour whose lightness is multiplied, and increased."""
    hue, light, saturation = _hls(colour)
    return _of_hls(hue, light * factor + more, saturation)


class OfficeColours:
    """The colours of a theme by the names that a part has for them.

    Reads elements with the prefixes ``a`` and ``w14``, with any separator.
    """

    def __init__(self, names: Mapping[str, Colour]) -> None:
        self._names = names

    def mapped(self, names: Mapping[str, str]) -> "OfficeColours":
        """Return the same colours, with more names for them."""
        found = {name: self._names.get(it) for name, it in names.items()}
        return OfficeColours(
            {**self._names, **{name: it for name, it in found.items() if it is not None}}
        )

    def with_own(self, colour: Colour) -> "OfficeColours":
        """Return the same colours with that of a shape, which styles of the theme change."""
        return OfficeColours({**self._names, "phClr": colour})

    def named(self, name: str) -> Colour | None:
        """Return a colour of the theme."""
        return self._names.get(name)

    def paints(self, fill: Element) -> list[Paint] | None:
        """Return the colours of a fill; none for ``noFill``, None for a picture."""
        match local_name(fill):
            case "noFill":
                return []
            case "solidFill":
                return [self.paint(it) for it in fill] or None
            case "gradFill" | "pattFill":
                return [self.paint(it) for it in _colours_in(fill)] or None
            case _:
                return None

    def paint(self, element: Element) -> Paint:
        """Return the colour of an element such as ``a:srgbClr``."""
        colour, opacity = self._base(element), 1.0
        is_word = element.tag.startswith("w14")
        for change in element:
            name, value = local_name(change), _attribute(change, "val")
            if name == "alpha":
                share = _share(value)
                opacity = 1 - share if is_word else share
            elif name in ("alphaMod", "alphaOff"):
                opacity = opacity * _share(value) if name == "alphaMod" else opacity + _share(value)
            elif colour is not None:
                colour = _changed(colour, name, value)
        return Paint(colour, min(max(opacity, 0), 1))

    def _base(self, element: Element) -> Colour | None:
        value = _attribute(element, "val")
        match local_name(element):
            case "srgbClr":
                return colour_of_digits(value)
            case "sysClr":
                return _WINDOW.get(value) or colour_of_digits(_attribute(element, "lastClr"))
            case "schemeClr":
                return self._names.get(value)
            case "prstClr":
                return _preset(value)
            case "scrgbClr":
                return _of_linear(*(_share(_attribute(element, it)) for it in "rgb"))
            case "hslClr":
                hue, saturation, light = (
                    _attribute(element, name) for name in ("hue", "sat", "lum")
                )
                return _of_hls(_number(hue) / _FULL_TURN, _share(light), _share(saturation))
            case _:
                return None


def theme_colours(theme: Element | None) -> OfficeColours:
    """Return the colours of a theme, or of the usual one for a file without a theme."""
    found: dict[str, Colour] = {"lt1": WHITE, "dk1": BLACK}
    if theme is None:
        found |= _USUAL_THEME
    else:
        scheme = next((it for it in theme.iter() if local_name(it) == "clrScheme"), ())
        for named in scheme:
            colour = OfficeColours({}).paint(named[0]).colour if len(named) else None
            if colour is not None:
                found[local_name(named)] = colour
    return OfficeColours(found).mapped(_USUAL_NAMES)


def local_name(element: Element) -> str:
    """Return a tag without its prefix."""
    return _LOCAL_NAME.split(element.tag)[-1]


def _attribute(element: Element, name: str) -> str:
    return element.get(name) or element.get(f"w14_{name}") or ""


def _colours_in(fill: Element) -> Iterator[Element]:
    """Yield the colours of the stops of a gradient, or of a pattern."""
    for part in fill.iter():
        if local_name(part) in ("gs", "fgClr", "bgClr"):
            yield from part


def _preset(name: str) -> Colour | None:
    name = _SHORT_NAME.sub(lambda it: _LONG_NAMES[it[1]], name)
    try:
        red, green, blue, *_ = ImageColor.getrgb(name.lower())
    except ValueError:
        return None
    return red, green, blue


def _changed(colour: Colour, name: str, value: str) -> Colour | None:
    """Return a colour after a change; None for an unusual one."""
    if name in ("tint", "shade"):
        share = _share(value)
        rest = 1 - share if name == "tint" else 0
        return _of_linear(*(_linear(it) * share + rest for it in colour))
    if name == "inv":
        red, green, blue = (255 - it for it in colour)
        return red, green, blue
    if name in ("gray", "comp"):
        hue, light, saturation = _hls(colour)
        return _of_hls(hue + 0.5, light, 0 if name == "gray" else saturation)
    if (change := _HLS_CHANGE.fullmatch(name)) is None:
        return None
    parts = dict(zip(("hue", "lum", "sat"), _hls(colour), strict=True))
    is_angle = change[1] == "hue" and change[2] != "Mod"
    number = _number(value) / _FULL_TURN if is_angle else _share(value)
    match change[2]:
        case "Mod":
            parts[change[1]] *= number
        case "Off":
            parts[change[1]] += number
        case _:
            parts[change[1]] = number
    return _of_hls(parts["hue"], parts["lum"], parts["sat"])


def _hls(colour: Colour) -> tuple[float, float, float]:
    return colorsys.rgb_to_hls(*(it / 255 for it in colour))


def _of_hls(hue: float, light: float, saturation: float) -> Colour:
    light, saturation = (min(max(it, 0.0), 1.0) for it in (light, saturation))
    return _of_shares(*colorsys.hls_to_rgb(hue % 1, light, saturation))


def _of_linear(*shares: float) -> Colour:
    return _of_shares(
        *(
            it * 12.92 if it <= 0.0031308 else 1.055 * it ** (1 / 2.4) - 0.055
            for it in (min(max(it, 0.0), 1.0) for it in shares)
        )
    )


def _of_shares(*shares: float) -> Colour:
    red, green, blue = (round(min(max(it, 0.0), 1.0) * 255) for it in shares)
    return red, green, blue


def _linear(level: int) -> float:
    share = level / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def _share(value: str) -> float:
    """Return a percentage, in thousandths of a per cent or with its sign."""
    return _number(value.removesuffix("%")) / (100 if value.endswith("%") else 100_000)


def _number(value: str) -> float:
    return float(value) if re.fullmatch(r"-?\d{1,9}(?:\.\d{1,9})?", value) else 0.0
