"""Writes audit records to a file: one thread, a bounded queue, rotation, and a chain of signatures.

A queued record is written within a tenth of a second; ``kill -9`` loses the queue. While the file
is not writable (a full disk), records wait; those that do not fit are lost and counted. With
``required``, calls reserve a place before admission, and their records are never lost.
"""

import fcntl
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import structlog

from mcp_tools_proxy.telemetry.audit.audit_paths import (
    LOCK,
    open_to_read,
    open_to_write,
    rotated_files,
    rotated_path,
)
from mcp_tools_proxy.telemetry.audit.hash_chain import (
    CONTINUED,
    NEW_FILE,
    NO_HEAD,
    OPENED,
    REMOVED,
    Head,
    finish_record,
    split_line,
)
from mcp_tools_proxy.telemetry.log_lines import line_of, timestamp, to_ascii_json

MAX_QUEUED = 1000
"""Maximum number of queued records and reserved places."""

GATHER_S = 0.05
"""Seconds that the thread waits for more records after the first, like the log's writer."""

RETRY_S = 1.0
HEAD_S = 300.0
"""Seconds between two log lines with the head of the chain."""

CLOSE_S = 5.0
"""Maximum wait, in seconds, for queued records at exit."""

TAIL_BYTES = 4 * 1024 * 1024
"""Bytes at a file's end that are searched for its last complete record at start."""

FILE_MODE = 0o600

Record = Mapping[str, object]
"""The fields of a record, as ``log_lines.line_of`` returns them."""

log = structlog.get_logger()


