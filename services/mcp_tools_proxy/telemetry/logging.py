"""The log: one JSON object per line, from structlog and from libraries (contract §7).

A full pipe at stdout or stderr blocks a program in the middle of a line: with a pipe of 4 kB, the
service hung after ten calls, even for SIGTERM. So one thread writes queued lines; lines that do not
fit are dropped and counted. Operators can change the level at run time.
"""

import asyncio
import atexit
import fcntl
import io
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Literal, TextIO, cast

import structlog

from mcp_tools_proxy.telemetry.log_lines import render_for_people, render_line

__all__ = ["configure_logging", "flush_logs"]

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


NOISY_LIBRARIES = ("watchfiles", "httpx", "httpcore")
"""Libraries whose lines below warning are not useful."""

_Logger = type("_Logger", (structlog.make_filtering_bound_logger(logging.INFO),), {})
"""The class of all loggers, which structlog caches after their first use.

``set_log_level`` replaces the base of this class, and so affects all loggers at once.
"""


class _DirectStream:
    """Wraps a text stream without a descriptor, e.g. one in memory; writes at once.

    A closed stream loses log lines, but fails no calls.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the stream is closed
            return

    def flush(self) -> None:
        """Do nothing: each line is flushed when written."""


class _LineLogger:
    def __init__(self, stream: TextIO, *_args: object) -> None:
        self._write = stream.write

    def write(self, line: str) -> None:
        self._write(line + "\n")

    debug = info = warning = error = exception = critical = write


def _without_texts(record: logging.LogRecord) -> bool:
    """Reduce records of the SDK's server to place and exception type; drop all below error.

    Their texts quote clients' messages and session ids, which are equivalent to tokens.
    """
    if not record.name.startswith("mcp.server"):
        return True
    kind = record.exc_info[0] if record.exc_info else None
    record.msg = f"{record.name}:{record.lineno}" + (f" {kind.__name__}" if kind else "")
    record.args, record.exc_info, record.exc_text = None, None, None
    return record.levelno >= logging.ERROR


def configure_logging(level: str, stream: TextIO, *, for_people: bool = False) -> None:
    """Send log lines of the gateway and of libraries to ``stream``, from ``level`` up.

    Each line is one JSON object or, with ``for_people``, text for a terminal. Only this function,
    ``silence_logs`` and ``set_log_level`` change the process-wide logging state; programs call one
    of the first two once at start. Writing never blocks on the reader of the stream, nor does
    output on ``sys.stderr``, such as tracebacks and warnings.
    """
    stream = _non_blocking(stream)
    render = render_for_people if for_people else render_line
    structlog.configure(
        processors=[render],
        wrapper_class=_Logger,
        logger_factory=partial(_LineLogger, stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.addFilter(_without_texts)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                render,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    set_log_level(level)
    for sensitive in ("mcp.client", "mcp.shared", "aiohttp"):  # they log servers' data
        logging.getLogger(sensitive).setLevel(logging.CRITICAL)


def take_over_uvicorn_logs() -> None:
    """Send the lines of a hosting uvicorn to our log, and drop its access lines.

    They are not JSON and contain queries; each call has a record.
    """
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"


def set_log_level(level: str) -> None:
    """Set the level of all loggers, including those already used.

    Libraries never log below info, because there they quote data of servers and callers.
    """
    number = _LEVELS[level]
    _Logger.__bases__ = (structlog.make_filtering_bound_logger(number),)
    logging.getLogger().setLevel(max(number, logging.INFO))
    for noisy in NOISY_LIBRARIES:
        logging.getLogger(noisy).setLevel(max(number, logging.WARNING))


def silence_logs() -> None:
    """Disable the gateway's log lines for a command, which prints errors itself.

    They would go to stdout, into the command's JSON. Unlike with ``configure_logging``, stderr
    stays blocking, and no error message is dropped.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _non_blocking(stream: TextIO) -> TextIO:
    """Return a non-blocking stream for ``stream``; replace ``sys.stderr`` by one too."""
    found = open_stream(stream)
    if found is None:
        return cast("TextIO", _DirectStream(stream))
    if sys.stderr is not None:
        sys.stderr = open_stream(sys.stderr) or sys.stderr
    return found


LevelName = Literal["debug", "info", "warning", "error"]

log = structlog.get_logger()


