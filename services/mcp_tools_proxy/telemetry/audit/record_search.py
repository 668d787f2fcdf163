"""Searches records in audit files or in memory, newest first, page by page."""

import os
import re
from bisect import insort_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from pydantic_core import from_json

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.telemetry.audit.audit_paths import opened_files
from mcp_tools_proxy.telemetry.audit.hash_chain import split_line

MAX_SCANNED_BYTES = 64 * 1024 * 1024
"""Maximum bytes read by one search; its page states the continuation."""

BLOCK_BYTES = 1024 * 1024
PROBE_BYTES = 64 * 1024
"""Bytes read at each step of a search for a position."""

Record = Mapping[str, object]

NAME_KEYS = ("tool", "toolName", "promptName", "resourceUri")
"""Payload keys that the filter's ``tool`` matches."""

SERVER_KEYS = ("targetServerId", "server_id")
"""Payload keys that ``server`` matches: the first in calls, the second in logins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Conditions for records; None matches anything. ``since`` and ``until`` are record times."""

    tenant_id: str | None = None
    user_id: str | None = None
    agent: str | None = None
    tool: str | None = None
    server: str | None = None
    doc_id: str | None = None
    code: str | None = None
    event: str | None = None
    trace_id: str | None = None
    token_id: str | None = None
    run_id: str | None = None
    since: str | None = None
    until: str | None = None

    def matches(self, record: Record) -> bool:
        """Return whether a record meets all conditions except its time."""
        payload = record.get("payload")
        if not isinstance(payload, Mapping):
            return False
        for key in _PAYLOAD_KEYS:
            wanted = getattr(self, key)
            if (
                wanted is not None
                and payload.get(key) != wanted
                and not (key == "code" and _sums_up(payload, wanted))
            ):
                return False
        if self.server is not None and self.server not in [payload.get(key) for key in SERVER_KEYS]:
            return False
        if self.tool is not None and self.tool not in [payload.get(key) for key in NAME_KEYS]:
            return False
        return all(
            wanted is None or record.get(key) == wanted
            for key, wanted in (("event", self.event), ("trace_id", self.trace_id))
        )

    def texts(self) -> Iterator[bytes]:
        """Yield texts that each matching record's line contains: most lines need no parsing."""
        for it in fields(self):
            text = getattr(self, it.name)
            if it.name not in ("since", "until") and text is not None and _PLAIN.fullmatch(text):
                yield f'"{text}"'.encode()


_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""Text that JSON writes unescaped."""

_PAYLOAD_KEYS = ("tenant_id", "user_id", "agent", "doc_id", "code", "token_id", "run_id")


def _sums_up(payload: Record, code: str) -> bool:
    """Return whether a record is a summary that includes requests with ``code``."""
    codes = payload.get("codes")
    return isinstance(codes, Mapping) and code in codes


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records, newest first.

    The next page begins below ``next_cursor``: a record's number, or in searches of several audits
    a time in microseconds.
    """

    records: list[Record]
    next_cursor: int | None = None


def search_memory(
    recent: Iterable[Record], wanted: RecordFilter, *, cursor: int | None, limit: int
) -> RecordPage:
    """Return a page of the records in memory, which are passed oldest first."""
    found: list[Record] = []
    for record in reversed(list(recent)):
        if cursor is not None and seq_of(record) >= cursor:
            continue
        if not _is_since(record, wanted):
            break
        if _is_until(record, wanted) and wanted.matches(record):
            if len(found) == limit:
                return RecordPage(found, seq_of(found[-1]))
            found.append(record)
    return RecordPage(found)


def newest_of(
    records: Iterable[Record], wanted: RecordFilter, *, cursor: int | None, limit: int
) -> RecordPage:
    """Return a page of the records of several workers; see ``search_audits``."""
    before = None if cursor is None else time_of_cursor(cursor)
    found = [
        record
        for record in records
        if (before is None or str(record["timestamp"]) < before)
        and _is_since(record, wanted)
        and _is_until(record, wanted)
        and wanted.matches(record)
    ]
    found.sort(key=lambda it: str(it["timestamp"]), reverse=True)
    end = limit
    while end < len(found) and found[end]["timestamp"] == found[end - 1]["timestamp"]:
        end += 1
    if end >= len(found):
        return RecordPage(found)
    return RecordPage(found[:end], cursor_of(str(found[end - 1]["timestamp"])))


