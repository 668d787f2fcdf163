import random
import statistics

import pytest

from mcp_tools_proxy.domain.budget import BudgetStatus
from mcp_tools_proxy.domain.errors import ProxyError, RateLimitExceeded, ToolFailed
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok
from mcp_tools_proxy.telemetry.recent_calls import (
    MAX_BUDGETS,
    MAX_ROWS,
    MAX_SERVERS,
    MINUTE_S,
    OTHER_SERVERS,
    RecentCalls,
)
from tests.support.builders import make_call
from tests.support.fakes import FakeTool
from tests.support.tables import each_row

NOON = 1_800_000_000.0 // MINUTE_S * MINUTE_S


class CountedHour:
    """Recent calls with a manual clock."""

    def __init__(self) -> None:
        self.now = NOON
        self.recent = RecentCalls(lambda: self.now)

    def end(
        self,
        seconds: float = 0.01,
        *,
        tenant_id: str = "t",
        server_id: str | None = "notes",
        error: ProxyError | None = None,
        budget: BudgetStatus | None = None,
        replayed: bool = False,
        was_sent: bool = True,
    ) -> None:
        spec = FakeTool(name="find", server_id=server_id).spec
        ok = Ok(spec=spec, result={}, result_json=b"{}", tokens=1, budget=budget, replayed=replayed)
        outcome = ok if error is None else Failed(error=error, budget=budget)
        call = make_call("find", tenant_id=tenant_id)
        self.recent.add(
            CallRecord(call=call, spec=spec, outcome=outcome, duration_s=seconds, was_sent=was_sent)
        )

    def tight(self, tenant_id: str | None = None) -> list[tuple[str, str, int, int]]:
        """Return budgets that are almost used up: tenant, name, remainder, seconds to reset."""
        return [
            (it.tenant_id, it.status.name, it.status.remaining, it.status.reset_s)
            for it in self.recent.budgets.near_end(tenant_id)
        ]


def left(remaining: int, *, name: str = "calls", reset_s: int = 60) -> BudgetStatus:
    return BudgetStatus(name, remaining, None, reset_s, "calls", 10, 60)


def test_calls_are_counted_by_code_server_and_minute() -> None:
    hour = CountedHour()
    hour.end()
    hour.end(error=ToolFailed("x"), server_id="mail")
    hour.now += MINUTE_S
    hour.end(server_id=None)
    figures = hour.recent.figures(None)
    assert (figures.whole.codes, figures.is_complete) == ({"OK": 2, "TOOL_FAILED": 1}, True)
    assert {server: it.total for server, it in figures.by_server.items()} == {
        "notes": 1,
        "mail": 1,
        None: 1,
    }
    last = {server: counts[-2:] for server, counts in figures.per_minute.items()}
    assert last == {"notes": [1, 0], "mail": [1, 0], None: [0, 1]}
    assert {len(counts) for counts in figures.per_minute.values()} == {60}
    minutes = [it for it in figures.minutes if it.total]
    assert minutes == [(NOON, 2, 1), (NOON + MINUTE_S, 1, 0)]
    assert [it.at for it in figures.minutes] == [
        NOON + MINUTE_S * (number - 58) for number in range(60)
    ]


def test_each_tenant_has_separate_totals() -> None:
    hour = CountedHour()
    for tenant_id, seconds in (("t1", 1.0), ("t2", 0.1), ("t2", 0.1)):
        hour.end(seconds, tenant_id=tenant_id, budget=left(1))
    one, two = hour.recent.figures("t1"), hour.recent.figures("t2")
    assert (one.whole.total, two.whole.total, hour.recent.figures("t3").whole.total) == (1, 2, 0)
    assert (one.whole.quantile_s(0.5) or 0) > (two.whole.quantile_s(0.99) or 0)
    assert hour.tight("t1") == [("t1", "calls", 1, 60)]


def test_calls_older_than_an_hour_are_dropped() -> None:
    hour = CountedHour()
    hour.end()
    hour.now += 59 * MINUTE_S
    hour.end()
    assert hour.recent.figures(None).whole.total == 2
    hour.now += MINUTE_S
    assert hour.recent.figures(None).whole.total == 1
    hour.now += 1000 * MINUTE_S
    assert hour.recent.figures(None).whole.total == 0