class AuditFileUnusable(ValueError):
    """The file cannot be opened, or another process writes it; the text is for an operator."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"MCP_PROXY_AUDIT: {problem}")


class AuditFile:
    """Writes records to ``path`` from ``open`` to ``close``.

    Records are lines of JSON (see ``hash_chain``). A file of ``max_bytes`` or more is renamed; the
    newest ``keep_files`` of these are kept, and removals are recorded first. ``key`` signs the
    records. ``companion`` names the audit of unauthenticated requests, for the first record of each
    file.
    """

    def __init__(
        self,
        path: Path,
        *,
        key: bytes | None,
        max_bytes: int,
        keep_files: int,
        required: bool,
        companion: str | None = None,
    ) -> None:
        self.path = path
        self._companion = companion
        self.required = required
        self.lost = 0
        self._key = key
        self._max_bytes = max_bytes
        self._keep_files = keep_files
        self._queue: deque[Record] = deque()
        self._reserved = 0
        self._changed = threading.Condition()
        self._closing = False
        self._failure: str | None = None
        self._lost_recorded = 0
        self._head = NO_HEAD
        self._size = 0
        self._descriptor = -1
        self._lock_descriptor = -1
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<AuditFile {self.path} {len(self._queue)} queued, lost={self.lost}>"

    @property
    def queued(self) -> int:
        """Number of queued records."""
        return len(self._queue)

    @property
    def failure(self) -> str | None:
        """The current write error; None while the file is writable."""
        return self._failure

    @property
    def has_place(self) -> bool:
        """Whether the file is writable, and the queue has a free place."""
        return self._failure is None and len(self._queue) + self._reserved < MAX_QUEUED

    @property
    def head(self) -> Head:
        """The last written record."""
        return self._head

    def open(self) -> None:
        """Lock the file, continue its chain, and start the thread. Blocks.

        Does nothing if already open. Raises AuditFileUnusable.
        """
        if self._thread is not None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock()
            self._open_file()
            is_new = self._size == 0
            self._continue_chain()
            if is_new:
                self._begin_file()
            else:
                self._append([self._opening(CONTINUED, older_files=len(rotated_files(self.path)))])
        except OSError as error:
            self._release()
            raise AuditFileUnusable(f"the file cannot be written: {_reason(error)}") from error
        except AuditFileUnusable:
            self._release()
            raise
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    def reserve(self) -> bool:
        """Reserve a place for one record; return False without a free place or a writable file."""
        with self._changed:
            if not self.has_place:
                return False
            self._reserved += 1
            return True

    def release(self) -> None:
        """Release a reserved place."""
        with self._changed:
            self._reserved -= 1

    def put(self, record: Record, *, reserved: bool = False) -> None:
        """Queue a record, in its reserved place if it has one; never waits for the disk.

        Without a place, the record is lost and counted.
        """
        with self._changed:
            if reserved:
                self._reserved -= 1
            elif len(self._queue) + self._reserved >= MAX_QUEUED:
                self.lost += 1
                return
            self._queue.append(record)
            if len(self._queue) == 1:
                self._changed.notify()

    def close(self) -> None:
        """Write the queue, log the head, and unlock the file. Waits at most CLOSE_S."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify()
        thread.join(CLOSE_S)
        with self._changed:
            unwritten = len(self._queue)
        if unwritten:
            self.lost += unwritten
            log.error("audit.lost", records=unwritten, reason=self._failure or "the program ended")
        self._log_head()
        if not thread.is_alive():  # a thread that hangs in a write still owns the file
            self._release()

    def _run(self) -> None:
        head_due = time.monotonic() + HEAD_S
        while True:
            with self._changed:
                if not self._queue and not self._closing:
                    self._changed.wait(max(0.0, head_due - time.monotonic()))
                closing = self._closing
            if not closing:
                time.sleep(GATHER_S)
            self._write_queued()
            if time.monotonic() >= head_due:
                self._log_head()
                head_due = time.monotonic() + HEAD_S
            if closing and (not self._queue or self._failure is not None):
                return
            if self._failure is not None:
                time.sleep(RETRY_S)

    def _write_queued(self) -> None:
        """Write the whole queue; after a failure, records stay queued."""
        with self._changed:
            batch = list(self._queue)
        lost = self.lost - self._lost_recorded
        records = [*self._notices(lost), *batch]
        if not records:
            return
        try:
            self._prepare_file()
            self._append(records)
        except OSError as error:
            self._fail(error)
            return
        self._lost_recorded += lost
        with self._changed:
            for _ in batch:
                self._queue.popleft()
            recovered, self._failure = self._failure is not None, None
        if lost:
            log.error("audit.lost", records=lost, reason="the queue of the audit file was full")
        if recovered:
            log.warning("audit.resumed", file=str(self.path))

    def _notices(self, lost: int) -> list[Record]:
        """Return records about the audit's own failures and losses since the last write."""
        notices: list[Record] = []
        if self._failure is not None:
            notices.append(_record("warning", "audit.resumed", {"reason": self._failure}))
        if lost:
            notices.append(_record("error", "audit.lost", {"records": lost}))
        return notices

    def _fail(self, error: OSError) -> None:
        reason = _reason(error)
        if reason != self._failure:
            log.error("audit.write_failed", file=str(self.path), reason=reason)
        self._failure = reason

    def _prepare_file(self) -> None:
        """Open a new file if the current one is full or was moved. Raises OSError."""
        if self._descriptor >= 0 and not _is_same(self._descriptor, self.path):
            log.error("audit.file_replaced", file=str(self.path))
            self._close_file()
        elif self._descriptor >= 0:
            self._size = os.fstat(self._descriptor).st_size  # it may have been truncated in place
            if self._size >= self._max_bytes:
                os.fsync(self._descriptor)
                self.path.rename(rotated_path(self.path, self._head.seq))
                self._close_file()
        if self._descriptor < 0:
            self._open_file()
        if not self._size:
            self._begin_file()

    def _begin_file(self) -> None:
        """Write the first record of a file, and remove excess files. Raises OSError.

        Removals are recorded first: otherwise they would look like an attacker's.
        """
        rotated = rotated_files(self.path)
        removed = rotated[: -self._keep_files]
        opening = self._opening(NEW_FILE, older_files=len(rotated) - len(removed))
        self._append([opening, *map(_removal, removed)])
        if removed:
            os.fsync(self._descriptor)
        for old in removed:
            old.unlink(missing_ok=True)

    def _append(self, records: Iterable[Record]) -> None:
        """Append records to the file. Raises OSError.

        After an error, the partial write is removed.
        """
        lines, head = bytearray(), self._head
        for record in records:
            line, head = finish_record(_encoded(record), head, self._key)
            lines += line
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(lines)
        self._head = head

    def _opening(self, begins: str, *, older_files: int) -> Record:
        """Return the first record of a new file, or of a start that continues a file."""
        payload: dict[str, object] = {
            "begins": begins,
            "file": self.path.name,
            "host": socket.gethostname(),
            "older_files": older_files,
            "kept_from": self._oldest_seq(),
        }
        if self._companion is not None:
            payload["unauthenticated_file"] = self._companion
        if self._key is not None:
            payload["previous"] = self._head.mac
        return _record("info", OPENED, payload)

    def _oldest_seq(self) -> int:
        """Return the number of the oldest kept record, or of the next one if none is kept.

        Raises OSError.
        """
        for path in (*rotated_files(self.path), self.path):
            seq = _first_seq(path)
            if seq is not None:
                return seq
        return self._head.seq + 1

    def _log_head(self) -> None:
        seq, mac = self._head
        signature = {"mac": mac} if mac else {}
        # info lines can be disabled, but the head is needed for later verification
        write = log.info if log.is_enabled_for(logging.INFO) else log.error
        write("audit.head", file=str(self.path), seq=seq, **signature)

    def _lock(self) -> None:
        """Lock the audit for this process. Raises OSError; AuditFileUnusable if it is locked."""
        lock_file = self.path.with_name(f"{self.path.name}{LOCK}")
        self._lock_descriptor = open_to_write(lock_file, 0, FILE_MODE)
        try:
            fcntl.flock(self._lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise AuditFileUnusable(
                "another process writes this file; each replica needs its own: put {host} into its "
                "name"
            ) from None

    def _open_file(self) -> None:
        self._descriptor = open_to_write(self.path, os.O_APPEND, FILE_MODE)
        self._size = os.fstat(self._descriptor).st_size

    def _continue_chain(self) -> None:
        """Find the head of the chain, and terminate a line that a crash left incomplete.

        Raises OSError, AuditFileUnusable.
        """
        if self._size == 0:
            rotated = rotated_files(self.path)
            self._head = last_head(_tail_of(rotated[-1])) if rotated else NO_HEAD
            return
        tail = os.pread(self._descriptor, TAIL_BYTES, max(0, self._size - TAIL_BYTES))
        self._head = last_head(tail)
        if self._key is not None and not self._head.mac:
            log.warning("audit.unsigned_before", file=str(self.path), seq=self._head.seq)
        if not tail.endswith(b"\n"):
            log.warning("audit.torn_line", file=str(self.path))
            self._size += os.write(self._descriptor, b"\n")

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _release(self) -> None:
        self._close_file()
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1


def last_head(tail: bytes) -> Head:
    """Return the head of the last complete record at the end of a file.

    Raises AuditFileUnusable if the end contains no complete record.
    """
    for line in reversed(tail.split(b"\n")):
        if line and (record := split_line(line)) is not None:
            return record.head
    raise AuditFileUnusable("the file does not end with an audit record; move it out of the way")


def _tail_of(path: Path) -> bytes:
    descriptor = open_to_read(path)
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES))
    finally:
        os.close(descriptor)


