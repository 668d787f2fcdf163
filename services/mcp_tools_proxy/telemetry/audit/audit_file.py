"""Writes audit records to a file: one thread, a bounded queue, rotation, and a chain of signatures.

A record that is queued is written within a tenth of a second; ``kill -9`` loses what is queued.
While the file cannot be written (a full disk) records wait in the queue, and those that find it
full are lost and counted. With ``required`` calls reserve their place before they are admitted, so
none of theirs is lost.
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
"""Records that wait to be written, with the places that running calls have reserved."""

GATHER_S = 0.05
"""Seconds that the thread waits for more records after the first, as the log's writer does."""

RETRY_S = 1.0
"""Seconds between two attempts to write to a file that could not be written."""

HEAD_S = 300.0
"""Seconds between two log lines with the head of the chain."""

CLOSE_S = 5.0
"""Longest wait, in seconds, for queued records when the program ends."""

TAIL_BYTES = 4 * 1024 * 1024
"""How much of a file's end is searched for its last whole record at a start."""

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

    Records are lines of JSON (see ``hash_chain``). A file that has ``max_bytes`` or more is
    renamed, and the newest ``keep_files`` of these are kept: the record of a removal is written
    first. ``key`` signs the records. ``companion`` is the name of the audit of unauthenticated
    requests, which the first record of each file names.
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
        """Records that were lost because the queue was full."""
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
        """How many records wait to be written."""
        return len(self._queue)

    @property
    def failure(self) -> str | None:
        """Why the file cannot be written now; None while it can."""
        return self._failure

    @property
    def has_place(self) -> bool:
        """Whether the file can be written, and one more record has a place in the queue."""
        return self._failure is None and len(self._queue) + self._reserved < MAX_QUEUED

    @property
    def head(self) -> Head:
        """The newest record that was written."""
        return self._head

    def open(self) -> None:
        """Lock the file, continue its chain, and start the thread. Blocks.

        Does nothing if it is open. Raises AuditFileUnusable.
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
        """Reserve the place of one record; return False if there is none, or no file to write."""
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
        """Queue a record, in the place that was reserved for it, if any; never blocks on the disk.

        Without a place it is lost, and counted.
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
        """Write what is queued, log the head, and unlock the file. Waits CLOSE_S at most."""
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
        if not thread.is_alive():  # one that hangs in a write goes on owning the file
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
        """Write all that is queued; it stays queued if that fails."""
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
            log.warning("audit.resumed", file=self.path.name)

    def _notices(self, lost: int) -> list[Record]:
        """Return the records of what happened to the audit itself since the last write."""
        notices: list[Record] = []
        if self._failure is not None:
            notices.append(_record("warning", "audit.resumed", {"reason": self._failure}))
        if lost:
            notices.append(_record("error", "audit.lost", {"records": lost}))
        return notices

    def _fail(self, error: OSError) -> None:
        reason = _reason(error)
        if reason != self._failure:
            log.error("audit.write_failed", file=self.path.name, reason=reason)
        self._failure = reason

    def _prepare_file(self) -> None:
        """Open a new file where this one is full, or was moved away. Raises OSError."""
        if self._descriptor >= 0 and not _is_same(self._descriptor, self.path):
            log.error("audit.file_replaced", file=self.path.name)
            self._close_file()
        elif self._descriptor >= 0:
            self._size = os.fstat(self._descriptor).st_size  # it may have been cut off in place
            if self._size >= self._max_bytes:
                os.fsync(self._descriptor)
                self.path.rename(rotated_path(self.path, self._head.seq))
                self._close_file()
        if self._descriptor < 0:
            self._open_file()
        if not self._size:
            self._begin_file()

    def _begin_file(self) -> None:
        """Write the first record of a file, and remove files that are too many. Raises OSError.

        The records of removals are on the disk before a file is removed: otherwise a file
        that rotation removed looks like a file that an attacker took.
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
        """Write records at the end of the file. Raises OSError.

        What was written until then is removed, so that no half of a record stays.
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
        """Return the record of a new file, or of a start that goes on with the file."""
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
        """Return the number of the oldest record of all files, or of the next one if none has any.

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
        # a head that the level hides would be missing on the day it is needed
        write = log.info if log.is_enabled_for(logging.INFO) else log.error
        write("audit.head", file=self.path.name, seq=seq, **signature)

    def _lock(self) -> None:
        """Lock the audit for this process. Raises OSError; AuditFileUnusable if it is locked."""
        lock_file = self.path.with_name(f"{self.path.name}.lock")
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
        """Find the head of the chain, and end a line that a crash left unfinished.

        Raises OSError, AuditFileUnusable.
        """
        if self._size == 0:
            rotated = rotated_files(self.path)
            self._head = last_head(_tail_of(rotated[-1])) if rotated else NO_HEAD
            return
        tail = os.pread(self._descriptor, TAIL_BYTES, max(0, self._size - TAIL_BYTES))
        self._head = last_head(tail)
        if self._key is not None and not self._head.mac:
            log.warning("audit.unsigned_before", file=self.path.name, seq=self._head.seq)
        if not tail.endswith(b"\n"):
            log.warning("audit.torn_line", file=self.path.name)
            self._size += os.write(self._descriptor, b"\n")

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _release(self) -> None:
        """Close the file and unlock the audit."""
        self._close_file()
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1


def last_head(tail: bytes) -> Head:
    """Return the head of the last whole record in the end of a file.

    Raises AuditFileUnusable if there is none.
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
    """Return the number of a file's first record; None if its beginning has none. Raises OSError.

    A line that a crash left unfinished may come before it.
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

    A file without a record, which is none of the audit's, is named alone.
    """
    payload: dict[str, object] = {"file": path.name}
    with suppress(AuditFileUnusable):
        last = last_head(_tail_of(path))
        payload |= {"first_seq": _first_seq(path), "last_seq": last.seq, "last_mac": last.mac}
    return _record("warning", REMOVED, payload)


def _encoded(record: Record) -> bytes:
    """Return a record as JSON; one that cannot be encoded is replaced by one that says so."""
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
