"""Parses lines and server-sent events piece by piece, in bounded memory; pure, without I/O."""

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_HEAD_BYTES = 4096
_FIELD_BYTES = 16  # more than the ``data: `` before the data


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end.

    Of a line over the limit only the beginning is kept, and ``cut`` is set.
    """

    data: bytes
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event.

    Of data over the limit only the beginning is kept, and ``cut`` is set.
    """

    data: bytes
    name: str = "message"
    cut: bool = False


class LineSplitter:
    """Splits pieces of a byte stream into lines, at CRLF, LF or CR.

    A line over ``max_bytes`` is returned as its beginning, ``cut``; the lines after it are whole.
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
        """The number of bytes of the line that has not ended yet."""
        return self._bytes

    def end(self) -> list[Line]:
        """Return the last line, if the stream ended without a line end."""
        return [self._pop_line()] if self._bytes else []

    def _add(self, piece: bytes) -> None:
        if self._bytes <= self._max_bytes:
            self._pieces.append(piece)
        self._bytes += len(piece)
        if self._bytes > self._max_bytes:
            self._pieces = [b"".join(self._pieces)[:_HEAD_BYTES]]

    def _pop_line(self) -> Line:
        line = Line(b"".join(self._pieces), cut=self._bytes > self._max_bytes)
        self._pieces = []
        self._bytes = 0
        return line


class EventParser:
    """Parses pieces of a ``text/event-stream`` into events.

    An event whose data is over ``max_bytes`` is returned with its beginning, ``cut``; the events
    after it are whole. The last event counts even if the stream ends before its blank line.
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
        """The number of bytes of the event that has not ended yet."""
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
                data = data.removeprefix(_BOM)
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
            self._data = [b"\n".join(self._data)[:_HEAD_BYTES]]
