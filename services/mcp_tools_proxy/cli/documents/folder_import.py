"""Imports a folder: changed files in parallel, and removes the documents of files that are gone."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from mcp_tools_proxy.app.workers import usable_cpus
from mcp_tools_proxy.cli.documents.document_files import all_heads
from mcp_tools_proxy.cli.documents.document_stores import Unusable, open_writer
from mcp_tools_proxy.cli.documents.file_digests import FileDigests, KnownDigest
from mcp_tools_proxy.cli.documents.file_import import FAILURES, import_file
from mcp_tools_proxy.cli.documents.files_progress import files_progress
from mcp_tools_proxy.cli.documents.folder_options import FileOptions, FolderOptions, OptionsOf
from mcp_tools_proxy.cli.documents.import_facts import spell_warning, warning_facts
from mcp_tools_proxy.cli.documents.import_plan import ImportPlan, PlannedFile, plan_import
from mcp_tools_proxy.cli.documents.rights_file import RightsRule
from mcp_tools_proxy.cli.documents.source_folder import (
    FileStamp,
    SourceFiles,
    SourceFolder,
    matches,
)
from mcp_tools_proxy.cli.documents.vector_import import VectorImport, vector_import
from mcp_tools_proxy.cli.output import counted, echo, print_json
from mcp_tools_proxy.documents.document_writer import (
    DocumentWriter,
    Expected,
    NoSuchDocument,
    ReadOnlyDocuments,
    VersionConflict,
    WriteFailed,
)
from mcp_tools_proxy.documents.importers.base import (
    IMPORTER_VERSION,
    ImportFailed,
    no_progress,
)
from mcp_tools_proxy.documents.importers.import_process import Importer, ImportUnavailable
from mcp_tools_proxy.documents.importers.import_worker import MEMORY_BYTES
from mcp_tools_proxy.documents.versions import rights_tag
from mcp_tools_proxy.domain.document import Document, DocumentHead, DocumentSource
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from mcp_tools_proxy.settings.documents import DocumentSettings
from mcp_tools_proxy.storage.cache_folder import default_folder
from mcp_tools_proxy.wire.text import printable, quote

MAX_JOBS = 8
"""Default limit of parallel imports; each can take 1 GiB of memory."""

MAX_REMOVED_SHARE = 0.2
"""Share of a source's documents above which --prune needs --prune-all."""

WRITE_FAILURES = 5
"""Consecutive failures to store a document after which a run ends: the disk is full."""

_IN_MEMORY_BYTES = 8_000_000
_PIECE_BYTES = 1024 * 1024

_OTHER_FOLDER = (
    "its document was imported from another folder; name the source with --source, by "
    "the same name if this is the same folder, otherwise by another name"
)

_TOO_LARGE = "has over 1 GiB, the memory of an import: cut it into parts"

_CONFLICT = "the document was changed by another program during the import; run the import again"


Complete = Callable[[Document, DocumentHead | None], Document]
"""Adds the facts in the command's options to an imported document; the head is the earlier one."""


async def import_folder(
    root: Path,
    settings: DocumentSettings,
    documents_path: Path | None,
    options: FolderOptions,
    options_of: OptionsOf,
    complete: Complete,
    *,
    tenant_id: str,
    as_json: bool,
) -> bool:
    """Import a folder, print the result, and return whether all succeeded. Raises Unusable."""
    has_ocr = bool(options_of("", "", ()).ocr_languages)
    try:
        folder = await asyncio.to_thread(
            partial(SourceFolder, root, has_ocr=has_ocr, include=options.include)
        )
    except OSError as error:
        raise Unusable(f"{root} cannot be opened: {error.strerror}") from error
    digests = FileDigests(settings.cache_dir or default_folder(), root)
    try:
        with digests.locked(tenant_id, options.source):
            async with (
                open_writer(
                    settings,
                    documents_path,
                    tenant_id=tenant_id,
                    on_removed=lambda _doc_id, _path: None,
                ) as writer,
                vector_import(settings, writer) as vectors,
            ):
                return await FolderImport(
                    folder,
                    writer,
                    vectors,
                    digests,
                    tenant_id=tenant_id,
                    options=options,
                    options_of=options_of,
                    complete=complete,
                    new_importer=lambda: Importer(ocr_timeout_s=settings.ocr_timeout_s),
                    max_original_bytes=settings.max_original_bytes,
                    as_json=as_json,
                ).run()
    finally:
        digests.close()
        folder.close()


