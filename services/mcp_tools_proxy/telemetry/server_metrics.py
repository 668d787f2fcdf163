"""The metrics of one downstream server."""

from prometheus_client import Counter, Gauge, Histogram

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.telemetry.metrics import Metrics


class ServerMetrics:
    """Sets and counts the metrics of one server, under its ``server`` label.

    The metrics exist from the start, with 0. ``close`` freezes the status: a replaced session must
    not overwrite its successor's.
    """

    def __init__(self, metrics: Metrics, server_id: str) -> None:
        self._metrics = metrics
        self._server_id = server_id
        self._calls: dict[tuple[Kind, str], Counter] = {}
        self._seconds: Histogram = metrics.server_call_seconds.labels(server_id)
        self._reconnects: Counter = metrics.server_reconnects.labels(server_id)
        self._discovery_failures: Counter = metrics.server_discovery_failures.labels(server_id)
        self._suspended_calls: Counter = metrics.server_suspended_calls.labels(server_id)
        self._output_mismatches: Counter = metrics.server_output_mismatches.labels(server_id)
        self._circuits_open: Gauge = metrics.server_circuits_open.labels(server_id)
        self._open = True
        self.set_status(up=False, stale=False)

    def set_status(self, *, up: bool, stale: bool) -> None:
        """Set the gauges of the server's status."""
        if self._open:
            self._metrics.server_up.labels(self._server_id).set(up)
            self._metrics.server_stale.labels(self._server_id).set(stale)

    def observe_call(self, kind: Kind, code: str, seconds: float) -> None:
        """Count one request to the server by outcome code, and record its time."""
        calls = self._calls.get((kind, code))
        if calls is None:  # cached: looking up labels takes as long as counting
            calls = self._metrics.server_calls.labels(self._server_id, kind.value, code)
            self._calls[kind, code] = calls
        calls.inc()
        self._seconds.observe(seconds)

    def reconnected(self) -> None:
        """Count one connection after the first."""
        self._reconnects.inc()

    def discovery_failed(self) -> None:
        """Count one discovery with a failed list."""
        self._discovery_failures.inc()

    def call_suspended(self) -> None:
        """Count one suspension of a call."""
        self._suspended_calls.inc()

    def circuit_changed(self, change: int) -> None:
        """Count one opened (1) or closed (-1) circuit."""
        if self._open:
            self._circuits_open.inc(change)

    def output_mismatched(self) -> None:
        """Count one result that did not match its tool's schema."""
        self._output_mismatches.inc()

    def set_sessions(self, count: int) -> None:
        """Set the number of open sessions of tenants or users."""
        if self._open:
            self._metrics.server_sessions.labels(self._server_id).set(count)

    def session_ended(self, reason: str) -> None:
        """Count one ended session of a tenant or user, by one of a few reasons."""
        if self._open:
            self._metrics.server_sessions_ended.labels(self._server_id, reason).inc()

    def close(self) -> None:
        """Ignore further changes of the status."""
        self._open = False


def remove_server(metrics: Metrics, server_id: str) -> None:
    """Remove the metrics of a server that was removed from the configuration."""
    for metric in (
        metrics.server_up,
        metrics.server_stale,
        metrics.server_calls,
        metrics.server_call_seconds,
        metrics.server_reconnects,
        metrics.server_discovery_failures,
        metrics.server_suspended_calls,
        metrics.server_output_mismatches,
        metrics.server_circuits_open,
        metrics.server_sessions,
        metrics.server_sessions_ended,
    ):
        metric.remove_by_labels({"server": server_id})
