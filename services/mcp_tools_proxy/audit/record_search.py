"""Finds records: in the files of an audit or in memory, the newest first, page by page."""

import mmap
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from pydantic_core import from_json

from mcp_tools_proxy.audit.audit_paths import audit_files
from mcp_tools_proxy.audit.hash_chain import split_line

MAX_SCANNED_BYTES = 64 * 1024 * 1024
"""How much of the files one search reads; its page says where the next one goes on."""

Record = Mapping[str, object]

NAME_KEYS = ("tool", "toolName", "promptName", "resourceUri")
"""The keys of a payload that hold what ``tool`` of a filter names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """What records have to have; None is anything. ``since`` and ``until`` are times of records."""

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
        """Return whether a record has all of it, but for its time."""
        payload = record.get("payload")
        if not isinstance(payload, Mapping):
            return False
        for key in _PAYLOAD_KEYS:
            wanted = getattr(self, key)
            if wanted is not None and payload.get(key) != wanted:
                return False
        if self.server is not None and payload.get("targetServerId") != self.server:
            return False
        if self.tool is not None and self.tool not in [payload.get(key) for key in NAME_KEYS]:
            return False
        return all(
            wanted is None or record.get(key) == wanted
            for key, wanted in (("event", self.event), ("trace_id", self.trace_id))
        )

    def texts(self) -> Iterator[bytes]:
        """Yield what the line of each matching record holds: most lines need no parsing."""
        for it in fields(self):
            text = getattr(self, it.name)
            if it.name not in ("since", "until") and text is not None and _PLAIN.fullmatch(text):
                yield f'"{text}"'.encode()


_PLAIN = re.compile(r"[ !#-\[\]-~]*")
"""Text that JSON writes as it is."""

_PAYLOAD_KEYS = ("tenant_id", "user_id", "agent", "doc_id", "code", "token_id")


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records, the newest first; the next page begins below the number ``next_cursor``."""

    records: list[Record]
    next_cursor: int | None = None


def search_memory(
    recent: Iterable[Record], wanted: RecordFilter, *, cursor: int | None, limit: int
) -> RecordPage:
    """Return a page of the records in memory, which are given the oldest first."""
    found: list[Record] = []
    for record in reversed(list(recent)):
        if cursor is not None and _seq(record) >= cursor:
            continue
        if not _is_since(record, wanted):
            break
        if _is_until(record, wanted) and wanted.matches(record):
            if len(found) == limit:
                return RecordPage(found, _seq(found[-1]))
            found.append(record)
    return RecordPage(found)


def search_files(path: Path, wanted: RecordFilter, *, cursor: int | None, limit: int) -> RecordPage:
    """Return a page of the records in the files of the audit at ``path``. Blocks.

    Reads MAX_SCANNED_BYTES at most: a page may be short, or empty, and still have a
    ``next_cursor``. Raises OSError.
    """
    found: list[Record] = []
    texts, scanned, last_seq = list(wanted.texts()), 0, None
    for line in _lines_backwards(path, cursor):
        signed = split_line(line)
        if signed is None:
            continue
        if scanned > MAX_SCANNED_BYTES or len(found) == limit:
            return RecordPage(found, last_seq)
        scanned += len(line)
        last_seq = signed.seq
        if wanted.since is not None and _time_of(line) < wanted.since:
            break
        if wanted.until is not None and _time_of(line) > wanted.until:
            continue
        if all(text in line for text in texts):
            record = _parsed(line)
            if record is not None and wanted.matches(record):
                found.append(record)
    return RecordPage(found)


def _lines_backwards(path: Path, cursor: int | None) -> Iterator[bytes]:
    """Yield the lines of all files from the newest back, from below the record ``cursor`` on."""
    for file in reversed(audit_files(path)):
        with suppress(FileNotFoundError), file.open("rb") as opened:  # it was rotated meanwhile
            if not file.stat().st_size:
                continue
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
                end = len(data) if cursor is None else _offset_of(data, cursor)
                while end > 0:
                    start = data.rfind(b"\n", 0, end - 1) + 1
                    yield data[start : end - 1]
                    end = start


class _Numbers:
    """The numbers of the records of a file, by the offset of any byte: a sorted sequence."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, offset: int) -> int:
        """Return the number of the first record that begins at this byte or behind it."""
        data = self._data
        start = 0 if offset == 0 else data.find(b"\n", offset - 1) + 1
        while 0 < start < len(data) or offset == 0:
            end = data.find(b"\n", start)
            if end < 0:
                break
            record = split_line(data[start:end])
            if record is not None:
                return record.seq
            start, offset = end + 1, 1
        return 10**18


def _offset_of(data: mmap.mmap, seq: int) -> int:
    """Return where the first record begins that has this number or a higher one."""
    offset = bisect_left(_Numbers(data), seq)
    if offset in (0, len(data)):
        return offset
    return data.find(b"\n", offset - 1) + 1


def _parsed(line: bytes) -> Record | None:
    try:
        record = from_json(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _seq(record: Record) -> int:
    seq = record["seq"]
    return seq if isinstance(seq, int) else 0


def _time_of(line: bytes) -> str:
    """Return the time of a record, its first field: times in one form sort as text."""
    return line[14:41].decode("ascii", "replace")


def _is_since(record: Record, wanted: RecordFilter) -> bool:
    return wanted.since is None or str(record["timestamp"]) >= wanted.since


def _is_until(record: Record, wanted: RecordFilter) -> bool:
    return wanted.until is None or str(record["timestamp"]) <= wanted.until
