"""Imports plain text."""

import re

from mcp_tools_proxy.documents.importers.base import (
    ImportFailed,
    ImportOptions,
    build_document,
    clean,
    decode_text,
    paginate,
)
from mcp_tools_proxy.domain.document import Document

_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")


def import_plain(data: bytes, options: ImportOptions) -> Document:
    """Build a document from plain text: pages at form feeds, else of ≤ 8 kB at paragraph edges.

    Raises ImportFailed when ``data`` is empty or ``decode_text`` cannot decode it.
    """
    text = decode_text(data)
    if not clean(text).strip():
        raise ImportFailed("is empty")
    pages: tuple[str, ...]
    if "\f" in text:
        pages = tuple(clean(page) for page in text.removesuffix("\f").split("\f"))
    else:
        text = clean(text)
        pages = paginate(text, [match.end() for match in _PARAGRAPH_END.finditer(text)])
    return build_document(options, title="", pages=pages, headings=())
