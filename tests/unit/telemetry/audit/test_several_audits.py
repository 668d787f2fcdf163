"""Searches of several audits at once: every record on exactly one page, by time."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcp_tools_proxy.telemetry.audit.audit_file import MAX_QUEUED
from mcp_tools_proxy.telemetry.audit.audit_paths import (
    audits_in,
    audits_matching,
    rotated_files,
    unauthenticated_path,
)
from mcp_tools_proxy.telemetry.audit.record_search import (
    Record,
    RecordFilter,
    newest_of,
    search_audits,
)
from mcp_tools_proxy.telemetry.log_lines import line_of
from tests.support.tables import each_row
from tests.unit.telemetry.audit.support import audit_file, wait_until_written, write

CALLS = RecordFilter(event="tool.call")


def at(microsecond: int) -> str:
    """Return a time after those of the files' own records."""
    return f"2126-11-29T10:00:{microsecond // 1_000_000:02}.{microsecond % 1_000_000:06}Z"


def put(path: Path, times: Mapping[int, int], *, max_bytes: int = 10**9) -> None:
    """Write calls, by number, with their times in microseconds."""
    file = audit_file(path, max_bytes=max_bytes, keep_files=100)
    file.open()
    for n, microsecond in times.items():
        if file.queued == MAX_QUEUED:
            wait_until_written(file)
        file.put(line_of(at(microsecond), "info", "tool.call", {"n": n, "even": n % 2 == 0}, "t"))
    file.close()


def numbers(records: list[Record]) -> list[int]:
    return [json.loads(json.dumps(it))["payload"]["n"] for it in records]


def pages(audits: Mapping[Path, int], limit: int, **options: int) -> list[list[int]]:
    found, cursor = [], None
    while True:
        page = search_audits(audits, CALLS, cursor=cursor, limit=limit, **options)
        found.append(numbers(page.records))
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.fixture
def audits(tmp_path: Path) -> Mapping[Path, int]:
    """Three signed audits, one of them in many files; some times are in all of them."""
    paths = {tmp_path / f"{worker}.jsonl": worker for worker in (1, 2, 3)}
    for path, worker in paths.items():
        times = {n: n // 9 * 9 if n % 7 == 0 else n for n in range(worker, 600, 3)}
        for start in range(0, 200, 20):
            part = dict([*times.items()][start : start + 20])
            put(path, part, max_bytes=2_000 if worker == 2 else 10**9)
    assert len(rotated_files(tmp_path / "2.jsonl")) > 3
    return paths


@each_row("limit", [1, 7, 100, 10_000])
def test_each_record_is_on_one_page_by_time(audits: Mapping[Path, int], limit: int) -> None:
    found = pages(audits, limit)
    flat = [n for page in found for n in page]
    assert sorted(flat) == [*range(1, 600)]
    times = [n // 9 * 9 if n % 7 == 0 else n for n in flat]
    assert times == sorted(times, reverse=True)
    assert all(len(page) >= min(limit, 599) for page in found[:-1])


def test_a_bound_of_bytes_gives_short_pages_that_lose_nothing(
    audits: Mapping[Path, int],
) -> None:
    found = pages(audits, 10_000, max_bytes=2_000)
    assert len(found) > 50
    assert sorted(n for page in found for n in page) == [*range(1, 600)]
    nothing = search_audits(audits, RecordFilter(tool="x"), cursor=None, limit=9, max_bytes=2_000)
    assert nothing.records == []
    assert nothing.next_cursor is not None


def test_records_and_rotations_between_pages_change_no_later_page(
    audits: Mapping[Path, int],
) -> None:
    first = search_audits(audits, CALLS, cursor=None, limit=50)
    found, cursor, newest = numbers(first.records), first.next_cursor, 1_000
    while cursor is not None:
        for path in audits:
            put(path, {newest: newest}, max_bytes=2_000)
            newest += 1
        page = search_audits(audits, CALLS, cursor=cursor, limit=50)
        found += numbers(page.records)
        cursor = page.next_cursor
    assert sorted(found) == [*range(1, 600)]


def test_records_out_of_order_in_their_file_are_on_one_page(tmp_path: Path) -> None:
    paths = {tmp_path / "1.jsonl": 1, tmp_path / "2.jsonl": 2}
    times = {n: n - 500 if 1_000 <= n < 1_400 else n for n in range(2_000)}
    put(tmp_path / "1.jsonl", times)
    put(tmp_path / "2.jsonl", {n: n - 2_000 for n in range(2_000, 2_900)})
    found = [n for page in pages(paths, 60) for n in page]
    assert sorted(found) == [*range(2_900)]


def test_all_conditions_hold_for_records_of_several_audits(audits: Mapping[Path, int]) -> None:
    wanted = RecordFilter(event="tool.call", since=at(100), until=at(110))
    found = search_audits(audits, wanted, cursor=None, limit=100).records
    assert {n if n % 7 else n // 9 * 9 for n in numbers(found)} == {*range(100, 111)} - {105}
    assert {it["worker"] for it in found} == {1, 2, 3}


def test_pages_of_records_in_memory_never_divide_a_microsecond() -> None:
    records: list[Record] = [
        {"timestamp": at(n // 4), "event": "tool.call", "payload": {"n": n}} for n in range(40)
    ]
    found, cursor = [], None
    while True:
        page = newest_of(records, CALLS, cursor=cursor, limit=3)
        assert len(page.records) == 4
        found += numbers(page.records)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(found) == [*range(40)]


def test_a_folder_has_audits_and_other_files(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path / "1.jsonl", 3, max_bytes=1)
    (tmp_path / "1.jsonl").unlink()  # its rotated files are left
    write(tmp_path / "2.jsonl", 3)
    content = (tmp_path / "2.jsonl").read_bytes()
    (tmp_path / "2.jsonl").write_bytes(b"x" + content[1:])  # still an audit; verify reports it
    write(unauthenticated_path(tmp_path / "3.jsonl"), 3)  # its audit is missing
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "backup.202611290000").write_text('{"seq":1}\n')
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "2.jsonl")
    os.mkfifo(tmp_path / "pipe")
    assert [it.name for it in audits_in(tmp_path)] == ["1.jsonl", "2.jsonl", "3.jsonl"]


@each_row(
    ("pattern", "found"),
    [
        ("{worker}.jsonl", {"1.jsonl": 1, "12.jsonl": 12, "3.jsonl": 3}),
        ("{host}.jsonl", {"1.jsonl": 0, "12.jsonl": 0, "3.jsonl": 0, "pod-a.jsonl": 0}),
        ("{worker}/{host}-{worker}", {"4/pod-4": 4}),
        ("none-{worker}", {}),
    ],
)
def test_a_path_with_placeholders_matches_files(
    tmp_path: Path, pattern: str, found: dict[str, int]
) -> None:
    names = ("1.jsonl", "12.jsonl", "3.jsonl.000000000012", "pod-a.jsonl", "1.jsonl.lock")
    for name in (*names, "1.jsonl.unauthenticated", "0.jsonl", "4/pod-4", "4/pod-5"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "0.jsonl").unlink()
    expected = {tmp_path / name: worker for name, worker in found.items()}
    assert audits_matching(tmp_path / pattern) == expected
