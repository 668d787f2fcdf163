"""JSON-RPC messages as bytes: splitting and parsing in bounded memory.

Large messages are parsed in pieces, between which other tasks run: the parser blocks all threads,
and takes 0.4 s for 600,000 keys.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import structlog
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic_core import from_json

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.call_relay import CLIENT_REQUESTS
from mcp_tools_proxy.downstream.connection import (
    ConnectionFailure,
    ResponseTooLarge,
    ResultNotAnObject,
)
from mcp_tools_proxy.downstream.mcp_client.error_mapping import peer_error
from mcp_tools_proxy.downstream.mcp_client.in_flight import CANCELLED, RELAYED_NOTIFICATIONS
from mcp_tools_proxy.wire.strict_json import may_overflow, structure_sizes, without_infinity

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes read of one message, far above any ``max_result_bytes``."""

MIN_STRUCTURE_BYTES = 2 * 1024 * 1024
"""Minimum limit of a message without its texts; a page of thousands of tools is below it.

A higher ``max_result_bytes`` replaces it. A larger result would be refused anyway, and parsing it
would take 24 times its size.
"""

LIST_CHANGED = frozenset(
    f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
)
RELEVANT_NOTIFICATIONS = (
    LIST_CHANGED | RELAYED_NOTIFICATIONS | {CANCELLED, "notifications/subscriptions/acknowledged"}
)
"""The notifications that the gateway or its callers act on; all others are dropped."""

BOM = b"\xef\xbb\xbf"
_OUR_ID = re.compile(rb'"id"\s*:\s*"?(\d{1,18})\b')


def structure_limit(config: ServerConfig) -> int:
    """Return the limit of one message of a server without its texts, in bytes."""
    return max(MIN_STRUCTURE_BYTES, config.max_result_bytes)


async def read_object(data: bytes, max_structure_bytes: int) -> dict[str, Any]:
    """Parse one JSON object, unless its bytes outside of texts exceed the limit.

    NaN, Infinity and 1e400 become null, a lone surrogate U+FFFD. Raises ResponseTooLarge,
    ConnectionFailure.
    """
    if len(data) > max_structure_bytes:
        await _check_structure(data, max_structure_bytes)
    data = data.removeprefix(BOM)
    try:
        value = parse_json(data) if len(data) < LARGE_BYTES else await parse_large_json(data)
    except ValueError:
        raise ConnectionFailure("the server's answer is not JSON") from None
    if not isinstance(value, dict):
        raise ConnectionFailure("the server's answer is JSON, but not a JSON-RPC message")
    return value


async def _check_structure(data: bytes, max_bytes: int) -> None:
    for size in structure_sizes(data):
        if size > max_bytes:
            raise ResponseTooLarge(max_bytes)
        await asyncio.sleep(0)


def is_response(message: dict[str, Any]) -> bool:
    """Return whether a message is a response, not a request or notification of the server."""
    return "method" not in message and "id" in message


def result_of(message: dict[str, Any], request_id: int | str) -> dict[str, Any]:
    """Return the result of a response.

    An error without an id counts as the response: the server could not parse the request. Raises
    JsonRpcError; ConnectionFailure for another request's response; ResultNotAnObject.
    """
    is_error = _has_error(message)
    if is_error and message.get("id") is None:
        raise peer_error(message["error"])
    if str(message.get("id")) != str(request_id):
        raise ConnectionFailure("the server's answer is for another request")
    if is_error:
        raise peer_error(message["error"])
    if "result" not in message:
        raise ConnectionFailure("the server's answer has neither a result nor an error")
    result = message["result"]
    if not isinstance(result, dict):
        raise ResultNotAnObject(result)
    return result


def _has_error(message: dict[str, Any]) -> bool:
    """Return whether a response is an error; next to a result, a null error means success."""
    return "error" in message and (message["error"] is not None or "result" not in message)


def is_broken_response(data: bytes, request_id: int | str) -> bool:
    """Return whether malformed bytes were meant as the response to this request."""
    found = _OUR_ID.search(data) if b'"jsonrpc"' in data else None
    return found is not None and found[1].decode() == str(request_id)


async def to_session_message(
    data: bytes, max_structure_bytes: int, *, cut: bool = False
) -> SessionMessage | None:
    """Convert one message of a stream for the SDK; return None for an irrelevant one.

    A message that is broken, ``cut`` or too large becomes the error of the request that it answers.
    Raises ConnectionFailure for bytes without a request id.
    """
    if cut:
        return _as_error_response(data, ResponseTooLarge(MAX_MESSAGE_BYTES))
    try:
        message = await read_object(data, max_structure_bytes)
        return _message(message)
    except (ConnectionFailure, ResponseTooLarge) as fault:
        return _as_error_response(data, fault)


