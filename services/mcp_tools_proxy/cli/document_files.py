"""The ``documents`` commands for files in the documents folder: list, show, remove."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mcp_tools_proxy.cli.document_rights import (
    ForAll,
    ForNone,
    Roles,
    Users,
    set_readers,
    spell_readers,
    wanted_readers,
)
from mcp_tools_proxy.cli.options import identifier
from mcp_tools_proxy.cli.output import counted, folded, print_table, whole
from mcp_tools_proxy.documents.document_file import document_path, dump_readers
from mcp_tools_proxy.documents.folder_scan import files_of, scan_folder, select_documents
from mcp_tools_proxy.documents.importers.base import one_line
from mcp_tools_proxy.documents.importers.textless_pages import pages_without_text, spell_pages
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.wire.text import quote

Folder = Annotated[
    Path | None,
    typer.Option(
        "--documents-path", help="The documents folder; by default MCP_PROXY_DOCUMENTS_PATH."
    ),
]
_Owner = Annotated[
    str, typer.Option("--tenant", callback=identifier, help="The tenant who owns them.")
]
_OnlyTenant = Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")]
_DocId = Annotated[str, typer.Argument(metavar="DOC_ID", help="As list shows it.")]
_DocIds = Annotated[list[str], typer.Argument(metavar="DOC_ID...", help="As list shows them.")]
_Json = Annotated[bool, typer.Option("--json", help="Show it as one JSON object.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask, also on a terminal.")]


def add_folder_commands(app: typer.Typer, default_path: Callable[[], Path]) -> None:
    """Add the commands; ``default_path`` is called when one runs without ``--documents-path``."""
    _add_list(app, default_path)
    _add_show(app, default_path)
    _add_remove(app, default_path)
    _add_rights(app, default_path)


def _add_rights(app: typer.Typer, default_path: Callable[[], Path]) -> None:
    @app.command("rights")
    def rights(
        doc_id: _DocId,
        tenant: _Owner,
        users: Users = None,
        roles: Roles = None,
        for_all: ForAll = False,
        for_none: ForNone = False,
        documents_path: Folder = None,
    ) -> None:
        """Set who of the tenant may read a document.

        By user or by role, either is enough. Those named are all who may: others no longer.

        A running service knows within two seconds.
        """
        readers = wanted_readers(users, roles, for_all=for_all, for_none=for_none)
        root = documents_path or default_path()
        files = TenantFiles(root, tenant)
        found = files.document(doc_id)
        if found is None:
            files.print_missing(doc_id)
        if found is None or not set_readers(root, found, readers):
            raise typer.Exit(1)
        files.remove(doc_id, other_than=document_path(root, tenant, doc_id))


def _add_list(app: typer.Typer, default_path: Callable[[], Path]) -> None:
    @app.command("list")
    def list_documents(tenant: _OnlyTenant = None, documents_path: Folder = None) -> None:
        """Show the documents: tenant, doc_id, title, pages, sections.

        When the output is no terminal, these are separated by tabs.
        """
        _print_list(documents_path or default_path(), tenant)


def _add_show(app: typer.Typer, default_path: Callable[[], Path]) -> None:
    @app.command("show")
    def show(
        doc_id: _DocId, tenant: _Owner, as_json: _Json = False, documents_path: Folder = None
    ) -> None:
        """Show everything of one document except its text.

        Title, tags, readers, pages, those without text, size, file and sections.
        """
        if not _print_one(TenantFiles(documents_path or default_path(), tenant), doc_id, as_json):
            raise typer.Exit(1)


def _add_remove(app: typer.Typer, default_path: Callable[[], Path]) -> None:
    @app.command("remove")
    def remove(
        doc_ids: _DocIds, tenant: _Owner, yes: _Yes = False, documents_path: Folder = None
    ) -> None:
        """Remove documents.

        A running service forgets them within two seconds.

        On a terminal it asks before. What is not there is named, and the exit code is 1.
        """
        files = TenantFiles(documents_path or default_path(), tenant)
        if not _remove_all(
            files, list(dict.fromkeys(doc_ids)), confirm=not yes and sys.stdin.isatty()
        ):
            raise typer.Exit(1)


class TenantFiles:
    """One tenant's documents in the folder, as scanned at construction."""

    def __init__(self, root: Path, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self._shown_root = root
        self._root = root.absolute()
        self._files = scan_folder(self._root, {})
        self._selection = select_documents(self._root, self._files)

    def document(self, doc_id: str) -> tuple[Document, Path] | None:
        """Return the document and its file; None when no file holds it."""
        pair = (self.tenant_id, doc_id)
        document = self._selection.documents.get(pair)
        return None if document is None else (document, self._shown(self._selection.paths[pair]))

    def files(self, doc_id: str) -> list[Path]:
        """Return every file of the document, broken ones at its place as well."""
        pair = (self.tenant_id, doc_id)
        return files_of(self._root, self._files, self._selection, pair)

    def print_missing(self, doc_id: str) -> None:
        """Print the problem of the file at the document's path, or that there is none."""
        broken = self.files(doc_id)
        for path in broken:
            typer.echo(f"{self._shown(path)}: {self._files[path].reason}", err=True)
        if not broken:
            typer.echo(
                f"{doc_id}: tenant {self.tenant_id} has no such document in {self._shown_root}; "
                "documents list shows what is there",
                err=True,
            )

    def remove(self, doc_id: str, *, other_than: Path | None = None) -> bool:
        """Remove the document's files and print each; False when one cannot be removed.

        ``other_than`` is a file that is kept, and with it every link to the same content.
        """
        kept = None if other_than is None else os.path.realpath(other_than)
        for path in self.files(doc_id):
            if os.path.realpath(path) == kept:
                continue
            try:
                path.unlink(missing_ok=True)  # another process may have removed it
            except OSError as error:
                typer.echo(f"{self._shown(path)}: cannot be removed: {error.strerror}", err=True)
                return False
            typer.echo(f"{doc_id}  removed  {self._shown(path)}")
        return True

    def _shown(self, path: Path) -> Path:
        return self._shown_root / path.relative_to(self._root)


def _remove_all(files: TenantFiles, doc_ids: list[str], *, confirm: bool) -> bool:
    """Remove the documents and print the results; return whether all were found and removed."""
    there = [doc_id for doc_id in doc_ids if files.files(doc_id)]
    for doc_id in doc_ids:
        if doc_id not in there:
            files.print_missing(doc_id)
    if there and confirm and not _confirmed(files.tenant_id, there):
        typer.echo("nothing was removed", err=True)
        return False
    removed = [files.remove(doc_id) for doc_id in there]
    return all(removed) and len(there) == len(doc_ids)


def _confirmed(tenant_id: str, doc_ids: list[str]) -> bool:
    what = ", ".join(map(quote, doc_ids))
    number = counted(len(doc_ids), "document")
    return typer.confirm(f"Remove {number} of tenant {quote(tenant_id)}: {what}?", err=True)


_COLUMNS = (
    whole("tenant"),
    whole("doc_id"),
    folded("title"),
    whole("pages", right=True),
    whole("sections", right=True),
)


def _print_list(root: Path, tenant: str | None) -> None:
    root = root.absolute()
    selection = select_documents(root, scan_folder(root, {}))
    rows = [
        (
            tenant_id,
            doc_id,
            one_line(document.title),
            str(len(document.pages)),
            str(len(document.sections)),
        )
        for (tenant_id, doc_id), document in sorted(selection.documents.items())
        if tenant in (None, tenant_id)
    ]
    print_table(_COLUMNS, rows)
    for name, reason in sorted(selection.errors.items()):
        typer.echo(f"{name}: {reason}", err=True)


def _print_one(files: TenantFiles, doc_id: str, as_json: bool) -> bool:
    """Print the facts of one document; return whether it exists."""
    found = files.document(doc_id)
    if found is None:
        files.print_missing(doc_id)
        return False
    document, path = found
    try:
        facts = _facts(document, path)
    except OSError as error:  # removed a moment ago
        typer.echo(f"{path}: {error.strerror}", err=True)
        return False
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False))
    else:
        _print_facts(facts, document)
    return True


