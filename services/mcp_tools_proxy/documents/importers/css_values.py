"""Reads declarations of CSS as browsers do: invalid ones are ignored, shorthands are expanded.

Also numbers and lengths, with calc(), min(), max() and clamp().
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from mcp_tools_proxy.documents.importers.css_colours import is_colour

NUMBER = r"(?:\d*\.\d+|\d+)(?:e[-+]?\d+)?"
_MOST_CHARS = 200
"""Length of styles that are remembered."""

_MOST = 1e9
"""Numbers are limited to it, as their powers are infinite otherwise."""

_TOKEN = re.compile(
    r"(?P<comment>/\*.*?(?:\*/|\Z))"
    r"|\"(?:[^\"\\\n]|\\.)*+(?:\"|(?=\n)|\Z)|'(?:[^'\\\n]|\\.)*+(?:'|(?=\n)|\Z)"
    r"|url\(\s*+(?![\"'])(?:[^)\\]|\\.)*+\)|\\.|[(){}\[\];,]",
    re.DOTALL | re.IGNORECASE,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SPECIAL = re.compile(r"[\"'(\[{\\]|/\*")
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_IMPORTANT = re.compile(r"!\s*important")


def css_marks(text: str, *, nests: str = "([{") -> Iterator[re.Match[str]]:
    """Yield comments, and the marks ``{};,`` outside of strings and brackets."""
    closing: list[str] = []
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if found["comment"]:
            yield found
        elif len(mark) > 1:
            continue
        elif closing:
            if mark == closing[-1]:
                closing.pop()
            elif mark in _CLOSING:
                closing.append(_CLOSING[mark])
        elif mark in nests:
            closing.append(_CLOSING[mark])
        else:
            yield found


def split_css(text: str, separator: str) -> list[str]:
    """Split CSS at a mark outside of strings and brackets; comments are left out."""
    if _SPECIAL.search(text) is None:
        return text.split(separator)
    parts: list[str] = []
    pieces: list[str] = []
    at = 0
    for found in css_marks(text):
        if found["comment"] or found[0] == separator:
            pieces.append(text[at : found.start()])
            at = found.end()
        if found[0] == separator:
            parts.append("".join(pieces))
            pieces = []
    return [*parts, "".join((*pieces, text[at:]))]


def unescaped(text: str) -> str:
    """Return CSS with the characters that its escapes stand for."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[2]
    code = int(found[1], 16)
    return chr(code) if 0 < code <= sys.maxunicode else ""


def parse_declarations(style: str) -> Mapping[str, str]:
    """Return the valid declarations of a style attribute, in lower case."""
    return _short_style(style) if len(style) <= _MOST_CHARS else _long_style(style)


def _long_style(style: str) -> Mapping[str, str]:
    return declarations_of(split_css(style, ";"))


_short_style = lru_cache(maxsize=1_000)(_long_style)
"""Pages repeat the same styles."""


def declarations_of(parts: Iterable[str]) -> dict[str, str]:
    """Return the valid declarations that can hide text, in lower case; the last one counts."""
    found: dict[str, str] = {}
    for part in parts:
        name, value = (it.strip() for it in unescaped(part).lower().partition(":")[::2])
        plain, mark, rest = value.partition("!")
        if not value or (mark and _IMPORTANT.fullmatch(mark + rest) is None):
            continue
        plain = plain.strip() + ")" * (plain.count("(") - plain.count(")"))  # closed by the end
        for longhand, own in _longhands(_ALIASES.get(name, name), plain):
            is_first = mark or "!" not in found.get(longhand, "")
            if is_first and longhand.startswith(_NAMES) and _is_valid(longhand, own):
                found[longhand] = own + mark + rest
    return found


_WIDE = re.compile(r"inherit|initial|unset|revert(?:-layer)?|.*(?:var|env|attr)\(.*", re.DOTALL)
"""Values that each property has, or that are known later."""

