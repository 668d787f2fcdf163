"""Audits are kept in regular files: links, FIFOs and devices are not followed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tools_proxy.telemetry.audit.audit_file import AuditFileUnusable
from mcp_tools_proxy.telemetry.audit.audit_paths import rotated_files
from mcp_tools_proxy.telemetry.audit.record_search import RecordFilter, search_files
from mcp_tools_proxy.telemetry.audit.verification import verify
from tests.support.captured_logs import capture_logs
from tests.unit.telemetry.audit.support import KEY, audit_file, record, write

FILE = "audit.jsonl"


def symlink(path: Path, target: Path) -> None:
    path.symlink_to(target)


def dangling(path: Path, _: Path) -> None:
    path.symlink_to(path.with_name("none"))


def hard_link(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, _: Path) -> None:
    path.mkdir()


TRAPS = [symlink, dangling, hard_link, fifo, folder]
Trap = Callable[[Path, Path], None]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the gateway that must not be modified; it ends like an audit file."""
    path = tmp_path / "tokens.jsonl"
    write(path, 1)
    return path


@pytest.mark.parametrize("suffix", ["", ".lock"])
@pytest.mark.parametrize("trap", TRAPS)
def test_the_start_refuses_links_fifos_and_folders(
    tmp_path: Path, victim: Path, trap: Trap, suffix: str
) -> None:
    before = victim.read_bytes()
    trap(tmp_path / f"{FILE}{suffix}", victim)
    with pytest.raises(AuditFileUnusable, match="cannot be written"):
        audit_file(tmp_path / FILE).open()
    assert victim.read_bytes() == before
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("trap", [symlink, dangling, fifo, folder])
def test_a_rotated_file_that_is_not_regular_is_not_read(
    tmp_path: Path, victim: Path, trap: Trap
) -> None:
    path = tmp_path / FILE
    for _ in range(3):
        write(path, 3, max_bytes=400)
    rotated = rotated_files(path)[-1]
    rotated.unlink()
    trap(rotated, victim)
    for read in (
        lambda: verify(path, KEY),
        lambda: search_files(path, RecordFilter(), cursor=None, limit=100),
    ):
        with pytest.raises(OSError, match="move it out of the way"):
            read()


@pytest.mark.parametrize("trap", [symlink, dangling, hard_link, fifo])
def test_a_running_gateway_does_not_write_to_an_irregular_file(
    tmp_path: Path, victim: Path, trap: Trap
) -> None:
    path = tmp_path / FILE
    file = audit_file(path, required=True)
    file.open()
    before = victim.read_bytes()
    path.unlink()
    trap(path, victim)
    with capture_logs() as logged:
        file.put(record())
        file.close()
    assert "audit.write_failed" in [line["event"] for line in logged]
    assert victim.read_bytes() == before
    assert not file.has_place


def test_a_link_to_the_moved_file_itself_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / FILE
    file = audit_file(path)
    file.open()
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    before = (tmp_path / "moved").read_bytes()
    with capture_logs() as logged:
        file.put(record())
        file.close()
    assert "audit.file_replaced" in [line["event"] for line in logged]
    assert (tmp_path / "moved").read_bytes() == before


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    write(tmp_path / "linked" / FILE, 2)
    assert verify(tmp_path / "real" / FILE, KEY).records == 3
