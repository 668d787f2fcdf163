"""Documents as rows, and back."""

import re
from collections.abc import Mapping, Sequence

import asyncpg
from pydantic_core import from_json

from mcp_tools_proxy.domain.document import Chunk, Document, DocumentHead, Readers, Section

_MARK = "\ufdd0"
"""Stands before what PostgreSQL cannot store, U+0000, and before itself. No text has it: Unicode
reserves it for a program's own use."""

_STORED = {"\x00": f"{_MARK}0", _MARK: f"{_MARK}1"}
_LOADED = {stored: text for text, stored in _STORED.items()}
_NEVER_STORED = f"{_MARK}2"


def stored(text: str) -> str:
    """Return a text as it is stored: PDFs do hold U+0000, which PostgreSQL refuses."""
    if "\x00" not in text and _MARK not in text:
        return text
    return re.sub(f"[\x00{_MARK}]", lambda found: _STORED[found[0]], text)


def loaded(text: str) -> str:
    """Return a stored text as it was."""
    if _MARK not in text:
        return text
    return re.sub(f"{_MARK}[01]", lambda found: _LOADED[found[0]], text)


def sought(text: str) -> str:
    """Return an id as it would be stored; one that cannot be stored is none that is.

    A caller may name a lone surrogate, which has no UTF-8: there is no such document, and the
    database is not at fault.
    """
    return re.sub("[\ud800-\udfff]", _NEVER_STORED, stored(text))


def head_of_row(tenant_id: str, doc_id: str, row: asyncpg.Record) -> DocumentHead:
    """Return the head that a row of ``documents`` holds."""
    users = row["reader_users"]
    return DocumentHead(
        tenant_id=tenant_id,
        doc_id=doc_id,
        title=loaded(row["title"]),
        tags=tuple(map(loaded, row["tags"])),
        page_count=row["page_count"],
        section_count=row["section_count"],
        text_chars=row["text_chars"],
        version=row["version"],
        readers=None
        if users is None
        else Readers(
            users=frozenset(map(loaded, users)),
            roles=frozenset(map(loaded, row["reader_roles"])),
        ),
        language=row["language"],
        ocr=tuple(row["ocr"]),
    )


def sections_of(listed: str | None) -> Mapping[str, Section]:
    """Return sections from the JSON list of a statement: id, title, pages, characters."""
    sections = {}
    for section_id, title, page_start, page_end, start_char, end_char in from_json(listed or "[]"):
        known_as = loaded(section_id)
        sections[known_as] = Section(
            section_id=known_as,
            title=loaded(title),
            page_start=page_start,
            page_end=page_end,
            start_char=start_char,
            end_char=end_char,
        )
    return sections


def document_of(
    head: DocumentHead,
    pages: Sequence[str],
    sections: Mapping[str, Section],
    chunks: str | None,
    *,
    has_chunks: bool,
) -> Document:
    """Return a whole document; ``chunks`` is a JSON list: id, page, text."""
    return Document(
        tenant_id=head.tenant_id,
        doc_id=head.doc_id,
        title=head.title,
        tags=head.tags,
        pages=tuple(map(loaded, pages)),
        sections=sections,
        own_chunks=_chunks_of(chunks or "[]") if has_chunks else None,
        readers=head.readers,
        language=head.language,
        ocr=head.ocr,
    )


def _chunks_of(listed: str) -> tuple[Chunk, ...]:
    chunks = []
    for index, (chunk_id, page, text) in enumerate(from_json(listed)):
        source = loaded(text)
        chunks.append(
            Chunk(
                chunk_id=loaded(chunk_id),
                page=page,
                chunk_index=index,
                source=source,
                start=0,
                end=len(source),
            )
        )
    return tuple(chunks)
