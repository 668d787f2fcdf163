"""A receiver of OTLP over HTTP, like a collector: it decodes spans, or misbehaves on request."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.bounds import until

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One decoded span; ids are hex digits, empty if missing."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[tuple[str, str], ...]
    attributes: dict[str, object]
    has_error: bool
    status_text: str
    events: int

    @property
    def error_type(self) -> object:
        """Its error, or None for a success."""
        return self.attributes.get("error.type")


class Receiver:
    """The received spans; requests are answered with ``status`` once ``held`` is set."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.status = 200
        self.held = threading.Event()
        self.held.set()
        self.requests = 0
        self.spans: list[ReceivedSpan] = []
        self.resource: dict[str, object] = {}
        self.raw = b""

    def receive(self, body: bytes) -> None:
        self.requests += 1
        self.raw += body
        for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource = _attributes(resource_spans.resource.attributes)
            for scope in resource_spans.scope_spans:
                self.spans += map(_decoded, scope.spans)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReceivedSpan:
        (span,) = self.named(name)
        return span

    def children(self, parent: ReceivedSpan) -> list[str]:
        return sorted(span.name for span in self.spans if span.parent_id == parent.span_id)

    async def received(self, name: str, count: int = 1) -> None:
        """Wait for this many spans with this name; their children have arrived earlier."""
        await until(lambda: len(self.named(name)) >= count, f"{count} times {name}")


def _decoded(span: ProtoSpan) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        kind=ProtoSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        attributes=_attributes(span.attributes),
        has_error=span.status.code == Status.STATUS_CODE_ERROR,
        status_text=span.status.message,
        events=len(span.events),
    )


def _attributes(pairs: object) -> dict[str, object]:
    return {pair.key: _value(pair.value) for pair in pairs}  # type: ignore[attr-defined]  # protobuf


def _value(value: AnyValue) -> object:
    return getattr(value, value.WhichOneof("value") or "string_value")


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.held.wait()
            receiver.receive(body)
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.held.set()
        server.shutdown()
        thread.join()
        server.server_close()


def sdk_variables(url: str) -> dict[str, str]:
    at_once = {"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    return {ENDPOINT: url, **at_once}


def export_to(url: str, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Set the variables that export spans to ``url``, and ``variables``."""
    for name, value in {**sdk_variables(url), **variables}.items():
        monkeypatch.setenv(name, value)
