"""Imports one open file, for the import of single files and of folders."""

import asyncio
from pathlib import Path
from typing import BinaryIO

from mcp_tools_proxy.cli.output import echo
from mcp_tools_proxy.documents.document_file import InvalidDocument
from mcp_tools_proxy.documents.document_writer import ReadOnlyDocuments, WriteFailed
from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions, Progress
from mcp_tools_proxy.documents.importers.file_kind import HEAD_BYTES, is_pdf
from mcp_tools_proxy.documents.importers.import_process import Importer, ImportUnavailable
from mcp_tools_proxy.domain.document import Document

FAILURES = (ImportFailed, ImportUnavailable, InvalidDocument, ReadOnlyDocuments, WriteFailed)
"""Errors about one file; each has a reason."""


async def import_file(
    importer: Importer,
    path: Path,
    source: BinaryIO,
    options: ImportOptions,
    show_pages: Progress,
    max_original_bytes: int | None,
) -> tuple[Document, bytes | None]:
    """Import a file; return the document, and its PDF if it is kept.

    ``path`` is its name in messages. PDFs up to ``max_original_bytes`` are kept; None keeps none.
    Raises FAILURES.
    """
    async with importer.imported(source, path.suffix, options, show_pages) as imported:
        document = await asyncio.to_thread(imported.document)
    return document, await _original(path, source, max_original_bytes)


async def _original(path: Path, source: BinaryIO, limit: int | None) -> bytes | None:
    """Return the content of a PDF if PDFs are kept."""
    source.seek(0)
    if limit is None or not is_pdf(await asyncio.to_thread(source.read, HEAD_BYTES)):
        return None
    source.seek(0)
    content = await asyncio.to_thread(source.read, limit + 1)
    if len(content) <= limit:
        return content
    echo(
        f"{path}: is over {limit} bytes, so the PDF is not kept; set "
        "MCP_PROXY_MAX_DOCUMENT_BYTES to keep it",
        err=True,
    )
    return None
