"""The report of a run from any records: the order of calls, merged pages, strange fields."""

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.document import page_ranges
from mcp_tools_proxy.http.api.run_report import RunOwner, RunRecords, RunReport, report_of

OWNER = RunOwner("a", "u")


def report(calls: Sequence[Any]) -> RunReport:
    return report_of("r", RunRecords(owner=OWNER, calls=calls, is_complete=True), ())


def record(at_s: int, number: int | None, **payload: object) -> dict[str, Any]:
    made = {} if number is None else {"run_call": number}
    call = {"code": "OK", "tool": "t", "duration_ms": 0.0, **made, **payload}
    time = f"2027-01-01T00:{at_s // 60:02}:{at_s % 60:02}.000000Z"
    return {"timestamp": time, "event": "tool.call", "payload": call}


@given(st.lists(st.integers(1, 10_000)))
def test_ranges_have_exactly_the_pages(pages: list[int]) -> None:
    ranges = page_ranges(pages)
    assert {page for first, last in ranges for page in range(first, last + 1)} == set(pages)
    assert all(one[1] + 1 < two[0] for one, two in itertools.pairwise(ranges))


@given(st.lists(st.tuples(st.integers(0, 3_000), st.booleans()), max_size=30))
def test_made_calls_are_in_the_order_of_their_numbers(times: list[tuple[int, bool]]) -> None:
    """Replicas' clocks differ, numbers do not."""
    records = [
        record(at, number if is_made else None)
        for number, (at, is_made) in enumerate(times, start=1)
    ]
    found = report(records[::-1])
    numbers = [it.number for it in found.calls if it.number is not None]
    assert numbers == sorted(numbers)
    refused = [it.at for it in found.calls if it.number is None]
    assert refused == sorted(refused)
    assert len(found.calls) == len(times)


def test_a_refused_call_is_between_those_before_and_after_it() -> None:
    found = report([record(3, 2), record(2, None), record(1, 1)])
    assert [it.number for it in found.calls] == [1, None, 2]


def test_calls_of_a_run_that_began_again_are_ordered_by_time() -> None:
    found = report([record(4, 2), record(3, 1), record(2, 2), record(1, 1)])
    assert [it.number for it in found.calls] == [1, 2, 1, 2]


def test_a_document_in_the_arguments_of_a_servers_tool_is_not_one_of_the_gateway() -> None:
    own, other = record(1, 1, doc_id="d"), record(2, 2, doc_id="x", server_id="crm")
    assert [it.doc_id for it in report([other, own]).documents] == ["d"]


def test_pages_of_a_document_are_merged_by_version() -> None:
    reads = [
        record(it, it, read=[{"doc_id": "d", "version": version, "pages": pages}])
        for it, (version, pages) in enumerate(
            [("1", [[1, 2]]), ("1", [[3, 3], [7, 9]]), ("2", [[1, 1]])], start=1
        )
    ]
    found = report(reads).documents
    assert [(it.version, it.pages) for it in found] == [("1", [[1, 3], [7, 9]]), ("2", [[1, 1]])]
