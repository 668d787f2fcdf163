"""Searches records in audit files or in memory, newest first, page by page."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from pydantic_core import from_json

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.telemetry.audit.audit_paths import opened_files
from mcp_tools_proxy.telemetry.audit.hash_chain import split_line

MAX_SCANNED_BYTES = 64 * 1024 * 1024
"""Maximum bytes read by one search; its page states the continuation."""

BLOCK_BYTES = 1024 * 1024
_NO_RECORD = 10**18
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

_PAYLOAD_KEYS = ("tenant_id", "user_id", "agent", "doc_id", "code", "token_id")


def _sums_up(payload: Record, code: str) -> bool:
    """Return whether a record is a summary that includes requests with ``code``."""
    codes = payload.get("codes")
    return isinstance(codes, Mapping) and code in codes


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records, newest first; the next page begins below the number ``next_cursor``."""

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
    found: list[Record] = []
    texts, scanned, last_seq = list(wanted.texts()), 0, None
    for line in _lines_backwards(path, cursor):
        signed = split_line(line)
        if signed is not None and (scanned > max_bytes or len(found) == limit):
            return RecordPage(found, last_seq)
        scanned += len(line)
        if signed is None:
            continue
        last_seq = signed.seq
        if wanted.since is not None and _time_of(line) < wanted.since:
            break
        if wanted.until is not None and _time_of(line) > wanted.until:
            continue
        if all(text in line for text in texts):
            record = parse_record(line)
            if record is not None and wanted.matches(record):
                found.append(record)
    return RecordPage(found)


def _lines_backwards(path: Path, cursor: int | None) -> Iterator[bytes]:
    """Yield the lines of all files backwards, starting below the record ``cursor``."""
    with suppress(FileNotFoundError), opened_files(path) as files:
        for file in reversed(files):
            descriptor = file.fileno()
            size = os.fstat(descriptor).st_size
            end = size if cursor is None else _offset_of(descriptor, size, cursor)
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


def _offset_of(descriptor: int, size: int, seq: int) -> int:
    """Return the offset of the first record with this number or a higher one."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        start, found = _record_at(descriptor, middle, size)
        if found < seq:
            low = start + 1
        else:
            high = middle
    return _record_at(descriptor, low, size)[0] if low < size else size


def _record_at(descriptor: int, offset: int, size: int) -> tuple[int, int]:
    """Return the offset of the first record that begins at or after this byte, and its number."""
    data = b""
    begin = max(0, offset - 1)
    while begin + len(data) < size:
        more = os.pread(descriptor, BLOCK_BYTES, begin + len(data))
        if not more:
            break
        data += more
        position = 0 if offset == 0 else data.find(b"\n") + 1
        while position or offset == 0:
            end = data.find(b"\n", position)
            if end < 0:
                break
            record = split_line(data[position:end])
            if record is not None:
                return begin + position, record.seq
            position, offset = end + 1, 1
    return size, _NO_RECORD


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


def _time_of(line: bytes) -> str:
    """Return the time of a record, its first field; the format sorts as text."""
    return line[14:41].decode("ascii", "replace")


def _is_since(record: Record, wanted: RecordFilter) -> bool:
    return wanted.since is None or str(record["timestamp"]) >= wanted.since


def _is_until(record: Record, wanted: RecordFilter) -> bool:
    return wanted.until is None or str(record["timestamp"]) <= wanted.until
