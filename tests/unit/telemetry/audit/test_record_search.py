import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.telemetry.audit.audit_paths import opened_files
from mcp_tools_proxy.telemetry.audit.audit_trail import MAX_RECENT, AuditTrail
from mcp_tools_proxy.telemetry.audit.record_search import (
    RecordFilter,
    RecordPage,
    _lines_backwards,
    search_files,
    search_memory,
)
from tests.support.tables import each_row
from tests.unit.telemetry.audit.support import audit_file, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """60 calls of three tenants, in several files."""
    path = tmp_path / "audit.jsonl"
    for start in range(0, 60, 20):
        file = audit_file(path, max_bytes=2000)
        file.open()
        for n in range(start, start + 20):
            file.put(record(n=n, tenant_id="acme" if n % 3 else "büro", doc_id=f"d{n % 5}"))
        file.close()
    return path


def numbers(page: RecordPage) -> list[object]:
    """Return ``n`` of the calls on a page."""
    payloads = [it["payload"] for it in page.records]
    return [it["n"] for it in payloads if isinstance(it, Mapping) and "n" in it]


def all_pages(path: Path, wanted: RecordFilter, limit: int) -> list[object]:
    found: list[object] = []
    page = search_files(path, wanted, cursor=None, limit=limit)
    found += numbers(page)
    while page.next_cursor is not None:
        page = search_files(path, wanted, cursor=page.next_cursor, limit=limit)
        assert len(page.records) <= limit
        found += numbers(page)
    return found


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_contain_each_record_once_newest_first(path: Path, limit: int) -> None:
    assert all_pages(path, RecordFilter(), limit) == list(reversed(range(60)))


@pytest.mark.parametrize("limit", [1, 1000])
def test_a_filter_applies_on_every_page(path: Path, limit: int) -> None:
    wanted = RecordFilter(tenant_id="büro", doc_id="d0")
    assert all_pages(path, wanted, limit) == [45, 30, 15, 0]


def test_since_and_until_limit_the_time(path: Path) -> None:
    calls = search_files(path, RecordFilter(event="tool.call"), cursor=None, limit=99).records
    times = [str(it["timestamp"]) for it in calls]
    wanted = RecordFilter(event="tool.call", since=times[20], until=times[10])
    page = search_files(path, wanted, cursor=None, limit=99)
    assert [it["timestamp"] for it in page.records] == times[10:21]


def test_records_written_during_a_search_do_not_shift_the_pages(path: Path) -> None:
    first = search_files(path, RecordFilter(), cursor=None, limit=10)
    file = audit_file(path, max_bytes=2000)
    file.open()
    for n in range(60, 90):
        file.put(record(n=n))
    file.close()
    second = search_files(path, RecordFilter(), cursor=first.next_cursor, limit=1000)
    assert numbers(first) + numbers(second) == list(reversed(range(60)))


def test_without_a_file_the_newest_records_are_in_memory() -> None:
    trail = AuditTrail()
    for n in range(MAX_RECENT + 10):
        trail.record("debug", "tool.call", "t", {"n": n, "tenant_id": "acme" if n % 2 else "b"})
    page = search_memory(trail.recent(), RecordFilter(tenant_id="acme"), cursor=None, limit=3)
    assert numbers(page) == [1009, 1007, 1005]
    rest = search_memory(
        trail.recent(), RecordFilter(tenant_id="acme"), cursor=page.next_cursor, limit=1000
    )
    assert numbers(rest) == list(range(1003, 10, -2))


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_finds_exactly_its_record(one: str, other: str) -> None:
    trail = AuditTrail()
    for text in (one, other):
        trail.record("debug", "tool.call", "t", {"tool": text})
    found = search_memory(trail.recent(), RecordFilter(tool=one), cursor=None, limit=9).records
    assert len(found) == 1 + (one == other)


def test_a_file_truncated_during_a_search_ends_only_the_search(path: Path) -> None:
    with opened_files(path) as files:
        lines = _lines_backwards(files, None)
        next(lines)
        os.truncate(path, 100)
        assert len(list(lines)) > 40


@each_row("key", ["targetServerId", "server_id"])
def test_a_server_is_found_in_records_of_calls_and_logins(key: str) -> None:
    trail = AuditTrail()
    for server_id in ("wiki", "tickets"):
        trail.record("info", "any.event", None, {key: server_id, "n": server_id})
    found = search_memory(trail.recent(), RecordFilter(server="wiki"), cursor=None, limit=9)
    assert numbers(found) == ["wiki"]
