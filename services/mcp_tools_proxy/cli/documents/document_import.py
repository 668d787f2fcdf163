"""The ``documents import`` command.

Results go to stdout, one line each; progress and failures go to stderr. A failure is one line that
names the file; the other files are still imported, and the exit code is 1.
"""

import asyncio
import os
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace as replaced
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mcp_tools_proxy.cli.documents.document_stores import (
    Folder,
    LoadSettings,
    TenantOfDocuments,
    open_writer,
    print_removed,
    run_command,
)
from mcp_tools_proxy.cli.documents.file_import import FAILURES, import_file
from mcp_tools_proxy.cli.documents.folder_import import import_folder
from mcp_tools_proxy.cli.documents.folder_options import FolderOptions
from mcp_tools_proxy.cli.documents.import_facts import (
    Expires,
    OwnDate,
    OwnFields,
    Untrusted,
    parse_fields,
    parse_time,
    spell_warning,
    warning_facts,
)
from mcp_tools_proxy.cli.documents.rights_file import RightsFile, read_rights
from mcp_tools_proxy.cli.documents.source_folder import stem_of
from mcp_tools_proxy.cli.documents.vector_import import VectorImport, vector_import
from mcp_tools_proxy.cli.options import (
    document_files,
    identifier,
    language_tag,
    ocr_languages,
    parse_languages,
    text_encoding,
)
from mcp_tools_proxy.cli.output import AsJson, counted, echo, fail, print_json
from mcp_tools_proxy.documents.document_writer import (
    DocumentWriter,
    Expected,
    VersionConflict,
)
from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions, one_line
from mcp_tools_proxy.documents.importers.base import Progress as PageProgress
from mcp_tools_proxy.documents.importers.import_process import Importer
from mcp_tools_proxy.domain.document import Document, DocumentHead, ImportWarning, MetadataValue
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.text import quote

LINE_S = 10.0
"""Seconds between progress lines if stderr is not a terminal; quick imports print none."""


