import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tools_proxy.auth.token_format import read_lines
from mcp_tools_proxy.auth.token_store import UnknownToken, add_token, remove_entry
from mcp_tools_proxy.domain.identity import Principal
from tests.support.bounds import BOUND_S

ACME = Principal(tenant_id="acme")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "tokens.jsonl"


def test_adding_a_token_creates_the_file(path: Path) -> None:
    _, added = add_token(path, ACME)
    assert read_lines(path.read_bytes()).entries == (added,)


def test_only_the_owner_can_read_a_new_file(path: Path) -> None:
    add_token(path, ACME)
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_mode_of_an_existing_file_is_kept(path: Path) -> None:
    add_token(path, ACME)
    path.chmod(0o640)
    add_token(path, ACME)
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_first_token_after_a_byte_order_mark_can_be_revoked(path: Path) -> None:
    _, added = add_token(path, ACME)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    remove_entry(path, added.id)
    assert read_lines(path.read_bytes()).entries == ()


def test_manual_edits_are_preserved(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"# ours\r\n\n{broken\n{}")
    _, added = add_token(path, ACME)
    content = path.read_bytes()
    assert content.startswith(b"# ours\r\n\n{broken\n{}\n")
    assert read_lines(content).entries == (added,)


def test_temporary_files_are_removed(path: Path) -> None:
    add_token(path, ACME)
    assert os.listdir(path.parent) == [path.name]


def test_a_symbolic_link_is_kept(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    add_token(link, ACME)
    assert (link.is_symlink(), len(read_lines(path.read_bytes()).entries)) == (True, 1)


def test_concurrently_created_tokens_are_all_kept(path: Path) -> None:
    def make_some() -> None:
        for _ in range(10):
            add_token(path, ACME)

    in_threads(make_some, 4)
    assert len(read_lines(path.read_bytes()).entries) == 40


def test_a_token_is_revoked_by_its_id(path: Path) -> None:
    (_, first), (_, second) = add_token(path, ACME), add_token(path, ACME)
    remove_entry(path, first.id)
    assert read_lines(path.read_bytes()).entries == (second,)


def test_a_token_on_a_broken_line_can_be_revoked_by_id(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'# ours\n{"id": "t1"}\n')
    remove_entry(path, "t1")
    assert path.read_bytes() == b"# ours\n"


def test_revoking_an_unknown_id_changes_nothing(path: Path) -> None:
    add_token(path, ACME)
    before = path.read_bytes()
    with pytest.raises(UnknownToken):
        remove_entry(path, "nobody")
    assert path.read_bytes() == before


def test_a_token_that_could_not_be_read_back_is_not_written(path: Path) -> None:
    with pytest.raises(ValueError, match="tenant"):
        add_token(path, Principal(tenant_id="a\nb"))
    assert not path.exists()


def in_threads(work: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=BOUND_S)
