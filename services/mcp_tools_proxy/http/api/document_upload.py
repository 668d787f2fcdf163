"""Receives uploads: stored in a size-limited temporary file, imported, and read one at a time."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from fastapi import Request
from starlette.datastructures import Headers

from mcp_tools_proxy.documents.document_file import BrokenFile, parse_document
from mcp_tools_proxy.documents.folder.file_scan import largest_file
from mcp_tools_proxy.documents.importers.base import ImportOptions, Progress, no_progress, one_line
from mcp_tools_proxy.documents.importers.file_kind import HEAD_BYTES, is_pdf
from mcp_tools_proxy.documents.importers.import_process import Imported, Importer, ImporterBusy
from mcp_tools_proxy.documents.importers.text_encoding import find_encoding
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.errors import (
    ImportBusy,
    InvalidRequest,
    PayloadTooLarge,
    StoreUnavailable,
    UnsupportedFormat,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.api.document_models import UploadQuery
from mcp_tools_proxy.http.body import cancel_on_disconnect, discard
from mcp_tools_proxy.http.responses import JSON
from mcp_tools_proxy.storage.files import open_temporary, write_all
from mcp_tools_proxy.wire.strict_json import BODY

MAX_UPLOADS = 32
"""Limit of concurrent uploads; each is a file of at most ``max_document_bytes``."""

MAX_UPLOADS_OF_TENANT = 24
"""Limit of a tenant, so that its slow uploads leave capacity for others."""

LARGE_BYTES = 1_000_000
"""Larger documents are read and written one at a time, as that takes three times the memory."""

IMPORT_RETRY_S = 5

PLACE_RETRY_S = 1.0
"""Seconds after which an import for which no client waits asks for a place again."""

_ANY = "application/octet-stream"
_OPEN_XML = "application/vnd.openxmlformats-officedocument"
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument"
SUFFIXES = {
    "application/pdf": ".pdf",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/html": ".html",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/x-ndjson": ".jsonl",
    "application/rtf": ".rtf",
    "message/rfc822": ".eml",
    "application/epub+zip": ".epub",
    f"{_OPEN_XML}.wordprocessingml.document": ".docx",
    f"{_OPEN_XML}.spreadsheetml.sheet": ".xlsx",
    f"{_OPEN_XML}.presentationml.presentation": ".pptx",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-outlook": ".msg",
    f"{_OPEN_DOCUMENT}.text": ".odt",
    f"{_OPEN_DOCUMENT}.spreadsheet": ".ods",
    **{f"image/{kind}": f".{kind}" for kind in ("png", "jpeg", "tiff", "webp", "gif", "bmp")},
}
"""The suffixes of media types."""

_OTHER_SUFFIXES = {
    **dict.fromkeys(("text/x-markdown", "text/x-web-markdown"), ".md"),
    "application/xhtml+xml": ".html",
    **dict.fromkeys(("application/csv", "text/x-csv", "text/comma-separated-values"), ".csv"),
    **dict.fromkeys(("application/jsonl", "application/jsonlines", "application/ndjson"), ".jsonl"),
    **dict.fromkeys(("text/rtf", "application/x-rtf"), ".rtf"),
    "multipart/related": ".mht",
    "application/msword": ".doc",
    "application/vnd.ms-powerpoint": ".ppt",
    f"{_OPEN_XML}.wordprocessingml.template": ".dotx",
    f"{_OPEN_XML}.spreadsheetml.template": ".xltx",
    f"{_OPEN_XML}.presentationml.slideshow": ".ppsx",
    f"{_OPEN_XML}.presentationml.template": ".potx",
    "application/vnd.ms-word.document.macroenabled.12": ".docm",
    "application/vnd.ms-word.template.macroenabled.12": ".dotm",
    "application/vnd.ms-excel.sheet.macroenabled.12": ".xlsm",
    "application/vnd.ms-excel.sheet.binary.macroenabled.12": ".xlsb",
    "application/vnd.ms-powerpoint.presentation.macroenabled.12": ".pptm",
    f"{_OPEN_DOCUMENT}.text-template": ".ott",
    f"{_OPEN_DOCUMENT}.spreadsheet-template": ".ots",
    "image/jpg": ".jpg",
    "image/x-ms-bmp": ".bmp",
    **dict.fromkeys((_ANY, "application/zip", "binary/octet-stream"), ""),
}
"""Other spellings, templates, files with macros, and types whose files are refused with advice."""

FILES: Mapping[str, str] = {
    JSON: "The document in the format of document files (DocumentContent).",
    _ANY: f"A file, preferably with its own type: {', '.join(SUFFIXES)}. The content decides what "
    "a file is; the type decides only among kinds of text. With this type or without one, a text "
    "with the form of JSON, CSV or Markdown has that kind.",
}
"""OpenAPI descriptions of uploads, by media type."""


class SentType(NamedTuple):
    """The media type of a body, and the encoding that the request states for text."""

    kind: str
    encoding: str | None


def media_type(headers: Headers) -> SentType:
    """Return the type of the body. Raises UnsupportedFormat."""
    kind = headers.get("content-type", _ANY).partition(";")[0].strip().lower() or _ANY
    if kind != JSON and _suffix_of(kind) is None:
        known = ", ".join((JSON, *SUFFIXES, _ANY))
        raise UnsupportedFormat(f"unsupported media type; send Content-Type with one of {known}")
    return SentType(kind, _charset(headers, kind))


def _suffix_of(kind: str) -> str | None:
    """Return the suffix of a media type, "" if the content decides, or None."""
    for suffixes in (SUFFIXES, _OTHER_SUFFIXES):
        if kind in suffixes:
            return suffixes[kind]
    if kind.endswith("+json"):
        return ".json"
    return "" if kind.startswith("text/") or kind.endswith(("+xml", "/xml", "+zip")) else None


_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s\";]+)", re.IGNORECASE)


def _charset(headers: Headers, kind: str) -> str | None:
    """Return the encoding that the request states for text. Raises UnsupportedFormat."""
    found = _CHARSET.search(headers.get("content-type", ""))
    if found is None or not (kind.startswith("text/") or kind == _ANY):
        return None
    try:
        find_encoding(found[1])
    except ValueError as error:
        raise UnsupportedFormat(f"charset of Content-Type: {error}") from error
    return found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """A document, and the PDF it was imported from, if originals are kept."""

    document: Document
    original: bytes | None


class Uploads:
    """Receives uploads within limits of memory and disk."""

    def __init__(
        self,
        *,
        max_document_bytes: int,
        keep_originals: bool,
        ocr_languages: tuple[str, ...],
        ocr_timeout_s: float,
        with_link_targets: bool,
        with_notes: bool,
    ) -> None:
        self._importer = Importer(
            max_document_bytes=largest_file(max_document_bytes), ocr_timeout_s=ocr_timeout_s
        )
        self._ocr_languages = ocr_languages
        self._with_link_targets = with_link_targets
        self._with_notes = with_notes
        self._max_document_bytes = max_document_bytes
        self._keep_originals = keep_originals
        self._running: Counter[str] = Counter()
        """Running uploads by tenant."""
        self._large = asyncio.Lock()
        """Held while a large document is in memory."""
        self._reader = ThreadPoolExecutor(1, "upload")
        """One thread, as each keeps the memory of its largest read: 8 kept 180 MB."""

    def __repr__(self) -> str:
        return f"<Uploads: {self._running.total()} running>"

    @asynccontextmanager
    async def document(
        self, request: Request, sent_type: SentType, query: UploadQuery
    ) -> AsyncIterator["Uploaded"]:
        """Receive the body of a request; yield its document, imported if necessary.

        Raises ImportBusy, PayloadTooLarge, StoreUnavailable, InvalidRequest, ClientDisconnect, and
        errors of imports.
        """
        with self._place(query.tenant_id), await self._spool(request) as file:
            async with self._read(file, sent_type, query, request) as uploaded:
                yield uploaded

    async def receive(self, request: Request, tenant_id: str) -> FileIO:
        """Receive the body of a request, and return a temporary file with it. Raises as above."""
        with self._place(tenant_id):
            return await self._spool(request)

    def read_later(
        self, file: FileIO, sent_type: SentType, query: UploadQuery, progress: Progress
    ) -> AbstractAsyncContextManager["Uploaded"]:
        """Return a block with the document of a received file; it waits until there is a place.

        Raises as above.
        """
        return self._read(file, sent_type, query, None, progress)

    @asynccontextmanager
    async def _read(
        self,
        file: FileIO,
        sent_type: SentType,
        query: UploadQuery,
        request: Request | None,
        progress: Progress = no_progress,
    ) -> AsyncIterator["Uploaded"]:
        """Yield the document; if it is large, no other large one is in memory meanwhile."""
        size = file.tell()
        async with (
            self._readable(file, sent_type, query, request, progress) as sent,
            self._large if self._memory_bytes(sent, size) > LARGE_BYTES else nullcontext(),
        ):
            loop = asyncio.get_running_loop()
            document = await loop.run_in_executor(self._reader, sent.document)
            original = None
            if self._keep_originals:
                original = await loop.run_in_executor(self._reader, _pdf_in, file)
            yield Uploaded(document=document, original=original)

    async def _spool(self, request: Request) -> FileIO:
        with _as_store_unavailable():
            # opened by a thread, it stayed open if the request was cancelled meanwhile
            file = open_temporary("mcp-tools-proxy-upload-")
        try:
            await _receive(request, file, self._max_document_bytes)
        except BaseException:
            file.close()
            raise
        return file

    def _memory_bytes(self, sent: "_JsonForm | Imported", size: int) -> int:
        return max(sent.size, size if self._keep_originals else 0)

    @contextmanager
    def _place(self, tenant_id: str) -> Iterator[None]:
        if (
            self._running.total() >= MAX_UPLOADS
            or self._running[tenant_id] >= MAX_UPLOADS_OF_TENANT
        ):
            raise ImportBusy(
                f"{MAX_UPLOADS} uploads are already in progress, or {MAX_UPLOADS_OF_TENANT} of "
                "this tenant; try again later",
                retry_after_s=IMPORT_RETRY_S,
            )
        self._running[tenant_id] += 1
        try:
            yield
        finally:
            self._running[tenant_id] -= 1
            if not self._running[tenant_id]:
                del self._running[tenant_id]

    @asynccontextmanager
    async def _readable(
        self,
        file: FileIO,
        sent_type: SentType,
        query: UploadQuery,
        request: Request | None,
        progress: Progress,
    ) -> AsyncIterator["_JsonForm | Imported"]:
        """Import an upload, unless it has the JSON form.

        An import ends when its client disconnects: another tenant waited 50 s for its place.
        Without ``request``, no client waits, and the import waits for a place.
        """
        if sent_type.kind == JSON:
            yield _JsonForm(file, query)
            return
        options = ImportOptions(
            tenant_id=query.tenant_id,
            doc_id=query.doc_id,
            stem=query.doc_id,
            title=query.title,
            tags=tuple(one_line(tag) for tag in query.tag or ()),
            language=query.language,
            ocr_languages=self._ocr_languages,
            encoding=sent_type.encoding,
            with_link_targets=self._with_link_targets,
            with_notes=self._with_notes,
        )
        suffix = _suffix_of(sent_type.kind) or ""
        async with AsyncExitStack() as stack:

            def importing() -> Awaitable[Imported]:
                return stack.enter_async_context(
                    self._importer.imported(file, suffix, options, progress)
                )

            if request is None:
                yield await _in_a_place(importing)
            else:
                yield await cancel_on_disconnect(request.receive, importing())


async def _in_a_place(importing: Callable[[], Awaitable[Imported]]) -> Imported:
    """Import once there is a place; an import that took longer than its share is not repeated."""
    while True:
        try:
            return await importing()
        except ImporterBusy as error:
            if error.was_running:
                raise
            await asyncio.sleep(PLACE_RETRY_S)


class _JsonForm:
    """An upload in the JSON form of documents."""

    def __init__(self, file: FileIO, query: UploadQuery) -> None:
        self.size = file.tell()
        self._file = file
        self._query = query

    def document(self) -> Document:
        """Return the document. Raises InvalidRequest. Blocks."""
        try:
            self._file.seek(0)
            content = self._file.read()
            document = parse_document(Path("body"), content, is_foreign=True)
        except BrokenFile as error:
            details = {"field": error.field or BODY}
            raise InvalidRequest(f"{BODY}: {error.reason}", details=details) from error
        if (document.tenant_id, document.doc_id) != (self._query.tenant_id, self._query.doc_id):
            raise InvalidRequest(
                "doc_id: the tenant_id or doc_id in the document differs from the query",
                details={"field": "doc_id"},
            )
        return document


def _pdf_in(file: FileIO) -> bytes | None:
    file.seek(0)
    if not is_pdf(file.read(HEAD_BYTES)):
        return None
    file.seek(0)
    return file.read()


async def _receive(request: Request, file: FileIO, max_bytes: int) -> None:
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > max_bytes:
            await discard(request.receive, size)
            raise PayloadTooLarge(
                f"the document is over {max_bytes} bytes; split it into several documents",
                details={"max_document_bytes": max_bytes},
            )
        with _as_store_unavailable():
            await asyncio.to_thread(write_all, file, piece)


@contextmanager
def _as_store_unavailable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            "not enough disk space for the upload; try again later, or tell an operator",
            reason=str(error.strerror),
        ) from error