@contextmanager
def page_progress(label: str) -> Iterator[PageProgress]:
    """Show the progress of one file: a bar on a terminal, otherwise occasional lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield progress_lines(label, time.monotonic)
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
    )
    with bar:
        task = bar.add_task(label, total=None)
        yield lambda pages, total: bar.update(task, completed=pages, total=total)


def progress_lines(label: str, clock: Callable[[], float]) -> PageProgress:
    """Return a callback that prints a line if LINE_S have passed since the last one."""
    printed_at = clock()

    def show(pages: int, total: int) -> None:
        nonlocal printed_at
        if clock() - printed_at >= LINE_S:
            printed_at = clock()
            echo(f"{label}: page {pages} of {total}", err=True)

    return show


_Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH",
        autocompletion=document_files,
        readable=False,  # the import reports unreadable files, and continues
        help="Files, or one folder: PDF, text, web pages, office files, e-mail, books, pictures.",
    ),
]
_DocId = Annotated[
    str | None,
    typer.Option(
        "--doc-id",
        callback=identifier,
        help="The document's id; by default the file's name without suffix.",
    ),
]
_Title = Annotated[
    str | None, typer.Option("--title", help="The title; by default the one in the file.")
]
_Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag. May be repeated.")]
_Language = Annotated[
    str | None,
    typer.Option(
        "--language",
        callback=language_tag,
        help="Language of the text, a BCP 47 tag: de, pt-BR.",
    ),
]
_Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        callback=text_encoding,
        help="Encoding of text, CSV and HTML, such as windows-1252; by default it is detected.",
    ),
]
_LinkTargets = Annotated[
    bool | None,
    typer.Option(
        "--link-targets/--no-link-targets",
        help="Keep the addresses of links; by default MCP_PROXY_IMPORT_LINK_TARGETS.",
    ),
]
_Notes = Annotated[
    bool | None,
    typer.Option(
        "--notes/--no-notes",
        help="Keep reviewers' notes and comments; by default MCP_PROXY_IMPORT_NOTES.",
    ),
]
_Replace = Annotated[
    bool, typer.Option("--replace", help="Replace documents that exist, under any file name.")
]
_OcrLanguages = Annotated[
    str | None,
    typer.Option(
        "--ocr-languages",
        metavar="LANGUAGES",
        callback=ocr_languages,
        help="OCR languages for scanned pages: eng, or eng,deu. By default those in "
        "MCP_PROXY_OCR_LANGUAGES; empty turns OCR off.",
    ),
]


_Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="GLOB",
        help="Only these files of a folder, such as *.pdf or hr/**/*.md. May be repeated.",
    ),
]
_Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        callback=identifier,
        help="Name of a folder's documents; by default the folder's name.",
    ),
]
_Rights = Annotated[
    Path | None,
    typer.Option("--rights", metavar="FILE", help="JSON file with readers and tags of the files."),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what the import of a folder would change.")
]
_Prune = Annotated[
    bool,
    typer.Option("--prune", help="Remove documents of this source whose files no longer exist."),
]
_PruneAll = Annotated[
    bool, typer.Option("--prune-all", help="Like --prune, even over 20 % of the documents.")
]
_Checksum = Annotated[
    bool,
    typer.Option("--checksum", help="Read all files, even those with the same time and size."),
]
_Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", min=1, max=64, help="Parallel imports of a folder; by default the CPUs, up to 8."
    ),
]


def add_import(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add the command."""

    @app.command("import")
    def import_documents(
        files: _Files,
        tenant: TenantOfDocuments,
        doc_id: _DocId = None,
        title: _Title = None,
        tags: _Tags = None,
        language: _Language = None,
        encoding: _Encoding = None,
        link_targets: _LinkTargets = None,
        notes: _Notes = None,
        date: OwnDate = None,
        metadata: OwnFields = None,
        expires: Expires = None,
        untrusted: Untrusted = False,
        replace: _Replace = False,
        ocr_languages: _OcrLanguages = None,
        include: _Include = None,
        source: _Source = None,
        rights: _Rights = None,
        dry_run: _DryRun = False,
        prune: _Prune = False,
        prune_all: _PruneAll = False,
        checksum: _Checksum = False,
        jobs: _Jobs = None,
        as_json: AsJson = False,
        documents_path: Folder = None,
    ) -> None:
        """Import PDF, text, web pages, office files, e-mail, books and pictures.

        Most need the extra formats, OCR and pictures the extra ocr. Failed files are reported, the
        others are imported, and the exit code is 1. An existing document is refused without
        --replace.

        PDF bookmarks and Markdown headings become sections; a PDF without bookmarks is one section.
        Markdown pages have at most 8 kB. Encodings of text are detected.

        PDF pages without text are listed: they cannot be searched, unless OCR reads them. Without
        OCR, a PDF without any text is refused. With --json, ocr has the confidence of each page, or
        null.

        Each file is parsed in a separate process with at most 1 GiB of memory and 120 s of CPU
        (MCP_PROXY_OCR_TIMEOUT_S with OCR). If stderr is not a terminal, a long import prints a line
        every ten seconds.

        Of a FOLDER, only new and changed files are imported, several at a time. The ids are the
        relative paths without suffix. Hidden files, links and files that are not documents by their
        content are skipped. --prune changes nothing if the folder is empty. With --json: imported,
        unchanged, new_readers, failed, removed, kept, warnings and skipped.
        """
        chosen = FolderOptions(
            source=source or "",
            include=tuple(include or ()),
            rights_path=rights,
            rights=_read_rights(rights),
            jobs=jobs,
            reads_all=checksum,
            is_dry_run=dry_run,
            prunes=prune or prune_all,
            prunes_all=prune_all,
        )
        folder = _folder_of(files, chosen, names_one=doc_id is not None or title is not None)
        if len(files) > 1 and (doc_id is not None or title is not None):
            option = "--doc-id" if doc_id is not None else "--title"
            echo(f"{option} names one document, but {len(files)} files are given", err=True)
            raise typer.Exit(2)
        settings = load_settings()
        languages = settings.ocr_languages
        if ocr_languages is not None:
            languages = parse_languages(ocr_languages)
        named = tuple(one_line(tag) for tag in tags or ())
        wanted = _Wanted(
            tenant,
            doc_id,
            title,
            named,
            language,
            languages,
            encoding,
            settings.import_link_targets if link_targets is None else link_targets,
            settings.import_notes if notes is None else notes,
            date or None,
            parse_fields(metadata),
            parse_time(expires),
            untrusted,
        )

        async def import_all() -> bool:
            if folder is not None:
                options = replaced(
                    chosen,
                    source=source or _name_of(folder),
                    is_named=bool(source),
                    adopts=replace,
                    facts={
                        "date": wanted.date,
                        "metadata": wanted.metadata,
                        "untrusted": untrusted,
                    },
                )
                return await import_folder(
                    folder,
                    settings,
                    documents_path,
                    options,
                    wanted.in_folder,
                    wanted.apply_to,
                    tenant_id=tenant,
                    as_json=as_json,
                )
            removed: list[tuple[str, Path]] = []
            async with (
                open_writer(
                    settings,
                    documents_path,
                    tenant_id=tenant,
                    on_removed=lambda *it: removed.append(it),
                ) as writer,
                vector_import(settings, writer) as vectors,
            ):
                batch = _Batch(
                    writer,
                    Importer(ocr_timeout_s=settings.ocr_timeout_s),
                    wanted,
                    vectors,
                    replace=replace,
                    as_json=as_json,
                    max_original_bytes=settings.max_original_bytes,
                )
                for number, path in enumerate(files, start=1):
                    await batch.add(path, f"{number}/{len(files)} {path.name:.32}")
            batch.print_end(removed)
            return not batch.has_failed

        if not run_command(import_all()):
            raise typer.Exit(1)


