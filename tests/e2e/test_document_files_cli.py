"""``documents show`` and ``documents remove`` on the command line (contract §8)."""

import json
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_file import (
    document_path,
    dump_document,
    read_document,
    write_document,
)
from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Document, Section
from tests.e2e.terminal import run_on_terminal
from tests.support.documents_cli import Run
from tests.support.program import UNLIMITED, Program, started, wait_until

BOOK = Document(
    tenant_id="acme",
    doc_id="book",
    title="The\x1b[31m book",
    pages=("one", "", "", "four", "", "шесть"),
    sections={
        "a": Section(section_id="a", title="Part A", page_start=1, page_end=4),
        "b": Section(section_id="b", title="Part B", page_start=6, page_end=6),
    },
    tags=("vpn", "manual"),
    language="de",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "documents"
    write_document(root, BOOK, replace=False)
    return root


def another(doc_id: str, tenant_id: str = "acme") -> Document:
    return Document(tenant_id=tenant_id, doc_id=doc_id, title="Another", pages=("text",))


def test_show_prints_everything_except_the_text(run: Run, root: Path) -> None:
    path = document_path(root, "acme", "book")
    assert run("show", "book", "--tenant", "acme").stdout.splitlines() == [
        "doc_id    book",
        "tenant    acme",
        "title     The[31m book",
        "tags      vpn, manual",
        "language  de",
        "readers   all users of the tenant",
        "pages     6 (no text: 2-3, 5)",
        f"size      12 characters of text, {path.stat().st_size} bytes of file",
        f"file      {path}",
        f"version   {version_of(read_document(path))}",
        "sections  2",
        "  a  Part A  pages 1-4",
        "  b  Part B  page 6",
    ]


def test_show_can_print_json(run: Run, root: Path) -> None:
    path = document_path(root, "acme", "book")
    assert json.loads(run("show", "book", "--tenant", "acme", "--json").stdout) == {
        "doc_id": "book",
        "tenant_id": "acme",
        "title": "The\x1b[31m book",
        "tags": ["vpn", "manual"],
        "language": "de",
        "readers": None,
        "pages": 6,
        "pages_without_text": [2, 3, 5],
        "sections": [
            {"section_id": "a", "title": "Part A", "page_start": 1, "page_end": 4},
            {"section_id": "b", "title": "Part B", "page_start": 6, "page_end": 6},
        ],
        "text_chars": 12,
        "version": version_of(read_document(path)),
        "older_versions": [],
        "file": str(path),
        "file_bytes": path.stat().st_size,
    }


def test_show_lists_the_stored_versions(run: Run, tmp_path: Path) -> None:
    shown = []
    for text in ("one", "two"):
        (tmp_path / "note.md").write_text(text)
        run("import", str(tmp_path / "note.md"), "--tenant", "acme", "--replace")
        shown.append(json.loads(run("show", "note", "--tenant", "acme", "--json").stdout))
    assert shown[1]["older_versions"] == [shown[0]["version"]]
    lines = run("show", "note", "--tenant", "acme").stdout.splitlines()
    assert f"older     {shown[0]['version']}" in lines


@pytest.mark.parametrize("command", ["show", "remove"])
@pytest.mark.parametrize(("doc_id", "tenant"), [("none", "acme"), ("book", "other"), ("", "acme")])
def test_a_missing_document_is_one_line_and_exit_code_1(
    run: Run, root: Path, command: str, doc_id: str, tenant: str
) -> None:
    result = run(command, doc_id, "--tenant", tenant)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert f"tenant {tenant} does not have this document" in result.stderr
    assert document_path(root, "acme", "book").exists()


@pytest.mark.parametrize("command", ["show", "remove"])
def test_a_tenant_is_required(run: Run, command: str) -> None:
    assert run(command, "book").exit_code == 2


def test_show_explains_an_invalid_file(run: Run, root: Path) -> None:
    document_path(root, "acme", "book").write_text("{")
    result = run("show", "book", "--tenant", "acme")
    assert (result.exit_code, "is not strict JSON" in result.stderr) == (1, True)


def test_remove_accepts_several_documents_and_names_missing_ones(run: Run, root: Path) -> None:
    for document in (another("x"), another("y"), another("x", "other")):
        write_document(root, document, replace=False)
    result = run("remove", "x", "none", "book", "x", "--tenant", "acme")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stdout.splitlines() == [
        f"{doc_id}  removed  {document_path(root, 'acme', doc_id)}" for doc_id in ("x", "book")
    ]
    acme, other = "acme\ty\tAnother\t1\t0\n", "other\tx\tAnother\t1\t0\n"
    assert run("list").stdout == acme + other
    assert run("list", "--tenant", "acme").stdout == acme


def test_removing_a_document_removes_all_its_copies(run: Run, root: Path) -> None:
    (root / "acme" / "copy.json").write_bytes(dump_document(BOOK))
    (root / "copy.json").write_bytes(dump_document(BOOK))
    assert run("remove", "book", "--tenant", "acme").exit_code == 0
    assert run("list").stdout == ""


@pytest.mark.parametrize("content", [b"{", dump_document(another("book", "other"))])
def test_an_unusable_file_is_removed_by_its_path(run: Run, root: Path, content: bytes) -> None:
    document_path(root, "acme", "book").write_bytes(content)
    assert run("remove", "book", "--tenant", "acme").exit_code == 0
    assert not document_path(root, "acme", "book").exists()


def test_a_file_in_the_folder_of_another_tenant_does_not_belong_to_that_tenant(
    run: Run, root: Path
) -> None:
    smuggled = root / "acme" / "smuggled.json"
    smuggled.write_bytes(dump_document(another("x", "other")))
    listed = run("list")
    assert (listed.stdout.count("\n"), listed.stderr.startswith("acme/smuggled.json: ")) == (
        1,
        True,
    )
    assert run("remove", "x", "--tenant", "other").exit_code == 1
    assert smuggled.exists()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("options", "typed", "removed"),
    [((), "n\n", False), ((), "\n", False), ((), "y\n", True), (("--yes",), "", True)],
)
def test_on_a_terminal_it_asks_for_confirmation(
    tmp_path: Path, root: Path, options: tuple[str, ...], typed: str, removed: bool
) -> None:
    seen = run_on_terminal(
        tmp_path, "documents", "remove", "book", "--tenant", "acme", *options, typed=typed
    )
    prompted = 'Remove 1 document of tenant "acme": "book"?' in seen.text
    deleted = not document_path(root, "acme", "book").exists()
    assert (prompted, deleted, seen.exit_code) == (not options, removed, 0 if removed else 1)


@pytest.mark.e2e
def test_a_running_service_forgets_a_removed_document(tmp_path: Path, root: Path, run: Run) -> None:
    with started(tmp_path, UNLIMITED) as program:
        wait_until(lambda: answer(program) == "ok")
        run("remove", "book", "--tenant", "acme")
        wait_until(lambda: answer(program) == "DOCUMENT_NOT_FOUND")


def answer(program: Program) -> object:
    call = {
        "tool_name": "read_doc_metadata",
        "arguments": {"doc_id": "book"},
        "user": {"user_id": "u", "tenant_id": "acme"},
    }
    envelope = program.http.post("/internal/mcp/execute", json=call).json()
    return envelope["error"]["code"] if "error" in envelope else envelope["status"]