_UNITS = r"(?:px|pt|pc|in|cm|mm|q|r?(?:em|ex|ch|cap|ic|lh)|[sld]?v(?:w|h|i|b|min|max)|cq\w+|%)"
_ANY_UNIT = rf"{_UNITS}|deg|g?rad|turn"
_ARGUMENTS = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\))*+\)"
_CALL = rf"[a-z-]++{_ARGUMENTS}"
_MATHS = (
    rf"(?:(?:-webkit-)?calc|min|max|clamp|round|mod|rem|abs|hypot|anchor(?:-size)?){_ARGUMENTS}"
)
_ZERO = r"[-+]?(?:0*\.0+|0+)"
_LENGTH = rf"(?:[-+]?{NUMBER}{_UNITS}|{_ZERO}|{_MATHS})"
_POSITIVE = rf"(?:\+?{NUMBER}{_UNITS}|{_ZERO}|{_MATHS})"
_RATIO = rf"(?:[-+]?{NUMBER}%?|{_MATHS})"
_SIZES = rf"(?:[-+]?{NUMBER}(?:{_ANY_UNIT})?|{_MATHS})"
_MOVE = (
    r"(?:(?:matrix|perspective|rotate|scale|skew|translate)(?:3d|[xyz])?"
    rf"\(\s*{_SIZES}(?:\s*[,\s]\s*{_SIZES})*\s*\))"
)
_FILTER = (
    r"(?:(?:blur|brightness|contrast|drop-shadow|grayscale|hue-rotate|invert|opacity|saturate|sepia"
    rf"|url){_ARGUMENTS})"
)
_OUTER, _INNER = "(?:block|inline)", "(?:flow|flow-root|table|flex|grid|ruby|math)"
_BOX = (
    rf"none|contents|{_OUTER}|{_INNER}|{_OUTER}\s+{_INNER}|{_INNER}\s+{_OUTER}"
    rf"|(?:{_OUTER}\s+)?(?:flow(?:-root)?\s+)?list-item|inline-(?:block|table|flex|grid)"
    r"|table-(?:row|cell|column|caption|(?:row|header|footer|column)-group)"
    r"|ruby-(?:base|text)(?:-container)?|-webkit-(?:inline-)?(?:box|flex)"
)
_FONT_SIZE = rf"(?:{_POSITIVE}|(?:x{{1,3}}-)?(?:small|large)|medium|smaller|larger|math)"
_FAMILY = r"(?:\"[^\"]*\"|'[^']*'|-?[^\W\d][\w-]*(?:\s+-?[^\W\d][\w-]*)*)"
_SIDES = ("top", "right", "bottom", "left")

_PATTERNS = {
    "display": _BOX,
    "visibility": "visible|hidden|collapse",
    "content-visibility": "visible|auto|hidden",
    "opacity": _RATIO,
    "fill-opacity": _RATIO,
    "zoom": rf"{_RATIO}|normal|reset",
    "font-size": _FONT_SIZE,
    "position": "static|relative|absolute|fixed|(?:-webkit-)?sticky",
    "text-indent": rf"{_LENGTH}(?:\s+(?:hanging|each-line))*",
    "transform": rf"none|{_MOVE}(?:\s*{_MOVE})*",
    "translate": rf"none|{_LENGTH}(?:\s+{_LENGTH}){{0,2}}",
    "scale": rf"none|{_RATIO}(?:\s+{_RATIO}){{0,2}}",
    "filter": rf"none|{_FILTER}(?:\s*{_FILTER})*",
    "clip": rf"auto|rect{_ARGUMENTS}",
    "clip-path": (
        rf"none|(?:(?:inset|circle|ellipse|polygon|path|rect|xywh|shape|url){_ARGUMENTS}"
        r"|(?:margin|border|padding|content|fill|stroke|view)-box|\s)+"
    ),
    **dict.fromkeys(
        ("overflow-x", "overflow-y"), r"visible|hidden|clip|scroll|auto|overlay|-moz-\S+"
    ),
    **dict.fromkeys(
        (f"{start}{side}" for start in ("", "margin-") for side in _SIDES), rf"auto|{_LENGTH}"
    ),
    **dict.fromkeys((f"padding-{side}" for side in _SIDES), _POSITIVE),
    **dict.fromkeys(
        (f"{start}{size}" for start in ("", "min-", "max-") for size in ("width", "height")),
        rf"auto|none|(?:-webkit-|-moz-)?(?:min|max|fit)-content|stretch|-\w+-\S+|{_POSITIVE}",
    ),
}
_VALID: Mapping[str, Callable[[str], object]] = {
    **{name: re.compile(pattern).fullmatch for name, pattern in _PATTERNS.items()},
    **dict.fromkeys(("color", "-webkit-text-fill-color", "background-color"), is_colour),
    **dict.fromkeys(
        ("fill", "stroke"),
        lambda value: is_colour(value) or re.match(r"none|url\(|context-", value),
    ),
}

_NAMES = (*_VALID, "background-image", "contain", "mask", "vertical-align", "text-decoration", "--")
"""The starts of the names of properties that are read."""