def _read_rights(path: Path | None) -> RightsFile:
    try:
        return RightsFile() if path is None else read_rights(path)
    except ValueError as error:
        fail(str(error))


def _folder_of(files: list[Path], chosen: FolderOptions, *, names_one: bool) -> Path | None:
    """Return the folder to import, if any; exit with 2 if the options do not fit."""
    folders = [path for path in files if os.path.isdir(path)]
    if not folders and chosen != FolderOptions():
        fail(
            f"{files[0]} is not a folder; --include, --source, --rights, --dry-run, --prune, "
            "--prune-all, --checksum and --jobs need one"
        )
    if folders and len(files) > 1:
        fail("name files, or one folder")
    if folders and names_one:
        fail(f"--doc-id and --title are for one file, but {files[0]} is a folder")
    return folders[0] if folders else None


def _name_of(folder: Path) -> str:
    name = unicodedata.normalize("NFC", folder.resolve().name)
    if not is_identifier(name):
        fail(f"{folder}: its name cannot be the name of a source; choose one with --source")
    return name


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options for all files of one import."""

    tenant_id: str
    doc_id: str | None
    title: str | None
    tags: tuple[str, ...]
    language: str | None
    ocr_languages: tuple[str, ...]
    encoding: str | None
    with_link_targets: bool
    with_notes: bool
    date: str | None
    metadata: Mapping[str, MetadataValue]
    expires_at: datetime | None
    is_untrusted: bool

    def apply_to(self, document: Document, head: DocumentHead | None = None) -> Document:
        """Return an imported document with the date, own fields, expiry and trust of the options.

        Own fields and expiry that the options do not name are those of ``head``.
        """
        return replaced(
            document,
            date=self.date or document.date,
            metadata=self.metadata or (head.metadata if head is not None else {}),
            expires_at=self.expires_at or (None if head is None else head.expires_at),
            is_untrusted=self.is_untrusted or document.is_untrusted,
        )

    def options(self, path: Path) -> ImportOptions:
        stem = unicodedata.normalize("NFC", stem_of(path.name))  # some systems store names in NFD
        doc_id = stem if self.doc_id is None else self.doc_id
        return ImportOptions(
            tenant_id=self.tenant_id,
            doc_id=doc_id,
            stem=stem,
            title=self.title,
            tags=self.tags,
            language=self.language,
            ocr_languages=self.ocr_languages,
            encoding=self.encoding,
            with_link_targets=self.with_link_targets,
            with_notes=self.with_notes,
        )

    def in_folder(self, path: str, doc_id: str, tags: Sequence[str]) -> ImportOptions:
        """Return the options for a file of a folder."""
        return replaced(
            self.options(Path(path)),
            doc_id=doc_id,
            tags=tuple(dict.fromkeys((*self.tags, *map(one_line, tags)))),
        )


class _Batch:
    """The files of one command, imported sequentially."""

    def __init__(
        self,
        writer: DocumentWriter,
        importer: Importer,
        wanted: _Wanted,
        vectors: VectorImport,
        *,
        replace: bool,
        as_json: bool,
        max_original_bytes: int | None,
    ) -> None:
        """Initialize; PDFs up to ``max_original_bytes`` are kept; None keeps none."""
        self.has_failed = False
        self._writer = writer
        self._vectors = vectors
        self._wanted = wanted
        self._replace = replace
        self._as_json = as_json
        self._max_original_bytes = max_original_bytes
        self._importer = importer
        self._done: set[str] = set()
        self._results: list[dict[str, object]] = []

    async def add(self, path: Path, label: str) -> None:
        """Import one file, and print the result or failure."""
        try:
            await self._import(path, label)
        except FAILURES as error:
            self.has_failed = True
            self._results.append({"file": str(path), "error": error.reason})
            echo(f"{path}: {error.reason}", err=True)

    def print_end(self, removed: list[tuple[str, Path]]) -> None:
        """Print the results as JSON, or the removed files of replaced documents."""
        if self._as_json:
            print_json({"results": self._results})
            return
        for doc_id, path in sorted(removed):
            print_removed(doc_id, path)

    async def _import(self, path: Path, label: str) -> None:
        options = self._wanted.options(path)
        if any("\ud800" <= character <= "\udfff" for character in options.doc_id):
            raise ImportFailed("has a name that is not UTF-8: rename it, or add --doc-id")
        key = (options.tenant_id, options.doc_id)
        if options.doc_id in self._done:
            raise ImportFailed(
                f"another of these files has the id {options.doc_id}: import it with --doc-id"
            )
        if not self._replace and await self._writer.head(key) is not None:
            raise _exists(f"document {quote(options.doc_id)} of tenant {quote(options.tenant_id)}")
        document, original = await self._document(path, options, label)
        document = self._wanted.apply_to(document)
        expected = Expected.ANYTHING if self._replace else Expected.NOTHING
        try:
            head = await self._writer.put(
                document, expected=expected, keep_readers=True, original=original
            )
        except VersionConflict:
            raise _exists(self._writer.place(key)) from None
        self._done.add(options.doc_id)
        self._note(path, head, document.warnings)
        await self._vectors.add(document, head.version)

    async def _document(
        self, path: Path, options: ImportOptions, label: str
    ) -> tuple[Document, bytes | None]:
        """Import a file; return the document, and its PDF if it is kept."""
        try:
            source = await asyncio.to_thread(open, path, "rb", opener=_open_at_once)
        except OSError as error:
            raise ImportFailed(f"cannot be read: {error.strerror}") from error
        with source, page_progress(label) as show_pages:
            if not source.seekable():
                raise ImportFailed("is a pipe, not a file: write it to a file first")
            return await import_file(
                self._importer, path, source, options, show_pages, self._max_original_bytes
            )

    def _note(self, path: Path, head: DocumentHead, warnings: Sequence[ImportWarning]) -> None:
        place = self._writer.place((head.tenant_id, head.doc_id))
        self._results.append(
            {
                "file": str(path),
                "doc_id": head.doc_id,
                "tenant_id": head.tenant_id,
                "title": head.title,
                "pages": head.page_count,
                "sections": head.section_count,
                "version": head.version,
                "place": place,
                **({"warnings": warning_facts(warnings, None)} if warnings else {}),
            }
        )
        if not self._as_json:
            echo(
                f"{head.doc_id}  {head.title}  {counted(head.page_count, 'page')}  "
                f"{counted(head.section_count, 'section')}  -> {place}"
            )
        for warning in warnings:
            echo(f"{path}: {spell_warning(warning, None)}", err=True)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, as a plain open of a pipe does."""
    return os.open(path, flags | os.O_NONBLOCK)


def _exists(what: str) -> ImportFailed:
    """Build the error for an existing document or file."""
    return ImportFailed(
        f"{what} exists: overwrite it with --replace, or choose another id with --doc-id"
    )
