"""The first unauthenticated refusals of an address have a record each, the rest a summary."""

from mcp_tools_proxy.web.refusal_counts import (
    MAX_ADDRESSES,
    MAX_RECORDED,
    MAX_SUMMARIES,
    RefusalCounts,
)

CODE = "UNAUTHENTICATED"


def address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def test_the_first_ones_are_recorded_and_the_rest_is_summed_up() -> None:
    counts = RefusalCounts()
    recorded = [counts.add("203.0.113.7", CODE, f"t{n:03}") for n in range(100)]
    assert recorded == [True] * MAX_RECORDED + [False] * (100 - MAX_RECORDED)
    (summary,) = counts.end_window()
    assert (summary.peer, summary.requests) == ("203.0.113.7", 100 - MAX_RECORDED)
    assert (summary.first, summary.last) == (f"t{MAX_RECORDED:03}", "t099")


def test_a_new_window_begins_anew() -> None:
    counts = RefusalCounts()
    for _ in range(MAX_RECORDED + 1):
        counts.add("203.0.113.7", CODE, "t")
    counts.end_window()
    assert (len(counts), counts.end_window()) == (0, [])
    assert counts.add("203.0.113.7", CODE, "t")


def test_the_addresses_of_one_ipv6_network_count_together() -> None:
    counts = RefusalCounts()
    recorded = [counts.add(f"2001:db8::{n:x}", CODE, "t") for n in range(100)]
    assert (sum(recorded), len(counts)) == (MAX_RECORDED, 1)
    (summary,) = counts.end_window()
    assert summary.peer == "2001:db8::/64"


def test_however_many_addresses_there_are_memory_and_summaries_are_bounded() -> None:
    counts = RefusalCounts()
    for number in range(MAX_ADDRESSES + 500):
        for _ in range(MAX_RECORDED + 1):
            counts.add(address(number), CODE, "t")
    assert len(counts) == MAX_ADDRESSES
    *single, others = counts.end_window()
    assert len(single) == MAX_SUMMARIES
    assert (others.peer, sum(it.requests for it in [*single, others])) == (
        None,
        MAX_ADDRESSES + 500 * (MAX_RECORDED + 1),
    )


def test_codes_are_counted() -> None:
    counts = RefusalCounts()
    for code in ["NOT_FOUND"] * MAX_RECORDED + ["FORBIDDEN", "FORBIDDEN", CODE]:
        counts.add("203.0.113.7", code, "t")
    (summary,) = counts.end_window()
    assert summary.codes == {"FORBIDDEN": 2, CODE: 1}