_ALIASES = {
    **{
        f"{start}{name}-size": f"{start}{size}"
        for start in ("", "min-", "max-")
        for name, size in (("block", "height"), ("inline", "width"))
    },
    **{
        f"{kind}-{name}": side if kind == "inset" else f"{kind}-{side}"
        for kind in ("inset", "margin", "padding")
        for name, side in zip(
            ("block-start", "inline-end", "block-end", "inline-start"), _SIDES, strict=True
        )
    },
    "overflow-block": "overflow-y",
    "overflow-inline": "overflow-x",
    **{
        f"-webkit-{name}": name
        for name in ("clip-path", "filter", "mask", "mask-image", "opacity", "transform")
    },
}
"""Other names of properties, for lines from left to right."""

_FONT = re.compile(
    r"(?:(?:normal|italic|oblique(?:\s+[-\d.]+deg)?|small-caps|bold|bolder|lighter|\d{1,4}"
    r"|(?:(?:ultra|extra|semi)-)?(?:condensed|expanded))\s+){0,5}"
    rf"(?P<size>{_FONT_SIZE})(?:\s*/\s*(?:normal|{_SIZES}))?(?:\s+|(?=[\"'])){_FAMILY}"
    rf"(?:\s*,\s*{_FAMILY})*"
)
_SYSTEM_FONTS = frozenset({"caption", "icon", "menu", "message-box", "small-caption", "status-bar"})
_BACKGROUND_WORD = re.compile(
    rf"{_LENGTH}|/|none|(?:repeat|scroll|fixed|local|space|round|cover|contain|auto)|repeat-[xy]"
    r"|no-repeat|top|bottom|left|right|center|(?:border|padding|content)-box|text"
)
_WORD = re.compile(rf"{_CALL}|/|[^\s/,]+")
_IMAGE = re.compile(
    r"url\(|src\(|(?:-\w+-)?(?:\w+-)*gradient\(|image|cross-fade\(|element\(|paint\("
)


def _longhands(name: str, value: str) -> Iterable[tuple[str, str]]:
    """Return the declarations of a shorthand; () if its value is invalid."""
    if name not in _SHORTHANDS:
        return ((name, value),)
    if _WIDE.fullmatch(value):
        parts = _SHORTHANDS[name]
        return [(it, value) for it in parts]
    if name == "font":
        if value in _SYSTEM_FONTS:
            return (("font-size", "medium"),)
        found = _FONT.fullmatch(value)
        return (("font-size", found["size"]),) if found else ()
    if name == "background":
        return _backgrounds(value)
    names = _SHORTHANDS[name]
    words = words_of(value)
    sides = each_side(words)[: len(names)] if len(words) <= len(names) else ()
    pairs = list(zip(names, sides, strict=False))
    return pairs if all(_is_valid(*it) for it in pairs) else ()


def words_of(value: str) -> list[str]:
    """Return the words and functions of a value, without white space and commas between them."""
    return _WORD.findall(value)


def each_side(words: Sequence[str]) -> Sequence[str]:
    """Return the values of the sides, clockwise from the top; () if they are not one to four."""
    return [words[at] for at in _ORDER.get(len(words), ())]


_ORDER = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 1), 4: (0, 1, 2, 3)}

_SHORTHANDS = {
    "font": ("font-size",),
    "background": ("background-color", "background-image"),
    "overflow": ("overflow-x", "overflow-y"),
    "inset": _SIDES,
    "margin": tuple(f"margin-{side}" for side in _SIDES),
    "padding": tuple(f"padding-{side}" for side in _SIDES),
    "inset-block": ("top", "bottom"),
    "inset-inline": ("left", "right"),
    "margin-block": ("margin-top", "margin-bottom"),
    "margin-inline": ("margin-left", "margin-right"),
    "padding-block": ("padding-top", "padding-bottom"),
    "padding-inline": ("padding-left", "padding-right"),
}


KNOWN_PROPERTIES = frozenset({*_VALID, *_SHORTHANDS, *_ALIASES})


def _backgrounds(value: str) -> Iterable[tuple[str, str]]:
    colour, images = "transparent", []
    for word in words_of(value):
        if _IMAGE.match(word):
            images.append(word)
        elif is_colour(word):
            colour = word
        elif _BACKGROUND_WORD.fullmatch(word) is None:
            return ()
    return (("background-color", colour), ("background-image", " ".join(images) or "none"))


def _is_valid(name: str, value: str) -> bool:
    check = _VALID.get(name)
    if check is None or _WIDE.fullmatch(value):
        return True
    return bool(check(value)) and all(map(_is_calculation, _CALCULATED.findall(value)))


_CALCULATED = re.compile(rf"\b(?:calc|min|max|clamp){_ARGUMENTS}")
_KNOWN_UNIT = re.compile(rf"(?:{_ANY_UNIT})?")
_OTHER_CALL = re.compile(r"(?<![a-z-])(?!(?:calc|min|max|clamp)\()[a-z-]+\(")


