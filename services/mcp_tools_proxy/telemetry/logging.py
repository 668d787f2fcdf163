"""One JSON object a line: timestamp, level, event, payload, trace_id (contract §7)."""

import logging
import logging.config
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING,
           "error": logging.ERROR}  # fmt: skip
_ENVELOPE = ("timestamp", "level", "event")


def nest_payload(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Move everything but the envelope's own keys into ``payload``."""
    trace_id = event.pop("trace_id", None)
    line = {key: event.pop(key) for key in _ENVELOPE if key in event}
    if line.get("level") == "warning":
        line["level"] = "warn"
    return {**line, "payload": dict(event), "trace_id": trace_id}


def configure_logging(level: str, stream: TextIO) -> None:
    """Send our log lines and those of the libraries to ``stream``, from ``level`` up.

    The one place that touches the process-wide logging state; programs call it once at start.
    """
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    render: list[Processor] = [nest_payload, structlog.processors.JSONRenderer(default=str)]
    structlog.configure(
        processors=[*shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(_LEVELS[level], logging.INFO))
    for noisy in ("watchfiles", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
