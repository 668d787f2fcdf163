"""Decides which conditional rules of a style sheet apply, for one window of a browser.

The window is 1280 px wide and 800 high, with light colours, and a pointer that hovers.
"""

import re
from collections.abc import Callable

from mcp_tools_proxy.documents.importers.css_values import (
    KNOWN_PROPERTIES,
    NUMBER,
    declarations_of,
    length_px,
    split_css,
)

_FEATURES: dict[str, float | str] = {
    **dict.fromkeys(("width", "device-width", "inline-size"), 1280.0),
    **dict.fromkeys(("height", "device-height", "block-size"), 800.0),
    **dict.fromkeys(("aspect-ratio", "device-aspect-ratio"), 1.6),
    **dict.fromkeys(("resolution", "-webkit-device-pixel-ratio"), 1.0),
    "color": 8.0,
    "color-index": 0.0,
    "monochrome": 0.0,
    "grid": 0.0,
    "orientation": "landscape",
    **dict.fromkeys(("hover", "any-hover"), "hover"),
    **dict.fromkeys(("pointer", "any-pointer"), "fine"),
    "prefers-color-scheme": "light",
    **{f"prefers-{name}": "no-preference" for name in ("contrast", "reduced-motion")},
    **{f"prefers-reduced-{name}": "no-preference" for name in ("data", "transparency")},
    "forced-colors": "none",
    "inverted-colors": "none",
    "scripting": "enabled",
    "update": "fast",
    "overflow-block": "scroll",
    "overflow-inline": "scroll",
    "color-gamut": "srgb",
    "dynamic-range": "standard",
    "display-mode": "browser",
}
_OFF = frozenset({0.0, "none", "no-preference"})
"""Values of features that do not match without a value."""

_MEDIUM = re.compile(r"(?:(?P<not>not)\s+|only\s+)?(?P<medium>[a-z-]+)(?:\s+and\b(?P<rest>.*))?")
_WIDEST = re.compile(rf"([-+]?{NUMBER})(dppx|x|dpi|dpcm)|({NUMBER})\s*/\s*({NUMBER})")
_DOTS = {"dppx": 1.0, "x": 1.0, "dpi": 1 / 96, "dpcm": 2.54 / 96}
_CONTAINER_NAME = re.compile(r"(?!not\b)[a-z_-][\w-]*\s+(?=not\b|\()")
_RANGE = re.compile(r"(<=|>=|<|>|=)")
_MOST_CHARS = 1_000
_MOST_BRACKETS = 50
"""Limits of a query; brackets are read by recursion."""


def shows_media(queries: str) -> bool:
    """Return whether a list of media queries matches; an empty one does, an unknown one not."""
    queries = " ".join(queries.lower().split())
    if not queries:
        return True
    return any(_matches(it.strip()) is True for it in split_css(queries[:_MOST_CHARS], ","))


def is_supported(condition: str) -> bool:
    """Return whether a condition of @supports holds; an unknown one does."""
    return _condition(" ".join(condition.lower().split())[:_MOST_CHARS], _supports) is not False


def fits_container(condition: str) -> bool:
    """Return whether a condition of @container holds in a container as wide as the window."""
    text = _CONTAINER_NAME.sub("", " ".join(condition.lower().split())[:_MOST_CHARS])
    return _condition(text, _feature) is not False


def _matches(query: str) -> bool | None:
    found = _MEDIUM.fullmatch(query)
    if found is None or found["medium"] in {"not", "only", "and", "or"}:
        return _condition(query, _feature)
    is_shown: bool | None = found["medium"] in {"all", "screen"}
    if is_shown and found["rest"]:
        is_shown = _condition(found["rest"].strip(), _feature)
    return _negated(is_shown) if found["not"] else is_shown


def _negated(found: bool | None) -> bool | None:
    return None if found is None else not found


_Feature = Callable[[str], bool | None]


def _condition(text: str, feature: _Feature) -> bool | None:
    """Return whether a condition holds: brackets with ``not``, ``and``, ``or``; None: unknown."""
    if text.count("(") > _MOST_BRACKETS:
        return None
    text = text.strip()
    if text.startswith("not") and text[3:4] in {" ", "("}:
        return _negated(_bracket(text[3:].strip(), feature))
    parts = _joined(text)
    if parts is None:
        return None
    operator, operands = parts
    found = [_bracket(it, feature) for it in operands]
    decisive = operator == "or"
    if decisive in found:
        return decisive
    return None if None in found else not decisive


def _joined(text: str) -> tuple[str, list[str]] | None:
    """Split brackets that are joined by the same word; None if they are not."""
    operands: list[str] = []
    words: set[str] = set()
    depth = at = 0
    for found in re.finditer(r"[()]", text):
        depth += 1 if found[0] == "(" else -1
        if depth:
            continue
        operand = text[at : found.end()].strip()
        if operands:
            word = re.match(r"(and|or)\b", operand)
            if word is None:
                return None
            words.add(word[1])
            operand = operand[word.end() :].strip()
        operands.append(operand)
        at = found.end()
    if depth or text[at:].strip() or not operands or len(words) > 1:
        return None
    return next(iter(words), "and"), operands


def _bracket(text: str, feature: _Feature) -> bool | None:
    if not (text.startswith("(") and text.endswith(")")):
        return None
    inner = text[1:-1].strip()
    if inner.startswith("(") or re.match(r"not\b", inner):
        return _condition(inner, feature)
    return feature(inner)


def _supports(text: str) -> bool | None:
    is_known = text.partition(":")[0].strip() in KNOWN_PROPERTIES
    return True if is_known and declarations_of([text]) else None


def _feature(text: str) -> bool | None:
    """Return whether the window has a feature, such as ``min-width: 40em``; None: unknown."""
    parts = _RANGE.split(text)
    if len(parts) in {3, 5}:
        return _in_range([it.strip() for it in parts])
    name, colon, value = (it.strip() for it in text.partition(":"))
    prefix = re.match(r"(-webkit-)?(min|max)-", name)
    if prefix:
        name = f"{prefix[1] or ''}{name[prefix.end() :]}"
    seen = _FEATURES.get(name)
    if seen is None or bool(prefix) > bool(colon):
        return None
    if not colon:
        return seen not in _OFF
    if isinstance(seen, str):
        return None if prefix else seen == value
    size = _size(value)
    if size is None:
        return None
    if prefix:
        return seen >= size if prefix[2] == "min" else seen <= size
    return seen == size


def _in_range(parts: list[str]) -> bool | None:
    """Return whether the window is in a range, such as ``400px <= width < 80em``."""
    values = [_FEATURES.get(it) if it in _FEATURES else _size(it) for it in parts[::2]]
    found: list[bool] = []
    for operator, left, right in zip(parts[1::2], values, values[1:], strict=False):
        if not (isinstance(left, float) and isinstance(right, float)):
            return None
        found.append(
            (left < right and "<" in operator)
            or (left > right and ">" in operator)
            or (left == right and "=" in operator)
        )
    return all(found)


def _size(value: str) -> float | None:
    if found := _WIDEST.fullmatch(value):
        if found[2]:
            return float(found[1]) * _DOTS[found[2]]
        return float(found[3]) / float(found[4]) if float(found[4]) else None
    return length_px(value)
