import asyncio
from pathlib import Path

import pytest

from mcp_tools_proxy.mcp.connector.backend_dialer import MAX_BYTES, FileToken, FixedToken
from tests.support.bounds import until
from tests.support.captured_logs import capture_logs
from tests.support.file_descriptors import none_left
from tests.support.remote_backend.waits import bounded

NO_TOKENS = {
    "nothing": b"",
    "white space": b" \t\r\n",
    "two words": b"two words",
    "two lines": b"first\nsecond",
    "a control character": b"to\x07ken",
    "a letter that is not ASCII": "tokén".encode(),
    "no UTF-8": b"\xff\xfe",
    "a byte order mark": b"\xef\xbb\xbftoken",
    "too much": b"x" * (MAX_BYTES + 1),
    "a header of another kind": b"token\r\nX-Evil: 1",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "token"


def write(file: Path, content: bytes) -> None:
    draft = file.with_name("draft")
    draft.write_bytes(content)
    draft.replace(file)


def point(link: Path, name: str) -> None:
    """Point a link to another file of its folder atomically."""
    draft = link.with_name("draft")
    draft.symlink_to(name)
    draft.replace(link)


def remove(file: Path) -> None:
    file.unlink()


async def wait_for_change(token: FileToken, refused: str | None) -> None:
    async with bounded("another token"):
        await token.wait_for_change(refused)


async def test_a_fixed_token_is_returned() -> None:
    assert await FixedToken("token").read() == "token"


async def test_waiting_for_a_change_of_a_fixed_token_never_ends() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await FixedToken("token").wait_for_change("token")


async def test_a_token_is_stripped(file: Path) -> None:
    write(file, b"\n  ey.J.-_~+/=  \r\n")
    assert await FileToken(file).read() == "ey.J.-_~+/="


async def test_a_token_of_the_maximum_size_is_read(file: Path) -> None:
    write(file, b"x" * MAX_BYTES)
    assert await FileToken(file).read() == "x" * MAX_BYTES


@pytest.mark.parametrize("content", NO_TOKENS.values(), ids=NO_TOKENS.keys())
async def test_an_invalid_token_is_ignored(file: Path, content: bytes) -> None:
    write(file, content)
    assert await FileToken(file).read() is None


@pytest.mark.parametrize("content", NO_TOKENS.values(), ids=NO_TOKENS.keys())
async def test_an_invalid_token_is_logged_once_without_its_content(
    file: Path, content: bytes
) -> None:
    write(file, content)
    token = FileToken(file)
    with capture_logs() as lines:
        await token.read()
        await token.read()
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("remote.token_unreadable", "error")
    assert line["reason"] == "should hold one token, printable ASCII without spaces"


async def test_a_missing_file_does_not_give_a_token(file: Path) -> None:
    with capture_logs() as lines:
        assert await FileToken(file).read() is None
    assert [line["reason"] for line in lines] == ["cannot be read: No such file or directory"]


async def test_a_folder_does_not_give_a_token(tmp_path: Path) -> None:
    assert await FileToken(tmp_path).read() is None


async def test_a_recurring_problem_is_logged_again(file: Path) -> None:
    token = FileToken(file)
    with capture_logs() as lines:
        await token.read()
        write(file, b"token")
        await token.read()
        remove(file)
        await token.read()
    assert len(lines) == 2


async def test_a_token_that_has_already_changed_is_returned_immediately(file: Path) -> None:
    write(file, b"new")
    await wait_for_change(FileToken(file), "old")


@pytest.mark.parametrize("refused", ["old", None])
async def test_a_later_token_is_noticed(file: Path, refused: str | None) -> None:
    if refused is not None:
        write(file, refused.encode())
    token = FileToken(file)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_for_change(token, refused))
        await asyncio.sleep(0)
        write(file, b"new")
        await waiting
    assert await token.read() == "new"


async def test_a_token_behind_a_changed_link_is_noticed(tmp_path: Path, file: Path) -> None:
    """Orchestrators replace mounted secrets this way."""
    for name in ("old", "new"):
        write(tmp_path / name, name.encode())
    point(file, "old")
    token = FileToken(file)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(wait_for_change(token, "old"))
        await asyncio.sleep(0)
        point(file, "new")
        await waiting
    assert await token.read() == "new"


async def test_reading_is_retried_after_a_temporary_error(file: Path) -> None:
    write(file, b"new")
    token = FileToken(file)
    async with asyncio.TaskGroup() as tasks:
        with none_left():
            waiting = tasks.create_task(wait_for_change(token, "old"))
            await until(lambda: token.problem)
        await waiting
    assert token.problem is None


async def test_neither_the_refused_token_nor_its_absence_counts_as_a_change(file: Path) -> None:
    write(file, b"old")
    token = FileToken(file)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(token.wait_for_change("old"))
        for content in (b"old\n", b"", b" old "):
            write(file, content)
            assert not (await asyncio.wait({waiting}, timeout=0.5))[0]
        waiting.cancel()


async def test_the_repr_does_not_contain_the_token(file: Path) -> None:
    write(file, b"secret")
    token = FileToken(file)
    await token.read()
    assert "secret" not in repr(token)
