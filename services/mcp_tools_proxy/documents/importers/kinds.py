"""Chooses the importer for a file by its suffix."""

import shlex
from pathlib import Path

from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    Progress,
    no_progress,
)
from mcp_tools_proxy.documents.importers.markdown import import_markdown
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from mcp_tools_proxy.documents.importers.plain_text import import_plain
from mcp_tools_proxy.documents.importers.textless_pages import pages_without_text, spell_pages
from mcp_tools_proxy.domain.document import Document

SUFFIXES = (".pdf", ".md", ".markdown", ".txt", ".text")

_UNKNOWN = "is no .pdf, .md, .markdown, .txt or .text file"


def import_data(
    data: bytes, suffix: str, options: ImportOptions, progress: Progress = no_progress
) -> Document:
    """Import a PDF (.pdf), Markdown (.md, .markdown) or plain text (.txt, .text) file.

    Raises ImportFailed, also for a file of another kind.
    """
    match suffix.lower():
        case ".pdf":
            return import_pdf(data, options, progress)
        case ".md" | ".markdown":
            return import_markdown(data, options)
        case ".txt" | ".text":
            return import_plain(data, options)
        case _:
            raise ImportFailed(_UNKNOWN)


def check_suffix(suffix: str) -> None:
    """Check that there is an importer for files of that name. Raises ImportFailed."""
    if suffix.lower() not in SUFFIXES:
        raise ImportFailed(_UNKNOWN)


def warning_about(path: Path, document: Document) -> str | None:
    """Return one line on the pages of an imported PDF without text, and how to add it, or None."""
    pages = pages_without_text(document)
    if path.suffix.lower() != ".pdf" or not pages:
        return None
    noun, verb = ("page", "has") if len(pages) == 1 else ("pages", "have")
    result = path.with_name(f"{path.stem}-ocr.pdf")
    command = shlex.join(["ocrmypdf", "--skip-text", str(path), str(result)])
    return (
        f"{noun} {spell_pages(pages)} of {len(document.pages)} {verb} no text and cannot be "
        f"searched. Where they are pictures, as in a scan, make text of them ({command}) and "
        f"import {result.name} with --doc-id {shlex.quote(document.doc_id)} --replace"
    )
