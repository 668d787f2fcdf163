from mcp_tools_proxy.telemetry.audit.audit_trail import (
    MAX_SENDERS,
    MAX_SUMMARIES,
    TENANT_SENDERS,
    WINDOW_S,
    RecordCounts,
    RecordSummary,
)
from tests.support.virtual_time import ManualClock

CODE = "UNAUTHENTICATED"
MOST = 20


class Counting:
    """Counts records of senders, identified by address unless fields are given."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.counts = RecordCounts(MOST, self.clock)

    def add(self, sender: str, times: int = 1, *, code: str = CODE, **fields: object) -> list[bool]:
        """Return which of the records are written individually."""
        waits = [
            self.counts.add(sender, fields or {"peer": sender}, code, f"t{n:03}")
            for n in range(times)
        ]
        return [it is None for it in waits]


def address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def test_the_first_records_are_written_and_the_others_summarized() -> None:
    it = Counting()
    assert it.add("203.0.113.7", 100) == [True] * MOST + [False] * (100 - MOST)
    (summary,) = it.counts.take_summaries()
    assert (summary.fields, summary.requests) == ({"peer": "203.0.113.7"}, 100 - MOST)
    assert (summary.first, summary.last) == (f"t{MOST:03}", "t099")
    assert it.counts.take_summaries() == []


def test_summaries_count_all_records_that_were_not_written() -> None:
    it = Counting()
    found: list[RecordSummary] = []
    for _ in range(5):
        it.add("a", 30)
        found += it.counts.take_summaries()
    assert sum(summary.requests for summary in found) == 5 * 30 - MOST


def test_the_wait_for_a_summary_ends_with_the_window() -> None:
    it = Counting()
    it.add("a", MOST)
    it.clock.now += 15
    assert it.counts.add("a", {}, CODE, "t") == WINDOW_S - 15
    assert it.counts.add("b", {}, CODE, "t") is None


def test_a_new_window_starts_at_zero_and_keeps_pending_summaries() -> None:
    it = Counting()
    it.add("a", MOST + 3)
    it.clock.now += WINDOW_S
    assert it.add("b") == [True]
    assert it.add("a", 2) == [True, True]
    (summary,) = it.counts.take_summaries()
    assert (summary.requests, len(it.counts)) == (3, 2)
    it.clock.now += WINDOW_S
    it.add("c")
    assert len(it.counts) == 1


def test_memory_and_summaries_are_bounded_for_any_number_of_senders() -> None:
    it = Counting()
    for number in range(MAX_SENDERS + 500):
        it.add(address(number), MOST + 1)
    assert len(it.counts) == MAX_SENDERS
    *single, others = it.counts.take_summaries()
    assert len(single) == MAX_SUMMARIES
    assert others.fields == {}
    assert sum(it.requests for it in [*single, others]) == MAX_SENDERS + 500 * (MOST + 1)


def test_the_written_records_of_all_senders_of_a_tenant_are_limited() -> None:
    it = Counting()
    recorded = [
        sum(it.add(f"token {n}", MOST, tenant_id=tenant, token_id=f"token {n}"))
        for tenant, n in [*(("acme", n) for n in range(30)), ("globex", 30)]
    ]
    assert recorded == [*[MOST] * TENANT_SENDERS, *[0] * (30 - TENANT_SENDERS), MOST]
    (first, *_) = it.counts.take_summaries()
    assert first.fields.keys() == {"tenant_id", "token_id"}


def test_a_summary_has_the_fields_that_are_equal_in_all_its_records() -> None:
    it = Counting()
    for user in ("ann", "bob"):
        it.add("token", MOST, tenant_id="acme", user_id=user, token_id="t1")
    (summary,) = it.counts.take_summaries()
    assert summary.fields == {"tenant_id": "acme", "token_id": "t1", "user_id": "bob"}
    for user in ("ann", "bob"):
        it.add("token", tenant_id="acme", user_id=user, token_id="t1")
    (summary,) = it.counts.take_summaries()
    assert summary.fields == {"tenant_id": "acme", "token_id": "t1"}


def test_records_are_counted_by_code() -> None:
    it = Counting()
    it.add("a", MOST, code="NOT_FOUND")
    for code in ("FORBIDDEN", "FORBIDDEN", CODE):
        it.add("a", code=code)
    (summary,) = it.counts.take_summaries()
    assert summary.counts == {"FORBIDDEN": 2, CODE: 1}
