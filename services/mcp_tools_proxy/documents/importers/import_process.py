"""Imports files in processes of their own, with nothing of this one's: no secret, no descriptor."""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from asyncio.subprocess import SubprocessStreamProtocol
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json

from mcp_tools_proxy.documents.document_file import (
    MAX_FOREIGN_ITEMS,
    BrokenFile,
    parse_document,
)
from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    Progress,
    no_progress,
    one_line,
)
from mcp_tools_proxy.documents.importers.import_worker import CPU_S
from mcp_tools_proxy.domain.document import Document

WORKER = (sys.executable, "-I", "-m", "mcp_tools_proxy.documents.importers.import_worker")

MOST_AT_ONCE = 2
MOST_OF_A_TENANT = 1

TIMEOUT_S = 180.0
"""Seconds for one import in all; its CPU ends it sooner, unless it sleeps."""

MAX_DOCUMENT_BYTES = 128 * 1024 * 1024
"""Largest document, as JSON, that is taken from an import."""

_LINE_BYTES = 256 * 1024
_REASON_CHARS = 1000
_PIECE_BYTES = 256 * 1024
_PROGRESS = re.compile(rb"progress (\d{1,9}) (\d{1,9})")
_SIZE = re.compile(rb"document (\d{1,12})")


class ImporterBusy(Exception):
    """As many imports run as may at once, of all tenants or of this one."""


class Importer:
    """Runs imports: two at once, one for each tenant."""

    def __init__(self, *, worker: Sequence[str] = WORKER, timeout_s: float = TIMEOUT_S) -> None:
        self._worker = worker
        self._timeout_s = timeout_s
        self._running: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Importer: {self._running.total()} running>"

    async def import_file(
        self, path: Path, suffix: str, options: ImportOptions, progress: Progress = no_progress
    ) -> Document:
        """Import a file. Raises ImportFailed, ImporterBusy.

        What the process hands back is checked like any document file, and has to be the document
        that was asked for.
        """
        with self._place(options.tenant_id):
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._import(path, suffix, options, progress)
            except TimeoutError:
                raise ImportFailed(f"was not done within {self._timeout_s:g} s") from None

    @contextmanager
    def _place(self, tenant_id: str) -> Iterator[None]:
        if self._running.total() >= MOST_AT_ONCE or self._running[tenant_id] >= MOST_OF_A_TENANT:
            raise ImporterBusy
        self._running[tenant_id] += 1
        try:
            yield
        finally:
            self._running[tenant_id] -= 1
            if not self._running[tenant_id]:
                del self._running[tenant_id]

    async def _import(
        self, path: Path, suffix: str, options: ImportOptions, progress: Progress
    ) -> Document:
        request = {
            "suffix": suffix,
            "tenant_id": options.tenant_id,
            "doc_id": options.doc_id,
            "stem": options.stem,
            "title": options.title,
            "tags": options.tags,
        }
        try:
            file = await asyncio.to_thread(path.open, "rb")
        except OSError as error:
            raise ImportFailed(f"cannot be read: {error.strerror}") from error
        with file:
            async with _process(self._worker) as (process, source, sink):
                async with asyncio.TaskGroup() as group:
                    header = json.dumps(request).encode() + b"\n"
                    feeding = group.create_task(_feed(sink, header, file))
                    answer = await _read_answer(source, progress)
                    feeding.cancel()
                if answer is None:
                    answer = ImportFailed(_reason_of(await process.wait()))
        if isinstance(answer, ImportFailed):
            raise answer
        return await asyncio.to_thread(_checked, answer, options)


@asynccontextmanager
async def _process(
    worker: Sequence[str],
) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader, asyncio.StreamWriter]]:
    """Start the process in a folder of its own; end it, and what it started, with the block."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(prefix="mcp-tools-proxy-import-") as folder:
        # not create_subprocess_exec, which hands out no way to close the pipes
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(_LINE_BYTES, loop),
            *worker,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env={},
            start_new_session=True,
        )
        process = asyncio.subprocess.Process(transport, protocol, loop)
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process was started with pipes")
        try:
            yield process, process.stdout, process.stdin
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # wait() waits for its pipes, too: one full of what nobody reads, or held open by what
            # left the group, kept the place of this import for ever
            sink = process.stdin.transport
            if sink.get_write_buffer_size() or not sink.is_closing():
                sink.abort()
            transport.close()
            await asyncio.shield(process.wait())


async def _feed(sink: asyncio.StreamWriter, request: bytes, file: BinaryIO) -> None:
    """Send the request, then the file; one that ends early has its reason in its answer."""
    with suppress(ConnectionError):
        sink.write(request)
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            sink.write(piece)
            await sink.drain()
        sink.write_eof()


async def _read_answer(
    source: asyncio.StreamReader, progress: Progress
) -> bytes | ImportFailed | None:
    """Return the document, or why there is none; None if the process ended without either."""
    try:
        while line := await source.readline():
            await asyncio.sleep(0)  # lines without end stalled every other call for 0.2 s
            if found := _PROGRESS.match(line):
                progress(int(found[1]), int(found[2]))
            elif found := _SIZE.match(line):
                size = int(found[1])
                if size > MAX_DOCUMENT_BYTES:
                    return ImportFailed(f"makes a document of {size} bytes, which is too large")
                return await source.readexactly(size)
            elif line.startswith(b"failed "):
                reason = str(from_json(line.removeprefix(b"failed ")))
                return ImportFailed(one_line(reason)[:_REASON_CHARS])
    except asyncio.IncompleteReadError:
        return None
    except ValueError:  # a line without end: nobody reads on, so the process would not end either
        return ImportFailed("cannot be imported: the importer wrote what is no document")
    return None


def _checked(content: bytes, options: ImportOptions) -> Document:
    """Check what an import handed back like a foreign file. Raises ImportFailed."""
    try:
        document = parse_document(Path("document"), content, max_items=MAX_FOREIGN_ITEMS)
    except BrokenFile as error:
        raise ImportFailed(f"makes no valid document: {error.reason}") from error
    if (document.tenant_id, document.doc_id) != (options.tenant_id, options.doc_id):
        raise ImportFailed("makes another document than the one that was asked for")
    if document.readers is not None:
        raise ImportFailed("names readers, which no file that is imported may")
    return document


def _reason_of(exit_code: int) -> str:
    """Return why a process ended without an answer."""
    if exit_code == -signal.SIGXCPU:
        return f"takes more than {CPU_S} s of CPU"
    if exit_code == -signal.SIGKILL:
        return "needs more memory or CPU than an import may have"
    return "cannot be imported: it made the importer crash"
