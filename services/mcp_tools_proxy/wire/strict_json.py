"""Strict JSON for all entry points: rejects input that two parsers could read differently.

Duplicate keys, NaN, infinities and lone surrogates are errors. Depth and number of values are
checked first, because parsing a huge body would block the event loop.
"""

import json
import math
import re
import sys
from collections.abc import Iterator
from itertools import accumulate
from typing import cast

from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.wire.problem_texts import place_of

_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_LONG = b"0" * 309
_HALF_LONG = b"0" * 209
"""Number of digits before the point with which a two-digit exponent can overflow a float."""


_LARGEST_NUMBER = int(sys.float_info.max)


def may_overflow(data: bytes) -> bool:
    """Return whether the JSON can contain a number over 1e308; fast, with false positives.

    All digits are mapped to 0, so that runs of zeros are runs of digits.
    """
    shape = data.translate(_SHAPE)
    # not ``in``, which takes four times as long: it first tests whether its operand is a number
    if shape.find(b"000") < 0:
        return False
    if shape.find(b"e000") >= 0 or shape.find(b"e+000") >= 0:
        return True
    return shape.find(_HALF_LONG) >= 0 and (
        _LONG in shape or _HALF_LONG + b"e" in shape or _HALF_LONG + b"." in shape
    )


def has_long_digits(data: bytes) -> bool:
    """Return whether the JSON has more consecutive digits than the largest float."""
    return _LONG in data.translate(_SHAPE)


def whole_number(value: object) -> object:
    """Convert 3.0 to 3: JSON has one kind of number, and some programs write only floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def without_infinity(value: object) -> object:
    """Return parsed JSON with null for each number that is infinite in JavaScript."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case int() if abs(value) > _LARGEST_NUMBER:
            return None
        case dict():
            return {key: without_infinity(item) for key, item in value.items()}
        case list():
            return [without_infinity(item) for item in value]
    return value


MAX_DEPTH = 64
"""Maximum nesting."""

MAX_KEYS_SEARCHED = 10_000
"""Above this number of keys the error does not name the repeated one: the search among 75,000
blocked all other calls for 0.1 s."""

_UNCACHED_BYTES = 256 * 1024
"""Keys of larger requests bypass the parser's cache: 80,000 different ones took 10 ms longer
with it."""

LARGE_BYTES = 4 * 1024 * 1024
"""JSON of this size, which only files have, is not encoded again, because that took three
copies."""

Place = tuple[str | int, ...]

_TOO_LARGE = "holds a number beyond 1e308"

_BACKSLASH = ord("\\")
_SPACE = b" \t\r\n"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""A level up is 1, a level down -1, as signed bytes."""

_LONG_INTEGER = re.compile(rb"(?<![\d.eE+])[1-9]\d{309}\d*+(?![.eE])")
"""An integer over 309 digits, which a float cannot represent and which is slow to encode."""

_COUNTED = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|\[\s*\]|\{\s*\}|([,\[{])', re.DOTALL)
"""The group matches the start of a further JSON value; strings and empty values are skipped.