def search_files(
    path: Path,
    wanted: RecordFilter,
    *,
    cursor: int | None,
    limit: int,
    max_bytes: int = MAX_SCANNED_BYTES,
) -> RecordPage:
    """Return a page of the records in the files of the audit at ``path``. Blocks.

    Reads at most ``max_bytes``: even an empty page can have a ``next_cursor``. Raises OSError.
    """
    with suppress(FileNotFoundError), opened_files(path) as files:
        numbered = ((_seq_in(line), line, 0) for line in _lines_backwards(files, cursor))
        lines: _Lines[int] = _Lines(numbered)
        return RecordPage(lines.page(wanted, limit, max_bytes), lines.last)
    return RecordPage([])


def search_audits(
    audits: Mapping[Path, int],
    wanted: RecordFilter,
    *,
    cursor: int | None,
    limit: int,
    max_bytes: int = MAX_SCANNED_BYTES,
) -> RecordPage:
    """Return a page of the records of several audits by time. Blocks. Raises OSError.

    A page has all records of its last microsecond, even beyond ``limit``: the next one has those
    before. Records have the number that their audit has in ``audits`` as ``worker``, except 0.
    Reads little more than ``max_bytes``.
    """
    before = [time_of_cursor(cursor)] if cursor is not None else []
    if wanted.until is not None:
        before.append(f"{wanted.until}~")  # sorts after the time itself
    streams = (_newest_first(path, it, min(before, default=None)) for path, it in audits.items())
    lines: _Lines[str] = _Lines(merge(*streams, key=itemgetter(0), reverse=True))
    records = lines.page(wanted, limit, max_bytes)
    return RecordPage(records, None if lines.last is None else cursor_of(lines.last))


PositionT = TypeVar("PositionT", int, str)


class _Lines(Generic[PositionT]):
    """Lines, newest first, with their position and worker; a line without position is no record."""

    def __init__(self, lines: Iterable[tuple[PositionT | None, bytes, int]]) -> None:
        self._lines: Iterable[tuple[PositionT | None, bytes, int]] = lines
        self.last: PositionT | None = None
        """The position of the last line read, if there are more."""

    def page(self, wanted: RecordFilter, limit: int, max_bytes: int) -> list[Record]:
        """Return matching records, up to a limit or a number of bytes read."""
        found: list[Record] = []
        texts, scanned, last = list(wanted.texts()), 0, None
        for position, line, worker in self._lines:
            is_next = position is not None and position != last
            if is_next and (scanned > max_bytes or len(found) >= limit):
                self.last = last
                break
            scanned += len(line)
            if position is None:
                continue
            last = position
            if wanted.since is not None and _time_of(line) < wanted.since:
                break
            if wanted.until is not None and _time_of(line) > wanted.until:
                continue
            if all(text in line for text in texts):
                record = parse_record(line)
                if record is not None and wanted.matches(record):
                    found.append({**record, "worker": worker} if worker else record)
        return found


MAX_DISPLACED = 1100
"""How many places a record can be out of order in its file: the file's own records are written
before those that waited, at most MAX_QUEUED. Clocks are set back as well."""


def _newest_first(path: Path, worker: int, before: str | None) -> Iterator[tuple[str, bytes, int]]:
    """Yield the records of an audit before a time, in the order of their times."""
    waiting: list[tuple[str, bytes, int]] = []
    with suppress(FileNotFoundError), opened_files(path) as files:
        seq = None if before is None else _seq_at(files, before)
        for line in _lines_backwards(files, seq and seq + MAX_DISPLACED):
            at = _time_of(line)
            if (before is not None and at >= before) or not _is_record(line, at):
                continue
            if not waiting or at <= waiting[0][0]:
                waiting.insert(0, (at, line, worker))
            else:
                insort_left(waiting, (at, line, worker), key=itemgetter(0))
            if len(waiting) > MAX_DISPLACED:
                yield waiting.pop()
        yield from reversed(waiting)


