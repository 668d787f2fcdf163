"""Loops and JSON parsing in parts, with a pause after each part for other threads.

A parser holds the GIL until it returns: 10 MB with 900,000 keys stopped the event loop for 0.6 s.
"""

import re
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

from pydantic_core import from_json

from mcp_tools_proxy.wire.strict_json import (
    Place,
    RepeatedKey,
    TooManyItems,
    check_count,
    check_keys,
    count_items,
)

T = TypeVar("T")

_PAUSE_S = 0.00005
"""A thread that never sleeps makes the event loop wait 5 ms for the GIL each time."""


def pause() -> None:
    """Sleep shortly so that other threads run."""
    time.sleep(_PAUSE_S)


def paced(items: Iterable[T], *, every: int) -> Iterator[T]:
    """Yield items and pause after every ``every`` items."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % every == 0:
            pause()


WHOLE_BYTES = 256 * 1024
"""JSON up to this size is parsed in one call."""

PART_BYTES = 64 * 1024
PART_ITEMS = 1_000
"""A part ends with the first value that reaches one of these limits."""

MAX_KEYS_SEARCHED = 10_000
"""Above this number of keys in a part, a repeated key is not named."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT_OBJECT = rb'\{[^"{}\[\]]*+(?:%b[^"{}\[\]]*+)*+\}' % _STRING
_TOKEN = re.compile(
    rb'[^"{}\[\],]*+(?:%b|%b|([{\[])|(,)|([}\]]))' % (_STRING, _FLAT_OBJECT), re.DOTALL
)
_COMMA = 2
_LEVELS = {1: 1, _COMMA: 0, 3: -1}
"""Change of the nesting depth by token group; strings and flat objects have no group."""

_SPACE = rb"[ \t\r\n]*+"
_BEGIN = re.compile(_SPACE + rb"\{")
_KEY = re.compile(rb"%b(%b)%b:%b" % (_SPACE, _STRING, _SPACE, _SPACE), re.DOTALL)
_AFTER_LIST = re.compile(_SPACE + rb"([,}])")


class TooLargePart(ValueError):
    """A text or another value exceeds the limit in bytes."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"holds a text or another value over {max_bytes} bytes, which is the limit"
        )


def parse_paced(
    data: bytes,
    *,
    max_items: int | None = None,
    max_part_bytes: int | None = None,
    whole_bytes: int = WHOLE_BYTES,
) -> object:
    """Parse strict JSON in parts; for an object with long lists.

    ``max_items`` limits the number of values; ``max_part_bytes`` limits a text, a list item and any
    other value; both are checked before parsing. Returns an empty list for JSON over
    ``whole_bytes`` that is not an object. Raises RepeatedKey, TooManyItems, TooLargePart,
    ValueError.
    """
    if len(data) > whole_bytes:
        return _ObjectParser(data, max_items, max_part_bytes).parse()
    if max_items is not None:
        check_count(data, max_items)
    value = from_json(data, allow_inf_nan=False)
    check_keys(data, value)
    return value


class _ObjectParser:
    """Parses one object; its members, and the items of its lists, are parsed in parts.

    Each part ends before a comma or a closing bracket and is valid JSON once bracketed, so the
    whole is valid too.
    """

    def __init__(self, data: bytes, max_items: int | None, max_part_bytes: int | None) -> None:
        self._data = data
        self._max_items = max_items
        self._max_part_bytes = max_part_bytes
        self._count = 1
        self._members: dict[str, object] = {}

    def parse(self) -> object:
        begin = _BEGIN.match(self._data, 0, PART_BYTES)
        if begin is None:
            return []
        end, closing = begin.end(), b","
        while closing == b",":
            end, closing = self._take_members(end)
        for start in range(end, len(self._data), PART_BYTES):
            if not self._is_blank(start, start + PART_BYTES):
                raise _invalid(start)
        return self._members

    def _take_members(self, start: int) -> tuple[int, bytes]:
        """Parse members to the end of a part or of the next list; return the end and its byte."""
        end, closing, last = self._end_of_part(start, is_object=True)
        if closing == b"[":
            if last > start:
                self._add_members(start, last - 1)
            return self._take_list(last, end)
        if closing == b"]":
            raise _invalid(end)
        if closing == b"," or self._members or not self._is_blank(start, end - 1):
            self._add_members(start, end - 1)
        return end, closing

    def _take_list(self, start: int, end: int) -> tuple[int, bytes]:
        """Parse the member at ``start`` with the list at ``end``; return its end and its byte."""
        found = _KEY.fullmatch(self._data, start, end - 1)
        if found is None:
            raise _invalid(start)
        self._count_values(1)
        key = from_json(found[1])
        items: list[object] = []
        self._add(key, items)
        closing = b","
        while closing == b",":
            start = end
            end, closing, _ = self._end_of_part(start)
            if closing == b"}":
                raise _invalid(end)
            if closing == b"," or items or not self._is_blank(start, end - 1):
                items += self._items(key, len(items), start, end - 1)
        after = _AFTER_LIST.match(self._data, end, self._limit(end))
        if after is None:
            raise _invalid(end)
        return after.end(), after[1]

    def _end_of_part(self, start: int, *, is_object: bool = False) -> tuple[int, bytes, int]:
        """Return the end of the part at ``start``, its last byte and the start of its last item.

        In an object, the start of a list also ends a part.
        """
        item, count = start, 0
        for end, byte in self._outer_tokens(start):
            if byte == b",":
                item = end
                count += 1
                if count == PART_ITEMS or end - start >= PART_BYTES:
                    break
            elif byte in b"]}" or (is_object and byte == b"["):
                break
        return end, byte, item

    def _outer_tokens(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the end of each top-level comma and bracket after ``start``, and its byte."""
        position = item = start
        depth = 0
        while True:
            token = _TOKEN.match(self._data, position, self._limit(item))
            if token is None:
                raise self._no_token(item)
            position = token.end()
            kind = token.lastindex
            if kind is None:
                continue
            if depth == 0:
                yield position, self._data[position - 1 : position]
            if depth == 0 and kind == _COMMA:
                item = position
            depth += _LEVELS[kind]

    def _limit(self, item: int) -> int:
        """Return the position before which the item at ``item`` must end."""
        if self._max_part_bytes is None:
            return len(self._data)
        return item + self._max_part_bytes

    def _no_token(self, item: int) -> ValueError:
        if self._max_part_bytes is not None and self._limit(item) < len(self._data):
            return TooLargePart(self._max_part_bytes)
        return _invalid(item)

    def _items(self, key: str, first: int, start: int, end: int) -> list[object]:
        try:
            items = self._parsed(b"[", start, end, b"]")
        except RepeatedKey as error:
            place: Place = (key,)
            if error.place:
                index, *inside = error.place
                place = (key, first + int(index), *inside)
            raise RepeatedKey(place, None) from None
        return cast("list[object]", items)

    def _add_members(self, start: int, end: int) -> None:
        members = self._parsed(b"{", start, end, b"}")
        for key, value in cast("dict[str, object]", members).items():
            self._add(key, value)

    def _add(self, key: str, value: object) -> None:
        if key in self._members:
            raise RepeatedKey((key,), None)
        self._members[key] = value

    def _parsed(self, opening: bytes, start: int, end: int, closing: bytes) -> object:
        if self._is_blank(start, end):
            raise _invalid(start)
        content = b"".join((opening, memoryview(self._data)[start:end], closing))
        if self._max_items is not None:
            self._count_values(count_items(content) - 1)
        try:
            # without caching keys, which took 40 ms instead of 25 for 199,000 in one object
            value: object = from_json(content, allow_inf_nan=False, cache_strings=False)
        except ValueError as error:
            raise ValueError(f"{error}, counted from byte {start}") from None
        if b"{" in content:
            check_keys(content, value, max_searched=MAX_KEYS_SEARCHED, encode=False)
        pause()
        return value

    def _count_values(self, count: int) -> None:
        self._count += count
        if self._max_items is not None and self._count > self._max_items:
            raise TooManyItems(self._max_items)

    def _is_blank(self, start: int, end: int) -> bool:
        first = self._data[start : min(end, start + 1)]
        return not first or (first.isspace() and not self._data[start:end].strip(b" \t\r\n"))


def _invalid(position: int) -> ValueError:
    return ValueError(f"unexpected end or character at byte {position}")
