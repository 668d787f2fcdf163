"""What is told of requests that never become a call (contract §7)."""

import structlog

from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.telemetry.metrics import Metrics

log = structlog.get_logger()


def tell_refused(metrics: Metrics, error: ProxyError, trace_id: str) -> None:
    """Count a request that is refused with ``error``, and leave a log line that says where."""
    metrics.requests_refused.labels(error.code).inc()
    field = (error.details or {}).get("field")
    log.warning("request.refused", trace_id=trace_id, code=error.code, field=field)