def _is_record(line: bytes, at: str) -> bool:
    try:
        datetime.fromisoformat(at)
    except ValueError:
        return False
    return split_line(line) is not None


def _seq_at(files: Sequence[BinaryIO], time: str) -> int | None:
    """Return the number of a record at or after a time with an earlier one before it.

    None if all are earlier.
    """
    later: int | None = None
    for file in reversed(files):
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        first = _record_at(descriptor, 0, size)[1]
        if first and _time_of(first) < time:
            offset = _offset_of(descriptor, size, lambda line: _time_of(line) < time)
            return _seq_in(_record_at(descriptor, offset, size)[1]) or later
        later = _seq_in(first) or later
    return later


def _lines_backwards(files: Sequence[BinaryIO], cursor: int | None) -> Iterator[bytes]:
    """Yield the lines of all files backwards, starting below the record ``cursor``."""
    for file in reversed(files):
        descriptor = file.fileno()
        end = size = os.fstat(descriptor).st_size
        if cursor is not None:
            end = _offset_of(descriptor, size, lambda line: (_seq_in(line) or 0) < cursor)
        yield from _lines_before(descriptor, end)


def _lines_before(descriptor: int, end: int) -> Iterator[bytes]:
    """Yield the lines of a file that end at ``end`` or before, the last first.

    Does not use mmap: truncation of a mapped file would kill the process by a signal.
    """
    rest = b""
    while end > 0:
        start = max(0, end - BLOCK_BYTES)
        block = os.pread(descriptor, end - start, start) + rest
        rest, *lines = block.split(b"\n")
        yield from reversed(lines)
        end = start
    yield rest


def _offset_of(descriptor: int, size: int, is_before: Callable[[bytes], bool]) -> int:
    """Return the offset of the first record that is not before a wanted position."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        start, line = _record_at(descriptor, middle, size)
        if line and is_before(line):
            low = start + 1
        else:
            high = middle
    return _record_at(descriptor, low, size)[0]


def _record_at(descriptor: int, offset: int, size: int) -> tuple[int, bytes]:
    """Return the offset and line of the first record that begins at or after this byte.

    Without one, the size and an empty line.
    """
    data = b""
    begin = max(0, offset - 1)
    while begin + len(data) < size:
        more = os.pread(descriptor, PROBE_BYTES, begin + len(data))
        if not more:
            break
        data += more
        position = 0 if offset == 0 else data.find(b"\n") + 1
        while position or offset == 0:
            end = data.find(b"\n", position)
            if end < 0:
                break
            line = data[position:end]
            if split_line(line) is not None:
                return begin + position, line
            position, offset = end + 1, 1
    return size, b""


def _seq_in(line: bytes) -> int | None:
    """Return the number of a line's record; None for another line."""
    record = split_line(line)
    return None if record is None else record.seq


def parse_record(line: bytes | str) -> Record | None:
    """Return the record of a line; None for another line, e.g. one torn by a crash."""
    try:
        record = from_json(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def seq_of(record: Record) -> int:
    """Return the number of a record."""
    seq = record.get("seq")
    return seq if isinstance(seq, int) else 0


def as_timestamp(time: datetime) -> str:
    """Return a time in the format of records: UTC, with microseconds. Raises OverflowError."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST_TIME = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def cursor_of(time: str) -> int:
    """Return the cursor of records before a record's time: its microseconds since 1970.

    Raises ValueError for another text.
    """
    return (datetime.fromisoformat(time).replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def time_of_cursor(cursor: int) -> str:
    """Return the time of a cursor."""
    return as_timestamp(_EPOCH + min(cursor, _LAST_TIME) * _MICROSECOND)


def _time_of(line: bytes) -> str:
    """Return the time of a record, its first field; the format sorts as text."""
    return line[14:41].decode("ascii", "replace")


def _is_since(record: Record, wanted: RecordFilter) -> bool:
    return wanted.since is None or str(record["timestamp"]) >= wanted.since


def _is_until(record: Record, wanted: RecordFilter) -> bool:
    return wanted.until is None or str(record["timestamp"]) <= wanted.until
