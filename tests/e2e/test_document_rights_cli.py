"""``documents rights``: readers of a document on the command line."""

import json
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_file import document_path, read_document, write_document
from mcp_tools_proxy.domain.document import Document, Readers
from tests.support.documents_cli import Run

BOOK = Document(tenant_id="acme", doc_id="book", title="Book", pages=("one",))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_document(tmp_path / "documents", BOOK, replace=False)
    return tmp_path / "documents"


def readers(root: Path) -> Readers | None:
    return read_document(document_path(root, "acme", "book")).readers


@pytest.mark.parametrize(
    ("options", "expected", "shown"),
    [
        (
            ("--user", "ann", "--user", "bob", "--role", "it"),
            Readers(users=frozenset({"ann", "bob"}), roles=frozenset({"it"})),
            "user ann, user bob, role it",
        ),
        (("--nobody",), Readers(), "nobody"),
        (("--everybody",), None, "all users of the tenant"),
    ],
)
def test_the_command_replaces_all_readers(
    run: Run, root: Path, options: tuple[str, ...], expected: Readers | None, shown: str
) -> None:
    run("rights", "book", "--tenant", "acme", "--user", "before")
    result = run("rights", "book", "--tenant", "acme", *options)
    path = document_path(root, "acme", "book")
    assert (result.exit_code, result.stdout) == (0, f"book  {shown}  -> {path}\n")
    assert readers(root) == expected
    assert f"readers   {shown}" in run("show", "book", "--tenant", "acme").stdout


@pytest.mark.parametrize(
    "options", [(), ("--everybody", "--nobody"), ("--everybody", "--user", "ann")], ids=str
)
def test_the_command_needs_exactly_one_option(
    run: Run, root: Path, options: tuple[str, ...]
) -> None:
    run("rights", "book", "--tenant", "acme", "--user", "ann")
    assert run("rights", "book", "--tenant", "acme", *options).exit_code == 2
    assert readers(root) == Readers(users=frozenset({"ann"}))


def test_older_versions_that_become_readable_are_named(run: Run, tmp_path: Path) -> None:
    """A document that was closed before lines were deleted has them in its older version."""
    file = tmp_path / "book.txt"
    file.write_text("A new version.")
    before = run("rights", "book", "--tenant", "acme", "--nobody")
    run("import", file, "--tenant", "acme", "--replace")
    after = run("rights", "book", "--tenant", "acme", "--everybody", "--json")
    assert (before.stderr, after.stderr) == (
        "",
        "1 older versions are kept and now have the same readers; to delete them, remove the "
        "document and import it again\n",
    )
    assert json.loads(after.stdout)["readers"] is None


def test_a_missing_document_is_named(run: Run) -> None:
    result = run("rights", "other", "--tenant", "acme", "--everybody")
    assert (
        result.exit_code,
        "other: tenant acme does not have this document" in result.stderr,
    ) == (
        1,
        True,
    )


def test_a_new_version_keeps_its_readers(run: Run, root: Path, tmp_path: Path) -> None:
    """An import that replaces a document must not open it to the whole tenant."""
    run("rights", "book", "--tenant", "acme", "--role", "it")
    file = tmp_path / "book.txt"
    file.write_text("A new version.")
    assert run("import", file, "--tenant", "acme", "--replace").exit_code == 0
    assert readers(root) == Readers(roles=frozenset({"it"}))
    shown = json.loads(run("show", "book", "--tenant", "acme", "--json").stdout)
    assert shown["readers"] == {"users": [], "roles": ["it"]}


def test_a_new_version_of_an_unreadable_file_is_refused(
    run: Run, root: Path, tmp_path: Path
) -> None:
    """The readers of the old version are unknown."""
    path = document_path(root, "acme", "book")
    content = json.loads(path.read_text()) | {"reader": {"users": ["ann"]}}
    path.write_text(json.dumps(content))
    file = tmp_path / "book.txt"
    file.write_text("A new version.")
    result = run("import", file, "--tenant", "acme", "--replace")
    assert (result.exit_code, "readers of the document are unknown" in result.stderr) == (1, True)
    assert json.loads(path.read_text()) == content
