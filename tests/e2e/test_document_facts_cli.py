"""Own fields, date, expiry and warnings of documents on the command line."""

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_file import document_path, read_document, write_document
from mcp_tools_proxy.domain.document import Document, DocumentSource, ImportWarning
from tests.support.documents_cli import Run


def note(root: Path) -> Document:
    return read_document(document_path(root, "acme", "note"))


@pytest.fixture
def imported(run: Run, root: Path, tmp_path: Path) -> Document:
    file = tmp_path / "note.md"
    file.write_text("# Note\n\nText.\n")
    done = run(
        *("import", file, "--tenant", "acme", "--tag", "a", "--date", "2027-01-31"),
        *("--metadata", "department=hr", "--metadata", "year=2027", "--expires", "2099-01-01"),
    )
    assert done.exit_code == 0
    return note(root)


def test_an_import_sets_own_facts(imported: Document, run: Run) -> None:
    assert (imported.date, imported.metadata) == ("2027-01-31", {"department": "hr", "year": 2027})
    assert imported.expires_at == datetime(2099, 1, 1, tzinfo=UTC)
    shown = run("show", "note", "--tenant", "acme").stdout
    assert "date      2027-01-31" in shown
    assert "metadata  department=hr; year=2027" in shown
    assert "expires   2099-01-01T00:00:00Z" in shown
    facts = {
        "date": "2027-01-31",
        "metadata": {"department": "hr", "year": 2027},
        "expires_at": "2099-01-01T00:00:00+00:00",
    }
    for command in (("show", "note", "--tenant", "acme"), ("list",)):
        answer = json.loads(run(*command, "--json").stdout)
        document = answer if "doc_id" in answer else answer["documents"][0]
        assert {**document, **facts} == document


def test_a_document_is_marked_untrusted_and_the_mark_is_removed(
    run: Run, root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "note.md"
    file.write_text("# Note\n\nText.\n")
    run("import", file, "--tenant", "acme", "--untrusted")
    assert note(root).is_untrusted
    run("import", file, "--tenant", "acme", "--replace")
    assert note(root).is_untrusted
    assert "untrusted" in run("show", "note", "--tenant", "acme").stdout
    run("edit", "note", "--tenant", "acme", "--tag", "a")
    assert note(root).is_untrusted
    assert "; untrusted" not in run("edit", "note", "--tenant", "acme", "--trusted").stdout
    assert not note(root).is_untrusted


def test_the_rights_file_of_a_folder_marks_its_files(run: Run, root: Path, tmp_path: Path) -> None:
    folder, rights = tmp_path / "share", tmp_path / "rights.json"
    (folder / "web").mkdir(parents=True)
    for name in ("own.md", "web/page.md"):
        (folder / name).write_text(f"# {name}\n\nText.\n")
    run("import", folder, "--tenant", "acme")
    rule = {"path": "web/*", "untrusted": True}
    rights.write_text(json.dumps({"files": [rule]}))
    run("import", folder, "--tenant", "acme", "--rights", rights)
    found = json.loads(run("list", "--tenant", "acme", "--json").stdout)["documents"]
    assert {it["doc_id"]: it.get("untrusted") for it in found} == {"own": None, "web/page": True}


def test_an_edit_changes_only_the_named_facts(imported: Document, run: Run, root: Path) -> None:
    done = run("edit", "note", "--tenant", "acme", "--metadata", "year=", "--metadata", "open=true")
    assert done.stdout == (
        "note  tags a; date 2027-01-31; department=hr; open=true; expires 2099-01-01T00:00:00Z\n"
    )
    assert note(root).metadata == {"department": "hr", "open": True}
    assert (note(root).tags, note(root).pages) == (("a",), imported.pages)
    run("edit", "note", "--tenant", "acme", "--tag", "", "--date", "", "--expires", "")
    found = note(root)
    assert (found.tags, found.date, found.expires_at) == ((), None, None)


@pytest.mark.parametrize(
    "options",
    [("--expires", "soon"), ("--date", "1.2.2027"), ("--metadata", "x"), ("--metadata", "=x")],
    ids=str,
)
def test_an_invalid_fact_is_refused(
    imported: Document, run: Run, root: Path, options: tuple[str, ...]
) -> None:
    assert run("edit", "note", "--tenant", "acme", *options).exit_code == 2
    assert note(root).metadata == imported.metadata


def test_show_prints_source_and_warnings_with_advice(run: Run, root: Path) -> None:
    document = Document(tenant_id="acme", doc_id="note", title="Note", pages=("one",))
    document = dataclasses.replace(
        document,
        source=DocumentSource("share", "a/note.pdf", "0", "1"),
        warnings=(ImportWarning("pages_without_text", "page 2 of 3 has no text"),),
    )
    write_document(root, document, replace=False)
    shown = run("show", "note", "--tenant", "acme").stdout
    assert "source    share: a/note.pdf" in shown
    assert "warning   page 2 of 3 has no text. If they are scanned, set MCP_PROXY_OCR" in shown
    (warning,) = json.loads(run("show", "note", "--tenant", "acme", "--json").stdout)["warnings"]
    assert warning["code"] == "pages_without_text"


def test_documents_are_removed_by_tag_or_tenant(run: Run, root: Path) -> None:
    for tenant, doc_id, tags in (
        *(("acme", "a", ("Old",)), ("acme", "b", ("x",)), ("acme", "c", ("old",))),
        ("globex", "a", ("old",)),
    ):
        document = Document(tenant_id=tenant, doc_id=doc_id, title=doc_id, pages=("x",), tags=tags)
        write_document(root, document, replace=False)
    by_tag = ("remove", "--tenant", "acme", "--tag", "old")
    dry = run(*by_tag, "--dry-run")
    assert dry.stdout == "a  would be removed\nc  would be removed\n"
    assert json.loads(run(*by_tag, "--yes", "--json").stdout) == {
        "removed": ["a", "c"],
        "missing": [],
    }
    assert run("list").stdout.count("\n") == 2
    assert run("remove", "--tenant", "acme", "--all", "--yes").exit_code == 0
    assert [it["tenant_id"] for it in json.loads(run("list", "--json").stdout)["documents"]] == [
        "globex"
    ]


@pytest.mark.parametrize("options", [(), ("--tag", "x", "--all"), ("a", "--all")], ids=str)
def test_remove_needs_one_choice(run: Run, options: tuple[str, ...]) -> None:
    assert run("remove", *options, "--tenant", "acme").exit_code == 2


def test_an_expiry_outside_of_the_calendar_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "note.md"
    file.write_text("# Note\n")
    done = run("import", file, "--tenant", "acme", "--expires", "9999-12-31T23:59:59-14:00")
    assert done.exit_code == 2
    assert "should be a date" in done.stderr
