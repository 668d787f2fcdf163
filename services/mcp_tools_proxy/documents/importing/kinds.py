"""Choosing the importer for a file."""

from pathlib import Path

from mcp_tools_proxy.documents.importing.markdown import import_markdown
from mcp_tools_proxy.documents.importing.pdf import import_pdf
from mcp_tools_proxy.documents.importing.plain import import_plain
from mcp_tools_proxy.documents.importing.source import (
    ImportFailed,
    Origin,
    Progress,
    no_progress,
)
from mcp_tools_proxy.domain.document import Document


def import_file(path: Path, origin: Origin, progress: Progress = no_progress) -> Document:
    """Make a document of a PDF (.pdf), Markdown (.md, .markdown) or plain text (.txt, .text) file.

    Raises ImportFailed, also when the file cannot be read or is of another kind.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImportFailed(f"cannot be read: {error.strerror}") from error
    match path.suffix.lower():
        case ".pdf":
            return import_pdf(data, origin, progress)
        case ".md" | ".markdown":
            return import_markdown(data, origin)
        case ".txt" | ".text":
            return import_plain(data, origin)
        case _:
            raise ImportFailed("is no .pdf, .md, .markdown, .txt or .text file")
