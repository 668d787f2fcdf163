"""Imports files in separate processes without access to secrets and descriptors of this one.

Up to two imports with OCR and two without run at once, three in total.
"""

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json

from mcp_tools_proxy.documents.document_file import BrokenFile, parse_document
from mcp_tools_proxy.documents.fair_places import FairPlaces, NoPlace, Refusal
from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    Progress,
    no_progress,
    one_line,
)
from mcp_tools_proxy.documents.importers.file_kind import HEAD_BYTES, may_need_ocr
from mcp_tools_proxy.documents.importers.import_worker import CPU_S, STARTED
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.storage.files import open_temporary, write_all
from mcp_tools_proxy.system.worker_process import WorkerProcess

WORKER = (sys.executable, "-I", "-m", "mcp_tools_proxy.documents.importers.import_worker")

TIMEOUT_S = 180.0
"""Seconds for one import; its CPU limit is reached first unless it sleeps."""

OCR_TIMEOUT_S = 900.0
"""Seconds, and CPU seconds, for one import with OCR; a page takes about 2."""

ENVIRONMENT = {"OMP_THREAD_LIMIT": "1", "OPENBLAS_NUM_THREADS": "1"}
"""The complete environment of the process; keeps Tesseract and numpy from starting threads."""

MAX_DOCUMENT_BYTES = 128 * 1024 * 1024
"""Default limit for an imported document, as JSON."""

MOST_AT_ONCE = 3

MOST_OF_A_KIND = 2
"""Limit for imports with OCR, and for those without: two scans take a quarter of an hour."""

MOST_WAITING = 24
"""Waiting tenants; each has an upload on disk."""

WAIT_S = 90.0
"""Seconds that an import waits for a place: longer than two others can take."""

SHARE_S = 60.0

OCR_SHARE_S = 300.0
"""Seconds after which an import is stopped if another tenant waits for its place."""

_PLAIN, _OCR = "plain", "ocr"

_REASONS: Mapping[Refusal, str] = {
    Refusal.OWN_WORK: "another import of this tenant is running; send it again",
    Refusal.MANY_WAIT: "too many tenants are waiting for an import; send it again",
    Refusal.WAITED_TOO_LONG: "imports of other tenants are running; send it again",
    Refusal.SHARE_IS_OVER: "the import took over {share_s:g} s while other tenants waited; send it "
    "again later, or cut the file into parts",
}

_LONGER = "set MCP_PROXY_OCR_TIMEOUT_S higher, or cut the file into parts"
_PREFIX = "mcp-tools-proxy-import-"
_REASON_CHARS = 1000
_STDERR_BYTES = 64 * 1024
_PIECE_BYTES = 256 * 1024
_SMALL_PIECE_BYTES = 4 * 1024
_PAUSE_S = 0.01
_PROGRESS = re.compile(rb"progress (\d{1,9}) (\d{1,9})")
_SIZE = re.compile(rb"document (\d{1,12})")