class LogLevel:
    """The current log level: ``default`` from the settings, or a temporary one.

    ``apply`` changes the level of the process.
    """

    def __init__(
        self, default: LevelName, *, apply: Callable[[LevelName], None] = set_log_level
    ) -> None:
        self.default = default
        self.current = default
        self._apply = apply
        self._timer: asyncio.TimerHandle | None = None

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the default level is restored; None if that is not planned."""
        if self._timer is None:
            return None
        return max(self._timer.when() - asyncio.get_running_loop().time(), 0.0)

    def change(self, level: LevelName, *, for_s: float | None) -> None:
        """Set the level, for ``for_s`` seconds or until the next change."""
        self._cancel_timer()
        log.warning("log_level.changed", level=level, before=self.current, for_s=for_s)
        self._set(level)
        if for_s is not None:
            self._timer = asyncio.get_running_loop().call_later(for_s, self.restore)

    def restore(self) -> None:
        """Restore the default level."""
        self._cancel_timer()
        if self.current != self.default:
            log.warning("log_level.restored", level=self.default, before=self.current)
            self._set(self.default)

    def _set(self, level: LevelName) -> None:
        self._apply(level)
        self.current = level

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


MAX_WAITING_BYTES = 4 * 1024 * 1024
"""Maximum queue of one descriptor, in bytes; further lines are dropped."""

GATHER_S = 0.05
"""Seconds that the thread waits for more lines after the first: waking it for each line would
cost more than writing the line."""

WRITE_BYTES = 64 * 1024
"""Maximum write, the usual size of a pipe. Each write takes the GIL from the event loop: with
writes of 4 kB, a call took 6 % more CPU."""

DRAIN_S = 1.0
"""Maximum wait at exit, in seconds, for queued lines."""


class LogWriter:
    """Queues data for ``descriptor``, which a separate thread writes.

    ``write`` never blocks or raises. A signal handler or destructor can interrupt it with another
    call, so the lock and the wake-up queue are reentrant.
    """

    shared_lock: int | None = None
    """Descriptor of the file that processes with the same output lock, see ``share_output``."""

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
        self._written = 0  # bytes, changed only by the thread
        self._dropping = 0  # items since dropping began
        self._gave_up_at: int | None = None
        self.dropped = 0

    def write(self, data: bytes) -> None:
        """Queue ``data``, one line or a part of one; drop it if the queue is full."""
        with self._lock:
            if self._dropping or self._added - self._written + len(data) > self._max_bytes:
                self._drop()
            else:
                self._add(data)

    def begin_flush(self) -> threading.Event:
        """Return an event that is set once all data queued so far is written."""
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
            except RuntimeError:  # too many threads: the next line or the exit tries again
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
                self._is_woken = False  # first: a destructor can write between any two lines
                waiting, self._waiting = self._waiting, []
                flushes, self._flushes = self._flushes, []
            self._write_all(b"".join(waiting))
            for done in flushes:
                done.set()

    def _write_all(self, data: bytes) -> None:
        """Write ``data`` in whole lines, because other programs can write to the pipe too."""
        start = 0
        while start < len(data):
            end = data.rfind(b"\n", start, start + WRITE_BYTES) + 1 or data.find(b"\n", start) + 1
            self._send(data[start : end or None])
            start = end or len(data)

    def _send(self, batch: bytes) -> None:
        """Write all of ``batch``, waiting for its reader; drop it if the pipe is closed."""
        rest = memoryview(batch)
        try:
            with self._alone():
                while rest:
                    rest = rest[self._write_some(rest) :]
        except OSError:
            with self._lock:
                self.dropped += batch.count(b"\n")
        self._written += len(batch)
        if self._dropping and self._added - self._written <= self._max_bytes // 2:
            self._resume()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the file's byte for this descriptor; the system unlocks it when a process ends."""
        lock = self.shared_lock
        if lock is None:
            yield
            return
        fcntl.lockf(lock, fcntl.LOCK_EX, 1, self._descriptor)
        try:
            yield
        finally:
            fcntl.lockf(lock, fcntl.LOCK_UN, 1, self._descriptor)

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


def share_output(lock: int | None) -> None:
    """Write to stdout and stderr in turn with the processes that have the same lock file.

    Lines in a pipe that is full, or longer than 4 kB, would mix.
    """
    LogWriter.shared_lock = lock


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
        """Do nothing: the thread writes queued data."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the replaced stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the replaced stream."""
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
    """Return the number of dropped log lines of this process."""
    return sum(writer.dropped for writer in _writers.values())


def flush_logs(timeout_s: float = DRAIN_S) -> bool:
    """Wait until all queued lines are written; return False after ``timeout_s``."""
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