@each_row("scale_s", [0.0003, 0.02, 1.0, 45.0])
def test_quantiles_are_within_a_tenth(scale_s: float) -> None:
    draw = random.Random(7)  # noqa: S311 - times of calls, no secret
    times = [scale_s * draw.lognormvariate(0, 1) for _ in range(5000)]
    hour = CountedHour()
    for seconds in times:
        hour.end(seconds)
    calls = hour.recent.figures("t").whole
    exact = statistics.quantiles(times, n=100)
    assert calls.quantile_s(0.5) == pytest.approx(exact[49], rel=0.1)
    assert calls.quantile_s(0.99) == pytest.approx(exact[98], rel=0.1)


def test_durations_beyond_all_buckets_are_counted() -> None:
    hour = CountedHour()
    assert hour.recent.figures(None).whole.quantile_s(0.5) is None
    for seconds in (0.0, 1e-9, 1e9):
        hour.end(seconds)
    calls = hour.recent.figures(None).whole
    assert (calls.total, calls.quantile_s(0.5)) == (3, 0.0001)


def test_memory_is_bounded_for_any_number_of_tenants_and_servers() -> None:
    hour = CountedHour()
    for number in range(1000):
        hour.end(tenant_id=f"t{number}", server_id=f"s{number}")
        hour.end(tenant_id=f"t{number}", server_id="notes")
    figures = hour.recent.figures(None)
    assert (figures.whole.total, figures.is_complete) == (2000, False)
    assert figures.by_server["notes"].total == 1000
    assert figures.by_server[OTHER_SERVERS].total == 1001 - MAX_SERVERS
    assert len(figures.by_server) == MAX_SERVERS + 1
    tenants = [hour.recent.figures(f"t{number}").whole.total for number in range(1000)]
    assert (tenants[:2], sum(tenants)) == ([2, 2], MAX_ROWS)


def test_a_budget_is_almost_used_up_below_a_fifth_until_its_window_ends() -> None:
    hour = CountedHour()
    hour.end(budget=left(3))
    hour.end(budget=left(2, name="two", reset_s=30))
    hour.end(budget=left(0, name="none"), error=RateLimitExceeded("x"))
    hour.end(budget=None)
    assert hour.tight() == [("t", "none", 0, 60), ("t", "two", 2, 30)]
    hour.now += 29.5
    assert hour.tight() == [("t", "none", 0, 31), ("t", "two", 2, 1)]
    hour.now += 1
    assert hour.tight() == [("t", "none", 0, 30)]


def test_the_smallest_remainder_of_a_rule_with_separate_counters_is_kept() -> None:
    hour = CountedHour()
    for remaining in (1, 2, 0, 1):
        hour.end(budget=left(remaining))
    assert hour.tight() == [("t", "calls", 0, 60)]
    hour.now += 61
    hour.end(budget=left(2))
    assert hour.tight() == [("t", "calls", 2, 60)]


def test_the_budget_in_a_replayed_outcome_is_ignored() -> None:
    hour = CountedHour()
    hour.end(budget=left(0), replayed=True)
    assert hour.tight() == []


def test_the_number_of_budgets_is_bounded_and_ended_windows_are_removed() -> None:
    hour = CountedHour()
    for number in range(MAX_BUDGETS + 5):
        hour.end(tenant_id=f"t{number}", budget=left(1))
    assert len(hour.tight()) == MAX_BUDGETS
    hour.now += 61
    hour.end(tenant_id="late", budget=left(1))
    assert hour.tight() == [("late", "calls", 1, 60)]


def test_calls_that_were_not_sent_are_excluded_from_server_totals() -> None:
    hour = CountedHour()
    hour.end(0.5)
    hour.end(9.0, error=RateLimitExceeded("no"), was_sent=False)
    hour.end(9.0, replayed=True, was_sent=False)
    figures = hour.recent.figures(None)
    notes = figures.by_server["notes"]
    assert (notes.total, notes.errors, notes.not_sent, notes.longest_s) == (1, 0, 2, 0.5)
    assert figures.whole.all_codes == {"OK": 2, "RATE_LIMIT_EXCEEDED": 1}
    assert (figures.minutes[-1].total, figures.minutes[-1].errors) == (3, 1)
