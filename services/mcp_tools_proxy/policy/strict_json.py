"""JSON as every entry takes it: nothing that some reader behind could take for something else."""

import json
import re
from typing import cast

from pydantic_core import from_json, to_json

from mcp_tools_proxy.policy.numbers import may_overflow

MAX_DEPTH = 64
"""Deepest nesting."""

Place = tuple[str | int, ...]

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, or the rest where its end is missing: linear, whatever the bytes are."""

_SPACE = b" \t\r\n"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_AS_LISTS = bytes.maketrans(b"{}", b"[]")


class RepeatedKey(ValueError):
    """An object names a key twice, the second time at ``place``; ``value`` has the last of each."""

    def __init__(self, place: Place, value: object) -> None:
        super().__init__("names a key twice in one object")
        self.place = place
        self.value = value


class TooManyItems(ValueError):
    """There are more values than the limit."""

    def __init__(self, max_items: int) -> None:
        super().__init__(f"holds more than {max_items} JSON values, the limit")


def parse_strict(data: bytes, *, max_items: int | None = None) -> object:
    """Parse strict UTF-8 JSON: no NaN, Infinity, 1e400, lone surrogates or key twice in an object,
    at most 64 levels.

    ``max_items`` bounds how many values there are, which is counted before anything is made of
    them: 300,000 stalled every other call for 0.3 s. Raises RepeatedKey, TooManyItems, and
    ValueError, which says what is wrong as in "is not valid JSON: …".
    """
    brackets = data.count(b"[") + data.count(b"{")
    at_most = brackets + data.count(b",") + 1
    if max_items is not None and at_most > max_items and _count_items(data) > max_items:
        raise TooManyItems(max_items)
    try:
        value: object = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if brackets > MAX_DEPTH and _is_too_deep(data):
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels")
    if may_overflow(data) and _has_infinity(value):
        raise ValueError("holds a number beyond 1e308")
    check_keys(data, value)
    return value


def check_keys(data: bytes, value: object) -> None:
    """Raise RepeatedKey where ``data``, which parsed as ``value``, names a key twice in an object.

    No parser of ours sees that. But it keeps one of the two, so that what is written again has
    fewer colons: those in strings stay, and are the same number unless they were escaped.
    """
    colons, kept = data.count(b":"), to_json(value).count(b":")
    if colons == kept and b"\\u003" not in data:
        return
    escaped = data.replace(rb"\\", b"")
    colons += escaped.count(rb"\u003a") + escaped.count(rb"\u003A")
    if colons != kept:
        raise RepeatedKey(_place_of_repeat(data), value)


def _count_items(data: bytes) -> int:
    """Count the values of JSON by its commas and brackets outside of strings."""
    shape = _STRING.sub(b"0", data).translate(None, delete=_SPACE)
    opened = shape.count(b"[") + shape.count(b"{")
    return shape.count(b",") + opened - shape.count(b"[]") - shape.count(b"{}") + 1


def _is_too_deep(data: bytes) -> bool:
    """Tell whether valid JSON is nested too deep: take its innermost brackets away, level by level.

    Walking along the brackets took ten times as long.
    """
    brackets = _STRING.sub(b"", data).translate(_AS_LISTS, delete=_NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _has_infinity(value: object) -> bool:
    """Tell whether a number became infinite: then it is written in another way, as is asked."""
    return to_json(value, inf_nan_mode="null") != to_json(value, inf_nan_mode="constants")


class _Repeating(dict[str, object]):
    """An object with the first of its keys that was named twice."""

    repeated: str


def _place_of_repeat(data: bytes) -> Place:
    """Find the first repeated key of valid JSON, with a parser that lets each object be seen.

    Numbers stay text, they do not matter here.
    """
    root = json.loads(data, object_pairs_hook=_object, parse_int=str, parse_float=str)
    return _find_repeat(root) or ()


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    repeating, seen = _Repeating(made), set[str]()
    for key, _ in pairs:
        if key in seen:
            repeating.repeated = key
            break
        seen.add(key)
    return repeating


def _find_repeat(value: object) -> Place | None:
    if isinstance(value, _Repeating):
        return (value.repeated,)
    parts = value.items() if isinstance(value, dict) else enumerate(cast("list[object]", value))
    for step, part in parts:
        if type(part) in _CONTAINERS and part and (found := _find_repeat(part)):
            return (step, *found)
    return None


_CONTAINERS = frozenset({dict, list, _Repeating})
