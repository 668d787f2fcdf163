"""One JSON object a line: timestamp, level, event, payload, trace_id (contract §7)."""

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_LEVEL_OF_METHOD = {"warning": "warn", "exception": "error"}

_encode = json.JSONEncoder(default=str, separators=(",", ":")).encode
"""To ASCII, so that nothing a caller sends can break a line or hide in it."""


def render_line(_logger: WrappedLogger, method: str, event: EventDict) -> str:
    """Render an event: what it was logged with is its payload, but for ``trace_id``."""
    name = event.pop("event", "")
    trace_id = event.pop("trace_id", None)
    return _encode(
        {
            "timestamp": f"{datetime.now(UTC).isoformat(timespec='microseconds')[:-6]}Z",
            "level": _LEVEL_OF_METHOD.get(method, method),
            "event": name,
            "payload": event,
            "trace_id": trace_id,
        }
    )


def configure_logging(level: str, stream: TextIO) -> None:
    """Send our log lines and those of the libraries to ``stream``, from ``level`` up.

    The one place that touches the process-wide logging state; programs call it once at start.
    """
    structlog.configure(
        processors=[structlog.processors.format_exc_info, render_line],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                render_line,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(_LEVELS[level], logging.INFO))
    for noisy in ("watchfiles", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
