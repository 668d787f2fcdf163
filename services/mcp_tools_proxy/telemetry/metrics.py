"""All metrics of the gateway, in one separate registry.

A ``Counter`` of prometheus_client takes half a microsecond, a ``Histogram`` two, and a call would
need five. So calls add to rows of plain numbers, which a scrape sums up.
"""

import asyncio
import collections
import platform
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, Check
from mcp_tools_proxy.telemetry.logging import dropped_lines
from mcp_tools_proxy.wire.version import VERSION

SECONDS = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
_BUCKETS = (*map(str, SECONDS), "+Inf")

TOOLS_AT_ONCE = 50
"""Tools per part of the histogram; each part is rendered in one turn of the event loop."""

OTHER_TENANTS = "other"
"""The ``tenant`` label of all tenants that the operator did not name."""


_NO_REFUSAL = {Check.RETRIEVAL, Check.SERVER, Check.RESULT, Check.CALLER, Check.GATEWAY}
"""Checks after admission: these calls failed, but were not refused."""


class CallRow:
    """Totals of the calls of one tool that ended with one code, for one ``tenant`` label."""

    __slots__ = ("in_buckets", "result_bytes", "seconds", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        self.result_bytes = 0
        self.seconds = 0.0
        self.in_buckets = [0] * len(_BUCKETS)
        """Number of calls in each bucket, not cumulative."""

    @property
    def calls(self) -> int:
        """Number of added calls."""
        return sum(self.in_buckets)

    def add(self, seconds: float) -> None:
        """Add a call and its time."""
        self.seconds += seconds
        self.in_buckets[bisect_left(SECONDS, seconds)] += 1


class CallTotals(Collector):
    """The rows, as counters with labels; calls and scrapes share one event loop.

    ``tenants`` have individual ``tenant`` labels; the operator's list bounds their number.
    """

    def __init__(self, tenants: Iterable[str]) -> None:
        self._tenants = frozenset(tenants)
        self._rows: dict[tuple[str, str, str], CallRow] = {}

    def tenant_label(self, tenant_id: str) -> str:
        """Return the ``tenant`` label of a tenant: its id if named, otherwise ``other``."""
        return tenant_id if tenant_id in self._tenants else OTHER_TENANTS

    def row(self, tool: str, code: str, tenant_id: str) -> CallRow:
        """Return the row for a call; ``OK`` rows also have tokens and bytes."""
        key = (tool, code, self.tenant_label(tenant_id))
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = CallRow()
        return row

    def calls_of_codes(self) -> collections.Counter[str]:
        """Return the number of calls by code."""
        calls: collections.Counter[str] = collections.Counter()
        for (_, code, _), row in self._rows.items():
            calls[code] += row.calls
        return calls

    def collect(self) -> Iterator[Metric]:
        """Yield each metric, in Prometheus' format."""
        yield self._family("calls", "Tool calls by outcome code.", ("tool", "code"), _calls)
        yield self._family("call_tokens", "Tokens of results, by tool.", ("tool",), _tokens)
        yield self._family(
            "call_result_bytes", "Bytes of results as JSON, by tool.", ("tool",), _result_bytes
        )
        yield self._family(
            "tenant_calls", "Tool calls of named tenants, and of all others, by outcome code.",
            ("tenant", "code"), _calls,
        )  # fmt: skip
        yield self._family(
            "tenant_call_tokens", "Tokens of results of named tenants, and of all others.",
            ("tenant",), _tokens,
        )  # fmt: skip
        yield from self._seconds_families()

    def _seconds_families(self) -> Iterator[HistogramMetricFamily]:
        """Yield one histogram in parts: that of 1,500 tools at once took 100 ms."""
        tools: dict[str, list[CallRow]] = {}
        for (tool, _, _), row in self._rows.items():
            tools.setdefault(tool, []).append(row)
        named = list(tools.items())
        for start in range(0, max(1, len(named)), TOOLS_AT_ONCE):
            family = HistogramMetricFamily(
                "mcp_proxy_call_seconds", "Time of one tool call.", labels=("tool",)
            )
            for tool, rows in named[start : start + TOOLS_AT_ONCE]:
                up_to = accumulate(map(sum, zip(*(row.in_buckets for row in rows), strict=True)))
                buckets = list(zip(_BUCKETS, map(float, up_to), strict=True))
                family.add_metric((tool,), buckets, sum_value=sum(row.seconds for row in rows))
            yield family

    def _family(
        self, name: str, text: str, labels: tuple[str, ...], value_of: Callable[[CallRow], int]
    ) -> CounterMetricFamily:
        """Build one counter; without a ``code`` label, it includes only successful calls."""
        totals: collections.Counter[tuple[str, ...]] = collections.Counter()
        for (tool, code, tenant), row in self._rows.items():
            if code == "OK" or "code" in labels:
                values = {"tool": tool, "code": code, "tenant": tenant}
                totals[tuple(values[label] for label in labels)] += value_of(row)
        family = CounterMetricFamily(f"mcp_proxy_{name}", text, labels=labels)
        for label_values, total in totals.items():
            family.add_metric(label_values, total)
        return family


class RefusalTotals(Collector):
    """Refusals of calls and of other requests, by the deciding check."""

    def __init__(self, *sources: Callable[[], collections.Counter[str]]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counter: the sum of all sources, each a number by code."""
        refusals: collections.Counter[str] = collections.Counter()
        for source in self._sources:
            refusals.update(source())
        family = CounterMetricFamily(
            "mcp_proxy_refusals",
            "Calls and requests refused, by the check that decided and the code.",
            labels=("check", "code"),
        )
        for code, total in refusals.items():
            check = CHECK_OF_CODE.get(code)
            if check is not None and check not in _NO_REFUSAL:
                family.add_metric((check.value, code), total)
        yield family


def _calls(row: CallRow) -> int:
    return row.calls


def _tokens(row: CallRow) -> int:
    return row.tokens


def _result_bytes(row: CallRow) -> int:
    return row.result_bytes


_SERVER_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip

_BLOCKED_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

UNKNOWN_TOOL = "unknown"
"""The ``tool`` label of a call for an unknown tool."""


class FunctionCounter(Collector):
    """A counter of a number that ``function`` returns."""

    def __init__(self, name: str, text: str, function: Callable[[], float] = lambda: 0) -> None:
        self._name = name
        self._text = text
        self._function = function

    def set_function(self, function: Callable[[], float]) -> None:
        """Replace the function."""
        self._function = function

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counter, like the collectors of prometheus_client."""
        yield CounterMetricFamily(self._name, self._text, value=self._function())


class _WithoutCreated(Collector):
    """Another collector without its ``_created`` samples, which would be unused series.

    The library has only a process-wide switch for them.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[Metric]:
        for family in self._collector.collect():
            family.samples = [it for it in family.samples if it.name != f"{family.name}_created"]
            yield family


class _OneFamily(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


class Metrics:
    """The gateway's metrics; names start with ``mcp_proxy_``, times are in seconds.

    ``tenants`` have individual ``tenant`` labels.
    """

    def __init__(self, *, tenants: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        r = self.registry
        r.register(
            FunctionCounter(
                "mcp_proxy_log_lines_dropped",
                "Log lines that were dropped because they were not read in time.",
                dropped_lines,  # of the process: its log starts before any metrics
            )
        )
        self.build = Info(
            "mcp_proxy_build",
            "Always 1, with the versions of the gateway and of Python.",
            registry=r,
        )
        self.build.info({"version": VERSION, "python": platform.python_version()})
        self.call_totals = CallTotals(tenants)
        r.register(self.call_totals)
        self.requests_refused = Counter(
            "mcp_proxy_requests_refused", "Requests refused before a call, by code.", ["code"],
            registry=r,
        )  # fmt: skip
        r.register(RefusalTotals(self.call_totals.calls_of_codes, self._requests_of_codes))
        self.idempotent_calls = Counter(
            "mcp_proxy_idempotent_calls",
            "Calls with an idempotency key: first, replayed, or refused with IDEMPOTENCY_CONFLICT, "
            "OUTCOME_UNKNOWN or STATE_UNAVAILABLE.",
            ["result"], registry=r,
        )  # fmt: skip
        self.in_flight = Gauge("mcp_proxy_calls_in_flight", "Tool calls running now.", registry=r)
        self.event_loop_blocked = Histogram(
            "mcp_proxy_event_loop_blocked_seconds",
            "Blocks of the event loop over 50 ms, also by other processes on the CPU. Alert on a "
            "rate of _sum over 0.1.",
            buckets=_BLOCKED_SECONDS, registry=r,
        )  # fmt: skip
        self.mcp_sessions = Gauge(
            "mcp_proxy_mcp_sessions",
            "MCP sessions with a stream, a subscription or a log level.",
            registry=r,
        )
        self.mcp_sessions_limit = Gauge(
            "mcp_proxy_mcp_sessions_limit",
            "Maximum number of active MCP sessions, MCP_PROXY_MAX_SESSIONS.",
            registry=r,
        )  # fmt: skip
        self.mcp_streams = Gauge(
            "mcp_proxy_mcp_streams", "Open streams of MCP clients.", registry=r
        )
        self.remote_up = Gauge(
            "mcp_proxy_remote_up", "1 while the remote backend is connected.", registry=r
        )
        self.remote_links = Counter(
            "mcp_proxy_remote_links", "Opened connections to the remote backend.", registry=r
        )
        self.remote_link_losses = Counter(
            "mcp_proxy_remote_link_losses",
            "Lost or failed connections to the remote backend: lost, closed, refused, "
            "unauthorized or unreachable.",
            ["reason"], registry=r,
        )  # fmt: skip
        self.remote_sessions = Gauge(
            "mcp_proxy_remote_sessions", "Open sessions of the remote backend.", registry=r
        )
        self.remote_frames = Counter(
            "mcp_proxy_remote_frames",
            "Frames from the remote backend (in) and to it (out): ok, ignored or too_large.",
            ["direction", "result"], registry=r,
        )  # fmt: skip
        self.remote_waiting_bytes = Gauge(
            "mcp_proxy_remote_waiting_bytes", "Bytes waiting to be sent to the remote backend.",
            registry=r,
        )  # fmt: skip
        self.limit_refusals = Counter(
            "mcp_proxy_rate_limit_refusals",
            "Calls refused by a budget of the settings or by a rule of limits.json.",
            ["budget"], registry=r,
        )  # fmt: skip
        self.tenant_limit_refusals = Counter(
            "mcp_proxy_tenant_rate_limit_refusals",
            "Calls refused by a budget or by a rule of limits.json, by tenant.",
            ["tenant", "budget"], registry=r,
        )  # fmt: skip
        self.limit_store_up = Gauge(
            "mcp_proxy_rate_limit_store_up",
            "1 while the configured limit store answers, 0 while this process counts alone.",
            registry=r,
        )
        self.limit_store_failures = Counter(
            "mcp_proxy_rate_limit_store_failures", "Failed requests to the limit store.", registry=r
        )
        self.retrieval_requests = Counter(
            "mcp_proxy_retrieval_requests",
            "Requests to the Retrieval Service by outcome code. Alert on RETRIEVAL_UNAVAILABLE.",
            ["code"], registry=r,
        )  # fmt: skip
        self.retrieval_seconds = Histogram(
            "mcp_proxy_retrieval_seconds", "Time of one request to the Retrieval Service.",
            buckets=SECONDS, registry=r,
        )  # fmt: skip
        self.embeddings_requests = Counter(
            "mcp_proxy_embeddings_requests",
            "Requests for vectors of a query or a document: ok or failed. Alert on failed.",
            ["purpose", "outcome"], registry=r,
        )  # fmt: skip
        self.embeddings_seconds = Histogram(
            "mcp_proxy_embeddings_seconds", "Time of one request for vectors.", ["purpose"],
            buckets=SECONDS, registry=r,
        )  # fmt: skip
        self.documents_embedded = Counter(
            "mcp_proxy_documents_embedded", "Documents with vectors created in the background.",
            registry=r,
        )  # fmt: skip
        self.documents_without_vectors = Gauge(
            "mcp_proxy_documents_without_vectors", "Documents waiting for their vectors.",
            registry=r,
        )  # fmt: skip
        self.searches_without_meaning = Counter(
            "mcp_proxy_searches_without_meaning",
            "Searches by words only, because the vector of the query or document was missing.",
            registry=r,
        )  # fmt: skip
        self.tokens_expiring = Gauge(
            "mcp_proxy_tokens_expiring", "Tokens of the tokens file that expire within 7 days.",
            registry=r,
        )  # fmt: skip
        self.documents = Gauge("mcp_proxy_documents", "Documents served.", registry=r)
        self.document_cache_bytes = Gauge(
            "mcp_proxy_document_cache_bytes",
            "Memory of cached texts and search indexes, at most MCP_PROXY_DOCUMENTS_CACHE_BYTES "
            "plus one document.",
            registry=r,
        )
        self.document_cache_hits = FunctionCounter(
            "mcp_proxy_document_cache_hits", "Document look-ups in memory; two per search."
        )
        r.register(self.document_cache_hits)
        self.document_cache_misses = FunctionCounter(
            "mcp_proxy_document_cache_misses",
            "Document look-ups in the folder or database; two per search.",
        )
        r.register(self.document_cache_misses)
        self.document_errors = Gauge(
            "mcp_proxy_document_errors", "Document files that cannot be loaded.", registry=r
        )
        self.uploads_queued = Gauge(
            "mcp_proxy_uploads_queued", "Uploads answered with 202 that are not finished.",
            registry=r,
        )  # fmt: skip
        self.index_builds = Counter(
            "mcp_proxy_search_index_builds", "Search indexes built.", registry=r
        )

        self.server_up = Gauge(
            "mcp_proxy_server_up", "1 while the downstream server is connected.", ["server"],
            registry=r,
        )  # fmt: skip
        self.server_stale = Gauge(
            "mcp_proxy_server_stale", "1 while the lists of the server may be out of date.",
            ["server"], registry=r,
        )  # fmt: skip
        self.server_calls = Counter(
            "mcp_proxy_server_calls", "Requests to a server by outcome code.",
            ["server", "kind", "code"], registry=r,
        )  # fmt: skip
        self.server_call_seconds = Histogram(
            "mcp_proxy_server_call_seconds", "Time of one request to a server, waiting included.",
            ["server"], buckets=_SERVER_SECONDS, registry=r,
        )  # fmt: skip
        self.server_reconnects = Counter(
            "mcp_proxy_server_reconnects", "Reconnects to the server.", ["server"],
            registry=r,
        )  # fmt: skip
        self.server_discovery_failures = Counter(
            "mcp_proxy_server_discovery_failures", "Discoveries in which a list could not be read.",
            ["server"], registry=r,
        )  # fmt: skip
        self.server_sessions = Gauge(
            "mcp_proxy_server_sessions",
            "Open sessions of tenants or users with a server that has isolation.",
            ["server"], registry=r,
        )  # fmt: skip
        self.server_sessions_ended = Counter(
            "mcp_proxy_server_sessions_ended",
            "Sessions of tenants or users that ended: idle, evicted (for another tenant or user) "
            "or crashed (a bug of the gateway).",
            ["server", "reason"], registry=r,
        )  # fmt: skip
        self.server_suspended_calls = Counter(
            "mcp_proxy_server_suspended_calls",
            "Calls of an older-era server that waited for answers of an MCP 2026-07-28 client.",
            ["server"], registry=r,
        )  # fmt: skip
        self.server_circuits_open = Gauge(
            "mcp_proxy_server_circuits_open",
            "Tenants, or users with isolation user, whose calls the circuit breaker refuses.",
            ["server"], registry=r,
        )  # fmt: skip
        self.server_output_mismatches = Counter(
            "mcp_proxy_server_output_mismatches",
            "Results that do not match the outputSchema of their tool, with "
            "MCP_PROXY_OUTPUT_SCHEMA_CHECK.",
            ["server"], registry=r,
        )  # fmt: skip
        self.readiness_ok = Gauge(
            "mcp_proxy_readiness_ok",
            "0 while a check of /health/ready is degraded, otherwise 1: documents (folder or "
            "PostgreSQL), limit_store, idempotency (their Redis), audit, config, preset, agents, "
            "definitions, retrieval, tokens or remote.",
            ["check"], registry=r,
        )  # fmt: skip
        self.audit_records_lost = FunctionCounter(
            "mcp_proxy_audit_records_lost", "Audit records that were not written."
        )
        r.register(self.audit_records_lost)
        self.audit_queue_records = Gauge(
            "mcp_proxy_audit_queue_records", "Audit records waiting to be written.",
            registry=r,
        )  # fmt: skip
        self.config_reloads = Counter(
            "mcp_proxy_config_reloads", "Reloads of the configuration: ok or failed.", ["result"],
            registry=r,
        )  # fmt: skip
        self.config_problems = Gauge(
            "mcp_proxy_config_problems", "Errors in configuration files.", registry=r
        )
        self.spans_lost = Counter(
            "mcp_proxy_trace_spans_lost", "Spans that could not be exported.", registry=r
        )
        self.definitions_quarantined = Gauge(
            "mcp_proxy_definitions_quarantined",
            "Quarantined definitions in the preset: they differ from the lock.",
            ["server"], registry=r,
        )  # fmt: skip
        self.definitions_changed = Gauge(
            "mcp_proxy_definitions_changed",
            "Definitions in the preset that differ from the lock.", ["server"], registry=r,
        )  # fmt: skip
        self.definitions_flagged = Gauge(
            "mcp_proxy_definitions_flagged",
            "Definitions in the preset with hidden characters, comments or look-alike names.",
            ["server"], registry=r,
        )  # fmt: skip
        self.guard_findings = Counter(
            "mcp_proxy_guard_findings",
            "Findings of guards in a definition, arguments or a result. The action is flag, redact "
            "or refuse.",
            ["guard", "place", "action"], registry=r,
        )  # fmt: skip
        self.policies_fired = Counter(
            "mcp_proxy_policies_fired",
            "Calls in which a policy fired. The mode is enforce, approve or log_only.",
            ["policy", "mode"], registry=r,
        )  # fmt: skip
        self.preset_missing = Gauge(
            "mcp_proxy_preset_missing", "Unavailable items of the active preset.",
            registry=r,
        )  # fmt: skip

    def exposition(self) -> bytes:
        """Render all metrics in Prometheus' text format."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Render all metrics piece by piece: those of 1,500 tools at once took 200 ms."""
        name = ""
        for family in _WithoutCreated(self.registry).collect():
            text = generate_latest(_OneFamily(family))
            if family.name == name:  # more of the same family, whose comments are already written
                text = b"".join(it for it in text.splitlines(True) if not it.startswith(b"#"))
            name = family.name
            yield text

    def _requests_of_codes(self) -> collections.Counter[str]:
        (family,) = self.requests_refused.collect()
        return collections.Counter(
            {
                it.labels["code"]: int(it.value)
                for it in family.samples
                if it.name.endswith("_total")
            }
        )


BEAT_S = 0.05
"""A longer block of the event loop is noticed, regardless of its start."""

BLOCKED_S = 0.05
"""Minimum delay of a beat that counts as a block."""


async def watch_event_loop(observe: Callable[[float], None]) -> None:
    """Call ``observe`` with the seconds of each block, until cancelled."""
    while True:
        due = time.monotonic() + BEAT_S
        await asyncio.sleep(BEAT_S)
        late = time.monotonic() - due
        if late > BLOCKED_S:
            observe(late)
