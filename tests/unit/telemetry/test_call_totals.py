from prometheus_client.parser import text_string_to_metric_families

from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import (
    InternalError,
    ProxyError,
    RateLimitExceeded,
    ToolFailed,
    ToolNotFound,
)
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok, Outcome
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail
from mcp_tools_proxy.telemetry.call_events import CallTelemetry
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.builders import make_call
from tests.support.fakes import FakeTool

FIND = FakeTool(name="notes:find", server_id="notes").spec
READ = FakeTool(name="read_doc_pages").spec
OK = Ok(spec=FIND, result={}, result_json=b'{"content":[]}', tokens=7)


class CountedCalls:
    """Metrics, and a telemetry that counts calls in them."""

    def __init__(self, *tenants: str) -> None:
        self.metrics = Metrics(tenants=tenants)
        self._telemetry = CallTelemetry(self.metrics, AuditTrail())

    def end(
        self, outcome: Outcome | None, *, tenant_id: str = "t", tool: ComponentSpec = FIND
    ) -> None:
        call = make_call("notes:find", tenant_id=tenant_id)
        self._telemetry.log_end(CallRecord(call=call, spec=tool, outcome=outcome, duration_s=0.01))

    def refuse(self, error: ProxyError, *, tenant_id: str = "t") -> None:
        self.end(Failed(error=error), tenant_id=tenant_id)

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the values of a metric by label values."""
        families = text_string_to_metric_families(self.metrics.exposition().decode())
        samples = [it for family in families for it in family.samples if it.name == name]
        return {tuple(value for _, value in sorted(it.labels.items())): it.value for it in samples}


def used_up(budget: str) -> RateLimitExceeded:
    return RateLimitExceeded("used up", details={"budget": budget})


def test_tokens_and_bytes_of_results_are_counted_by_tool() -> None:
    calls = CountedCalls()
    calls.end(OK)
    calls.end(OK, tenant_id="t2")
    calls.end(OK, tool=READ)
    calls.refuse(ToolFailed("x"))
    assert (
        calls.series("mcp_proxy_calls_total"),
        calls.series("mcp_proxy_call_tokens_total"),
        calls.series("mcp_proxy_call_result_bytes_total"),
    ) == (
        {("OK", "notes:find"): 2, ("OK", "read_doc_pages"): 1, ("TOOL_FAILED", "notes:find"): 1},
        {("notes:find",): 14, ("read_doc_pages",): 7},
        {("notes:find",): 28, ("read_doc_pages",): 14},
    )


def test_only_named_tenants_have_separate_series() -> None:
    calls = CountedCalls("acme", "globex")
    for tenant_id in ("acme", "initech", "umbrella", "", "ACME"):
        calls.end(OK, tenant_id=tenant_id)
    calls.refuse(used_up("tenant_calls"), tenant_id="acme")
    calls.refuse(used_up("document_calls"), tenant_id="initech")
    assert (
        calls.series("mcp_proxy_tenant_calls_total"),
        calls.series("mcp_proxy_tenant_call_tokens_total"),
        calls.series("mcp_proxy_tenant_rate_limit_refusals_total"),
    ) == (
        {
            ("OK", "acme"): 1,
            ("OK", "other"): 4,
            ("RATE_LIMIT_EXCEEDED", "acme"): 1,
            ("RATE_LIMIT_EXCEEDED", "other"): 1,
        },
        {("acme",): 7, ("other",): 28},
        {("tenant_calls", "acme"): 1, ("document_calls", "other"): 1},
    )


def test_tenants_are_named_only_if_configured_by_the_operator() -> None:
    calls = CountedCalls()
    calls.end(OK, tenant_id="acme")
    assert "acme" not in calls.metrics.exposition().decode()


def test_refusals_are_labelled_with_the_deciding_check() -> None:
    calls = CountedCalls()
    calls.refuse(ToolNotFound("x"))
    calls.refuse(ToolNotFound("x"))
    calls.refuse(used_up("tenant_calls"))
    calls.refuse(ToolFailed("x"))
    calls.refuse(InternalError())
    calls.end(None)
    calls.metrics.requests_refused.labels("UNAUTHENTICATED").inc(3)
    assert calls.series("mcp_proxy_refusals_total") == {
        ("visibility", "TOOL_NOT_FOUND"): 2,
        ("budget", "RATE_LIMIT_EXCEEDED"): 1,
        ("authentication", "UNAUTHENTICATED"): 3,
    }


def test_creation_times_of_series_are_not_exported() -> None:
    calls = CountedCalls()
    calls.end(OK)
    calls.metrics.requests_refused.labels("FORBIDDEN").inc()
    text = calls.metrics.exposition().decode()
    assert ("mcp_proxy_call_seconds_sum" in text, "_created" in text) == (True, False)
