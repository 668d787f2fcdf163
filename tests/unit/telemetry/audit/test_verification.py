"""Every modification of an audit file is detected."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tools_proxy.telemetry.audit.hash_chain import Head
from mcp_tools_proxy.telemetry.audit.verification import verify
from tests.unit.telemetry.audit.support import KEY, write

Edit = Callable[[list[bytes]], list[bytes]]


def changed(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"n":2', b'"n":7') for line in lines]


def lost(lines: list[bytes]) -> list[bytes]:
    return lines[:2] + lines[3:]


def two_lost(lines: list[bytes]) -> list[bytes]:
    return lines[:2] + lines[4:]


def moved(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


def repeated(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[2], *lines[3:]]


def put_in(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], b"{}\n", *lines[3:]]


def beheaded(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


def unsigned(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[3][: lines[3].index(b',"mac"')] + b"}\n", *lines[4:]]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (changed, "audit.jsonl:4: changed: record 4 does not match its signature"),
        (lost, "audit.jsonl:3: lost: record 3"),
        (two_lost, "audit.jsonl:3: lost: record 3 to 4"),
        (moved, "audit.jsonl:4: moved: record 3 follows record 4"),
        (repeated, "audit.jsonl:4: moved: record 3 follows record 3"),
        (put_in, "audit.jsonl:4: not a valid record: altered or inserted"),
        (beheaded, "audit.jsonl:1: the files begin in the middle, with record 2"),
        (unsigned, "audit.jsonl:4: record 4 has no signature"),
    ],
    ids=lambda it: it.__name__ if callable(it) else "",
)
def test_a_modified_file_is_reported_with_the_position(
    tmp_path: Path, edit: Edit, problem: str
) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 6)
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))
    found = verify(path, KEY)
    assert problem in found.problems
    assert not found.good


def test_a_record_modified_with_its_signature_invalidates_the_next(tmp_path: Path) -> None:
    path, other = tmp_path / "audit.jsonl", tmp_path / "other.jsonl"
    write(path, 6)
    write(other, 6, key=b"x" * 32)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = other.read_bytes().splitlines(keepends=True)[3]
    path.write_bytes(b"".join(lines))
    assert [problem.split(":")[1] for problem in verify(path, KEY).problems] == ["4", "5"]


def test_a_truncated_tail_is_detected_with_the_head_from_the_log(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 6)
    head = verify(path, KEY).head
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    assert verify(path, KEY).good  # the file alone does not show it
    assert verify(path, KEY, [head]).problems == [
        f"the tail is cut off: the log names record {head.seq}, and the files end with record 5"
    ]


def test_a_replaced_chain_is_detected_with_the_head_from_the_log(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 6)
    head = verify(path, KEY).head
    path.unlink()
    write(path, 9)
    assert verify(path, KEY, [head]).problems == [
        f"audit.jsonl:{head.seq}: changed: record {head.seq} differs from the one in the log"
    ]


def test_a_wrong_key_is_reported_as_wrong_key(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 2)
    assert verify(path, b"y" * 32).problems[0] == (
        "all signatures are wrong: is this the key of these files?"
    )


def test_a_head_older_than_the_files_is_not_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(4):
        write(path, 3, max_bytes=10, keep_files=1)
    assert verify(path, KEY, [Head(1, "0" * 64)]).problems == []


def test_a_missing_file_in_the_middle_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(3):
        write(path, 3, max_bytes=10)
    rotated = sorted(tmp_path.glob("audit.jsonl.0*"))
    rotated[1].unlink()
    assert any("lost: record" in problem for problem in verify(path, KEY).problems)


def test_verification_requires_at_least_one_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "audit.jsonl", KEY)


def test_removal_of_all_signatures_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 3)
    stripped = [
        line[: line.index(b',"mac"')].replace(b"acme", b"evil") + b"}\n"
        for line in path.read_bytes().splitlines()
    ]
    path.write_bytes(b"".join(stripped))
    assert verify(path, KEY).problems[0] == "audit.jsonl:1: record 1 has no signature"


def test_records_before_a_restart_cannot_be_truncated_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 3)
    write(path, 3)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[4:]))
    problem, missing = verify(path, KEY).problems
    assert problem == "audit.jsonl:1: the files begin in the middle, with record 5"
    assert missing.startswith("records 1 to 4 are missing")


def test_the_oldest_files_cannot_be_removed_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(4):
        write(path, 3, max_bytes=10)
    rotated = sorted(tmp_path.glob("audit.jsonl.0*"))
    for old in rotated[:2]:
        old.unlink()
    problem, missing = sorted(verify(path, KEY).problems, reverse=True)
    assert problem.startswith("rotated files are missing: there were ")
    assert missing.startswith("records 1 to ")


@pytest.mark.parametrize(
    "garbage", [[b"x\n"], [b'{"timestamp":"2\n'] * 2], ids=["no-record", "two-lines"]
)
def test_invalid_lines_before_a_restart_are_not_attributed_to_a_crash(
    tmp_path: Path, garbage: list[bytes]
) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, *garbage]))
    write(path, 2)
    problems = verify(path, KEY).problems
    assert [problem.partition(": ")[2] for problem in problems] == (
        ["not a valid record: altered or inserted"] * len(garbage)
    )


def test_each_of_several_heads_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 2)
    head = verify(path, KEY).head
    other = Head(head.seq, "0" * 64)
    for heads in ([head, other], [other, head]):
        assert not verify(path, KEY, heads).good
