"""One JSON object a line: timestamp, level, event, payload, trace_id (contract §7)."""

import json
import logging
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import TextIO, cast

import structlog
from pydantic_core import PydanticSerializationError, to_json
from structlog.typing import EventDict, WrappedLogger

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_LEVEL_OF_METHOD = {"warning": "warn", "exception": "error"}

_encode_ascii = json.JSONEncoder(default=str, separators=(",", ":")).encode


class _Stream:
    """A text stream whose reader may go away: log lines are lost then, calls are not."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: it is closed on our side
            return

    def flush(self) -> None:
        """Do nothing: each line is flushed as it is written."""


def render_line(_logger: WrappedLogger, method: str, event: EventDict) -> str:
    """Render an event: what it was logged with is its payload, but for ``trace_id``."""
    name = event.pop("event", "")
    trace_id = event.pop("trace_id", None)
    return _to_ascii_json(
        {
            "timestamp": _now(),
            "level": _LEVEL_OF_METHOD.get(method, method),
            "event": name,
            "payload": event,
            "trace_id": trace_id,
        }
    )


def _now() -> str:
    second, fraction_ns = divmod(time.time_ns(), 10**9)
    return f"{_spelt(second)}.{fraction_ns // 1000:06}Z"


@lru_cache(maxsize=1)
def _spelt(second: int) -> str:
    """Spell a second since 1970: most lines have that of the line before."""
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"


def _to_ascii_json(line: dict[str, object]) -> str:
    """Encode to ASCII, so that nothing a caller sends can break a line or hide in it.

    Most lines are ASCII anyway: then the faster encoder's answer is as good.
    """
    try:
        data = to_json(line, fallback=str)
    except PydanticSerializationError:  # a lone surrogate, say of a file's name
        return _encode_ascii(line)
    return data.decode() if data.isascii() else _encode_ascii(line)


def _without_texts(record: logging.LogRecord) -> bool:
    """Let the errors of MCP's server through by their place and kind alone.

    What it writes quotes messages of clients and ids of sessions, which are as good as tokens.
    """
    if not record.name.startswith("mcp.server"):
        return True
    kind = record.exc_info[0] if record.exc_info else None
    record.msg = f"{record.name}:{record.lineno}" + (f" {kind.__name__}" if kind else "")
    record.args, record.exc_info, record.exc_text = None, None, None
    return record.levelno >= logging.ERROR


def configure_logging(level: str, stream: TextIO) -> None:
    """Send our log lines and those of the libraries to ``stream``, from ``level`` up.

    The one place that touches the process-wide logging state; programs call it once at start.
    """
    stream = cast("TextIO", _Stream(stream))
    structlog.configure(
        processors=[structlog.processors.format_exc_info, render_line],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.addFilter(_without_texts)
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
    for talkative in ("mcp.client", "mcp.shared", "aiohttp"):  # they log what servers send
        logging.getLogger(talkative).setLevel(logging.CRITICAL)
