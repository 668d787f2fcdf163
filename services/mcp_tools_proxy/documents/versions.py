"""Version and rights tags of documents, equal in every store."""

import hashlib
from collections.abc import Iterator
from dataclasses import astuple

from pydantic_core import to_json

from mcp_tools_proxy.domain.document import Document, DocumentHead, Readers
from mcp_tools_proxy.wire.encoding import json_list, json_text


def version_of(document: Document) -> str:
    """Return the SHA-256 of a document's content, in hex.

    Covers title, tags, pages, sections, chunks and, if present, language, OCR confidence, format of
    the text, date and metadata. Readers have a ``rights_tag``; warnings, source, expiry and trust
    are not content. Equal content has the same version in every store, so copies can be verified.
    """
    digest = hashlib.sha256()
    for piece in _content(document):
        digest.update(piece)
    return digest.hexdigest()


def _content(document: Document) -> Iterator[bytes]:
    """Yield compact JSON in pieces: in one piece it took four times the memory of the texts."""
    yield b"[%b,%b," % (to_json(document.title), to_json(document.tags))
    yield from json_list(map(json_text, document.pages))
    yield b","
    yield from json_list(to_json(astuple(section)) for section in document.sections.values())
    yield b","
    if document.own_chunks is None:
        yield b"null"
    else:
        yield from json_list(
            b"[%b,%d,%b]" % (to_json(chunk.chunk_id), chunk.page, json_text(chunk.text))
            for chunk in document.own_chunks
        )
    if document.language is not None:  # keeps the versions of documents without it
        yield b",%b" % to_json(document.language)
    if document.ocr:  # keeps the versions of documents without it
        yield b",%b" % to_json(document.ocr)
    later = {
        "date": document.date,
        "metadata": dict(sorted(document.metadata.items())),
        "text_format": document.text_format,
    }
    if any(later.values()):
        yield b",%b" % to_json(later)
    yield b"]"


def rights_tag(readers: Readers | None) -> str:
    """Return the SHA-256, in hex, of a document's readers."""
    named = None if readers is None else (sorted(readers.users), sorted(readers.roles))
    return hashlib.sha256(to_json(named)).hexdigest()


def head_of(document: Document) -> DocumentHead:
    """Return the head of a document."""
    return DocumentHead(
        tenant_id=document.tenant_id,
        doc_id=document.doc_id,
        title=document.title,
        tags=document.tags,
        page_count=len(document.pages),
        section_count=len(document.sections),
        text_chars=sum(map(len, document.pages)),
        version=version_of(document),
        readers=document.readers,
        language=document.language,
        ocr=document.ocr,
        date=document.date,
        metadata=document.metadata,
        source=document.source,
        expires_at=document.expires_at,
        is_untrusted=document.is_untrusted,
    )