An unterminated string matches to the end, or each quote in it would scan the rest again.
"""


class RepeatedKey(ValueError):
    """A key occurs twice in an object, the second time at ``place``.

    ``value`` is the parsed document with the last value of each key.
    """

    def __init__(self, place: Place, value: object) -> None:
        super().__init__("has a key twice in one object")
        self.place = place
        self.value = value


class TooManyItems(ValueError):
    """The document contains more values than the limit."""

    def __init__(self, max_items: int) -> None:
        super().__init__(f"holds more than {max_items} JSON values, which is the limit")


def parse_strict(
    data: bytes, *, max_items: int | None = None, max_searched: int = MAX_KEYS_SEARCHED
) -> object:
    """Parse strict UTF-8 JSON: no NaN, Infinity, 1e400, lone surrogates or duplicate keys.

    At most 64 levels. ``max_items`` limits the values, counted before parsing: 300,000 blocked all
    other calls for 0.3 s. With it, a repeated key is searched among at most ``max_searched`` keys.

    Raises RepeatedKey, TooManyItems, and ValueError with a text to follow a subject: "is not valid
    JSON: …".
    """
    may_be_infinite = _check_shape(data, max_items)
    try:
        cached = max_items is None or len(data) < _UNCACHED_BYTES
        value: object = from_json(
            data, allow_inf_nan=False, cache_strings="keys" if cached else False
        )
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if may_be_infinite and _has_infinity(value):
        raise ValueError(_TOO_LARGE)
    check_keys(data, value, max_searched=None if max_items is None else max_searched)
    return value


def _check_shape(data: bytes, max_items: int | None) -> bool:
    """Check depth and number of values without parsing; return whether a float can overflow.

    The cheap counts include strings. Only input that exceeds a limit by them is examined again
    without strings. Raises ValueError.
    """
    brackets = data.count(b"[") + data.count(b"{")
    may_be_many = (
        max_items is not None  # a value is at least one byte
        and len(data) >= max_items
        and brackets + data.count(b",") >= max_items
    )
    if not (may_be_many or brackets > MAX_DEPTH or may_overflow(data)):
        return False
    shape = _shape_of(data)
    if max_items is not None and _count_items(shape) > max_items:
        raise TooManyItems(max_items)
    if brackets > MAX_DEPTH and _is_too_deep(shape):
        raise ValueError(f"is nested deeper than {MAX_DEPTH} levels")
    if not may_overflow(shape):
        return False
    if has_long_digits(shape) and _LONG_INTEGER.search(shape):
        raise ValueError(_TOO_LARGE)
    return True


def check_count(data: bytes, max_items: int) -> None:
    """Raise TooManyItems for JSON of more than ``max_items`` values, without parsing or copying.

    For files: unlike ``count_items``, it makes no copies and lets other threads run.
    """
    if data.count(b",") + data.count(b"[") + data.count(b"{") < max_items:
        return
    left = max_items - 1
    for found in _COUNTED.finditer(data):
        if found[1]:
            left -= 1
            if left < 0:
                raise TooManyItems(max_items)


def count_items(data: bytes) -> int:
    """Count the values of valid JSON without parsing it."""
    return _count_items(_shape_of(data))


def check_keys(
    data: bytes, value: object, *, max_searched: int | None = None, encode: bool = True
) -> None:
    """Raise RepeatedKey if ``data``, which parsed as ``value``, repeats a key in an object.

    The place is the root if there are more than ``max_searched`` keys. ``encode`` is faster, but
    keeps the UTF-8 form of each text in memory.

    The fast parser keeps only one of two values, so that ``value`` encoded again has fewer colons
    than ``data``. Colons in strings survive, unless they were escaped.
    """
    colons = data.count(b":")
    is_encoded = encode and len(data) < LARGE_BYTES
    kept = to_json(value).count(b":") if is_encoded else _count_colons(value)
    if colons == kept and (_BACKSLASH not in data or b"\\u003" not in data):
        return
    escaped = data.replace(rb"\\", b"")
    colons += escaped.count(rb"\u003a") + escaped.count(rb"\u003A")
    if colons == kept:
        return
    is_searched = max_searched is None or colons <= max_searched
    raise RepeatedKey(_place_of_repeat(data) if is_searched else (), value)


def _count_colons(value: object) -> int:
    """Count the colons of parsed JSON: in its texts, and one for each key."""
    count = 0
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                count += text.count(":")
            case list() as items:
                waiting += items
            case dict() as members:
                count += len(members)
                waiting += members
                waiting += members.values()
    return count


def _shape_of(data: bytes) -> bytes:
    """Return JSON with strings replaced by 0, at the speed of C for any content."""
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    return b"0".join(plain.split(b'"')[::2])


def _count_items(shape: bytes) -> int:
    shape = shape.translate(None, delete=_SPACE)
    opened = shape.count(b"[") + shape.count(b"{")
    return shape.count(b",") + opened - shape.count(b"[]") - shape.count(b"{}") + 1


def _is_too_deep(shape: bytes) -> bool:
    steps = memoryview(shape.translate(_STEPS, delete=_NO_BRACKETS)).cast("b")
    return max(accumulate(steps), default=0) > MAX_DEPTH


def _has_infinity(value: object) -> bool:
    """Return whether a number became infinite: then the two encodings of infinity differ."""
    return to_json(value, inf_nan_mode="null") != to_json(value, inf_nan_mode="constants")


class _Repeating(dict[str, object]):
    """An object with a repeated key; ``repeated`` is the first such key."""

    repeated: str


def _place_of_repeat(data: bytes) -> Place:
    """Find the first repeated key of valid JSON, with the slower parser of the standard library.

    Numbers stay text: conversion takes time, and can fail for long integers.
    """
    root = json.loads(data, object_pairs_hook=_object, parse_int=str, parse_float=str)
    return _find_repeat(root) or ()


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    parsed = dict(pairs)
    if len(parsed) == len(pairs):
        return parsed
    repeating, seen = _Repeating(parsed), set[str]()
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


BODY = "body"
"""``details.field`` of an error that concerns the body as a whole."""


def parse_request(data: bytes, *, max_items: int) -> object:
    """Parse a request as strict JSON; see ``parse_strict``. Raises InvalidRequest."""
    try:
        return parse_strict(data, max_items=max_items)
    except RepeatedKey as error:
        raise repeated_key(error) from None
    except TooManyItems as error:
        details = {"field": BODY, "max_json_items": max_items}
        raise InvalidRequest(f"the body {error}", details=details) from None
    except ValueError as error:
        raise InvalidRequest(f"the body {error}", details={"field": BODY}) from None


def repeated_key(error: RepeatedKey) -> InvalidRequest:
    """Build the error for a key that occurs twice in one object, with its place."""
    field = place_of({"loc": error.place}, whole=BODY)
    what = (
        f"{field}: the same object has this key"
        if error.place
        else "an object in the body has the same key"
    )
    return InvalidRequest(f"{what} twice; keep one of them", details={"field": field})


_CHUNK_BYTES = 256 * 1024


def has_structure_over(data: bytes, max_bytes: int) -> bool:
    """Return whether brackets, commas, colons, quotes, numbers and literals exceed ``max_bytes``.

    Parsed, they take up to 24 times as much memory: 10 MB of JSON with 600,000 short keys became
    135 MB, while a text of 10 MB keeps its size. White space is ignored. Reads in chunks and stops
    at the limit.
    """
    if len(data) <= max_bytes:
        return False
    return any(size > max_bytes for size in structure_sizes(data))


def structure_sizes(data: bytes) -> Iterator[int]:
    """Yield the size of the structure up to the end of each chunk."""
    size, first, start = 0, 0, 0
    while start < len(data):
        chunk = data[start : start + _CHUNK_BYTES]
        if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2:  # an escape is not cut
            chunk = data[start : start + _CHUNK_BYTES + 1]
        start += len(chunk)
        if b"\\" in chunk:
            chunk = chunk.replace(rb"\\", b"").replace(rb"\"", b"")
        pieces = chunk.split(b'"')
        outside = b"".join(pieces[first::2])
        quotes = len(pieces) - 1
        size += quotes + len(outside.translate(None, _SPACE))
        first ^= quotes & 1
        yield size
