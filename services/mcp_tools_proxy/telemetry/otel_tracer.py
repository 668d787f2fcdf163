"""OpenTelemetry spans by the SDK, which reads its ``OTEL_…`` settings itself.

The log has one line when the export starts to fail, and one when it recovers. Imported only if
traces are on, and the only module that imports OpenTelemetry.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Token
from random import getrandbits
from types import TracebackType
from typing import Self

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace import Span as SdkSpan
from opentelemetry.trace import Tracer as SdkTracer
from opentelemetry.util.types import Attributes as SdkAttributes

from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.outcome import CANCELLED
from mcp_tools_proxy.telemetry.spans import (
    CURRENT,
    ERROR_TYPE,
    NO_SPAN,
    ActiveSpan,
    Attributes,
    Span,
)
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable
from mcp_tools_proxy.wire.version import VERSION

_ROOT = Context()
_UNKNOWN_SERVICE = "unknown_service"


class OtelTracer:
    """Starts spans of OpenTelemetry, and exports them by OTLP over HTTP.

    With ``trust_traceparent``, the caller's span is the parent of the request's, otherwise a link.
    ``count_lost`` is called in another thread with the number of lost spans. ``close`` waits
    ``close_s`` seconds for the last export. Raises ValueError for an invalid variable.
    """

    is_on = True

    def __init__(
        self,
        *,
        service_name: str,
        trust_traceparent: bool,
        close_s: float,
        count_lost: Callable[[int], None],
    ) -> None:
        quiet_sdk(count_lost)
        self._trust_traceparent = trust_traceparent
        self._close_s = close_s
        self._exporter = ReportingExporter(OTLPSpanExporter(), count_lost)
        self._start = _RequestStart()
        self._sampler = TracerProvider(shutdown_on_exit=False).sampler  # as the variables say
        self._provider = TracerProvider(
            sampler=self._start,
            id_generator=self._start,
            resource=_resource(service_name),
            shutdown_on_exit=False,
        )
        self._tracer = self._provider.get_tracer("mcp-tools-proxy", VERSION)

    def __repr__(self) -> str:
        return "<OtelTracer>"

    def open(self) -> None:
        """Start the export thread."""
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))

    async def close(self) -> None:
        """Export the last spans, for at most ``close_s`` seconds.

        Not with ``to_thread``, because the interpreter waits for those threads at exit.
        """
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # the loop has already ended
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=shut_down, daemon=True, name="last-export").start()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._close_s):
                await done.wait()

    def start_request(
        self,
        name: str,
        attributes: Attributes,
        received: Mapping[str, str],
        *,
        is_mcp: bool = False,
    ) -> Span:
        """Start the span of a request; an unsampled one only has a context."""
        remote = _remote_span(received)
        parent, links, trace_id = _ROOT, None, getrandbits(128)
        if remote is not None and self._trust_traceparent:
            parent, trace_id = set_span_in_context(NonRecordingSpan(remote), _ROOT), remote.trace_id
        elif remote is not None:
            links = [Link(remote)]
        decided = self._sampler.should_sample(
            parent, trace_id, name, SpanKind.SERVER, attributes, links
        )
        if decided.decision is not Decision.RECORD_AND_SAMPLE:
            return UnrecordedSpan(trace_id, getrandbits(64), decided.trace_state)
        self._start.decided, self._start.trace_id = decided, trace_id
        span = self._tracer.start_span(
            name,
            context=parent,
            kind=SpanKind.SERVER,
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        )
        return RecordedSpan(self._tracer, span, name, is_mcp=is_mcp)


class _RequestStart(Sampler, RandomIdGenerator):
    """Passes the sampling decision, made before a request's span exists, on to the SDK.

    The SDK creates objects even for unsampled spans, half the time of such a request. Children of a
    sampled request are sampled.
    """

    def __init__(self) -> None:
        self.decided: SamplingResult | None = None
        self.trace_id = 0

    def generate_trace_id(self) -> int:
        """Return the trace id of the decision."""
        return self.trace_id

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: SdkAttributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Return the decision for a request once; afterwards yes, for its children."""
        decided, self.decided = self.decided, None
        if decided is not None:
            return decided
        parent = get_current_span(parent_context).get_span_context()
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, parent.trace_state)

    def get_description(self) -> str:
        """Return the name of the sampler."""
        return "DecidedAtTheRequest"


class _SpanInTrace:
    """Common base of recorded and unrecorded spans: a place in a trace."""

    __slots__ = ("_span_id", "_token", "_trace_id", "_trace_state")

    _flags = "01"
    _token: Token[ActiveSpan | None]

    def __init__(self, trace_id: int, span_id: int, trace_state: TraceState | None) -> None:
        self._trace_id = trace_id
        self._span_id = span_id
        self._trace_state = trace_state

    @property
    def trace_id(self) -> str:
        """The trace's id."""
        return f"{self._trace_id:032x}"

    @property
    def w3c_context(self) -> Mapping[str, str]:
        """``traceparent``, and ``tracestate`` if set."""
        context = {"traceparent": f"00-{self.trace_id}-{self._span_id:016x}-{self._flags}"}
        if self._trace_state:
            context["tracestate"] = self._trace_state.to_header()
        return context


