"""The metrics of several worker processes as those of one."""

from collections.abc import Sequence

from prometheus_client.parser import text_string_to_metric_families

from mcp_tools_proxy.gateway.service_metrics import (
    LARGEST,
    METRICS,
    SMALLEST,
    ServiceMetrics,
    merged,
)
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.telemetry.metrics import Metrics

IN_TWO_TENTHS = 0.2


def values_of(text: bytes) -> dict[str, float]:
    """Return the samples by name and label values."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def metrics_of(calls: int, *, server_is_up: bool = True) -> Metrics:
    metrics = Metrics()
    for _ in range(calls):
        metrics.call_totals.row("search", "OK", "acme").add(IN_TWO_TENTHS)
    metrics.server_up.labels("wiki").set(server_is_up)
    metrics.documents.set(40)
    metrics.mcp_streams.set(3)
    return metrics


def test_counters_are_added_and_the_worst_gauge_decides() -> None:
    texts = [metrics_of(2).exposition(), metrics_of(5, server_is_up=False).exposition()]
    values = values_of(merged(texts))
    assert values["mcp_proxy_calls_total OK search"] == 7
    assert values["mcp_proxy_call_seconds_bucket 0.25 search"] == 7
    assert values["mcp_proxy_call_seconds_bucket 0.1 search"] == 0
    assert values["mcp_proxy_server_up wiki"] == 0
    assert values["mcp_proxy_documents"] == 40, "both serve the same documents"
    assert values["mcp_proxy_mcp_streams"] == 6


def test_every_exception_is_a_metric() -> None:
    known = {family.name for family in Metrics().registry.collect()}
    known |= {f"{family.name}_info" for family in Metrics().registry.collect()}
    assert (SMALLEST | LARGEST) - known == set()


async def test_the_counters_of_an_ended_worker_go_on_in_its_heir() -> None:
    heir = WorkerGroup(2, 2)
    own = ServiceMetrics(heir, metrics_of(1))
    for ended in (metrics_of(10), metrics_of(100)):
        await heir.answer(f"heir of {METRICS}", ended.exposition())
    values = values_of(await own.exposition())
    assert values["mcp_proxy_calls_total OK search"] == 111
    assert values["mcp_proxy_mcp_streams"] == 3, "an ended worker has no streams"


async def test_an_ending_worker_hands_down_its_own_and_inherited_counters() -> None:
    kept: dict[str, object] = {}

    async def ask(_question: str, _value: object, _wait_s: float) -> Sequence[object]:
        return ()

    ending = WorkerGroup(1, 2)
    ending.connect(ask, kept.__setitem__)
    ServiceMetrics(ending, metrics_of(1))
    await ending.answer(f"heir of {METRICS}", metrics_of(10).exposition())
    ending.leave()
    last = kept[METRICS]
    assert isinstance(last, bytes)
    assert values_of(last)["mcp_proxy_calls_total OK search"] == 11
