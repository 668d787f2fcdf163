"""Configures logging: one JSON object a line, from structlog and from libraries (contract §7)."""

import logging
import sys
from functools import partial
from typing import TextIO, cast

import structlog

from mcp_tools_proxy.telemetry.log_lines import render_for_people, render_line
from mcp_tools_proxy.telemetry.log_writer import flush_logs, open_stream

__all__ = ["configure_logging", "flush_logs"]

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


NOISY_LIBRARIES = ("watchfiles", "httpx", "httpcore")
"""Libraries whose lines below warning are of no use."""

_Logger = type("_Logger", (structlog.make_filtering_bound_logger(logging.INFO),), {})
"""The class of all loggers: structlog keeps each one once it was used, and what was bound of it.

``set_log_level`` exchanges the base of the class, which is in force for all of them at once.
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
        """Do nothing: each line is flushed as it is written."""


class _LineLogger:
    """Writes each line to a stream, which needs no lock and no flush."""

    def __init__(self, stream: TextIO, *_args: object) -> None:
        self._write = stream.write

    def write(self, line: str) -> None:
        self._write(line + "\n")

    debug = info = warning = error = exception = critical = write


def _without_texts(record: logging.LogRecord) -> bool:
    """Reduce log records of the SDK's server to place and exception type; drop all below error.

    Their texts quote clients' messages, and session ids, which are as good as tokens.
    """
    if not record.name.startswith("mcp.server"):
        return True
    kind = record.exc_info[0] if record.exc_info else None
    record.msg = f"{record.name}:{record.lineno}" + (f" {kind.__name__}" if kind else "")
    record.args, record.exc_info, record.exc_text = None, None, None
    return record.levelno >= logging.ERROR


def configure_logging(level: str, stream: TextIO, *, for_people: bool = False) -> None:
    """Send our log lines and those of the libraries to ``stream``, from ``level`` up.

    Each is one JSON object, or ``for_people`` a line that is read on a terminal.
    With ``silence_logs`` and ``set_log_level`` the only place that changes the process-wide logging
    state; programs call one of the first two once at start.
    Writing never blocks on the reader of the stream. That holds for everything written to
    ``sys.stderr`` as well: tracebacks, warnings.
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
    """Send the lines of a uvicorn that runs us to our log, and drop its access lines.

    They would be no JSON, and have queries; each call has a record.
    """
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"


def set_log_level(level: str) -> None:
    """Log from ``level`` up from now on, with every logger, also one that was used before.

    Libraries never log below info: there they quote what servers and callers send.
    """
    number = _LEVELS[level]
    _Logger.__bases__ = (structlog.make_filtering_bound_logger(number),)
    logging.getLogger().setLevel(max(number, logging.INFO))
    for noisy in NOISY_LIBRARIES:
        logging.getLogger(noisy).setLevel(max(number, logging.WARNING))


def silence_logs() -> None:
    """Write no log lines of ours: a command prints what went wrong itself.

    They would go to stdout, beside its JSON. Unlike with ``configure_logging`` stderr stays
    blocking, so that no failure of many is dropped.
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