class FolderImport:
    """One run of ``documents import FOLDER``."""

    def __init__(
        self,
        folder: SourceFolder,
        writer: DocumentWriter,
        vectors: VectorImport,
        digests: FileDigests,
        *,
        tenant_id: str,
        options: FolderOptions,
        options_of: OptionsOf,
        complete: Complete,
        new_importer: Callable[[], Importer],
        max_original_bytes: int | None,
        as_json: bool,
    ) -> None:
        self._folder = folder
        self._writer = writer
        self._vectors = vectors
        self._digests = digests
        self._tenant_id = tenant_id
        self._options = options
        self._complete = complete
        self._new_importer = new_importer
        self._max_original_bytes = max_original_bytes
        self._as_json = as_json
        self._imported: list[dict[str, object]] = []
        self._removed: list[dict[str, object]] = []
        self._warnings: list[dict[str, object]] = []
        self._failed: dict[str, str] = {}
        self._unchanged = 0
        self._new_readers = 0
        self._write_failures = 0
        self._ended = ""
        """Why the run ended early, or removed nothing; "" if it did not."""
        self._kept: list[str] = []
        """Why documents without files were kept."""
        self._found = SourceFiles()
        has_ocr = bool(options_of("", "", ()).ocr_languages)
        self._not_a_document = f"not a document ({IMPORTER_VERSION}{', OCR' if has_ocr else ''}): "
        """Begins an entry that has no digest; a new version, or OCR, reads the file again."""
        self._file_options = FileOptions(options, options_of)

    async def run(self) -> bool:
        """Import and remove documents, and print the result; return whether all succeeded."""
        try:
            found = await self._list_files()
            known = await asyncio.to_thread(self._digests.load)
            await asyncio.to_thread(self._set_aside_others, known)
            heads = await all_heads(self._writer, self._tenant_id)
            plan = plan_import(
                found,
                heads,
                tenant_id=self._tenant_id,
                source=self._options.source,
                folder=None if self._options.is_named else self._folder.identity,
                include=self._options.include,
                adopts=self._options.adopts,
            )
            await asyncio.to_thread(self._warn_of_unused_patterns)
            for path, reason in sorted(found.skipped.items()):
                _report(path, reason)
            for path, reason in sorted(found.failed.items()):
                self._fail(path, reason)
            await self._import_all(plan.files, known)
            if self._options.prunes and not self._ended:
                await self._prune(plan)
        except asyncio.CancelledError:
            self._ended = "interrupted; run the command again to continue"
            raise
        finally:
            self._print()
        return not (self._failed or self._ended or self._kept)

    async def _list_files(self) -> SourceFiles:
        rights_path = self._options.rights_path
        try:
            self._found = await asyncio.to_thread(self._folder.list_files, but=rights_path)
        except OSError as error:
            raise Unusable(f"{self._folder.root} cannot be listed: {error.strerror}") from error
        return self._found

    def _warn_of_unused_patterns(self) -> None:
        """Report patterns of the options without an effect, such as misspelt ones. Blocks."""
        paths, rights_path = self._found.files, self._options.rights_path
        if not paths:
            return
        for pattern in self._options.include:
            if not any(matches(path, [pattern]) for path in paths):
                _report(f"--include {quote(pattern)}", self._found.why_unused(pattern))
        if rights_path is None:
            return
        rules = self._options.rights.files
        used = {id(self._options.rights.rule_of(path)) for path in paths}
        for rule in rules:
            if id(rule) in used:
                continue
            if any(matches(path, [rule.path], ignore_case=True) for path in paths):
                reason = "never applies, as earlier rules match its files"
            else:
                reason = self._found.why_unused(rule.path)
            message = f"rule {quote(rule.path)} {reason}"
            entry = {"code": "unused_rule", "message": message, "advice": None}
            self._warnings.append({"file": str(rights_path), "warnings": [entry]})
            _report(str(rights_path), message)

    def _set_aside_others(self, known: Mapping[str, KnownDigest]) -> None:
        """Skip the files without a known suffix whose content is not a document. Blocks."""
        found, include = self._found, self._options.include
        mark = self._not_a_document
        kept: dict[str, KnownDigest] = {}
        for path in sorted(found.unknown):
            if include and not matches(path, include):
                continue
            earlier = known.get(path)
            if include and earlier is not None and earlier.digest.startswith(mark):
                earlier = None  # --include can name files of programs
            if earlier is None or earlier.stamp != found.files[path] or self._options.reads_all:
                try:
                    stamp, reason = self._folder.look_into(path)
                except ImportFailed as error:
                    found.set_aside(path, error.reason)
                    continue
                earlier = KnownDigest(stamp, mark + reason if reason else "")
                kept[path] = earlier
            if earlier.digest.startswith(mark):
                found.set_aside(path, earlier.digest.removeprefix(mark))
        self._digests.keep(kept)

    async def _import_all(
        self, files: Sequence[PlannedFile], known: Mapping[str, KnownDigest]
    ) -> None:
        waiting = [it for it in files if not await self._is_done(it, known.get(it.path))]
        queue = iter(waiting)
        jobs = self._options.jobs or min(usable_cpus(), MAX_JOBS)

        async with files_progress(len(waiting)) as advance:

            async def work() -> None:
                importer = self._new_importer()
                for file in queue:
                    if not self._ended:
                        await self._import(file, importer)
                        advance()

            async with asyncio.TaskGroup() as group:
                for _ in range(min(jobs, len(waiting))):
                    group.create_task(work())

    async def _is_done(self, file: PlannedFile, known: KnownDigest | None) -> bool:
        """Return whether a file is unchanged, judging by its stamp."""
        if self._options.reads_all or known is None or known.stamp != file.stamp:
            return False
        if not self._is_current(file, known.digest):
            return False
        await self._keep(file)
        return True

    async def _keep(self, file: PlannedFile) -> None:
        """Count an unchanged file, and set the readers of its document."""
        rule, head = self._options.rights.rule_of(file.path), file.head
        if head is not None and rule is not None and rule.sets_readers:
            if file.is_foreign and rule.to_readers() != head.readers:
                self._fail(file.path, _OTHER_FOLDER)
                return
            try:
                await self._set_readers(head, rule)
            except (VersionConflict, NoSuchDocument):
                self._fail(file.path, _CONFLICT)
                return
            except (ReadOnlyDocuments, WriteFailed) as error:
                self._fail(file.path, error.reason)
                return
        self._unchanged += 1

    async def _set_readers(self, head: DocumentHead, rule: RightsRule) -> None:
        readers = rule.to_readers()
        if readers == head.readers:
            return
        if not self._options.is_dry_run:
            key = (head.tenant_id, head.doc_id)
            await self._writer.set_readers(key, readers, expected=rights_tag(head.readers))
        self._new_readers += 1
        self._note("readers", _path_of(head), head.doc_id)

    async def _import(self, file: PlannedFile, importer: Importer) -> None:
        """Import one file, if it has changed; print a failure."""
        try:
            await self._import_changed(file, importer)
            self._write_failures = 0
        except FAILURES as error:
            self._fail(file.path, error.reason)
            if isinstance(error, WriteFailed | ImportUnavailable):
                self._write_failures += 1
            if isinstance(error, ReadOnlyDocuments) or self._write_failures == WRITE_FAILURES:
                self._ended = "the import ended early, because documents cannot be stored"
        except VersionConflict:
            self._fail(file.path, _CONFLICT)
        except DocumentsUnavailable as error:
            self._fail(file.path, f"{error} ({error.reason})" if error.reason else str(error))
            self._ended = "the import ended early, because the documents cannot be reached"

    async def _import_changed(self, file: PlannedFile, importer: Importer) -> None:
        with await asyncio.to_thread(self._folder.open, file.path) as opened:
            stamp = FileStamp.of(os.fstat(opened.fileno()))
            await asyncio.sleep(stamp.seconds_until_settled())
            digest, copied = await asyncio.to_thread(self._read, file, opened, stamp)
            if copied is None:
                await self._keep_digest(file, stamp, digest)
                await self._keep(file)
                return
        with copied:
            if file.is_foreign:
                raise ImportFailed(_OTHER_FOLDER)
            if self._options.is_dry_run:
                self._note("imported", file.path, file.doc_id)
                return
            rule = self._options.rights.rule_of(file.path)
            options = self._file_options.of(file, digest)
            document, original = await import_file(
                importer, Path(file.path), copied, options, no_progress, self._max_original_bytes
            )
        sets_readers = rule is not None and rule.sets_readers
        document = self._complete(document, file.head)
        document = replace(
            document,
            is_untrusted=document.is_untrusted or (rule is not None and rule.untrusted),
            source=self._source_of(file, digest),
            readers=rule.to_readers() if rule is not None else None,
        )
        head = await self._writer.put(
            document,
            expected=Expected.NOTHING if file.head is None else file.head.version,
            keep_readers=not sets_readers,
            original=original,
        )
        await self._keep_digest(file, stamp, digest)
        self._note("imported", file.path, file.doc_id)
        if document.warnings:
            facts = warning_facts(document.warnings, document.source)
            self._warnings.append({"file": file.path, "warnings": facts})
        for warning in document.warnings:
            _report(file.path, spell_warning(warning, document.source))
        await self._vectors.add(document, head.version)

    async def _keep_digest(self, file: PlannedFile, stamp: FileStamp, digest: str) -> None:
        await asyncio.to_thread(self._digests.keep, {file.path: KnownDigest(stamp, digest)})

    def _read(
        self, file: PlannedFile, opened: BinaryIO, stamp: FileStamp
    ) -> tuple[str, BinaryIO | None]:
        """Return a file's digest and a copy; None instead of the copy if it is unchanged.

        The copy is hashed and imported, even if the file is written meanwhile. Blocks.
        Raises ImportFailed if the file changed since it had the stamp, ImportUnavailable.
        """
        if stamp.size > MEMORY_BYTES:  # a copy could fill the disk
            raise ImportFailed(_TOO_LARGE)
        if file.head is not None and file.head.source is not None:
            digest = _digest_of(opened)
            self._folder.check_unchanged(file.path, opened, stamp)
            if self._is_current(file, digest):
                return digest, None
        copied = cast(BinaryIO, SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115 - the caller closes it
        try:
            digest = _copy(opened, copied)
            self._folder.check_unchanged(file.path, opened, stamp)
        except BaseException:
            copied.close()
            raise
        return digest, copied

    def _is_current(self, file: PlannedFile, digest: str) -> bool:
        """Return whether the stored document is what an import would give."""
        stored = None if file.head is None else file.head.source
        if stored is None:
            return False
        return (stored.digest, stored.importer) == (
            digest,
            self._file_options.importer_of(file, digest),
        )

    def _source_of(self, file: PlannedFile, digest: str) -> DocumentSource:
        name, folder = self._options.source, self._folder.identity
        return DocumentSource(
            name, file.path, digest, self._file_options.importer_of(file, digest), folder
        )

    async def _prune(self, plan: ImportPlan) -> None:
        """Remove the documents whose files are gone, unless that looks like a mistake."""
        if not (self._found.files or self._found.others):
            self._ended = (
                f"{self._folder.root} has no files, so no documents are removed; is it mounted?"
            )
            return
        if plan.foreign:
            self._kept.append(
                f"kept {counted(len(plan.foreign), 'document')} imported from another folder; "
                f"if it is the same folder, add --source {quote(self._options.source)}"
            )
        gone = list(plan.gone)
        for folder, heads in plan.emptied.items():
            if self._options.prunes_all:
                gone += heads
            else:
                self._kept.append(
                    f"{printable(folder)}: has no files, kept {counted(len(heads), 'document')}; "
                    "is it mounted? Delete the folder, or add --prune-all, to remove them"
                )
        if len(gone) > plan.stored * MAX_REMOVED_SHARE and not self._options.prunes_all:
            self._ended = (
                f"the files of {len(gone)} of {plan.stored} documents are gone, which is over "
                f"{MAX_REMOVED_SHARE:.0%}: none was removed; check the folder, or add --prune-all"
            )
            return
        for head in gone:
            if await asyncio.to_thread(self._folder.is_gone, _path_of(head)):
                await self._remove(head)

    async def _remove(self, head: DocumentHead) -> None:
        key = (head.tenant_id, head.doc_id)
        try:
            if not self._options.is_dry_run:
                now = await self._writer.head(key)
                if now is None or now.source != head.source:  # uploaded meanwhile
                    return
                await self._writer.remove(key, expected=now.version)
            self._note("removed", _path_of(head), head.doc_id)
        except (VersionConflict, NoSuchDocument):
            return
        except (ReadOnlyDocuments, WriteFailed) as error:
            self._fail(_path_of(head), error.reason)

    def _fail(self, path: str, reason: str) -> None:
        self._failed[path] = reason
        _report(path, reason)

    def _note(self, what: str, path: str, doc_id: str) -> None:
        entry: dict[str, object] = {"file": path, "doc_id": doc_id}
        if what != "readers":
            (self._removed if what == "removed" else self._imported).append(entry)
        if not self._as_json:
            would = "would be " if self._options.is_dry_run else ""
            done = "readers set" if what == "readers" else what
            echo(f"{would}{done}  {printable(path)}  -> {doc_id}")

    def _print(self) -> None:
        """Print the summary."""
        if self._as_json:
            print_json(self._as_object())
        else:
            echo(", ".join(self._counts()))
        for line in filter(None, [*self._skipped_lines(), *self._kept, self._ended]):
            echo(line, err=True)

    def _counts(self) -> list[str]:
        would = "would be " if self._options.is_dry_run else ""
        counts = [
            f"{len(self._imported)} {would}imported",
            f"{self._unchanged} unchanged",
            f"{len(self._failed)} failed",
            f"{len(self._removed)} {would}removed",
        ]
        if self._new_readers:
            counts.append(f"{self._new_readers} with new readers")
        if self._warnings:
            counts.append(counted(len(self._warnings), "warning"))
        if skipped := len(self._found.skipped) + len(self._found.others):
            counts.append(f"{skipped} skipped")
        return counts

    def _skipped_lines(self) -> Iterator[str]:
        """Yield a line for each reason why files are not documents."""
        paths: dict[str, list[str]] = {}
        for path, reason in sorted(self._found.others.items()):
            paths.setdefault(reason, []).append(path)
        for reason, (first, *more) in paths.items():
            others = f" and {counted(len(more), 'other file')}" if more else ""
            yield f"skipped {printable(first)}{others}: {reason}"

    def _as_object(self) -> Mapping[str, object]:
        return {
            "source": self._options.source,
            "tenant_id": self._tenant_id,
            "dry_run": self._options.is_dry_run,
            "imported": self._imported,
            "unchanged": self._unchanged,
            "new_readers": self._new_readers,
            "failed": [{"file": it, "error": self._failed[it]} for it in sorted(self._failed)],
            "removed": self._removed,
            "warnings": self._warnings,
            "skipped": sorted({*self._found.skipped, *self._found.others}),
            **({"kept": self._kept} if self._kept else {}),
            **({"ended": self._ended} if self._ended else {}),
        }


def _report(path: str, reason: str) -> None:
    # a line end in a name could add a line that reports what did not happen
    echo(f"{printable(path)}: {reason}", err=True)


def _path_of(head: DocumentHead) -> str:
    return head.doc_id if head.source is None else head.source.path


def _digest_of(file: BinaryIO) -> str:
    digest = sha256()
    try:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
        file.seek(0)
    except OSError as error:
        raise ImportFailed(f"cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _copy(file: BinaryIO, to: BinaryIO) -> str:
    """Copy a file and return the SHA-256 of the copy."""
    digest, copied = sha256(), 0
    while True:
        try:
            piece = file.read(_PIECE_BYTES)
        except OSError as error:
            raise ImportFailed(f"cannot be read: {error.strerror}") from error
        if not piece:
            return digest.hexdigest()
        digest.update(piece)
        copied += len(piece)
        if copied > MEMORY_BYTES:  # it grows
            raise ImportFailed(_TOO_LARGE)
        try:
            to.write(piece)
        except OSError as error:
            raise ImportUnavailable(error) from error
