"""Chooses the tracer: OpenTelemetry's where an OTLP endpoint is set, else none."""

from mcp_tools_proxy.settings.observability import set_sdk_variables
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.tracing.spans import NoTracer, Tracer

LAST_EXPORT_S = 2.0
"""Seconds that the end waits for the last spans to be exported, at most."""


def build_tracer(settings: Settings, metrics: Metrics) -> Tracer:
    """Build the tracer. Raises ValueError where the packages for traces are missing."""
    variable = settings.traces_variable
    if variable is None:
        return NoTracer()
    set_sdk_variables()
    try:
        # an extra; slow to import
        from mcp_tools_proxy.telemetry.tracing.otel_tracer import OtelTracer  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ValueError(
            f"{variable}: is set, but the packages for traces are missing; run "
            "pip install 'mcp-tools-proxy[otel]', or unset it"
        ) from None
    return OtelTracer(
        service_name=settings.app_name,
        trust_traceparent=settings.trust_traceparent,
        close_s=min(LAST_EXPORT_S, settings.shutdown_grace_s),
        count_lost=metrics.spans_lost.inc,
    )
