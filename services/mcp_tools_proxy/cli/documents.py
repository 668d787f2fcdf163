"""The ``documents import`` command; ``cli.document_files`` has list, show and remove.

Results go to stdout, one line each; progress and failures go to stderr. A failure is one line that
names the file; the other files go on, and the exit code is 1.
"""

import dataclasses
import unicodedata
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mcp_tools_proxy.cli.document_files import Folder, TenantFiles, add_folder_commands
from mcp_tools_proxy.cli.options import identifier
from mcp_tools_proxy.cli.output import counted
from mcp_tools_proxy.documents.document_file import (
    DocumentExists,
    InvalidDocument,
    document_path,
    write_document,
)
from mcp_tools_proxy.documents.folder_scan import scan_folder, select_documents
from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions, one_line
from mcp_tools_proxy.documents.importers.base import Progress as PageProgress
from mcp_tools_proxy.domain.document import Document, Readers
from mcp_tools_proxy.wire.text import quote

_Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        readable=False,  # the import itself reports unreadable files, and continues
        help="PDF, Markdown (.md) or plain text (.txt) files.",
    ),
]
_Tenant = Annotated[
    str, typer.Option("--tenant", callback=identifier, help="The tenant who will own them.")
]
_DocId = Annotated[
    str | None,
    typer.Option("--doc-id", callback=identifier, help="By default the file's name, no suffix."),
]
_Title = Annotated[str | None, typer.Option("--title", help="By default the file's own title.")]
_Tags = Annotated[list[str] | None, typer.Option("--tag", help="May be given several times.")]
_Replace = Annotated[
    bool, typer.Option("--replace", help="Overwrite documents that exist, under any file name.")
]


def documents_app(default_path: Callable[[], Path]) -> typer.Typer:
    """Build the ``documents`` sub-command.

    ``default_path`` returns the folder for a command without ``--documents-path``; it is called
    only when a command runs, and may raise ``typer.Exit``.
    """
    app = typer.Typer(
        name="documents",
        help="Import documents, list, show and remove them.",
        rich_markup_mode=None,
    )

    @app.command("import")
    def import_documents(
        files: _Files,
        tenant: _Tenant,
        doc_id: _DocId = None,
        title: _Title = None,
        tags: _Tags = None,
        replace: _Replace = False,
        documents_path: Folder = None,
    ) -> None:
        """Make documents of PDF, Markdown and plain text files."""
        if len(files) > 1 and (doc_id is not None or title is not None):
            option = "--doc-id" if doc_id is not None else "--title"
            typer.echo(f"{option} names one document, but {len(files)} files are given", err=True)
            raise typer.Exit(2)
        wanted = _Wanted(tenant, doc_id, title, tuple(one_line(tag) for tag in tags or ()))
        root = documents_path or default_path()
        if not _import_all(files, wanted, root, replace=replace):
            raise typer.Exit(1)

    add_folder_commands(app, default_path)
    return app


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options of one ``documents import``, for all its files."""

    tenant_id: str
    doc_id: str | None
    title: str | None
    tags: tuple[str, ...]

    def options(self, path: Path) -> ImportOptions:
        stem = unicodedata.normalize("NFC", path.stem)  # some systems store names decomposed (NFD)
        doc_id = stem if self.doc_id is None else self.doc_id
        return ImportOptions(
            tenant_id=self.tenant_id, doc_id=doc_id, stem=stem, title=self.title, tags=self.tags
        )


def _import_all(files: list[Path], wanted: _Wanted, root: Path, *, replace: bool) -> bool:
    """Import each file and print the results; return whether all succeeded."""
    # Imported here, because the libraries are slow to load and serving needs none of them.
    from mcp_tools_proxy.documents.importers.kinds import import_file, warning_about  # noqa: PLC0415

    existing = _existing_documents(root.absolute())
    done: dict[str, Path] = {}
    failed = False
    for number, path in enumerate(files, start=1):
        options = wanted.options(path)
        try:
            _check_unused(options, done, () if replace else existing)
            with _page_bar(f"{number}/{len(files)} {path.name:.32}") as show_pages:
                document = import_file(path, options, show_pages)
            document = dataclasses.replace(document, readers=_readers(root, options, existing))
            written = _write(root, document, replace=replace)
        except ImportFailed as error:
            typer.echo(f"{path}: {error.reason}", err=True)
            failed = True
            continue
        except Exception as error:  # noqa: BLE001 - whatever a parser meets, the rest go on
            typer.echo(f"{path}: cannot be imported: {one_line(repr(error))}", err=True)
            failed = True
            continue
        done[options.doc_id] = written
        typer.echo(
            f"{document.doc_id}  {document.title}  {counted(len(document.pages), 'page')}  "
            f"{counted(len(document.sections), 'section')}  -> {written}"
        )
        if warning := warning_about(path, document):
            typer.echo(f"{path}: {warning}", err=True)
    if replace and not _remove_replaced(TenantFiles(root, wanted.tenant_id), done):
        failed = True
    return not failed


def _remove_replaced(files: TenantFiles, written: Mapping[str, Path]) -> bool:
    """Remove the other files of documents just written; return whether all could be removed."""
    removed = [files.remove(doc_id, other_than=path) for doc_id, path in written.items()]
    return all(removed)


def _existing_documents(root: Path) -> Mapping[tuple[str, str], Document]:
    """Return all documents in the folder by (tenant_id, doc_id), under any file names."""
    return select_documents(root, scan_folder(root, {})).documents


def _check_unused(
    options: ImportOptions, done: Container[str], existing: Container[tuple[str, str]]
) -> None:
    if options.doc_id in done:
        raise ImportFailed(f"another of these files is {options.doc_id} already")
    if (options.tenant_id, options.doc_id) in existing:
        raise _exists(f"document {quote(options.doc_id)} of tenant {quote(options.tenant_id)}")


def _readers(
    root: Path, options: ImportOptions, existing: Mapping[tuple[str, str], Document]
) -> Readers | None:
    """Return for whom a new version is: for whom the old one was, if there is one.

    Raises ImportFailed where that cannot be read: it must not open to all of the tenant.
    """
    replaced = existing.get((options.tenant_id, options.doc_id))
    if replaced is not None:
        return replaced.readers
    with suppress(InvalidDocument):  # which is told where it is written
        path = document_path(root, options.tenant_id, options.doc_id)
        if not path.exists():
            return None
        raise ImportFailed(
            f"{path} cannot be read, so it is not known who may read the document: mend it, or "
            "remove it with documents remove, and import again"
        )
    return None


def _write(root: Path, document: Document, *, replace: bool) -> Path:
    """Write the document's file. Raises ImportFailed."""
    try:
        return write_document(root, document, replace=replace)
    except InvalidDocument as error:
        raise ImportFailed(error.reason) from error
    except DocumentExists as error:
        raise _exists(str(error.path)) from error
    except OSError as error:
        raise ImportFailed(f"{root} cannot be written: {error.strerror}") from error


def _exists(what: str) -> ImportFailed:
    """Build the refusal of a document, or a file, that is there already."""
    return ImportFailed(
        f"{what} exists: overwrite it with --replace, or choose another id with --doc-id"
    )


@contextmanager
def _page_bar(label: str) -> Iterator[PageProgress]:
    """Show the pages of one file as a bar on stderr; nothing when that is no terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
    )
    with bar:
        task = bar.add_task(label, total=None)
        yield lambda pages, total: bar.update(task, completed=pages, total=total)
