"""Bodies of HTTP responses, JSON or server-sent events, read in bounded memory and time."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import suppress
from typing import Any

import aiohttp

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.downstream.connection import ConnectionFailure, ResponseTooLarge
from mcp_tools_proxy.downstream.mcp_client.error_mapping import HTTP_ERRORS, RETRY_AFTER, Refused
from mcp_tools_proxy.downstream.mcp_client.messages import (
    BOM,
    HEAD_BYTES,
    MAX_MESSAGE_BYTES,
    Line,
    LineSplitter,
    read_object,
)
from mcp_tools_proxy.wire.text import quote

EVENT_STREAM = "text/event-stream"

_WITHOUT_ANSWER = frozenset({202, 204})
"""Statuses of success without a body."""

_REFUSAL_BYTES = 64 * 1024
_EVENTS_AT_ONCE = 20  # then other tasks can run
_BYTES_AT_ONCE = 16 * 1024  # likewise: 256 kB of empty lines took 255 ms
_ABORT_BYTES = 4 * MAX_MESSAGE_BYTES  # of one event: skipped up to here, then we hang up
_DRAIN_S = 1.0
_DRAIN_BYTES = 64 * 1024


_FIELD_BYTES = 16  # more than the ``data: `` before the data


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event. Data over the limit is ``cut`` to its beginning."""

    data: bytes
    name: str = "message"
    cut: bool = False


class EventParser:
    """Parser of a ``text/event-stream``.

    An event whose data is over ``max_bytes`` is ``cut`` to its beginning; later events are whole.
    The last event counts even if the stream ends before its blank line.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lines = LineSplitter(max_bytes + _FIELD_BYTES)
        self._at_start = True
        self.last_event_id: str | None = None
        """The id after which the stream can be resumed."""
        self.retry_ms: int | None = None
        """The pause before a reconnect that the server requested last."""
        self._start_event()

    def feed(self, chunk: bytes) -> list[Event]:
        """Add the next piece of the stream; return the events that it completes."""
        return self._read(self._lines.feed(chunk))

    @property
    def pending_bytes(self) -> int:
        """Number of bytes of the incomplete event."""
        return self._data_bytes + self._lines.pending_bytes

    def end(self) -> list[Event]:
        """Return the last event, if the stream ended without a blank line."""
        return self._read([*self._lines.end(), Line(b"")])

    def _start_event(self) -> None:
        self._name = "message"
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._cut = False

    def _read(self, lines: list[Line]) -> list[Event]:
        events = []
        for line in lines:
            data = line.data
            if self._at_start:
                self._at_start = False
                data = data.removeprefix(BOM)
            if data:
                self._read_field(data, cut=line.cut)
                continue
            if self._data:
                events.append(Event(b"\n".join(self._data), self._name, self._cut))
            self._start_event()
        return events

    def _read_field(self, line: bytes, *, cut: bool) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                self._append_data(value, cut=cut)
            case b"event":
                self._name = value.decode(errors="replace") or "message"
            case b"id" if b"\0" not in value:
                self.last_event_id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry_ms = int(value)
            case _:  # a comment, or an unknown field
                return

    def _append_data(self, value: bytes, *, cut: bool) -> None:
        self._data.append(value)
        self._data_bytes += len(value) + 1
        self._cut = self._cut or cut or self._data_bytes > self._max_bytes + 1
        if self._cut:
            self._data = [b"\n".join(self._data)[:HEAD_BYTES]]


def is_event_stream(response: aiohttp.ClientResponse) -> bool:
    """Return whether the response is a stream of server-sent events."""
    return _has_answer(response.status) and response.content_type == EVENT_STREAM


def _has_answer(status: int) -> bool:
    """Return whether a status means success with a body; some frameworks answer with 201."""
    return 200 <= status < 300 and status not in _WITHOUT_ANSWER


async def read_response(
    response: aiohttp.ClientResponse, max_structure_bytes: int
) -> dict[str, Any]:
    """Return the JSON-RPC message of a body with any HTTP status.

    The limit is that of ``read_object``. Raises Refused, ConnectionFailure, ResponseTooLarge.
    """
    status, kind = response.status, response.content_type
    if status == 429 or (status == 503 and RETRY_AFTER in response.headers):
        raise Refused.by(response)
    is_json = kind == "application/json" or kind.endswith("+json")
    if _has_answer(status) and is_json:
        return await read_object(await _read(response, MAX_MESSAGE_BYTES), max_structure_bytes)
    if _has_answer(status):
        raise ConnectionFailure(
            f"the server answered with content of type {quote(kind)} instead of JSON"
        )
    if status in _WITHOUT_ANSWER:
        raise ConnectionFailure(
            f"HTTP status {status}: the server accepted the request and did not answer it"
        )
    if is_json and status >= 400:
        with suppress(ConnectionFailure, ResponseTooLarge):
            message = await read_object(await _read(response, _REFUSAL_BYTES), max_structure_bytes)
            if isinstance(message.get("error"), dict) and "code" in message["error"]:
                return {"id": None, "error": message["error"]}
    raise Refused.by(response)


async def read_events(
    response: aiohttp.ClientResponse, parser: EventParser, names: Collection[str] = ("message",)
) -> AsyncGenerator[Event, None]:
    """Yield the stream's events of these ``names`` with data as they arrive.

    Raises aiohttp's errors, and ResponseTooLarge for an event without end: a few compressed
    kilobytes can unpack for minutes. Yields to the event loop between the pieces of a flood.
    """
    while chunk := await response.content.readany():
        for start in range(0, len(chunk), _BYTES_AT_ONCE):
            found = _wanted(parser.feed(chunk[start : start + _BYTES_AT_ONCE]), names)
            if not found:
                await asyncio.sleep(0)
            for number, event in enumerate(found, start=1):
                if number % _EVENTS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                yield event
        if parser.pending_bytes > _ABORT_BYTES:
            response.close()
            raise ResponseTooLarge(MAX_MESSAGE_BYTES)
    for event in _wanted(parser.end(), names):
        yield event


def _wanted(events: list[Event], names: Collection[str]) -> list[Event]:
    return [event for event in events if event.data and event.name in names]


async def drain(response: aiohttp.ClientResponse) -> None:
    """Read the rest of a stream, to reuse its connection; close the connection at a limit."""
    read = 0
    try:
        with suppress(*HTTP_ERRORS):
            async with asyncio.timeout(_DRAIN_S):
                while read < _DRAIN_BYTES and (chunk := await response.content.readany()):
                    read += len(chunk)
    finally:
        if not response.content.at_eof():
            response.close()


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    length = response.content_length
    if length is not None and length > max_bytes:
        raise ResponseTooLarge(max_bytes)
    if length is not None and "Content-Encoding" not in response.headers:
        return await response.read()
    parts, size = [], 0
    while chunk := await response.content.readany():
        parts.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise ResponseTooLarge(max_bytes)
    return b"".join(parts)
