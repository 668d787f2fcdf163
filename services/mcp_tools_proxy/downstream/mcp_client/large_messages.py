"""Parses large messages of servers in pieces, between which other tasks run.

The parser keeps every other thread from running, and takes 0.4 s for 600,000 keys.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import structlog
from pydantic_core import from_json

from mcp_tools_proxy.downstream.connection import ResponseTooLarge
from mcp_tools_proxy.wire.strict_json import may_overflow, without_infinity

log = structlog.get_logger()

LARGE_BYTES = 64 * 1024
"""From here on a message is parsed in pieces."""

MAX_SEPARATORS = 150_000
"""Commas and colons outside of texts in one piece: 75,000 keys take up to 50 ms."""

_PIECE_DEPTH = 4
"""Depth of the pieces: message, result, its list, an item of that."""

_MAX_PIECES = 50_000

_COUNTED_BYTES = 1024 * 1024
_PIECE_BYTES = 64 * 1024
_TOKENS_AT_ONCE = 5_000
"""What is parsed and searched before other tasks may run."""

_MARK = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+){0,4096}+("?)|[\[\]{}]', re.DOTALL)
"""Matches a bracket outside of texts, or a text; of one with many escapes, the beginning."""

_MORE_TEXT = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+){0,4096}+("?)', re.DOTALL)

_SURROGATE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""Matches an escaped backslash, a pair of surrogates, or as its group a lone surrogate."""

_EMPTY = {b"{": b"{}", b"[": b"[]"}
_BRACKETS = frozenset((*_EMPTY, b"}", b"]"))


def parse_json(data: bytes) -> object:
    """Parse JSON; NaN and numbers beyond the range of a float, such as 1e400, become null.

    A lone surrogate becomes U+FFFD: one character of a text must not cost the answer. Raises
    ValueError.
    """
    value, may_be_infinite = _read(data)
    return without_infinity(value) if may_be_infinite else value


def _read(data: bytes) -> tuple[object, bool]:
    """Parse JSON; return it, and whether it may have infinities. Raises ValueError."""
    try:
        return from_json(data, allow_inf_nan=False), may_overflow(data)
    except ValueError:
        text = data.decode(errors="replace").encode()
        value = from_json(_SURROGATE.sub(_paired, text), allow_inf_nan=True)
        log.warning("server.answer_mended", bytes=len(data))
        return value, True


def _paired(found: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if found[1] else found[0]


async def parse_large_json(data: bytes) -> object:
    """Parse like ``parse_json``, in pieces. Raises ResponseTooLarge for too many values, too."""
    if _may_have_many_values(data):
        value = await _parse_pieces(data)
    else:
        value, may_be_infinite = _read(data)
        await asyncio.sleep(0)
        if may_be_infinite:
            value = without_infinity(value)
    await asyncio.sleep(0)
    return value


def _may_have_many_values(data: bytes) -> bool:
    """Return whether there are more separators than one piece may have, also inside of texts."""
    count = 0
    for start in range(0, len(data), _COUNTED_BYTES):
        end = start + _COUNTED_BYTES
        count += data.count(b",", start, end) + data.count(b":", start, end)
        if count > MAX_SEPARATORS:
            return True
    return False


async def _parse_pieces(data: bytes) -> object:
    splitter = _Splitter(data)
    await splitter.split()
    value = parse_json(b"".join(splitter.frame))
    await asyncio.sleep(0)
    places = list(_places(value, 1))
    if len(places) != len(splitter.pieces):
        raise ValueError("an object has a key twice, or a bracket is not closed")
    parsed = 0
    for (holder, key), (start, end) in zip(places, splitter.pieces, strict=True):
        holder[key] = parse_json(data[start:end])
        parsed += end - start
        if parsed > _PIECE_BYTES:
            parsed = 0
            await asyncio.sleep(0)
    return value


class _Splitter:
    """Finds the objects and lists at _PIECE_DEPTH; ``frame`` has empty ones in their place."""

    def __init__(self, data: bytes) -> None:
        self.pieces: list[tuple[int, int]] = []
        self.frame: list[bytes] = []
        self._data = data
        self._at = 0
        self._depth = 0
        self._copied = 0
        """Up to there the data is in the frame, or in a piece."""
        self._separators = {False: 0, True: 0}
        """In the frame, and in the piece that begins last."""

    async def split(self) -> None:
        """Split the data. Raises ResponseTooLarge."""
        for number, found in enumerate(iter(self._next_mark, None), start=1):
            if found[0] in _BRACKETS:
                self._take_bracket(found[0], found.start())
            elif not found[1]:
                await self._skip_text()
            if number % _TOKENS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self.frame.append(self._data[self._copied :])

    def _next_mark(self) -> re.Match[bytes] | None:
        found = _MARK.search(self._data, self._at)
        if found is not None:
            in_piece, start, end = self._depth >= _PIECE_DEPTH, self._at, found.start()
            count = self._data.count(b",", start, end) + self._data.count(b":", start, end)
            self._separators[in_piece] += count
            if self._separators[in_piece] > MAX_SEPARATORS:
                raise ResponseTooLarge(MAX_SEPARATORS, "values in one part")
            self._at = found.end()
        return found

    async def _skip_text(self) -> None:
        """Go on behind the text that goes on here; behind all if it has no end."""
        while found := _MORE_TEXT.match(self._data, self._at):
            self._at = found.end()
            if found[1]:
                return
            if not found[0]:
                self._at = len(self._data)
                return
            await asyncio.sleep(0)

    def _take_bracket(self, bracket: bytes, place: int) -> None:
        if bracket in _EMPTY:
            self._depth += 1
            if self._depth == _PIECE_DEPTH:
                self.frame += (self._data[self._copied : place], _EMPTY[bracket])
                self._copied = place
                self._separators[True] = 0
            return
        if self._depth == _PIECE_DEPTH:
            self.pieces.append((self._copied, self._at))
            self._copied = self._at
            if len(self.pieces) > _MAX_PIECES:
                raise ResponseTooLarge(_MAX_PIECES, "objects and lists")
        self._depth -= 1


def _places(value: object, depth: int) -> Iterator[tuple[Any, Any]]:
    """Yield each container at _PIECE_DEPTH as its holder and its key there, in order."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, part in items:
        if not isinstance(part, dict | list):
            continue
        if depth + 1 == _PIECE_DEPTH:
            yield value, key
        else:
            yield from _places(part, depth + 1)
