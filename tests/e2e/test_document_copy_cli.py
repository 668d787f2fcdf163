"""``documents copy`` and ``migrate``, and the other commands over PostgreSQL."""

import asyncio
import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_file import document_path, read_document, write_document
from mcp_tools_proxy.documents.postgres.schema import newest
from mcp_tools_proxy.domain.document import Readers
from tests.support.builders import make_document
from tests.support.documents_cli import Run, documents_commands
from tests.support.postgres_databases import Databases, PostgresDatabase

BOOK = make_document(tenant_id="acme", doc_id="book", title="Book", pages=("one", "two\x00"))
PAYROLL = make_document(
    tenant_id="acme", doc_id="payroll", readers=Readers(roles=frozenset({"hr"}))
)
OTHER = make_document(tenant_id="globex", doc_id="book", title="Other")


@pytest.fixture
def database(databases: Databases) -> PostgresDatabase:
    return asyncio.run(databases.new())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "documents"
    for document in (BOOK, PAYROLL, OTHER):
        write_document(root, document, replace=False)
    return root


@pytest.fixture
def run_with(root: Path) -> Callable[..., Run]:
    return functools.partial(documents_commands, root)


@pytest.fixture
def run(run_with: Callable[..., Run]) -> Run:
    return run_with()


@pytest.fixture
def run_sql(run_with: Callable[..., Run], database: PostgresDatabase) -> Run:
    """Run commands over PostgreSQL, as the gateway's role and as the owner."""
    return run_with(documents_url=database.url, documents_owner_url=database.owner_url)


