"""Writes the tables of ``reference/metrics.md`` from the metrics and their help texts.

``make docs`` runs this; a test fails while the page differs from the output. The alerts are those
of ``deploy/prometheus/rules.yaml`` whose query has the metric.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from mcp_tools_proxy.telemetry.metrics import Metrics

PAGE = Path(__file__).parent / "reference/metrics.md"
RULES = Path(__file__).parent.parent / "deploy/prometheus/rules.yaml"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "calls": ("call", "tenant_", "refusals", "requests_refused", "idempotent_", "rate_limit_"),
    "servers": ("server_", "definitions_", "guard_", "preset_"),
    "documents": ("document", "search", "retrieval_", "embeddings_"),
    "connector": ("remote_",),
    "process": ("",),
}
"""Prefixes of names for each table, by the name in its marker; the first that fits has it."""

_PREFIX = "mcp_proxy_"
_TABLE = re.compile(r"(<!-- metrics: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_RULE = re.compile(r"- (alert|record): (\S+)\n(.*?)(?=\n +- |\Z)", re.DOTALL)
_CODE = re.compile(
    r"\bMCP_PROXY_[A-Z_]+[A-Z]|/health/\w+|\b[a-z]+\.json\b|_sum\b|\b[a-z]+(?:_[a-z]+)+\b"
)


def written(page: str) -> str:
    """Return the page with each table as the code has it."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{_table(found[2])}\n{found[3]}", page)


def _table(group: str) -> str:
    head = "| metric | type | meaning | alerts |\n|---|---|---|---|\n"
    return head + "".join(_row(family) for family in _families() if _group(family) == group)


def _families() -> Iterator[Metric]:
    """Yield the gateway's metrics, each once, sorted."""
    found = {it.name: it for it in Metrics().registry.collect() if it.name.startswith(_PREFIX)}
    return (it for _, it in sorted(found.items()))


def _group(family: Metric) -> str:
    name = family.name.removeprefix(_PREFIX)
    return next(key for key, prefixes in GROUPS.items() if name.startswith(prefixes))


def _row(family: Metric) -> str:
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    labels = ",".join(_labels(family))
    name = f"`{family.name}{suffix}{{{labels}}}`" if labels else f"`{family.name}{suffix}`"
    meaning = _CODE.sub(r"`\g<0>`", family.documentation)
    links = [f"[{it}](../how-to/monitoring.md#{it})" for it in _alerts(family.name)]
    return f"| {name} | {family.type} | {meaning} | {', '.join(links) or '–'} |\n"


def _labels(family: Metric) -> Iterator[str]:
    """Yield the names of the labels: a family has them if it is built for a scrape."""
    declared = _DECLARED.get(family.name)
    if declared is None:
        declared = vars(family).get("_labelnames", ())
    yield from family.samples[0].labels if family.type == "info" else declared


_DECLARED = {
    name: it._labelnames  # noqa: SLF001 - the library has no other way
    for it in vars(Metrics()).values()
    if isinstance(it, MetricWrapperBase)
    for name in (family.name for family in it.describe())
}


def _alerts(name: str) -> Iterator[str]:
    """Yield the alerts whose query has a metric, or what a rule records of it."""
    rules = _RULE.findall(RULES.read_text(encoding="utf-8"))
    names = [name, *(it for kind, it, text in rules if kind == "record" and _has(text, name))]
    for kind, alert, text in rules:
        if kind == "alert" and any(_has(text, it) for it in names):
            yield alert


def _has(text: str, name: str) -> bool:
    """Return whether the query of a rule has a metric."""
    query = re.split(r"\n +(?:for|labels|annotations):", text)[0]
    suffixes = "_total|_info|_bucket|_sum|_count"
    return re.search(rf"(?<![\w:]){re.escape(name)}(?:{suffixes})?(?![\w:])", query) is not None


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