def _facts(document: Document, path: Path) -> dict[str, object]:
    return {
        "doc_id": document.doc_id,
        "tenant_id": document.tenant_id,
        "title": document.title,
        "tags": list(document.tags),
        "readers": None if document.readers is None else dump_readers(document.readers),
        "pages": len(document.pages),
        "pages_without_text": pages_without_text(document),
        "sections": [
            {
                "section_id": section.section_id,
                "title": section.title,
                "page_start": section.page_start,
                "page_end": section.page_end,
            }
            for section in document.sections.values()
        ],
        "text_chars": sum(map(len, document.pages)),
        "file": str(path),
        "file_bytes": path.stat().st_size,
    }


def _print_facts(facts: dict[str, object], document: Document) -> None:
    textless = pages_without_text(document)
    pages = str(len(document.pages)) + (f" (no text: {spell_pages(textless)})" if textless else "")
    shown = {
        "doc_id": document.doc_id,
        "tenant": document.tenant_id,
        "title": one_line(document.title),
        "tags": ", ".join(map(one_line, document.tags)) or "-",
        "readers": spell_readers(document.readers),
        "pages": pages,
        "size": f"{facts['text_chars']} characters of text, {facts['file_bytes']} bytes of file",
        "file": str(facts["file"]),
        "sections": str(len(document.sections)),
    }
    for name, value in shown.items():
        typer.echo(f"{name:<9} {value}")
    for section in document.sections.values():
        first, last = section.page_start, section.page_end
        span = f"page {first}" if first == last else f"pages {first}-{last}"
        typer.echo(f"  {section.section_id}  {one_line(section.title)}  {span}")
