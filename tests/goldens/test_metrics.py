"""Metrics: names, types, labels and buckets."""

from collections.abc import Iterator

from prometheus_client.metrics import MetricWrapperBase

from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.goldens import Golden

LIBRARY = ("process_", "python_")
"""Metrics of prometheus_client, which depend on the system."""


def busy_metrics() -> Metrics:
    """Return metrics with one series each, which shows their labels."""
    metrics = Metrics()
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase) and metric._labelnames:
            metric.labels(*metric._labelnames)
    row = metrics.call_totals.row("t", "RATE_LIMIT_EXCEEDED", "t")
    row.add(0.1)
    metrics.call_totals.row("t", "OK", "t").add(0.1)
    return metrics


def metric_lines(metrics: Metrics) -> Iterator[str]:
    for family in metrics.registry.collect():
        buckets = [it.labels["le"] for it in family.samples if "le" in it.labels]
        if buckets:
            yield f"{family.name} buckets {' '.join(dict.fromkeys(buckets))}"
        yield f"{family.name} {family.type}"
        for sample in family.samples:
            if sample.name == f"{family.name}_created":
                continue  # hidden
            labels = ", ".join(sorted(sample.labels.keys() - {"le"}))
            yield f"{family.name} series {sample.name.removeprefix(family.name)}{{{labels}}}"


def test_metrics_match_the_golden(golden: Golden) -> None:
    facts = {it for it in metric_lines(busy_metrics()) if not it.startswith(LIBRARY)}
    golden.check("metrics.txt", sorted(facts))