def _message(message: dict[str, Any]) -> SessionMessage | None:
    method, request_id, params = message.get("method"), message.get("id"), message.get("params")
    if message.get("jsonrpc") != "2.0" or not (params is None or isinstance(params, dict)):
        raise ConnectionFailure("the server's answer is JSON, but not a JSON-RPC message")
    if isinstance(method, str):
        if request_id is None:
            is_relevant = method in RELEVANT_NOTIFICATIONS
            note = JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)
            return SessionMessage(note) if is_relevant else None
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            raise ConnectionFailure("the server sent a request without a valid id")
        kept = params if method in CLIENT_REQUESTS else None
        return SessionMessage(
            JSONRPCRequest.model_construct(jsonrpc="2.0", id=request_id, method=method, params=kept)
        )
    if request_id is None:
        raise ConnectionFailure("the server's answer does not name the request it is for")
    if _has_error(message):
        error = peer_error(message["error"])
        return _error(request_id, error.code, error.message, error.data)
    try:
        result = result_of(message, request_id)
    except ResultNotAnObject as fault:
        return _error(request_id, CONNECTION_CLOSED, str(fault), fault)
    answer = JSONRPCResponse.model_construct(jsonrpc="2.0", id=request_id, result=result)
    return SessionMessage(answer)


def _as_error_response(data: bytes, fault: ConnectionFailure | ResponseTooLarge) -> SessionMessage:
    """Build an error response from ``fault`` for the request that ``data`` was to answer."""
    found = _OUR_ID.search(data) if b'"jsonrpc"' in data else None
    if found is None:
        raise (
            fault
            if isinstance(fault, ConnectionFailure)
            else ConnectionFailure("a message from the server is too large")
        )
    return _error(int(found[1]), CONNECTION_CLOSED, str(fault), fault)


def _error(request_id: int | str, code: int, message: str, data: object) -> SessionMessage:
    error = ErrorData.model_construct(code=code, message=message, data=data)
    return SessionMessage(JSONRPCError.model_construct(jsonrpc="2.0", id=request_id, error=error))


log = structlog.get_logger()

LARGE_BYTES = 64 * 1024

MAX_SEPARATORS = 150_000
"""Commas and colons outside of texts in one piece: 75,000 keys take up to 50 ms."""

_PIECE_DEPTH = 4
"""Depth of the pieces: message, result, its list, an item of the list."""

_MAX_PIECES = 50_000

_COUNTED_BYTES = 1024 * 1024
_PIECE_BYTES = 64 * 1024
_TOKENS_AT_ONCE = 5_000
"""Amounts to count, parse and search before other tasks can run."""

_MARK = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+){0,4096}+("?)|[\[\]{}]', re.DOTALL)
"""Matches a bracket outside of texts, or a text; only the beginning of one with many escapes."""

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

    A lone surrogate becomes U+FFFD: one character must not cost the answer. Raises ValueError.
    """
    value, may_be_infinite = _read(data)
    return without_infinity(value) if may_be_infinite else value


def _read(data: bytes) -> tuple[object, bool]:
    """Parse JSON; return it, and whether it may have infinities. Raises ValueError."""
    try:
        return from_json(data, allow_inf_nan=False), may_overflow(data)
    except ValueError:
        mended = _SURROGATE.sub(_paired, data.decode(errors="replace").encode())
        if mended == data and b"NaN" not in data and b"Infinity" not in data:
            raise  # parsing again would give the same error
        value = from_json(mended, allow_inf_nan=True)
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
    """Return whether the separators, also those in texts, exceed the limit of one piece."""
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
    """Search for objects and lists at _PIECE_DEPTH; ``frame`` has empty ones in their place."""

    def __init__(self, data: bytes) -> None:
        self.pieces: list[tuple[int, int]] = []
        self.frame: list[bytes] = []
        self._data = data
        self._at = 0
        self._depth = 0
        self._copied = 0
        """End of the data that is in the frame or in a piece."""
        self._separators = {False: 0, True: 0}

    async def split(self) -> None:
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
        """Skip the rest of the text at this position; all data if the text is unterminated."""
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


_LINE_END = re.compile(rb"\r\n|\n|\r")


HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end.

    A line over the limit is cut to its beginning.
    """

    data: bytes
    cut: bool = False


class LineSplitter:
    """Splitter of a byte stream into lines, at CRLF, LF or CR.

    A line over ``max_bytes`` is ``cut`` to its beginning; later lines are whole.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[Line]:
        """Add the next piece of the stream; return the lines that it completes."""
        if not chunk:
            return []
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        if b"\n" not in chunk and b"\r" not in chunk:  # far faster than the regex
            self._add(chunk)
            return []
        *ended, rest = _LINE_END.split(chunk)
        lines = []
        for piece in ended:
            self._add(piece)
            lines.append(self._pop_line())
        self._add(rest)
        return lines

    @property
    def pending_bytes(self) -> int:
        """Number of bytes of the incomplete line."""
        return self._bytes

    def end(self) -> list[Line]:
        """Return the last line, if the stream ended without a line end."""
        return [self._pop_line()] if self._bytes else []

    def _add(self, piece: bytes) -> None:
        if self._bytes <= self._max_bytes:
            self._pieces.append(piece)
        self._bytes += len(piece)
        if self._bytes > self._max_bytes:
            self._pieces = [b"".join(self._pieces)[:HEAD_BYTES]]

    def _pop_line(self) -> Line:
        line = Line(b"".join(self._pieces), cut=self._bytes > self._max_bytes)
        self._pieces = []
        self._bytes = 0
        return line
