"""Counts calls, their seconds, and the tokens and bytes of their results: by tool, tenant, check.

A ``Counter`` of prometheus_client takes half a microsecond, a ``Histogram`` two, and a call would
need five. So a call adds to one row of plain numbers, and a scrape sums the rows up.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from mcp_tools_proxy.domain.audit.checks import CHECK_OF_CODE, Check

SECONDS = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets of short times."""

_BUCKETS = (*map(str, SECONDS), "+Inf")

TOOLS_AT_ONCE = 50
"""Tools of one part of the histogram: each part is rendered in a turn of the event loop."""

OTHER_TENANTS = "other"
"""The ``tenant`` label of every tenant that the operator did not name."""


_NO_REFUSAL = {Check.RETRIEVAL, Check.SERVER, Check.RESULT, Check.CALLER, Check.GATEWAY}
"""What decides about a call that was admitted: it failed, and was not refused."""


class CallRow:
    """Totals of the calls of one tool that ended with one code, for one ``tenant`` label."""

    __slots__ = ("in_buckets", "result_bytes", "seconds", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        self.result_bytes = 0
        self.seconds = 0.0
        self.in_buckets = [0] * len(_BUCKETS)
        """The calls whose time is in each bucket, and in none before it."""

    @property
    def calls(self) -> int:
        """How many calls were added."""
        return sum(self.in_buckets)

    def add(self, seconds: float) -> None:
        """Add a call and its time."""
        self.seconds += seconds
        self.in_buckets[bisect_left(SECONDS, seconds)] += 1


class CallTotals(Collector):
    """The rows, as counters with labels; for one event loop, which calls and scrapes share.

    ``tenants`` have a ``tenant`` label of their own: it is as open-ended as the operator's list.
    """

    def __init__(self, tenants: Iterable[str]) -> None:
        self._tenants = frozenset(tenants)
        self._rows: dict[tuple[str, str, str], CallRow] = {}

    def tenant_label(self, tenant_id: str) -> str:
        """Return the ``tenant`` label of a tenant: its id if it was named, else ``other``."""
        return tenant_id if tenant_id in self._tenants else OTHER_TENANTS

    def row(self, tool: str, code: str, tenant_id: str) -> CallRow:
        """Return the row that a call adds to; an ``OK`` row has tokens and bytes as well."""
        key = (tool, code, self.tenant_label(tenant_id))
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = CallRow()
        return row

    def calls_of_codes(self) -> Counter[str]:
        """Return the number of calls by code."""
        calls: Counter[str] = Counter()
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
        """Build one counter; without a ``code`` label it has the rows of successful calls only."""
        totals: Counter[tuple[str, ...]] = Counter()
        for (tool, code, tenant), row in self._rows.items():
            if code == "OK" or "code" in labels:
                values = {"tool": tool, "code": code, "tenant": tenant}
                totals[tuple(values[label] for label in labels)] += value_of(row)
        family = CounterMetricFamily(f"mcp_proxy_{name}", text, labels=labels)
        for label_values, total in totals.items():
            family.add_metric(label_values, total)
        return family


class RefusalTotals(Collector):
    """Refusals by the check that decided, of calls and of requests that never became one."""

    def __init__(self, *sources: Callable[[], Counter[str]]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counter: the sum of all sources, each a number by code."""
        refusals: Counter[str] = Counter()
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
