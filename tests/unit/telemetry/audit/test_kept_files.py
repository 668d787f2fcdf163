"""A signed record names each file that rotation removed; other missing files are reported."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcp_tools_proxy.telemetry.audit.audit_paths import audit_files, rotated_files
from mcp_tools_proxy.telemetry.audit.hash_chain import Head, finish_record
from mcp_tools_proxy.telemetry.audit.verification import verify
from tests.unit.telemetry.audit.support import KEY, write

FILE = "audit.jsonl"


def rotate(path: Path, starts: int, *, key: bytes | None = KEY) -> None:
    """Start and stop ``starts`` times; each start fills a file."""
    for _ in range(starts):
        write(path, 3, key=key, max_bytes=400, keep_files=2)


def removals(path: Path) -> list[dict[str, object]]:
    """Return the payloads of all removal records, oldest first."""
    lines = [json.loads(line) for it in audit_files(path) for line in it.read_bytes().splitlines()]
    return [line["payload"] for line in lines if line["event"] == "audit.file_removed"]


@pytest.mark.parametrize("key", [KEY, None])
def test_a_removed_file_is_named_with_its_last_record(tmp_path: Path, key: bytes | None) -> None:
    path = tmp_path / FILE
    rotate(path, 3, key=key)
    oldest = rotated_files(path)[0]
    first, *_, last = map(json.loads, oldest.read_bytes().splitlines())
    rotate(path, 2, key=key)
    assert not oldest.exists()
    expected = {"file": oldest.name, "first_seq": first["seq"], "last_seq": last["seq"]}
    assert {**expected, "last_mac": last.get("mac", "")} in removals(path)
    found = verify(path, key)
    (note,) = found.notes
    assert found.problems == []
    assert "was removed by rotation at 20" in note


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_file_is_a_problem(tmp_path: Path, which: int) -> None:
    path = tmp_path / FILE
    rotate(path, 6)
    for old in rotated_files(path)[: which + 1]:
        old.unlink()
    found = verify(path, KEY)
    assert not found.good
    assert any("rotation did not record removing" in it for it in found.problems)


@pytest.mark.parametrize("starts", [1, 2, 5])
def test_a_restart_does_not_hide_a_missing_file(tmp_path: Path, starts: int) -> None:
    path = tmp_path / FILE
    write(path, 3, max_bytes=400, keep_files=9)
    for _ in range(4):
        write(path, 3, max_bytes=400, keep_files=9)
    rotated_files(path)[0].unlink()
    for _ in range(starts):
        write(path, 3, max_bytes=400, keep_files=9)
    assert not verify(path, KEY).good


def test_removing_all_older_files_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / FILE
    rotate(path, 6)
    for old in rotated_files(path):
        old.unlink()
    assert not verify(path, KEY).good


def test_a_forged_removal_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / FILE
    rotate(path, 3)
    oldest = rotated_files(path)[0]
    last_seq = int(oldest.name.rpartition(".")[2])
    oldest.unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    head = json.loads(lines[-1])
    forged = {
        "timestamp": head["timestamp"],
        "level": "warn",
        "event": "audit.file_removed",
        "payload": {"file": oldest.name, "last_seq": last_seq, "last_mac": ""},
        "trace_id": None,
    }
    body = json.dumps(forged, separators=(",", ":")).encode()
    found_head = verify(path, KEY).head
    line, _ = finish_record(body, found_head, b"another key of thirty-two characters")
    path.write_bytes(b"".join(lines) + line)
    assert not verify(path, KEY).good


def test_a_removal_that_names_another_last_record_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / FILE
    rotate(path, 6)
    first = rotated_files(path)[0]
    content = first.read_text().replace('"previous":"', '"previous":"0', 1)
    first.write_text(content)
    assert any("names a different last record" in it for it in verify(path, KEY).problems)


def test_a_crash_between_record_and_removal_is_not_a_problem(tmp_path: Path) -> None:
    path = tmp_path / FILE
    rotate(path, 3)
    oldest = rotated_files(path)[0]
    content = oldest.read_bytes()
    rotate(path, 1)
    assert not oldest.exists()
    oldest.write_bytes(content)  # as if it had not been removed yet
    assert verify(path, KEY).problems == []
    rotate(path, 1)
    assert not oldest.exists()
    assert verify(path, KEY).problems == []


def _as_older_version(path: Path) -> None:
    """Rewrite the files as a version without removal records would."""
    files = audit_files(path)
    first = json.loads(files[0].read_bytes().splitlines()[0])
    head = Head(first["seq"] - 1, first["payload"].get("previous", ""))
    for file in files:
        out = b""
        for line in file.read_bytes().splitlines():
            record = json.loads(line)
            if record["event"] == "audit.file_removed":
                record = {**record, "event": "tool.call"}
            for key in ("seq", "mac"):
                record.pop(key)
            record["payload"].pop("kept_from", None)
            if "previous" in record["payload"]:
                record["payload"]["previous"] = head.mac
            body = json.dumps(record, separators=(",", ":")).encode()
            text, head = finish_record(body, head, KEY)
            out += text
        file.write_bytes(out)


def test_files_of_an_older_version_stay_valid_after_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / FILE
    rotate(path, 6)
    _as_older_version(path)
    before = verify(path, KEY)
    assert before.problems == []
    assert before.notes == [f"the records before {before.first_seq} are no longer kept"]
    write(path, 1)  # the first start of this version
    assert verify(path, KEY).problems == []
    rotate(path, 3)
    assert verify(path, KEY).problems == []
    rotated_files(path)[0].unlink()
    assert not verify(path, KEY).good


@pytest.mark.parametrize("rotations", [1, 2, 5])
def test_rotations_while_files_are_opened_are_not_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotations: int
) -> None:
    path = tmp_path / FILE
    rotate(path, 4)
    left = rotations

    def listed_after_rotation(listed: Path) -> Sequence[Path]:
        nonlocal left
        if left:
            left -= 1
            rotate(path, 1)
        return rotated_files(listed)

    monkeypatch.setattr(
        "mcp_tools_proxy.telemetry.audit.audit_paths.rotated_files", listed_after_rotation
    )
    assert verify(path, KEY).problems == []
    assert left == 0
