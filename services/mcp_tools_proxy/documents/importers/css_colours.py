"""Reads colours of CSS, mixed with the colour below them.

Colours in other spaces than sRGB are read if they are grey or transparent.
"""

import colorsys
import re
from collections.abc import Sequence

from PIL import ImageColor

Colour = tuple[int, int, int]

WHITE: Colour = (255, 255, 255)
BLACK: Colour = (0, 0, 0)

_NAMES = {"canvas": "#fff", "canvastext": "#000", "field": "#fff", "fieldtext": "#000"}
_FUNCTION = re.compile(r"([a-z]+)\(\s*(.*?)\s*\)", re.DOTALL)
_MIX = re.compile(r"color-mix\(\s*in\s[\w\s-]+,(.+),(.+)\)", re.DOTALL)
_SHARE = re.compile(r"(?:^|\s)(\d+\.?\d*|\.\d+)%(?:\s|$)")
_BETWEEN_COLOURS = re.compile(r",(?![^(]*\))")
_NUMBER = re.compile(r"([-+]?(?:\d*\.\d+|\d+)(?:e[-+]?\d+)?)(%|deg|turn)?")
_FUNCTIONS = frozenset(
    {
        *("alpha", "color", "color-contrast", "color-mix", "contrast-color", "device-cmyk", "hsl"),
        *("hsla", "hwb", "lab", "lch", "light-dark", "oklab", "oklch", "rgb", "rgba"),
    }
)
_SYSTEM = frozenset(
    {
        *("accentcolor", "accentcolortext", "activetext", "buttonborder", "buttonface"),
        *("buttontext", "graytext", "highlight", "highlighttext", "linktext", "mark", "marktext"),
        *("menu", "menutext", "selecteditem", "selecteditemtext", "visitedtext", "window"),
        *("windowtext", "activeborder", "captiontext", "infobackground", "infotext", "scrollbar"),
    }
)
"""Names of colours that the system chooses."""
_MOST = 1e6
_LEAST_CHROMA = 0.02
_MOST_CHARS = 200


def parse_colour(value: str, below: Colour | None) -> Colour | None:
    """Return a CSS colour in lower case, mixed with the colour below it; None if it is unknown."""
    value = value.strip()
    if value == "transparent":
        return below
    if len(value) > _MOST_CHARS:
        return None
    if found := _MIX.fullmatch(value):
        return _mixed_colours(found[1], found[2], below)
    if value.startswith("light-dark("):
        return parse_colour(_BETWEEN_COLOURS.split(value[11:-1])[0], below)
    found = _FUNCTION.fullmatch(value)
    read = _of_function(found[1], _arguments(found)) if found else _of_name(value)
    return None if read is None else _seen(*read, below)


def is_same(one: Colour, other: Colour, most: int) -> bool:
    """Return whether red, green and blue of two colours differ by ``most`` or less."""
    return all(abs(a - b) <= most for a, b in zip(one, other, strict=True))


def is_colour(value: str) -> bool:
    """Return whether a value is a colour for browsers, also if it is not known which."""
    name, bracket, rest = value.partition("(")
    if not bracket:
        is_named = value in {"transparent", "currentcolor"} or value in _SYSTEM
        return is_named or _of_name(value) is not None
    if name not in _FUNCTIONS or not rest.endswith(")"):
        return False
    found = _FUNCTION.fullmatch(value) if len(value) <= _MOST_CHARS else None
    if found is None or name not in _PLAIN or "(" in rest or "from" in rest:
        return True
    return _of_function(name, _arguments(found)) is not None


_PLAIN = frozenset({"rgb", "rgba", "hsl", "hsla", "hwb", "lab", "lch", "oklab", "oklch"})


def _arguments(found: re.Match[str]) -> list[str]:
    return re.split(r"[\s,/]+", found[2])


