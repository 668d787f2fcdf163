"""Names the versions of a document and of its rights, alike in every store."""

import hashlib
from dataclasses import astuple

from pydantic_core import to_json

from mcp_tools_proxy.domain.document import Document, DocumentHead, Readers


def version_of(document: Document) -> str:
    """Return the SHA-256 of a document's content, in hex: title, tags, pages, sections, chunks.

    Readers are no part of it: they have a tag of their own (``rights_tag``). Equal content has the
    same version in every store, so that a copy can be checked by it.
    """
    chunks = document.own_chunks
    content = (
        document.title,
        document.tags,
        document.pages,
        [astuple(section) for section in document.sections.values()],
        None if chunks is None else [(chunk.chunk_id, chunk.page, chunk.text) for chunk in chunks],
    )
    return hashlib.sha256(to_json(content)).hexdigest()


def rights_tag(readers: Readers | None) -> str:
    """Return the SHA-256, in hex, of who may read a document: the version of its rights."""
    named = None if readers is None else (sorted(readers.users), sorted(readers.roles))
    return hashlib.sha256(to_json(named)).hexdigest()


def head_of(document: Document) -> DocumentHead:
    """Return what is known of a document without its text."""
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
    )
