"""A process that makes the spans of document calls by the SDK alone, and measures their CPU.

All threads count: the spans are exported to ``OTEL_EXPORTER_OTLP_ENDPOINT``, as the gateway's are.
"""

import argparse
import json
import time
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Tracer, set_span_in_context

_ID = "0123456789abcdef" * 2
_REQUEST = {"http.request.method": "POST", "http.route": "/internal/mcp/execute"}
_ANSWER: dict[str, str | int] = {"http.response.status_code": 200, "mcp_proxy.trace_id": _ID}
_CALL = {"mcp_proxy.tenant_id": "bench"}
_RESULT: dict[str, str | int] = {
    "gen_ai.tool.name": "read_doc_section",
    "gen_ai.operation.name": "execute_tool",
    "mcp_proxy.tokens": 512,
    "mcp_proxy.result_bytes": 2140,
    "mcp_proxy.document_id": "big-0",
}

_BURST = 32
_PAUSE_S = 0.01
"""So that there are as many spans a second as a busy gateway makes, and none is lost."""


def _trace_call(tracer: Tracer) -> None:
    """Start and end the two spans of a call, with the attributes that the gateway sets."""
    request = tracer.start_span("POST", kind=SpanKind.SERVER, attributes=_REQUEST)
    call = tracer.start_span("execute_tool", set_span_in_context(request), attributes=_CALL)
    call.update_name("execute_tool read_doc_section")
    call.set_attributes(_RESULT)
    call.end()
    request.set_attributes(_ANSWER)
    request.end()


def _measure(calls: int) -> float:
    """Return the CPU of the spans of one call, in microseconds."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("benchmarks")
    began = time.process_time()
    for number in range(calls):
        _trace_call(tracer)
        if number % _BURST == 0:
            time.sleep(_PAUSE_S)
    provider.shutdown()
    return (time.process_time() - began) * 1e6 / calls


def main() -> None:
    """Measure so many rounds of so many calls, and write what was found to ``file``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int)
    parser.add_argument("calls", type=int)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    _measure(options.calls)  # warms up
    found = [_measure(options.calls) for _ in range(options.rounds)]
    options.file.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
