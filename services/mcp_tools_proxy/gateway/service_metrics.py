"""The metrics of all worker processes of the service, summed up by the one that is scraped."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.telemetry.metrics import Metrics

METRICS = "metrics"

SMALLEST = {
    "mcp_proxy_server_up",
    "mcp_proxy_rate_limit_store_up",
    "mcp_proxy_readiness_ok",
    "process_start_time_seconds",
}
LARGEST = {
    "mcp_proxy_build_info",
    "mcp_proxy_config_problems",
    "mcp_proxy_definitions_changed",
    "mcp_proxy_definitions_flagged",
    "mcp_proxy_definitions_quarantined",
    "mcp_proxy_document_errors",
    "mcp_proxy_documents",
    "mcp_proxy_documents_without_vectors",
    "mcp_proxy_mcp_sessions_limit",
    "mcp_proxy_preset_missing",
    "mcp_proxy_remote_up",
    "mcp_proxy_server_stale",
    "mcp_proxy_tokens_expiring",
    "process_max_fds",
    "python_info",
}
"""Gauges that are no sums: each worker has the same number, or one of them decides."""

_SampleKey = tuple[str, tuple[tuple[str, str], ...]]

_COUNTING = ("counter", "histogram", "summary")


class ServiceMetrics:
    """Renders the metrics of this process and of the other ``workers``.

    The counters of a worker that ended go on in another one: a smaller sum would look to Prometheus
    like a restart, and all calls so far like new ones.
    """

    def __init__(self, workers: WorkerGroup, metrics: Metrics) -> None:
        self._workers = workers
        self._metrics = metrics
        self._inherited: list[bytes] = []
        self._joining = asyncio.Lock()
        workers.on(METRICS, lambda _: self._own())
        workers.hand_down(METRICS, self._last, self._take_over)

    async def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        own = await self._own()
        others = await self._workers.ask(METRICS)
        return await asyncio.to_thread(merged, [own, *others]) if others else own

    async def _own(self) -> bytes:
        # Before any await: of a worker that ends meanwhile, the supervisor adds what it kept.
        inherited = [*self._inherited]
        pieces = []
        for piece in self._metrics.pieces():
            pieces.append(piece)
            await asyncio.sleep(0)  # those of 1,500 tools at once took 200 ms
        own = b"".join(pieces)
        if inherited:
            own = await asyncio.to_thread(merged, [own], inherited)
        self._workers.keep(METRICS, own)
        return own

    def _last(self) -> bytes:
        return merged([self._metrics.exposition()], self._inherited)

    async def _take_over(self, ended: bytes) -> None:
        self._inherited.append(ended)
        async with self._joining:
            several = [*self._inherited]
            joined = await asyncio.to_thread(merged, [], several)
            self._inherited[: len(several)] = [joined]
        await self._own()  # keeps the sum: this worker can be killed before the next scrape


def merged(of_workers: Sequence[bytes], of_ended: Sequence[bytes] = ()) -> bytes:
    """Return the metrics of several processes as those of one, in Prometheus' text format.

    Of ended processes, only counters and histograms are added.
    """
    together = _Families()
    for number, text in enumerate((*of_workers, *of_ended)):
        has_ended = number >= len(of_workers)
        for family in text_string_to_metric_families(text.decode()):
            if family.type in _COUNTING or not has_ended:
                together.add(family)
    return generate_latest(together)


class _Families(Collector):
    """Metrics by name, whose samples are added up by their name and labels."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}
        self._samples: dict[str, dict[_SampleKey, float]] = {}

    def add(self, family: Metric) -> None:
        """Add a metric of one process."""
        self._families.setdefault(family.name, family)
        samples = self._samples.setdefault(family.name, {})
        join = _joined_by(family)
        for sample in family.samples:
            key = sample.name, tuple(sample.labels.items())
            known = samples.get(key)
            samples[key] = sample.value if known is None else join((known, sample.value))

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with the values of all processes."""
        for name, family in self._families.items():
            family.samples = []
            for (sample, labels), value in self._samples[name].items():
                family.add_sample(sample, dict(labels), value)
            yield family


def _joined_by(family: Metric) -> Callable[[Iterable[float]], float]:
    if family.name in SMALLEST:
        return min
    return max if family.name in LARGEST else sum