def _is_calculation(call: str) -> bool:
    """Return whether a calculation has numbers only, or functions that are not calculated here."""
    if _OTHER_CALL.search(call):
        return True
    return _evaluated(call, lambda unit: 1.0 if _KNOWN_UNIT.fullmatch(unit) else None) is not None


_SIZE = re.compile(rf"([-+]?{NUMBER})([a-z%]*)")
_PX = {
    "": 1.0,
    "px": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "in": 96.0,
    "cm": 37.8,
    "mm": 3.78,
    "q": 0.945,
    "vw": 12.8,
    "vi": 12.8,
    "vmax": 12.8,
    "vh": 8.0,
    "vb": 8.0,
    "vmin": 8.0,
    "cqw": 12.8,
    "cqi": 12.8,
    "cqh": 8.0,
    "cqb": 8.0,
    "cqmin": 8.0,
    "cqmax": 12.8,
}
"""Units; of a window 1280 px wide and 800 px high."""

_EM = {"em": 1.0, "ex": 0.5, "ch": 0.5, "cap": 0.7, "ic": 1.0, "lh": 1.2}
_MOST_CALLS = 20


def length_px(
    value: str | None, *, percent: float = 10, em: float = 16, rem: float = 16
) -> float | None:
    """Return a length in pixels; ``percent`` is one percent. None if it is not known."""

    def unit_px(unit: str) -> float | None:
        if unit == "%":
            return percent
        if unit[:1] == "r" and unit[1:] in _EM:
            return _EM[unit[1:]] * rem
        if unit in _EM:
            return _EM[unit] * em
        return _PX.get(unit) or _PX.get(unit[1:] if unit[:1] in "sld" else "-")

    return _evaluated(value, unit_px)


def ratio(value: str | None) -> float | None:
    """Return a number or a percentage as a number; None if it is not known."""
    return _evaluated(value, {"": 1.0, "%": 0.01}.get)


_Unit = Callable[[str], float | None]


def _evaluated(value: str | None, unit: _Unit) -> float | None:
    if not value:
        return None
    if found := _SIZE.fullmatch(value):
        return _product(found, unit)
    if "(" not in value or value.count("(") > _MOST_CALLS:
        return None
    try:
        return _Calculation(value, unit).read()
    except (ValueError, ZeroDivisionError):
        return None


def _product(found: re.Match[str], unit: _Unit) -> float | None:
    size = unit(found[2])
    return None if size is None else max(min(float(found[1]), _MOST), -_MOST) * size


class _Calculation:
    """Calculates calc(), min(), max() and clamp(). Raises ValueError for anything else."""

    def __init__(self, text: str, unit: _Unit) -> None:
        self._text = text
        self._unit = unit
        self._at = 0

    def read(self) -> float:
        """Return the value of the whole text."""
        value = self._call()
        if self._text[self._at :].strip():
            raise ValueError(self._text)
        return value

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _sum(self) -> float:
        value = self._factors()
        while found := self._take(_SIGN):
            other = self._factors()
            value += -other if found[1] == "-" else other
        return value

    def _factors(self) -> float:
        value = self._one()
        while found := self._take(_TIMES):
            other = self._one()
            value = value / other if found[1] == "/" else value * other
        return value

    def _one(self) -> float:
        found = self._take(_TERM)
        if found is None:
            return self._call()
        size = _SIZE.fullmatch(found[1])
        value = _product(size, self._unit) if size else None
        if value is None:
            raise ValueError(self._text)
        return value

    def _call(self) -> float:
        found = self._take(_OPENING)
        if found is None:
            raise ValueError(self._text)
        values = [self._sum()]
        while self._take(_COMMA):
            values.append(self._sum())
        if self._take(_END) is None:
            raise ValueError(self._text)
        name = found[1]
        if name == "clamp" and len(values) == 3:
            return max(values[0], min(values[1], values[2]))
        if name in {"min", "max"}:
            return min(values) if name == "min" else max(values)
        if name not in {"", "calc"} or len(values) > 1:
            raise ValueError(self._text)
        return values[0]


_SIGN = re.compile(r"\s*([-+])\s*")
_TIMES = re.compile(r"\s*([*/])\s*")
_TERM = re.compile(rf"\s*([-+]?{NUMBER}[a-z%]*)")
_OPENING = re.compile(r"\s*([a-z-]*)\(")
_COMMA = re.compile(r"\s*,")
_END = re.compile(r"\s*\)")
