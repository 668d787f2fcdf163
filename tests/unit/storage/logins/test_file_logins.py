"""Logins in files: private, atomic even if the process is killed, and never deleted as invalid."""

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs
from tests.support.source_files import ROOT
from tests.support.stored_logins import ACME, ANA, BINDING, DEPLOYMENT

HOLDER = """
import asyncio, sys
from pathlib import Path
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from tests.support.stored_logins import ANA

async def hold():
    async with FileLogins(Path(sys.argv[1])).lease(ANA):
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(hold())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logins"


@pytest.fixture
def logins(folder: Path) -> FileLogins:
    return FileLogins(folder)


@pytest.fixture
def no_folder(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"no folder")
    return path


def the_file(folder: Path) -> Path:
    (found,) = folder.glob("*.login")
    return found


def file_of_ana(folder: Path) -> Path:
    (found,) = (it for it in folder.glob("*.login") if b"ana" in it.read_bytes())
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_only_this_user_can_read_the_files(folder: Path, logins: FileLogins) -> None:
    stored = await logins.put(ANA, BINDING, b"one")
    await logins.replace(stored, b"two")
    async with logins.lease(ANA):
        modes = {it.name: stat.S_IMODE(it.stat().st_mode) for it in [folder, *files(folder)]}
    name = the_file(folder).stem
    assert modes == {
        "logins": 0o700,
        f"{name}.login": 0o600,
        f"{name}.lock": 0o600,
        ".lock": 0o600,
    }
    assert len(bytes.fromhex(name)) == 32


async def test_a_file_readable_by_others_is_used_with_one_warning(
    folder: Path, logins: FileLogins
) -> None:
    stored = await logins.put(ANA, BINDING, b"one")
    the_file(folder).chmod(0o640)
    with capture_logs() as lines:
        assert [await logins.find(ANA) for _ in range(2)] == [stored, stored]
    assert [(line["event"], line["path"]) for line in lines] == [
        ("logins.readable_by_others", str(the_file(folder)))
    ]


async def test_removing_a_login_removes_all_files_of_its_owner(
    folder: Path, logins: FileLogins
) -> None:
    stored = await logins.put(ANA, BINDING, b"one")
    async with logins.lease(ANA):
        pass
    await logins.remove(stored)
    assert [it.name for it in files(folder)] == [".lock"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is damaged"),
        (b'{"format": 1, "ow', "is damaged"),
        (b"[]", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b'{"format": 1}', "is damaged"),
        (b'{"format": 2, "all": "new"}', "by another release"),
    ],
)
async def test_an_unreadable_file_is_an_error_and_is_kept(
    folder: Path, logins: FileLogins, content: bytes, reason: str
) -> None:
    stored = await logins.put(ANA, BINDING, b"one")
    other = await logins.put(ACME, BINDING, b"other")
    path = file_of_ana(folder)
    path.write_bytes(content)

    for attempt in (
        lambda: logins.find(ANA),
        lambda: logins.put(ANA, BINDING, b"two"),
        lambda: logins.replace(stored, b"two"),
        lambda: logins.remove(stored),
    ):
        with pytest.raises(LoginsUnavailable) as refused:
            await attempt()
        assert reason in str(refused.value.reason)
        assert str(path) in str(refused.value.reason)
        assert refused.value.retryable
        assert str(folder) not in refused.value.as_text
    assert path.read_bytes() == content
    with capture_logs() as lines:
        assert await logins.owners("acme") == [ACME]
    assert [line["event"] for line in lines] == ["logins.unreadable"]
    assert await logins.find(ACME) == other


async def test_a_file_of_another_owner_is_an_error(folder: Path, logins: FileLogins) -> None:
    await logins.put(ACME, BINDING, b"of acme")
    content = the_file(folder).read_bytes()
    await logins.put(ANA, BINDING, b"of ana")
    file_of_ana(folder).write_bytes(content)
    with pytest.raises(LoginsUnavailable) as refused:
        await logins.find(ANA)
    assert "of another owner" in str(refused.value.reason)


async def test_an_unusable_folder_is_an_error(no_folder: Path) -> None:
    logins = FileLogins(no_folder)
    for attempt in (logins.find(ANA), logins.put(ANA, BINDING, b"one")):
        with pytest.raises(LoginsUnavailable, match="cannot be used now") as refused:
            await attempt
        assert "the folder of logins" in str(refused.value.reason)


async def test_a_killed_change_is_atomic(tmp_path: Path) -> None:
    """The process is killed at each step in turn; locks and temporary files do not remain."""
    afters = {"put": "put", "replace": "replace", "remove": "none"}
    printed = subprocess.run(  # noqa: S603 ASYNC221 - our own program
        [sys.executable, "-m", "tests.support.killed_login_writer", tmp_path, *afters],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
        cwd=ROOT,
    ).stdout
    attempts = [json.loads(line) for line in printed.splitlines()]
    for change, after in afters.items():
        found = [it["found"] for it in attempts if it["change"] == change]
        assert len(found) > 6, change
        assert found == sorted(found, key=["before", after].index)  # completed at one of the steps
        assert (found[0], found[-1]) == ("before", after)
        assert [it["was_killed"] for it in attempts if it["change"] == change][-1] is False

        await FileLogins(tmp_path / change).put(DEPLOYMENT, BINDING, b"another")
        others = [
            it.name for it in files(tmp_path / change) if it.suffix not in (".login", ".lock")
        ]
        assert others == [".lock"]


async def test_a_killed_process_releases_its_lease_immediately(
    folder: Path, logins: FileLogins
) -> None:
    stored = await logins.put(ANA, BINDING, b"one")
    holder = subprocess.Popen(  # noqa: S603 ASYNC220 - our own program
        [sys.executable, "-c", HOLDER, folder], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LoginsUnavailable, match="being renewed"):
            async with logins.lease(ANA, wait_s=0):
                pytest.fail("two hold the lease")
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    async with logins.lease(ANA, wait_s=0) as leased:
        assert leased == stored