def _first_seq(path: Path) -> int | None:
    """Return the number of a file's first record; None if its start contains no record.

    A line that a crash left incomplete can come first. Raises OSError.
    """
    descriptor = open_to_read(path)
    try:
        begin = os.pread(descriptor, TAIL_BYTES, 0)
    finally:
        os.close(descriptor)
    records = (split_line(line) for line in begin.split(b"\n")[:-1])
    return next((record.seq for record in records if record is not None), None)


def _removal(path: Path) -> Record:
    """Return the record of a file that is about to be removed. Raises OSError.

    For a file without audit records, it contains only the name.
    """
    payload: dict[str, object] = {"file": path.name}
    with suppress(AuditFileUnusable):
        last = last_head(_tail_of(path))
        payload |= {"first_seq": _first_seq(path), "last_seq": last.seq, "last_mac": last.mac}
    return _record("warning", REMOVED, payload)


def _encoded(record: Record) -> bytes:
    """Return a record as JSON, or a record of its loss if it cannot be encoded."""
    try:
        return to_ascii_json(record).encode()
    except Exception:  # it must not end the thread that writes all others
        log.exception("audit.record_crashed")
        lost = _record("error", "audit.lost", {"records": 1})
        return to_ascii_json(lost).encode()


def _record(level: str, event: str, payload: dict[str, object]) -> Record:
    return line_of(timestamp(), level, event, payload, None)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
