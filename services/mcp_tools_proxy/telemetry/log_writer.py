"""Writes log lines to a pipe or a file without ever blocking on its reader.

A program whose stdout or stderr is a pipe blocks in the middle of a line when the pipe is full:
with a pipe of 4 kB the service hung after ten calls, SIGTERM included. So lines are queued and one
thread writes them; lines that do not fit into the queue are dropped and counted.
"""

import atexit
import io
import os
import select
import sys
import threading
import time
from queue import SimpleQueue
from typing import TextIO

from mcp_tools_proxy.telemetry.log_lines import render_line

MAX_WAITING_BYTES = 4 * 1024 * 1024
"""Largest queue of one descriptor, in bytes; lines beyond it are dropped."""

GATHER_S = 0.05
"""Seconds that the thread waits for more lines after the first: waking it for each line would cost
more than writing the line."""

WRITE_BYTES = 64 * 1024
"""Largest write, the usual size of a pipe. With each write the thread takes the GIL from the event
loop: with writes of 4 kB a call took 6 % more CPU."""

DRAIN_S = 1.0
"""Longest wait at exit, in seconds, for queued lines."""


class LogWriter:
    """Queues data for ``descriptor``, which a thread of its own writes.

    ``write`` never blocks and never raises. A signal handler or a destructor may call it while it
    runs, so the lock is reentrant, and so is the queue that wakes the thread.
    """

    def __init__(self, descriptor: int, *, max_bytes: int = MAX_WAITING_BYTES) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        self._waiting: list[bytes] = []
        self._flushes: list[threading.Event] = []
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._is_woken = False
        self._thread: threading.Thread | None = None
        self._added = 0  # bytes, changed under the lock
        self._written = 0  # bytes, changed by the thread alone
        self._dropping = 0  # items since dropping began
        self._gave_up_at: int | None = None
        self.dropped = 0

    def write(self, data: bytes) -> None:
        """Queue ``data``, one line or a part of one; drop it when the queue is full."""
        with self._lock:
            if self._dropping or self._added - self._written + len(data) > self._max_bytes:
                self._drop()
            else:
                self._add(data)

    def begin_flush(self) -> threading.Event:
        """Return an event that is set as soon as all data queued so far is written."""
        done = threading.Event()
        if self._thread is None or self._gave_up_at == self._written != self._added:
            done.set()  # nothing to wait for, or no progress since the last flush
        else:
            with self._lock:
                self._flushes.append(done)
                self._wake()
        return done

    def abandon(self) -> None:
        """Stop flushes from waiting again, unless the reader makes progress from now on."""
        self._gave_up_at = self._written

    def _add(self, data: bytes) -> None:
        self._added += len(data)
        self._waiting.append(data)
        if not self._is_woken:
            self._wake()

    def _wake(self) -> None:
        self._is_woken = True
        self._wakes.put(None)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many threads, so the next line tries again, or the end
                self._is_woken = False
            else:
                self._thread = thread

    def _drop(self) -> None:
        if not self._dropping:
            self._add(_notice("log.dropping", waiting_bytes=self._added - self._written))
        self._dropping += 1
        self.dropped += 1

    def _run(self) -> None:
        while True:
            self._wakes.get()
            time.sleep(GATHER_S)
            with self._lock:
                self._is_woken = False  # first: a destructor may write between any two lines
                waiting, self._waiting = self._waiting, []
                flushes, self._flushes = self._flushes, []
            self._write_all(b"".join(waiting))
            for done in flushes:
                done.set()

    def _write_all(self, data: bytes) -> None:
        """Write ``data``, as many whole lines at once as fit: another program may write as well."""
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + WRITE_BYTES) + 1 or data.find(b"\n", start) + 1
            self._send(data[start : end or None])
            start = end or len(data)

    def _send(self, batch: bytes) -> None:
        """Write all of ``batch``, however long its reader takes; drop it if the pipe is closed."""
        rest = memoryview(batch)
        try:
            while rest:
                rest = rest[self._write_some(rest) :]
        except OSError:
            with self._lock:
                self.dropped += batch.count(b"\n")
        self._written += len(batch)
        if self._dropping and self._added - self._written <= self._max_bytes // 2:
            self._resume()

    def _write_some(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # its creator set the pipe to non-blocking mode
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLOUT)
            waiting.poll()
            return 0

    def _resume(self) -> None:
        with self._lock:
            dropped, self._dropping = self._dropping, 0
            self._add(_notice("log.resumed", dropped_lines=dropped))


class LogStream(io.TextIOBase):
    """A text stream that replaces ``stream`` and writes to a LogWriter."""

    def __init__(self, stream: TextIO, writer: LogWriter) -> None:
        super().__init__()
        self._stream = stream
        self._writer = writer
        self._encoding = stream.encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the encoding of the replaced stream."""
        return self._encoding

    def write(self, text: str) -> int:
        """Queue ``text``."""
        self._writer.write(text.encode(self._encoding, "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes what is queued."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the replaced stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor that the replaced stream writes to."""
        return self._stream.fileno()


_writers: dict[int, LogWriter] = {}


def open_stream(stream: TextIO) -> TextIO | None:
    """Return a non-blocking stream to the same descriptor; None for a stream without one."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # one in memory, or closed
        return None
    if not _writers:
        atexit.register(_end)
    writer = _writers.setdefault(descriptor, LogWriter(descriptor))
    return LogStream(stream, writer)  # type: ignore[return-value]


def dropped_lines() -> int:
    """Return how many log lines of this process were dropped."""
    return sum(writer.dropped for writer in _writers.values())


def flush_logs(timeout_s: float = DRAIN_S) -> bool:
    """Wait until every queued line is written; return False after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    pending = [(writer, writer.begin_flush()) for writer in _writers.values()]
    late = [writer for writer, done in pending if not _is_set_by(done, deadline)]
    for writer in late:
        writer.abandon()
    return not late


def _is_set_by(done: threading.Event, deadline: float) -> bool:
    return done.wait(max(0.0, deadline - time.monotonic()))


def _end() -> None:
    """Write the queued lines at exit; later messages of the interpreter go to the real stderr."""
    if flush_logs() and sys.__stderr__ is not None:
        sys.stderr = sys.__stderr__


def _notice(event: str, **payload: object) -> bytes:
    return (render_line(None, "warning", {"event": event, **payload}) + "\n").encode()
