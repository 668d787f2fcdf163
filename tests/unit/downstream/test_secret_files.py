"""Secrets in files, as Kubernetes and Docker mount them."""

import os
from pathlib import Path

import pytest

from mcp_tools_proxy.downstream.secret_files import (
    FRESH_S,
    MAX_CACHED,
    MAX_SECRET_BYTES,
    SecretFiles,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as mounted by Kubernetes: each file is a link into ``..data``, itself a link."""
    folder = tmp_path / "secrets"
    mount(folder, "v1", acme="s3cret\n", globex="other")
    return folder


def mount(folder: Path, version: str, **contents: str) -> None:
    """Replace all secrets atomically, as the kubelet does."""
    target = folder / "tickets" / f"..{version}"
    target.mkdir(parents=True)
    for name, content in contents.items():
        (target / name).write_text(content)
        link = target.parent / name
        if not link.is_symlink():
            link.symlink_to(Path("..data") / name)
    draft = target.parent / "..data_tmp"
    draft.symlink_to(target.name)
    draft.replace(target.parent / "..data")


async def read(secrets: SecretFiles, path: str) -> tuple[str | None, str]:
    found = (await secrets.read([path]))[path]
    return found.text, found.problem


async def test_a_mounted_secret_is_read_without_its_line_break(folder: Path) -> None:
    secrets = SecretFiles(folder)
    assert await read(secrets, "tickets/acme") == ("s3cret", "")
    assert await read(secrets, "tickets/globex") == ("other", "")


async def test_a_rotated_secret_is_reloaded(folder: Path, clock: Clock) -> None:
    secrets = SecretFiles(folder, clock=clock)
    assert await read(secrets, "tickets/acme") == ("s3cret", "")
    mount(folder, "v2", acme="newer")
    assert await read(secrets, "tickets/acme") == ("s3cret", "")
    clock.now += FRESH_S
    assert await read(secrets, "tickets/acme") == ("newer", "")
    (folder / "tickets/acme").unlink()
    clock.now += FRESH_S
    assert await read(secrets, "tickets/acme") == (None, "secret tickets/acme does not exist")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("tickets/hooli", "secret tickets/hooli does not exist"),
        ("tickets", "cannot be read: Is a directory"),
        ("tickets/..", "a name in it is empty"),
        ("../outside", "a name in it is empty"),
        ("tickets/", "a name in it is empty"),
        ("tickets/" + "x" * 256, "or too long"),
        ("leaving", "is a link out of the folder"),
        ("binary", "is not UTF-8"),
        ("large", f"is not a file of at most {MAX_SECRET_BYTES} bytes"),
        ("pipe", "is not a file of at most"),
        ("loop", "the secret loop cannot be read"),
    ],
)
async def test_an_invalid_secret_is_refused_with_the_reason(
    folder: Path, path: str, problem: str
) -> None:
    (folder.parent / "outside").write_text("not a secret of the test")
    (folder / "leaving").symlink_to(folder.parent / "outside")
    (folder / "binary").write_bytes(b"\xff")
    (folder / "large").write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    text, found = await read(SecretFiles(folder), path)
    assert text is None
    assert problem in found


async def test_secrets_of_many_callers_take_bounded_memory(folder: Path) -> None:
    secrets = SecretFiles(folder)
    await secrets.read([f"tickets/{number}" for number in range(MAX_CACHED + 10)])
    assert repr(secrets) == f"<SecretFiles {MAX_CACHED} cached>"


async def test_reprs_do_not_contain_secrets(folder: Path) -> None:
    found = await SecretFiles(folder).read(["tickets/acme"])
    assert "s3cret" not in repr(found)