def test_a_folder_is_copied_to_another_and_later_only_new_documents_are(
    run: Run, root: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target folder"
    first = run("copy", "--from", root, "--to", f"file://{str(target).replace(' ', '%20')}")
    assert first.stdout == "3 documents copied and verified, 0 unchanged, 0 failed\n"
    for document in (BOOK, PAYROLL, OTHER):
        copied = read_document(document_path(target, document.tenant_id, document.doc_id))
        assert (copied.pages, copied.readers) == (document.pages, document.readers)
    again = run("copy", "--from", root, "--to", target, "--json")
    assert json.loads(again.stdout) == {"copied": 0, "unchanged": 3, "failed": []}


def test_a_folder_is_copied_to_postgresql_and_back(
    run_sql: Run, database: PostgresDatabase, root: Path, tmp_path: Path
) -> None:
    there = run_sql("copy", "--from", root, "--to", database.url)
    assert (there.exit_code, there.stdout) == (
        0,
        "3 documents copied and verified, 0 unchanged, 0 failed\n",
    )
    listed = json.loads(run_sql("list", "--json").stdout)
    assert [(it["tenant_id"], it["doc_id"], it["readers"]) for it in listed["documents"]] == [
        ("acme", "book", None),
        ("acme", "payroll", {"users": [], "roles": ["hr"]}),
        ("globex", "book", None),
    ]
    back = tmp_path / "back"
    assert run_sql("copy", "--from", database.owner_url, "--to", back).exit_code == 0
    for path in sorted(root.rglob("*.json")):
        assert (back / path.relative_to(root)).read_bytes() == path.read_bytes()


def test_only_the_given_tenants_are_copied(run: Run, root: Path, tmp_path: Path) -> None:
    run("copy", "--from", root, "--to", tmp_path / "target", "--tenant", "globex")
    assert [path.parent.name for path in (tmp_path / "target").rglob("*.json")] == ["globex"]


def test_another_version_at_the_target_is_replaced_only_with_the_option(
    run: Run, root: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    newer = make_document(tenant_id="acme", doc_id="book", pages=("newer",))
    write_document(target, newer, replace=False)
    refused = run("copy", "--from", root, "--to", target)
    assert refused.exit_code == 1
    assert refused.stdout == "2 documents copied and verified, 0 unchanged, 1 failed\n"
    assert "acme  book: the target has a different version" in refused.stderr
    assert read_document(document_path(target, "acme", "book")).pages == ("newer",)
    assert run("copy", "--from", root, "--to", target, "--replace").exit_code == 0
    assert read_document(document_path(target, "acme", "book")).pages == BOOK.pages


def test_different_readers_at_the_target_are_updated(run: Run, root: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    run("copy", "--from", root, "--to", target)
    run("rights", "book", "--tenant", "acme", "--nobody")
    assert run("copy", "--from", root, "--to", target).exit_code == 0
    assert read_document(document_path(target, "acme", "book")).readers == Readers()


def test_files_that_cannot_be_copied_are_failures(run: Run, root: Path, tmp_path: Path) -> None:
    (root / "acme" / "broken.json").write_text("{", encoding="utf-8")
    copied = run("copy", "--from", root, "--to", tmp_path / "target")
    assert copied.exit_code == 1
    assert copied.stdout == "3 documents copied and verified, 0 unchanged, 1 failed\n"
    assert copied.stderr.startswith("acme/broken.json: ")
    shown = run("copy", "--from", root, "--to", tmp_path / "target", "--json")
    assert [it["file"] for it in json.loads(shown.stdout)["failed"]] == ["acme/broken.json"]
    others = run("copy", "--from", root, "--to", tmp_path / "target", "--tenant", "globex")
    assert others.exit_code == 0


def test_a_missing_source_is_refused(run: Run, tmp_path: Path) -> None:
    refused = run("copy", "--from", tmp_path / "misspelt", "--to", tmp_path / "target")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "misspelt is not a folder" in refused.stderr
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("url", ["http://host/x", "", "s3://bucket"])
def test_a_url_of_another_kind_is_refused(run: Run, root: Path, url: str) -> None:
    refused = run("copy", "--from", root, "--to", url)
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "postgresql://" in refused.stderr


def test_only_the_owner_can_copy_all_tenants_of_postgresql(
    run_with: Callable[..., Run], database: PostgresDatabase, tmp_path: Path
) -> None:
    run = run_with(documents_url=database.url)
    assert "MCP_PROXY_DOCUMENTS_OWNER_URL" in run("list").stderr
    assert run("list").exit_code == 1
    refused = run("copy", "--from", database.url, "--to", tmp_path / "target")
    assert (refused.exit_code, "MCP_PROXY_DOCUMENTS_OWNER_URL" in refused.stderr) == (1, True)
    assert run("list", "--tenant", "acme").exit_code == 0


def test_the_other_commands_work_over_postgresql(run_sql: Run, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("# A note\n\nText.\n", encoding="utf-8")
    imported = run_sql("import", note, "--tenant", "acme", "--json")
    (result,) = json.loads(imported.stdout)["results"]
    assert (result["doc_id"], result["place"]) == ("note", "postgresql")
    assert run_sql("import", note, "--tenant", "acme").exit_code == 1
    assert run_sql("rights", "note", "--tenant", "acme", "--role", "it").exit_code == 0
    note.write_text("# Another\n\nText.\n", encoding="utf-8")
    assert run_sql("import", note, "--tenant", "acme", "--replace").exit_code == 0
    shown = json.loads(run_sql("show", "note", "--tenant", "acme", "--json").stdout)
    assert (shown["title"], shown["readers"]) == ("Another", {"users": [], "roles": ["it"]})
    assert "file" not in shown
    removed = run_sql("remove", "note", "none", "--tenant", "acme", "--json")
    assert (removed.exit_code, json.loads(removed.stdout)) == (
        1,
        {"removed": ["note"], "missing": ["none"]},
    )
    assert "in the database" in run_sql("show", "note", "--tenant", "acme").stderr


def test_migrate_creates_the_schema_and_the_role_once(
    run_with: Callable[..., Run], databases: Databases
) -> None:
    database = asyncio.run(databases.new(is_migrated=False))
    role = f"gateway_{database.name}"
    url = database.server.url(role, database.name)
    run = run_with(documents_url=url, documents_owner_url=database.owner_url)
    assert run("migrate").stdout == (
        f"migrated the schema from number 0 to {newest()}\n"
        f"the role {role} was created and has the required permissions\n"
    )
    assert run("migrate").stdout == (
        f"the schema is already at number {newest()}\n"
        f"the role {role} has the required permissions\n"
    )
    assert run("list", "--tenant", "acme").exit_code == 0


def test_migrate_needs_the_owner(run: Run) -> None:
    refused = run("migrate")
    assert (refused.exit_code, "MCP_PROXY_DOCUMENTS_OWNER_URL" in refused.stderr) == (2, True)


def test_an_unreachable_database_is_one_line(run_with: Callable[..., Run]) -> None:
    url = "postgresql://gateway:secret@127.0.0.1:1/documents"
    run = run_with(documents_url=url, documents_owner_url=url)
    for command in (("list", "--tenant", "acme"), ("migrate",)):
        refused = run(*command)
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
        assert "secret" not in refused.stderr
