"""``documents import FOLDER`` (contract §8)."""

import asyncio
import json
import os
import shlex
import signal
import stat
import subprocess
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.cli.documents.source_folder import CHANGED, FileStamp, SourceFolder
from mcp_tools_proxy.documents.document_file import document_path, read_document
from mcp_tools_proxy.domain.document import Document, Readers
from tests.support.bounds import BOUND_S
from tests.support.documents_cli import Run, documents_commands
from tests.support.office_files import docx_of, zip_of
from tests.support.postgres_databases import Databases
from tests.support.program import wait_until
from tests.support.program_launch import launch


@pytest.fixture
def share(tmp_path: Path) -> Path:
    folder = tmp_path / "share"
    write(folder, "a.md", "b/c.md", "b/d.md", "e.md", "f.md", "g.md")
    return folder


def write(folder: Path, *paths: str, text: str = "Text.") -> None:
    """Write files with an age at which their stamps can be relied upon."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"# {path}\n\n{text}\n", encoding="utf-8")


def stored(root: Path, doc_id: str) -> Document:
    return read_document(document_path(root, "t", doc_id))


def doc_ids(run: Run) -> set[str]:
    return {it["doc_id"] for it in json.loads(run("list", "--json").stdout)["documents"]}


def imported(run: Run, folder: Path, *options: object) -> Mapping[str, Any]:
    result = run("import", folder, "--tenant", "t", "--json", *options)
    found: dict[str, Any] = json.loads(result.stdout)
    return found | {"exit_code": result.exit_code, "stderr": result.stderr}


def files_of(entries: list[dict[str, str]]) -> list[str]:
    return sorted(it["file"] for it in entries)


def test_a_folder_is_imported_with_its_source_and_paths(run: Run, root: Path, share: Path) -> None:
    result = run("import", share, "--tenant", "t", "--tag", "hr")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "6 imported, 0 unchanged, 0 failed, 0 removed"
    document = stored(root, "b/c")
    assert document.source is not None
    assert document.source[:2] == ("share", "b/c.md")
    assert (document.title, document.tags) == ("b/c.md", ("hr",))


def test_only_changed_files_are_imported_again(run: Run, share: Path) -> None:
    imported(run, share)
    before = (share / "e.md").stat()
    write(share, "b/c.md", text="New.")
    write(share, "new.md")
    os.utime(share / "a.md")
    write(share, "e.md", text="text.")  # same size and time
    os.utime(share / "e.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    again = imported(run, share)
    assert files_of(again["imported"]) == ["b/c.md", "e.md", "new.md"]
    assert (again["unchanged"], again["exit_code"]) == (4, 0)


def test_other_options_import_the_files_again(run: Run, root: Path, share: Path) -> None:
    imported(run, share)
    assert len(imported(run, share, "--language", "de")["imported"]) == 6
    assert imported(run, share, "--language", "de")["unchanged"] == 6
    with_ocr = imported(run, share, "--language", "de", "--ocr-languages", "eng")
    assert with_ocr["unchanged"] == 6  # text needs no OCR
    assert stored(root, "a").language == "de"


@pytest.mark.parametrize("path", ["b/it's [1] *.txt", "top.txt"])
def test_advice_on_a_doubtful_encoding_is_about_the_same_document(
    run: Run, root: Path, tmp_path: Path, path: str
) -> None:
    folder, rights = tmp_path / "texts", tmp_path / "rights.json"
    write(folder, "c.md", "deeper/top.txt", "b/it's 1 x.txt", path)
    (folder / path).write_bytes("Zażółć gęślą jaźń, Łódź.\n".encode("mac-latin2"))
    rules = [{"path": "**", "readers": {"roles": ["hr"]}, "tags": ["hr"]}]
    rights.write_text(json.dumps({"files": rules}))
    options = ["--source", "handbook", "--rights", rights]
    (warned,) = imported(run, folder, *options)["warnings"]
    (warning,) = warned["warnings"]
    assert warning["code"] == "guessed_encoding"
    advised = shlex.split(warning["advice"].partition(" but ")[2].partition(", or")[0])
    assert advised[-2:] == ["--encoding", "windows-1252"]
    advised[-1] = "mac-latin2"
    again = imported(run, folder, *options, *advised)
    assert (files_of(again["imported"]), again["warnings"]) == ([path], [])
    assert len(doc_ids(run)) == 4
    document = stored(root, again["imported"][0]["doc_id"])
    assert "Zażółć gęślą" in document.pages[0]
    assert document.source is not None
    assert document.source[:2] == ("handbook", path)
    assert (document.readers, document.tags) == (Readers(roles=frozenset({"hr"})), ("hr",))
    assert imported(run, folder, *options, "--checksum")["unchanged"] == 4
    assert imported(run, folder, *options, "--language", "pl")["warnings"] == []


def test_a_run_on_another_machine_imports_nothing_again(
    root: Path, share: Path, tmp_path: Path
) -> None:
    imported(documents_commands(root), share)
    other = documents_commands(root, cache_dir=tmp_path / "other cache")
    assert imported(other, share)["unchanged"] == 6
    assert imported(other, share, "--checksum")["unchanged"] == 6


def test_similar_names_are_different_documents(run: Run, root: Path, tmp_path: Path) -> None:
    names = ["x/y.md", "x-y.md", "A.md", "a.md"]
    names += [unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD")]
    folder = tmp_path / "names"
    write(folder, *names)
    imported(run, folder)
    ids = doc_ids(run)
    assert len(ids) == len(names)
    assert {stored(root, it).source[1] for it in ids} == {*names}  # type: ignore[index]


def test_the_content_of_files_without_a_known_suffix_decides(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "share"
    write(folder, "a.md", "notes")
    (folder / "rules.dat").write_bytes(docx_of("Twenty days."))
    (folder / "letter").write_bytes(docx_of("Dear Ann,"))
    (folder / "staff.export").write_text("name;days\nAnn;20\nEva;30\n")
    (folder / "old.zip").write_bytes(zip_of({"a.txt": b"x"}))
    (folder / "new.zip").write_bytes(zip_of({"b.txt": b"x"}))
    (folder / "scan").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "tool.py").write_text("print()")
    found = imported(run, folder)
    assert found["failed"] == []
    assert {it["file"]: it["doc_id"] for it in found["imported"]} == {
        "a.md": "a",
        "letter": "letter",
        "notes": "notes",
        "rules.dat": "rules",
        "staff.export": "staff",
    }
    assert found["exit_code"] == 0
    assert found["skipped"] == ["new.zip", "old.zip", "scan", "tool.py"]
    assert "skipped new.zip and 1 other file: is an archive: unpack it" in found["stderr"]
    assert "skipped scan: is a picture: " in found["stderr"]


def test_unchanged_files_are_not_opened(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "share"
    write(folder, "a.md", "notes")
    (folder / "old.zip").write_bytes(zip_of({"a.txt": b"x"}))
    for file in folder.iterdir():
        os.utime(file, (1, 1))
    monkeypatch.setattr("mcp_tools_proxy.cli.documents.file_digests._SETTLED_NS", 0)
    imported(run, folder)
    monkeypatch.setattr(SourceFolder, "open", lambda *_: pytest.fail("a file was opened"))
    again = imported(run, folder, "--prune")
    assert (again["unchanged"], again["skipped"]) == (2, ["old.zip"])
    assert "skipped old.zip: is an archive" in again["stderr"]


def test_suffixes_in_include_are_documents(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "share"
    write(folder, "a.md", "b.log", "c.py")
    found = imported(run, folder, "--include", "*.log", "--include", "*.md")
    assert files_of(found["imported"]) == ["a.md", "b.log"]


def test_a_file_over_the_memory_of_an_import_is_not_copied(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "share"
    write(folder, "a.md", "large.txt")
    os.truncate(folder / "large.txt", 2**40)
    found = imported(run, folder)
    assert [it["doc_id"] for it in found["imported"]] == ["a"]
    assert "over 1 GiB" in found["failed"][0]["error"]


@pytest.mark.parametrize("name", [b"pipe.md", b"socket.md", b"\xff.md"])
def test_a_path_that_is_not_a_file_is_refused(run: Run, tmp_path: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(tmp_path), name)
    if name == b"pipe.md":
        os.mkfifo(path)
    elif name == b"socket.md":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    else:
        Path(os.fsdecode(path)).write_text("text")
    result = run("import", os.fsdecode(path), "--tenant", "t")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1


def test_a_name_adds_no_lines_to_the_report(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "share"
    write(folder, "a\nremoved  b.md", "c\nd.md")
    (folder / "c\nd.md").write_bytes(b"")
    result = run("import", folder, "--tenant", "t")
    assert len(result.stdout.splitlines()) == 2
    assert len(result.stderr.splitlines()) == 1


def test_a_single_document_stays_and_can_be_adopted(run: Run, root: Path, share: Path) -> None:
    run("import", share / "a.md", "--tenant", "t")
    imported(run, share)
    assert stored(root, "a").source is None
    assert stored(root, "a.md").source is not None
    (share / "e.md").rename(share / "z.md")
    run("import", share / "z.md", "--tenant", "t")
    imported(run, share, "--replace")
    assert stored(root, "z").source is not None


def test_a_dry_run_changes_nothing(run: Run, root: Path, share: Path) -> None:
    result = run("import", share, "--tenant", "t", "--dry-run")
    assert "would be imported  b/c.md  -> b/c" in result.stdout
    assert (result.exit_code, root.exists()) == (0, False)
    imported(run, share)
    (share / "a.md").unlink()
    result = run("import", share, "--tenant", "t", "--dry-run", "--prune")
    assert "would be removed  a.md  -> a" in result.stdout
    assert "a" in doc_ids(run)


def test_prune_removes_only_documents_whose_files_are_gone(
    run: Run, share: Path, tmp_path: Path
) -> None:
    run("import", share / "a.md", "--tenant", "t", "--doc-id", "upload")
    other = tmp_path / "other"
    write(other, "x.md", "y.md")
    imported(run, share)
    imported(run, other)
    run("import", share, "--tenant", "u")
    (share / "a.md").unlink()
    assert imported(run, share)["removed"] == []
    (share / "f.md").write_bytes(b"")
    pruned = imported(run, share, "--prune")
    assert files_of(pruned["removed"]) == ["a.md"]
    assert files_of(pruned["failed"]) == ["f.md"]
    assert doc_ids(run) == {"upload", "x", "y", "a", "b/c", "b/d", "e", "f", "g"}
    listed = json.loads(run("list", "--json", "--tenant", "u").stdout)["documents"]
    assert len(listed) == 6


def test_prune_with_include_leaves_other_files_alone(run: Run, share: Path) -> None:
    imported(run, share)
    (share / "a.md").unlink()
    assert imported(run, share, "--prune", "--include", "b/*")["removed"] == []
    assert files_of(imported(run, share, "--prune", "--include", "*.md")["removed"]) == ["a.md"]


def test_prune_refuses_an_empty_folder(run: Run, share: Path) -> None:
    imported(run, share)
    for path in share.rglob("*.md"):
        path.unlink()
    refused = imported(run, share, "--prune-all")
    assert (refused["exit_code"], refused["removed"]) == (1, [])
    assert "has no files" in refused["stderr"]
    assert len(doc_ids(run)) == 6


def test_a_missing_folder_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    result = run("import", tmp_path / "unmounted", "--tenant", "t", "--prune")
    assert (result.exit_code, "is not a folder" in result.stderr) == (2, True)


def test_prune_refuses_many_documents(run: Run, share: Path) -> None:
    imported(run, share)
    for name in ("a.md", "e.md"):
        (share / name).unlink()
    refused = imported(run, share, "--prune")
    assert (refused["exit_code"], refused["removed"]) == (1, [])
    assert "2 of 6 documents" in refused["stderr"]
    assert files_of(imported(run, share, "--prune-all")["removed"]) == ["a.md", "e.md"]


def test_folders_of_the_same_name_do_not_replace_or_remove_each_others_documents(
    run: Run, root: Path, share: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "share"
    write(other, "b/x.md", "g.md")
    write(other, "a.md", text="Other.")
    imported(run, share)
    second = imported(run, other, "--prune")
    assert (files_of(second["imported"]), second["unchanged"]) == (["b/x.md"], 1)
    assert (files_of(second["failed"]), second["removed"]) == (["a.md"], [])
    assert "kept 4 documents" in second["stderr"]
    first = imported(run, share, "--prune-all")
    assert (first["removed"], first["unchanged"], first["exit_code"]) == ([], 6, 1)
    assert len(first["kept"]) == 1
    assert doc_ids(run) == {"a", "b/c", "b/d", "b/x", "e", "f", "g"}
    assert "Other." not in stored(root, "a").pages[0]


def test_readers_of_another_folders_documents_stay(
    run: Run, root: Path, share: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "share"
    write(other, "a.md")
    rights = tmp_path / "rights.json"
    rights.write_text(json.dumps({"files": [{"path": "**", "readers": {"users": ["eve"]}}]}))
    imported(run, share)
    assert files_of(imported(run, other, "--rights", rights)["failed"]) == ["a.md"]
    assert stored(root, "a").readers is None


@pytest.mark.parametrize("prune", ["--prune", "--prune-all"])
def test_a_named_source_can_be_mounted_elsewhere(
    run: Run, root: Path, share: Path, tmp_path: Path, prune: str
) -> None:
    imported(run, share)
    elsewhere = share.rename(tmp_path / "mounted")
    (elsewhere / "a.md").unlink()
    write(elsewhere, "e.md", text="New.")
    moved = imported(run, elsewhere, "--source", "share", prune)
    assert (files_of(moved["imported"]), files_of(moved["removed"])) == (["e.md"], ["a.md"])
    assert (moved["unchanged"], moved["exit_code"]) == (4, 0)


def test_prune_keeps_the_documents_of_an_empty_subfolder(
    run: Run, share: Path, tmp_path: Path
) -> None:
    write(share, *(f"n{number}.md" for number in range(10)), "lost/x/y.md")
    imported(run, share)
    (share / "a.md").unlink()
    (share / "lost/x/y.md").unlink()
    (share / "lost/x").rmdir()
    (share / "lost/.hidden").touch()
    pruned = imported(run, share, "--prune")
    assert (files_of(pruned["removed"]), pruned["exit_code"]) == (["a.md"], 1)
    assert "lost: has no files" in pruned["stderr"]
    assert "lost/x/y" in doc_ids(run)
    again = imported(run, share, "--prune-all", "--dry-run")
    assert files_of(again["removed"]) == ["lost/x/y.md"]
    (share / "lost/.hidden").unlink()
    (share / "lost").rmdir()
    removed = imported(run, share, "--prune")
    assert (files_of(removed["removed"]), removed["exit_code"]) == (["lost/x/y.md"], 0)


def test_the_rights_file_sets_readers_and_tags(
    run: Run, root: Path, share: Path, tmp_path: Path
) -> None:
    rights = tmp_path / "rights.json"
    rules = [
        {"path": "b/c.md", "readers": {"users": ["ann"]}, "tags": ["c"]},
        {"path": "B/D.md", "readers": {"roles": ["hr"]}},  # a share of Windows ignores case
    ]
    rights.write_text(json.dumps({"files": rules}))
    imported(run, share, "--rights", rights)
    assert stored(root, "b/c").readers == Readers(users=frozenset({"ann"}))
    assert stored(root, "b/c").tags == ("c",)
    assert stored(root, "b/d").readers == Readers(roles=frozenset({"hr"}))
    assert stored(root, "a").readers is None

    run("rights", "a", "--tenant", "t", "--nobody")
    rights.write_text(json.dumps({"files": [{"path": "b/*", "all_users": True}]}))
    write(share, "a.md", "b/d.md", text="New.")
    again = imported(run, share, "--rights", rights)
    assert files_of(again["imported"]) == ["a.md", "b/c.md", "b/d.md"]  # c has other tags
    assert stored(root, "b/c").readers is stored(root, "b/d").readers is None
    assert stored(root, "a").readers == Readers()  # stays, as no rule matches

    rights.write_text(json.dumps({"files": [{"path": "e.md", "readers": {}}]}))
    assert imported(run, share, "--rights", rights)["new_readers"] == 1
    assert stored(root, "e").readers == Readers()


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
def test_patterns_without_an_effect_are_named(
    run: Run, share: Path, tmp_path: Path, option: tuple[str, ...]
) -> None:
    rights = tmp_path / "rights.json"
    used = [{"path": path, "readers": {"roles": ["hr"]}} for path in ("/b/**", "B/**", "*")]
    unused: list[dict[str, object]] = [
        {"path": path, "readers": {}} for path in ("b/", "b", "none/**", "../**")
    ]
    rights.write_text(json.dumps({"files": unused + used}))
    result = imported(
        run, share, "--rights", rights, "--include", "B/", "--include", "*.md", *option
    )
    assert (result["exit_code"], len(result["imported"])) == (0, 6)
    named = [it["message"] for entry in result["warnings"] for it in entry["warnings"]]
    assert [it.split('"')[1] for it in named] == ["b/", "b", "none/**", "../**", "B/**"]
    assert ['"b/**"' in it for it in named[:4]] == [True, True, False, False]
    assert all(it in result["stderr"] for it in named)
    assert '--include "B/": matches no file; did you mean "b/**"?' in result["stderr"]


def test_half_of_a_file_is_not_stored(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "share"
    write(folder, "a.md", text="First half.")
    wait = FileStamp.seconds_until_settled

    def write_meanwhile(stamp: FileStamp) -> float:
        with (folder / "a.md").open("a") as file:
            file.write("Second half.")
        return wait(stamp)

    with monkeypatch.context() as patch:
        patch.setattr(FileStamp, "seconds_until_settled", write_meanwhile)
        assert imported(run, folder)["failed"] == [{"file": "a.md", "error": CHANGED}]
    assert doc_ids(run) == set()
    imported(run, folder)
    assert "Second half." in stored(root, "a").pages[0]


@pytest.mark.parametrize("language", ["german", "de_DE", "klingon-x"])
def test_a_wrong_language_is_a_usage_error(run: Run, share: Path, language: str) -> None:
    result = run("import", share, "--tenant", "t", "--language", language)
    assert result.exit_code == 2
    assert "BCP 47 tag such as de" in " ".join(result.stderr.split())


def test_content_cannot_set_rights(run: Run, root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    text = "---\nreaders: {users: [mallory]}\nall_users: true\n---\n# A\n\nText.\n"
    (folder / "a.md").write_text(text)
    rights = folder / "rights.md"
    rights.write_text(json.dumps({"files": [{"path": "*", "readers": {"users": ["ann"]}}]}))
    assert files_of(imported(run, folder, "--rights", rights)["imported"]) == ["a.md"]
    assert stored(root, "a").readers == Readers(users=frozenset({"ann"}))
    imported(run, folder)
    assert stored(root, "a").readers == Readers(users=frozenset({"ann"}))
    assert stored(root, "rights").readers is None


@pytest.mark.parametrize(
    "content", ["", "[]", '{"files": [{"path": "*", "reader": {}}]}', '{"files": [{"path": 1}]}']
)
def test_nothing_is_imported_with_an_invalid_rights_file(
    run: Run, root: Path, share: Path, tmp_path: Path, content: str
) -> None:
    rights = tmp_path / "rights.json"
    rights.write_text(content)
    result = run("import", share, "--tenant", "t", "--rights", rights)
    assert (result.exit_code, root.exists()) == (2, False)
    assert str(rights) in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("a.md", "--prune"), ("a.md", "b"), (".", "--doc-id", "x"), (".", "--title", "x")],
)
def test_options_that_do_not_fit_are_usage_errors(
    run: Run, share: Path, arguments: tuple[str, ...]
) -> None:
    first, *others = arguments
    second = [share / it if it == "b" else it for it in others]
    assert run("import", share / first, *second, "--tenant", "t").exit_code == 2


def test_a_second_run_at_the_same_time_is_refused(share: Path, root: Path, tmp_path: Path) -> None:
    process = launch(
        ["documents", "import", str(share), "--tenant", "t", "--jobs", "1"],
        tmp_path,
        {"MCP_PROXY_CACHE_DIR": str(tmp_path / "cache")},
        streams=(None, subprocess.PIPE, subprocess.PIPE),
    )
    try:
        wait_until(lambda: any(root.rglob("*.json")))
        result = documents_commands(root)("import", share, "--tenant", "t")
        assert (result.exit_code, "another import" in result.stderr) == (1, True)
        process.send_signal(signal.SIGINT)
        assert process.wait(BOUND_S) == 130
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout as out, process.stderr as errors:
            assert b" imported, " in out.read()
            assert b"interrupted" in errors.read()
    finally:
        process.kill()
    again = imported(documents_commands(root), share)
    assert len(again["imported"]) + again["unchanged"] == 6
    assert again["unchanged"] >= 1


def test_without_a_cache_folder_a_second_run_is_possible_and_that_is_said(
    root: Path, share: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    result = imported(documents_commands(root, cache_dir=tmp_path / "file"), share)
    assert (result["exit_code"], len(result["imported"])) == (0, 6)
    assert "set MCP_PROXY_CACHE_DIR" in result["stderr"]


def test_a_folder_is_imported_to_postgresql(root: Path, share: Path, databases: Databases) -> None:
    database = asyncio.run(databases.new())
    run = documents_commands(
        root, documents_url=database.url, documents_owner_url=database.owner_url
    )
    run("migrate")
    assert len(imported(run, share)["imported"]) == 6
    run("import", share, "--tenant", "u")
    (share / "a.md").unlink()
    write(share, "e.md", text="New.")
    again = imported(run, share, "--prune")
    assert files_of(again["imported"]) == ["e.md"]
    assert files_of(again["removed"]) == ["a.md"]
    assert (again["unchanged"], again["exit_code"]) == (4, 0)
    listed = json.loads(run("list", "--json", "--tenant", "u").stdout)["documents"]
    assert len(listed) == 6
    assert not root.exists()


def test_pages_of_programs_are_read_if_saved_from_a_browser_or_named(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "saved.asp").write_text("<html><body><p>Fees are due in May.</body></html>")
    (folder / "shop.php").write_text("<html><body><?php show() ?><p>Fees</body></html>")
    result = imported(run, folder)
    assert result["skipped"] == ["shop.php"]
    assert doc_ids(run) == {"saved"}
    named = imported(run, folder, "--include", "*.php")
    assert named["exit_code"] == 0
    assert doc_ids(run) == {"saved", "shop"}