class ImportUnavailable(Exception):
    """No process can be started, or disk space is missing; ``reason`` is one line."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.reason = f"an import cannot be run on this machine now: {error.strerror}"


class ImporterBusy(Exception):
    """No place is available, or it was withdrawn; ``reason`` is one line.

    ``was_running``: the import started, and took longer than its share.
    """

    def __init__(self, reason: str, *, was_running: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.was_running = was_running


class ImportPlaces:
    """Import places of one event loop."""

    def __init__(
        self, *, wait_s: float = WAIT_S, share_s: float = SHARE_S, ocr_share_s: float = OCR_SHARE_S
    ) -> None:
        self._places = FairPlaces(
            most_at_once=MOST_AT_ONCE,
            most_of_a_kind=MOST_OF_A_KIND,
            most_waiting=MOST_WAITING,
            wait_s=wait_s,
            shares_s={_PLAIN: share_s, _OCR: ocr_share_s},
        )

    def __repr__(self) -> str:
        return f"<ImportPlaces: {self._places.running} running, {self._places.waiting} waiting>"

    @property
    def running(self) -> int:
        """Number of running imports."""
        return self._places.running

    @asynccontextmanager
    async def place(
        self, tenant_id: str, *, with_ocr: bool, timeout_s: float
    ) -> AsyncIterator[None]:
        """Wait for a place and hold it during the block. Raises ImporterBusy, TimeoutError."""
        kind = _OCR if with_ocr else _PLAIN
        try:
            async with self._places.place(tenant_id, kind=kind, timeout_s=timeout_s):
                yield
        except NoPlace as error:
            reason = _REASONS[error.refusal].format(share_s=error.share_s)
            was_running = error.refusal is Refusal.SHARE_IS_OVER
            raise ImporterBusy(reason, was_running=was_running) from None


class Imported:
    """The result of an import, in an unnamed temporary file."""

    def __init__(self, file: FileIO, options: ImportOptions) -> None:
        self.size = file.tell()
        self._file = file
        self._options = options

    def document(self) -> Document:
        """Return the document, validated like an uploaded file. Raises ImportFailed. Blocks.

        Its ids must be the requested ones. Validation takes twice the document's size in memory.
        """
        self._file.seek(0)
        return _checked(self._file.read(), self._options)


class Importer:
    """Runs imports, each in a place of ``places``."""

    def __init__(
        self,
        *,
        worker: Sequence[str] = WORKER,
        timeout_s: float = TIMEOUT_S,
        ocr_timeout_s: float = OCR_TIMEOUT_S,
        max_document_bytes: int = MAX_DOCUMENT_BYTES,
        places: ImportPlaces | None = None,
    ) -> None:
        self._worker = worker
        self._timeout_s = timeout_s
        self._ocr_timeout_s = ocr_timeout_s
        self._max_document_bytes = max_document_bytes
        self._places = places or ImportPlaces()

    def __repr__(self) -> str:
        return f"<Importer: {self._places.running} running>"

    @asynccontextmanager
    async def imported(
        self,
        source: BinaryIO,
        suffix: str,
        options: ImportOptions,
        progress: Progress = no_progress,
    ) -> AsyncIterator[Imported]:
        """Import an open file from its start and hold the result until the block ends.

        Raises ImportFailed, ImporterBusy, ImportUnavailable.
        """
        source.seek(0)
        head = await asyncio.to_thread(source.read, HEAD_BYTES)
        with_ocr = bool(options.ocr_languages) and may_need_ocr(head)
        with _temporary_file() as answer:
            await self._import_in_time(source, suffix, options, answer, progress, with_ocr=with_ocr)
            yield Imported(answer, options)

    async def _import_in_time(
        self,
        source: BinaryIO,
        suffix: str,
        options: ImportOptions,
        answer: FileIO,
        progress: Progress,
        *,
        with_ocr: bool,
    ) -> None:
        timeout_s = max(self._timeout_s, self._ocr_timeout_s) if with_ocr else self._timeout_s
        cpu_s = max(CPU_S, self._ocr_timeout_s) if with_ocr else CPU_S
        place = self._places.place(options.tenant_id, with_ocr=with_ocr, timeout_s=timeout_s)
        try:
            async with place:
                await self._import(source, suffix, options, answer, progress, cpu_s)
        except TimeoutError:
            advice = _LONGER if with_ocr else "cut the file into parts"
            raise ImportFailed(f"was not imported within {timeout_s:g} s; {advice}") from None

    async def _import(
        self,
        source: BinaryIO,
        suffix: str,
        options: ImportOptions,
        answer: FileIO,
        progress: Progress,
        cpu_s: float,
    ) -> None:
        request = {"suffix": suffix, "cpu_s": cpu_s, "options": asdict(options)}
        source.seek(0)
        with _temporary_file() as errors:
            async with worker_process(self._worker, errors=errors.fileno()) as worker:
                async with asyncio.TaskGroup() as group:
                    header = json.dumps(request).encode() + b"\n"
                    feeding = group.create_task(feed(worker.stdin, header, source))
                    problem = await self._receive(worker.stdout, answer, progress)
                    feeding.cancel()
                if isinstance(problem, _Ended):
                    exit_code = await worker.wait()
                    if problem.has_started:
                        raise ImportFailed(_reason_of(exit_code, cpu_s))
                    raise ImportUnavailable(OSError(0, _reason_not_started(exit_code, errors)))
                if problem is not None:
                    raise problem

    async def _receive(
        self, output: asyncio.StreamReader, answer: FileIO, progress: Progress
    ) -> Exception | None:
        """Write the document to a file; return an error instead of raising it.

        The task group would wrap a raised error.
        """
        has_started = False
        try:
            while line := await output.readline():
                await asyncio.sleep(0)  # endless lines stalled every other call for 0.2 s
                if line == STARTED:
                    has_started = True
                elif found := _PROGRESS.match(line):
                    progress(int(found[1]), int(found[2]))
                elif found := _SIZE.match(line):
                    return await self._take(output, int(found[1]), answer)
                elif line.startswith(b"failed "):
                    reason = str(from_json(line.removeprefix(b"failed ")))
                    return ImportFailed(one_line(reason)[:_REASON_CHARS])
        except ValueError:  # an overlong line: the process is not read further
            return ImportFailed(
                "cannot be imported: the importer's output is not a document; export it as PDF"
            )
        return _Ended(has_started=has_started)

    async def _take(
        self, output: asyncio.StreamReader, size: int, answer: FileIO
    ) -> Exception | None:
        limit = self._max_document_bytes
        if size > limit:
            return ImportFailed(
                f"results in a document of {size} bytes, the limit is {limit}: cut it into parts"
            )
        while size:
            piece = await output.read(min(size, _PIECE_BYTES))
            if not piece:
                return _Ended(has_started=True)
            size -= len(piece)
            try:
                await asyncio.to_thread(write_all, answer, piece)
            except OSError as error:
                return ImportUnavailable(error)
            if size and len(piece) < _SMALL_PIECE_BYTES:
                await asyncio.sleep(_PAUSE_S)  # single bytes kept the gateway busy
        return None


class _Ended(Exception):
    """The process ended without a result."""

    def __init__(self, *, has_started: bool) -> None:
        super().__init__()
        self.has_started = has_started


@contextmanager
def _temporary_file() -> Iterator[FileIO]:
    try:
        file = open_temporary(_PREFIX)
    except OSError as error:
        raise ImportUnavailable(error) from error
    with file:
        yield file


@asynccontextmanager
async def worker_process(
    command: Sequence[str], errors: int = DEVNULL
) -> AsyncIterator[WorkerProcess]:
    """Run a process; the block's end kills it and its children.

    It has no folder to write to, which would stay if this process is killed.
    """
    try:
        worker = await WorkerProcess.start(command, environment=ENVIRONMENT, errors=errors)
    except OSError as error:
        raise ImportUnavailable(error) from error
    try:
        yield worker
    finally:
        await worker.end()


async def feed(sink: asyncio.StreamWriter, request: bytes, file: BinaryIO) -> None:
    """Send the request, then the file; a process that ends early reports its reason."""
    with suppress(ConnectionError):
        sink.write(request)
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            sink.write(piece)
            await sink.drain()
        sink.write_eof()


def _checked(content: bytes, options: ImportOptions) -> Document:
    try:
        document = parse_document(Path("document"), content, is_foreign=True)
    except BrokenFile as error:
        raise ImportFailed(f"does not result in a valid document: {error.reason}") from error
    if (document.tenant_id, document.doc_id) != (options.tenant_id, options.doc_id):
        raise ImportFailed("results in a different document from the one requested")
    if document.readers is not None:
        raise ImportFailed("names readers, which imported files may not: remove them")
    return document


def _reason_not_started(exit_code: int, errors: FileIO) -> str:
    """Return why a process ended before it read the request: its last line on stderr, if any."""
    errors.seek(0)
    lines = errors.read(_STDERR_BYTES).decode(errors="replace").splitlines()
    last = next((line for line in reversed(lines) if line.strip()), f"exit code {exit_code}")
    return f"its process ended at the start: {one_line(last)[:_REASON_CHARS]}"


_CRASHED = "cannot be imported: the importer crashed"


def _reason_of(exit_code: int, cpu_s: float) -> str:
    if exit_code == -signal.SIGXCPU:
        advice = _LONGER if cpu_s > CPU_S else "cut the file into parts"
        return f"takes more than {cpu_s:g} s of CPU; {advice}"
    if exit_code in {-signal.SIGKILL, _CANNOT_END}:
        return "needs more memory than an import may use, or than is available: cut it into parts"
    if exit_code == -signal.SIGABRT:  # of libraries in C++ and Rust without memory
        return f"{_CRASHED}, perhaps for lack of memory; cut it into parts"
    return f"{_CRASHED}; export it as PDF"


_CANNOT_END = 120
"""Exit code of Python if it cannot write its last output, for lack of memory."""
