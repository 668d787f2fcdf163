"""The files of a folder to import."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tools_proxy.cli.documents.source_folder import (
    FileStamp,
    SourceFolder,
    matches,
    stem_of,
)
from mcp_tools_proxy.documents.importers.base import ImportFailed
from tests.support.tables import each_row


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "share"
    root.mkdir()
    return root


@pytest.fixture
def folder(root: Path) -> Iterator[SourceFolder]:
    folder = SourceFolder(root)
    yield folder
    folder.close()


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def test_hidden_files_and_files_of_other_programs_are_not_listed(
    root: Path, folder: SourceFolder
) -> None:
    write(root, "a.md", "x/B.DOCX", ".h.md", ".git/c.md", "~$x.docx", ".~lock.a.md#")
    write(root, "__MACOSX/a.md", "Thumbs.db", ".DS_Store", "x/y.exe")
    found = folder.list_files()
    assert found.files.keys() == {"a.md", "x/B.DOCX"}
    assert (list(found.others), found.skipped, found.failed) == (["x/y.exe"], {}, {})


def test_files_without_a_known_suffix_are_told_apart_from_programs_and_copies(
    root: Path, folder: SourceFolder
) -> None:
    write(root, "a.md", "notes", "table.export", "tool.py", "a.md.bak", "a.md~", "photo.JPG")
    found = folder.list_files()
    assert found.files.keys() == {"a.md", "notes", "table.export"}
    assert found.unknown == {"notes", "table.export"}
    assert found.others.keys() == {"tool.py", "a.md.bak", "a.md~", "photo.JPG"}


@each_row(
    ("name", "text", "is_page"),
    [
        ("saved.asp", "<html><head><title>Fees</title><body><p>Fees", True),
        ("saved.PHP", "\ufeff<!-- saved from url=(0019)x -->\n<!DOCTYPE html><p>Fees", True),
        ("a.jsp", "<!doctype html><p>Fees", True),
        ("b.jsp", "<!doctype html><p><%= fees %>", False),
        ("b.php", "<html><body><?php echo $fees ?>", False),
        ("b.aspx", '<html><form runat="server">', False),
        ("c.asp", "Dim fees", False),
    ],
)
def test_a_web_page_with_the_suffix_of_a_program_is_one_by_its_content(
    root: Path, folder: SourceFolder, name: str, text: str, is_page: bool
) -> None:
    (root / name).write_text(text)
    assert folder.list_files().unknown == {name}
    assert (folder.look_into(name)[1] == "") is is_page
    (root / name).unlink()


def test_the_start_of_a_file_tells_why_it_is_not_a_document(
    root: Path, folder: SourceFolder
) -> None:
    write(root, "notes")
    (root / "picture").write_bytes(b"\x89PNG\r\n\x1a\n")
    (root / "copy").write_bytes(b"\x1f\x8b\x08")
    assert folder.look_into("notes")[1] == ""
    assert folder.look_into("picture")[1].startswith("is a picture: ")
    assert folder.look_into("copy")[1].startswith("is an archive: ")
    with pytest.raises(ImportFailed):
        folder.look_into("missing")


@pytest.mark.parametrize(
    ("path", "stem"),
    [
        ("a/b.docx", "a/b"),
        ("a.b/c", "a.b/c"),
        ("Dr. Smith", "Dr. Smith"),
        ("minutes 2027.03.05", "minutes 2027.03.05"),
        ("table.export", "table"),
    ],
)
def test_only_suffixes_are_cut_from_names(path: str, stem: str) -> None:
    assert stem_of(path) == stem


def test_a_missing_file_that_is_left_out_is_an_error(root: Path, folder: SourceFolder) -> None:
    write(root, "a.md")
    with pytest.raises(FileNotFoundError):
        folder.list_files(but=root / "rights.json")


def test_links_and_pipes_are_skipped_with_a_reason(
    root: Path, folder: SourceFolder, tmp_path: Path
) -> None:
    write(tmp_path, "outside/secret.md")
    (root / "file.md").symlink_to(tmp_path / "outside" / "secret.md")
    (root / "folder").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe.md")
    found = folder.list_files()
    assert not found.files
    assert found.skipped.keys() == {"file.md", "folder", "pipe.md"}
    assert found.may_have("folder/secret.md")


def test_a_name_that_is_not_utf_8_fails(root: Path, folder: SourceFolder) -> None:
    with open(os.path.join(os.fsencode(root), b"\xff.md"), "w"):
        found = folder.list_files()
    assert list(found.failed.values()) == ["its name is not UTF-8: rename it"]


def test_a_folder_that_becomes_a_link_is_not_followed(
    root: Path, folder: SourceFolder, tmp_path: Path
) -> None:
    write(tmp_path, "outside/a.md")
    write(root, "x/a.md")
    assert folder.list_files().files
    (root / "x").rename(root / "y")
    (root / "x").symlink_to(tmp_path / "outside")
    with pytest.raises(ImportFailed):
        folder.open("x/a.md")
    with folder.open("y/a.md") as file:
        assert file.read() == b"x/a.md"


def test_a_changed_file_is_detected(root: Path, folder: SourceFolder) -> None:
    write(root, "a.md", "b.md")
    with folder.open("a.md") as file, folder.open("b.md") as replaced:
        stamp, other = (FileStamp.of(os.fstat(it.fileno())) for it in (file, replaced))
        folder.check_unchanged("a.md", file, stamp)
        with open(root / "a.md", "a") as more:
            more.write("more")
        os.replace(root / "a.md", root / "b.md")
        for path, opened, before in (("a.md", file, stamp), ("b.md", replaced, other)):
            with pytest.raises(ImportFailed):
                folder.check_unchanged(path, opened, before)


def test_a_file_is_gone_only_while_its_folder_is_there(
    root: Path, folder: SourceFolder, tmp_path: Path
) -> None:
    write(root, "a.md")
    assert [folder.is_gone("a.md"), folder.is_gone("b.md"), folder.is_gone("x/b.md")] == [
        False,
        True,
        True,
    ]
    root.rename(tmp_path / "unmounted")
    assert not folder.is_gone("b.md")
    root.mkdir()
    assert not folder.is_gone("b.md")


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        ("*.pdf", "a/b.pdf", True),
        ("*.pdf", "a.md", False),
        ("a/*.pdf", "a/b.pdf", True),
        ("a/*.pdf", "a/b/c.pdf", False),
        ("a/**", "a/b/c.pdf", True),
        ("**/c.*", "c.pdf", True),
        ("**/b/*", "a/b/c.pdf", True),
        ("a/**", "b/a/c.pdf", False),
        ("\u00e9.md", "e\u0301.md", True),
        ("A.md", "a.md", False),
    ],
)
def test_patterns_match_names_or_whole_paths(pattern: str, path: str, is_match: bool) -> None:
    assert matches(path, [pattern]) is is_match


@pytest.mark.parametrize(
    ("age_s", "may_wait"), [(-3600, True), (0, True), (1, False), (10**9, False)]
)
def test_a_file_that_was_just_written_is_read_a_moment_later(age_s: int, may_wait: bool) -> None:
    changed_ns = time.time_ns() - age_s * 10**9
    wait_s = FileStamp(mtime_ns=0, ctime_ns=changed_ns, size=1).seconds_until_settled()
    assert 0 <= wait_s < 1
    assert may_wait or not wait_s