def _seen(colour: Colour | None, alpha: float, below: Colour | None) -> Colour | None:
    if alpha <= 0:
        return below
    if colour is None or alpha >= 1:
        return colour
    return None if below is None else _mixed(colour, below, alpha)


def _mixed(one: Colour, other: Colour, part: float) -> Colour:
    red, green, blue = (
        round(it * part + that * (1 - part)) for it, that in zip(one, other, strict=True)
    )
    return red, green, blue


def _mixed_colours(first: str, second: str, below: Colour | None) -> Colour | None:
    shares = [_SHARE.search(it) for it in (first, second)]
    one, other = (parse_colour(_SHARE.sub(" ", it), below) for it in (first, second))
    if one is None or other is None:
        return None
    part = float(shares[0][1]) if shares[0] else 100 - float(shares[1][1]) if shares[1] else 50
    return _mixed(one, other, min(part, 100) / 100)


def _of_name(value: str) -> tuple[Colour, float] | None:
    value = f"#{value}" if re.fullmatch(r"[0-9a-f]{6}", value) else _NAMES.get(value, value)
    try:
        red, green, blue, *alpha = ImageColor.getrgb(value)
    except ValueError:
        return None
    return (red, green, blue), alpha[0] / 255 if alpha else 1.0


def _of_function(name: str, parts: Sequence[str]) -> tuple[Colour | None, float] | None:
    """Return a colour and its opacity; the colour is None if it is not known."""
    if name == "color":
        space, *parts = parts
        name = "share" if space == "srgb" else space
    if len(parts) not in {3, 4}:
        return None
    numbers = [_number(it) for it in parts]
    alpha = _share(parts[3]) if len(parts) == 4 else 1.0
    if None in numbers or alpha is None:
        return None
    return _colour(name, parts, [it or 0.0 for it in numbers]), alpha


def _colour(name: str, parts: Sequence[str], numbers: Sequence[float]) -> Colour | None:
    first, second, third, *_ = numbers
    if name in {"rgb", "rgba"}:
        return _of_levels(
            *(
                it * 2.55 if "%" in part else it
                for part, it in zip(parts[:3], numbers[:3], strict=True)
            )
        )
    if name == "share":
        shares = (_share(it) or 0.0 for it in parts[:3])
        return _of_levels(*(it * 255 for it in shares))
    if name in {"hsl", "hsla"}:
        return _of_levels(
            *(it * 255 for it in colorsys.hls_to_rgb(first / 360, third / 100, second / 100))
        )
    if name == "hwb" and second + third >= 100:
        return _of_levels(*[second / (second + third) * 255] * 3)
    if name in _LIGHTNESS:
        whole, chroma = _LIGHTNESS[name]
        light = first / (100 if "%" in parts[0] else whole)
        others = (second,) if name.endswith("lch") else (second, third)
        if all(abs(it) / chroma <= _LEAST_CHROMA for it in others):
            return _grey(light**3 if whole == 1 else ((light * 100 + 16) / 116) ** 3)
    return None


_LIGHTNESS = {"lab": (100, 125), "lch": (100, 150), "oklab": (1, 0.4), "oklch": (1, 0.4)}
"""The lightness of white, and the usual largest chroma, by colour space."""


def _grey(linear: float) -> Colour:
    level = 12.92 * linear if linear <= 0.0031308 else 1.055 * max(linear, 0) ** (1 / 2.4) - 0.055
    return _of_levels(*[level * 255] * 3)


def _of_levels(*levels: float) -> Colour:
    red, green, blue = (round(min(max(it, 0), 255)) for it in levels)
    return red, green, blue


def _number(part: str) -> float | None:
    if part == "none":
        return 0.0
    found = _NUMBER.fullmatch(part)
    if found is None:
        return None
    return max(min(float(found[1]), _MOST), -_MOST) * (360 if found[2] == "turn" else 1)


def _share(part: str) -> float | None:
    number = _number(part)
    return None if number is None else number / (100 if part.endswith("%") else 1)