class UnrecordedSpan(_SpanInTrace):
    """An unsampled request: its context is propagated, but child spans are not created."""

    __slots__ = ()

    is_recording = False
    request: ActiveSpan | None = None
    _flags = "00"

    def __enter__(self) -> Self:
        self._token = CURRENT.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        CURRENT.reset(self._token)

    def start_child(self, name: str, attributes: Attributes, *, is_client: bool) -> Span:
        """Return NO_SPAN."""
        return NO_SPAN

    def add_target(self, target: str) -> None:
        """Do nothing."""

    def set(self, attributes: Attributes) -> None:
        """Do nothing."""

    def fail(self, error_type: str) -> None:
        """Do nothing."""


class RecordedSpan(_SpanInTrace):
    """A span of the SDK. Errors are types and codes; the SDK's own mechanism records texts."""

    __slots__ = ("_as_parent", "_has_failed", "_is_mcp", "_name", "_span", "_tracer", "request")

    is_recording = True

    def __init__(
        self,
        tracer: SdkTracer,
        span: SdkSpan,
        name: str,
        *,
        is_mcp: bool = False,
        request: ActiveSpan | None = None,
    ) -> None:
        place = span.get_span_context()
        super().__init__(place.trace_id, place.span_id, place.trace_state)
        self._tracer = tracer
        self._span = span
        self._name = name
        self._is_mcp = is_mcp
        self._as_parent: Context | None = None
        self._has_failed = False
        self.request = request

    def __enter__(self) -> Self:
        self._token = CURRENT.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        CURRENT.reset(self._token)
        if error is not None:
            self.fail(_type_of(error))
        self._span.end()

    def start_child(self, name: str, attributes: Attributes, *, is_client: bool) -> Span:
        """Start a span below this one."""
        if self._as_parent is None:
            self._as_parent = set_span_in_context(self._span, _ROOT)
        span = self._tracer.start_span(
            name,
            context=self._as_parent,
            kind=SpanKind.CLIENT if is_client else SpanKind.INTERNAL,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
        return RecordedSpan(self._tracer, span, name, request=self if self._is_mcp else None)

    def add_target(self, target: str) -> None:
        """Add the target of the request or call to the name."""
        self._span.update_name(f"{self._name} {target}")

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(attributes)

    def fail(self, error_type: str) -> None:
        """Mark the span as failed; the first type is kept."""
        if not self._has_failed:
            self._has_failed = True
            self._span.set_attribute(ERROR_TYPE, error_type)
            self._span.set_status(StatusCode.ERROR)


def _type_of(error: BaseException) -> str:
    """Return the ``error.type`` of an exception, never its text."""
    match error:
        case ProxyError():
            return error.code
        case JsonRpcError():
            return str(error.code)
        case asyncio.CancelledError():
            return CANCELLED
        case _:
            return type(error).__name__


def _remote_span(received: Mapping[str, str]) -> SpanContext | None:
    """Return the caller's span; ``received`` is in W3C's format, see ``valid_context``."""
    traceparent = received.get("traceparent")
    if traceparent is None:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    state = received.get("tracestate")
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=None if state is None else TraceState.from_header([state]),
    )


def _resource(service_name: str) -> Resource:
    """Return the source of the spans: from ``OTEL_…``, or by default this service."""
    found = Resource({SERVICE_VERSION: VERSION}).merge(Resource.create())
    if str(found.attributes.get(SERVICE_NAME, "")).startswith(_UNKNOWN_SERVICE):
        return found.merge(Resource({SERVICE_NAME: service_name}))
    return found


_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_QUEUE = "opentelemetry.sdk._shared_internal"
_HEADERS = "opentelemetry.util.re"

_NO_REASON = "no answer in time"

log = structlog.get_logger()


class ReportingExporter(SpanExporter):
    """Exports with ``exporter``, logs the start and end of failures, and counts lost spans.

    The SDK would log each batch and each attempt.
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
        for cause in reversed(causes):  # a status precedes its text
            if isinstance(cause, Exception):
                self.last = type(cause).__name__
            elif isinstance(cause, int):
                self.last = f"HTTP status {cause}"
            elif isinstance(cause, str) and cause != "spans":
                self.last = printable(cause[:QUOTE_CHARS])
        return False


class _QueueFull(logging.Filter):
    """Counts spans that do not fit into the queue, and drops the SDK's lines."""

    def __init__(self, count_lost: Callable[[int], None]) -> None:
        super().__init__()
        self._count_lost = count_lost

    def filter(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Queue full"):
            self._count_lost(1)
        return False


class _NoHeaders(logging.Filter):
    """Removes malformed headers, which contain secrets, from the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = "OTEL_EXPORTER_OTLP_HEADERS: a header is malformed", ()
        return True


def quiet_sdk(count_lost: Callable[[int], None]) -> None:
    """Keep the SDK from logging lost spans and secrets; count the losses of its queue."""
    _filter_first(_QUEUE, _QueueFull(count_lost))
    _filter_first(_HEADERS, _NoHeaders())


def _filter_first(name: str, new: logging.Filter) -> None:
    """Add a filter before the SDK's own ones, replacing an earlier one of the same type."""
    logger = logging.getLogger(name)
    logger.filters = [new, *(it for it in logger.filters if type(it) is not type(new))]
