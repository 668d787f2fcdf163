import json
import os
import stat
from pathlib import Path

import pytest

from mcp_tools_proxy.telemetry.audit.audit_file import MAX_QUEUED, AuditFileUnusable
from mcp_tools_proxy.telemetry.audit.audit_paths import audit_files
from mcp_tools_proxy.telemetry.audit.hash_chain import NO_HEAD, Head
from mcp_tools_proxy.telemetry.audit.verification import verify
from tests.support.captured_logs import capture_logs
from tests.unit.telemetry.audit.support import KEY, audit_file, record, wait_until_written, write


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_records_are_lines_of_json_with_numbers_and_signatures(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    write(path, 3)
    lines = lines_of(path)
    assert [(line["event"], line["seq"]) for line in lines] == [
        ("audit.opened", 1),
        ("tool.call", 2),
        ("tool.call", 3),
        ("tool.call", 4),
    ]
    assert {len(str(line["mac"])) for line in lines} == {64}
    assert list(lines[1]) == ["timestamp", "level", "event", "payload", "trace_id", "seq", "mac"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_restart_continues_numbers_and_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(3):
        write(path, 2)
    found = verify(path, KEY)
    assert (found.good, found.records, found.signed, found.head.seq) == (True, 9, 9, 9)


def test_without_a_key_records_have_only_numbers(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 2, key=None)
    assert [line.get("mac") for line in lines_of(path)] == [None] * 3
    assert verify(path, None).good


def test_a_key_can_be_added_later(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 2, key=None)
    write(path, 2)
    assert not verify(path, KEY).good  # removed signatures must not pass verification
    found = verify(path, KEY, unsigned_until=3)
    assert (found.problems, found.records, found.signed) == ([], 6, 3)


def test_a_full_file_is_renamed_and_the_oldest_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(6):
        write(path, 3, max_bytes=400, keep_files=2)
    files = audit_files(path)
    assert [it.name == path.name for it in files] == [False, False, True]
    found = verify(path, KEY)
    assert found.problems == []
    (note,) = found.notes
    assert note.startswith(f"the records before {found.first_seq} are no longer kept: ")


def test_a_second_writer_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    first, second = audit_file(path), audit_file(path)
    first.open()
    with pytest.raises(AuditFileUnusable, match="another process writes this file"):
        second.open()
    first.close()
    second.open()
    second.close()
    assert verify(path, KEY).records == 2


def test_an_unwritable_file_prevents_the_start(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(AuditFileUnusable, match="pipe is not a regular file"):
        audit_file(path).open()


def test_a_file_of_another_program_is_not_modified(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not an audit\n")
    with pytest.raises(AuditFileUnusable, match="does not end with an audit record"):
        audit_file(path).open()
    assert path.read_text() == "not an audit\n"


def test_a_line_torn_by_a_crash_is_terminated_and_the_chain_continues(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 2)
    with path.open("ab") as file:
        file.write(b'{"timestamp":"2026-11-25T10:0')
    with capture_logs() as logged:
        write(path, 2)
    assert "audit.torn_line" in [line["event"] for line in logged]
    found = verify(path, KEY)
    assert found.problems == []
    assert found.notes == ["audit.jsonl:4: a crash left a line incomplete; the chain continues"]
    assert found.records == 6


def test_records_beyond_the_queue_are_lost_counted_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = audit_file(path)
    for n in range(MAX_QUEUED + 5):  # records are not written before it is open
        file.put(record(n=n))
    assert (file.queued, file.lost) == (MAX_QUEUED, 5)
    with capture_logs() as logged:
        file.open()
        wait_until_written(file)
        file.close()
    assert {"event": "audit.lost", "records": 5} in lines_with(path, "audit.lost")
    assert [line["records"] for line in logged if line["event"] == "audit.lost"] == [5]
    assert verify(path, KEY).good


def lines_with(path: Path, event: str) -> list[dict[str, object]]:
    found = [line for line in lines_of(path) if line["event"] == event]
    return [{"event": event, **dict(line["payload"])} for line in found]  # type: ignore[call-overload]  # JSON


def test_a_reserved_slot_cannot_be_used_by_other_records(tmp_path: Path) -> None:
    file = audit_file(tmp_path / "audit.jsonl", required=True)
    assert file.reserve()
    for n in range(MAX_QUEUED):
        file.put(record(n=n))
    assert (file.queued, file.lost) == (MAX_QUEUED - 1, 1)
    assert not file.reserve()
    file.put(record(n=-1), reserved=True)
    assert (file.queued, file.lost) == (MAX_QUEUED, 1)


def test_a_file_that_was_moved_away_is_recreated(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = audit_file(path)
    file.open()
    path.rename(tmp_path / "moved")
    with capture_logs() as logged:
        file.put(record())
        wait_until_written(file)
        file.close()
    assert "audit.file_replaced" in [line["event"] for line in logged]
    found = verify(path, KEY)
    assert found.problems == [
        "audit.jsonl:1: the files before record 2 were missing when this file was begun"
    ]


def test_the_head_is_logged_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with capture_logs() as logged:
        write(path, 2)
    (head,) = [line for line in logged if line["event"] == "audit.head"]
    found = verify(path, KEY, [Head(head["seq"], head["mac"])])
    assert found.good
    assert found.head == (head["seq"], head["mac"])
    assert found.head != NO_HEAD


def test_a_full_file_that_was_moved_away_is_recreated(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = audit_file(path, max_bytes=10)
    file.open()
    path.rename(tmp_path / "moved")
    file.put(record())
    wait_until_written(file)
    file.close()
    assert (file.failure, len(verify(path, KEY).problems)) == (None, 1)


def test_a_truncated_file_is_continued_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = audit_file(path)
    file.open()
    for _ in range(5):
        file.put(record())
    wait_until_written(file)
    os.truncate(path, 0)
    file.put(record())
    wait_until_written(file)
    file.close()
    assert b"\0" not in path.read_bytes()
    assert [line["event"] for line in lines_of(path)] == ["audit.opened", "tool.call"]


def test_an_unserializable_record_is_counted_and_the_others_are_written(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("odd")

    path = tmp_path / "audit.jsonl"
    file = audit_file(path)
    file.open()
    file.put(record(odd=Odd()))
    file.put(record())
    wait_until_written(file)
    file.close()
    events = [line["event"] for line in lines_of(path)]
    assert events == ["audit.opened", "audit.lost", "tool.call"]
    assert verify(path, KEY).good
