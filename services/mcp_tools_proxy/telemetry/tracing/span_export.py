"""The export of spans as operators see it: a line when it fails, one when it works again."""

import logging
from collections.abc import Callable, Sequence

import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable

_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_QUEUE = "opentelemetry.sdk._shared_internal"
_HEADERS = "opentelemetry.util.re"

_NO_REASON = "no answer in time"

log = structlog.get_logger()


class ReportingExporter(SpanExporter):
    """Exports by ``exporter``, logs when that begins and ceases to fail, and counts lost spans.

    The SDK would log each batch, and each attempt.
    """

    def __init__(self, exporter: SpanExporter, count_lost: Callable[[int], None]) -> None:
        self._exporter = exporter
        self._count_lost = count_lost
        self._is_failing = False
        self._reasons = _Reasons()
        _filter_first(_EXPORTER, self._reasons)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export one batch, in the SDK's thread."""
        self._reasons.last = _NO_REASON
        result = self._exporter.export(spans)
        has_failed = result is not SpanExportResult.SUCCESS
        if has_failed:
            self._count_lost(len(spans))
        if has_failed and not self._is_failing:
            log.warning("traces.export_failed", reason=self._reasons.last)
        elif self._is_failing and not has_failed:
            log.info("traces.export_recovered")
        self._is_failing = has_failed
        return result

    def shutdown(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: each export is complete."""
        return self._exporter.force_flush(timeout_millis)


class _Reasons(logging.Filter):
    """Keeps the reason of the last failure, and drops the SDK's lines."""

    def __init__(self) -> None:
        super().__init__()
        self.last = _NO_REASON

    def filter(self, record: logging.LogRecord) -> bool:
        causes = record.args if isinstance(record.args, tuple) else ()
        for cause in reversed(causes):  # a status stands before its text
            if isinstance(cause, Exception):
                self.last = type(cause).__name__
            elif isinstance(cause, int):
                self.last = f"HTTP status {cause}"
            elif isinstance(cause, str) and cause != "spans":
                self.last = printable(cause[:QUOTE_CHARS])
        return False


class _QueueFull(logging.Filter):
    """Counts the spans that the queue has no place for, and drops the SDK's lines."""

    def __init__(self, count_lost: Callable[[int], None]) -> None:
        super().__init__()
        self._count_lost = count_lost

    def filter(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Queue full"):
            self._count_lost(1)
        return False


class _NoHeaders(logging.Filter):
    """Keeps out of the log the headers that cannot be read: they hold secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = "OTEL_EXPORTER_OTLP_HEADERS: a header is malformed", ()
        return True


def quiet_sdk(count_lost: Callable[[int], None]) -> None:
    """Keep the SDK from logging each lost span, and secrets; count what its queue loses."""
    _filter_first(_QUEUE, _QueueFull(count_lost))
    _filter_first(_HEADERS, _NoHeaders())


def _filter_first(name: str, new: logging.Filter) -> None:
    """Filter a logger by ``new``, before the SDK's own filters and in place of an earlier one."""
    logger = logging.getLogger(name)
    logger.filters = [new, *(it for it in logger.filters if type(it) is not type(new))]
