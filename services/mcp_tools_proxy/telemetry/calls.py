"""The one log line and the metrics of a call."""

import structlog
from prometheus_client import Counter, Histogram

from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok
from mcp_tools_proxy.policy.bounds import QUOTE_CHARS
from mcp_tools_proxy.telemetry.metrics import UNKNOWN_TOOL, Metrics

EVENT = "tool.call"
CANCELLED = "CANCELLED"
"""The ``code`` of a call whose caller went away."""

_LEVEL_OF_CODE = {"OK": "info", "INTERNAL_ERROR": "error"}
"""Any other code is a denial or a failure that its caller can react to: a warning."""


class CallTelemetry:
    """Tells what became of each call: identifiers, codes, sizes; never texts (contract §7)."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._meters: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._log = structlog.get_logger().bind()  # bound once: the lazy one binds at each line

    def __call__(self, record: CallRecord) -> None:
        """Write one ``tool.call`` line and count the call."""
        tool = record.spec.name if record.spec else UNKNOWN_TOOL
        code = _code(record)
        calls, seconds = self._meters.get((tool, code)) or self._add_meters(tool, code)
        calls.inc()
        seconds.observe(record.duration_s)
        log = getattr(self._log, _LEVEL_OF_CODE.get(code, "warning"))
        log(EVENT, trace_id=record.call.trace_id, code=code, **_payload(record))

    def _add_meters(self, tool: str, code: str) -> tuple[Counter, Histogram]:
        """Find the metrics' children once: looking labels up takes as long as counting."""
        meters = (
            self._metrics.calls.labels(tool, code),
            self._metrics.call_seconds.labels(tool),
        )
        self._meters[tool, code] = meters
        return meters


def _code(record: CallRecord) -> str:
    match record.outcome:
        case Ok():
            return "OK"
        case Failed(error=error):
            return error.code
        case None:
            return CANCELLED


def _payload(record: CallRecord) -> dict[str, object]:
    call = record.call
    payload: dict[str, object] = {
        "tool": _shown(call.name),
        "tenant_id": _shown(call.caller.tenant_id),
        "user_id": _shown(call.caller.user_id),
        "duration_ms": round(record.duration_s * 1000, 3),
    }
    if call.caller.agent is not None:
        payload["agent"] = _shown(call.caller.agent)
    if record.spec is not None:
        names = record.spec.argument_names
        payload["arguments"] = [name for name in call.arguments if name in names]
        doc_id = call.arguments.get("doc_id")
        if isinstance(doc_id, str) and "doc_id" in names:
            payload["doc_id"] = _shown(doc_id)
    if isinstance(record.outcome, Ok):
        payload["result_bytes"] = len(record.outcome.result_json)
        payload["tokens"] = record.outcome.tokens
    return payload


def _shown(text: str) -> str:
    """Cut a caller's string; JSON in ASCII escapes the rest."""
    return text[:QUOTE_CHARS]
