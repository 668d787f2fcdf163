"""Conversion of documents and rows, and the SELECT statements; each reads one version."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import asyncpg
from pydantic_core import from_json, to_json

from mcp_tools_proxy.documents.document_file import load_metadata
from mcp_tools_proxy.documents.document_store import DocumentFilter, field_term
from mcp_tools_proxy.domain.document import (
    Chunk,
    Document,
    DocumentHead,
    DocumentSource,
    ImportWarning,
    Readers,
    Section,
)

HEAD_COLUMNS = (
    "d.version, d.title, d.tags, d.page_count, d.section_count, d.text_chars, d.has_chunks, "
    "d.reader_users, d.reader_roles, d.language, d.ocr, d.text_format, d.date, d.metadata, "
    "d.source, d.expires_at, d.untrusted"
)
_OF_DOCUMENT = "tenant_id = d.tenant_id AND doc_id = d.doc_id"
_FROM = "FROM mcp_tools_proxy.documents d WHERE d.tenant_id = $1 AND d.doc_id = $2"
_SECTIONS = (
    "(SELECT json_agg(json_build_array(section_id, title, page_start, page_end, start_char, "
    f"end_char) ORDER BY place) FROM mcp_tools_proxy.sections WHERE {_OF_DOCUMENT}) AS sections"
)
_CHUNKS = (
    "(SELECT json_agg(json_build_array(chunk_id, page, text) ORDER BY place) "
    f"FROM mcp_tools_proxy.chunks WHERE {_OF_DOCUMENT}) AS chunks"
)


def _pages(condition: str) -> str:
    return (
        f"ARRAY(SELECT text FROM mcp_tools_proxy.pages WHERE {_OF_DOCUMENT} {condition} "
        "ORDER BY number) AS pages"
    )


def _edge_of_section(column: str) -> str:
    return (
        f"(SELECT {column} FROM mcp_tools_proxy.sections WHERE {_OF_DOCUMENT} AND section_id = $3)"
    )


HEAD = f"SELECT {HEAD_COLUMNS} {_FROM}"
PAGES = f"SELECT {HEAD_COLUMNS}, {_pages('AND number BETWEEN $3 AND $4')} {_FROM}"
SECTIONS = f"SELECT {HEAD_COLUMNS}, {_SECTIONS} {_FROM}"
SECTION = (
    f"SELECT {HEAD_COLUMNS}, {_SECTIONS}, "
    + _pages(
        f"AND number BETWEEN {_edge_of_section('page_start')} AND {_edge_of_section('page_end')}"
    )
    + f" {_FROM}"
)
WHOLE = f"SELECT {HEAD_COLUMNS}, d.warnings, {_SECTIONS}, {_CHUNKS}, {_pages('')} {_FROM}"
HAS_READERS = (
    "SELECT EXISTS (SELECT FROM mcp_tools_proxy.documents "
    "WHERE tenant_id = $1 AND reader_users IS NOT NULL)"
)


def filter_conditions(first: int) -> str:
    """Return the conditions of a filter, for the values of ``filter_values`` from ``$first``."""
    numbers = range(first, first + 7)
    any_tags, all_tags, not_tags, language, date_from, date_to, own = (f"${it}" for it in numbers)
    return f"""
    AND ({any_tags}::text[] IS NULL OR d.folded[3:] && {any_tags}::text[])
    AND d.folded[3:] @> {all_tags}::text[] AND NOT d.folded[3:] && {not_tags}::text[]
    AND ({language}::text IS NULL OR starts_with(lower(d.language) || '-', {language}::text || '-'))
    AND ({date_from}::text IS NULL OR d.date >= {date_from}::text COLLATE "C")
    AND ({date_to}::text IS NULL OR d.date <= {date_to}::text COLLATE "C")
    AND NOT EXISTS (SELECT FROM json_array_elements({own}::json) wanted(own) WHERE NOT CASE
        WHEN wanted.own -> 1 IS NOT NULL AND json_typeof(wanted.own -> 1) = 'array' THEN
            d.own_fields && ARRAY(SELECT json_array_elements_text(wanted.own -> 1))
        WHEN coalesce(json_typeof(d.metadata -> (wanted.own ->> 0)), '') = 'number' THEN
            (d.metadata ->> (wanted.own ->> 0))::numeric BETWEEN
                coalesce((wanted.own ->> 2)::numeric, '-Infinity')
                AND coalesce((wanted.own ->> 3)::numeric, 'Infinity')
        ELSE false END)"""


def filter_values(wanted: DocumentFilter | None) -> tuple[object, ...]:
    """Return the values of ``filter_conditions``; None admits all documents."""
    wanted = wanted or DocumentFilter()
    own = [
        [
            name,
            None if it.values is None else [field_term(name, value) for value in it.values],
            it.minimum,
            it.maximum,
        ]
        for name, it in wanted.fields.items()
    ]
    return (
        None if wanted.any_tags is None else list(map(sought, wanted.any_tags)),
        list(map(sought, wanted.all_tags)),
        list(map(sought, wanted.not_tags)),
        wanted.language,
        wanted.date_from,
        wanted.date_to,
        to_json(_with_texts(own, sought)).decode(),
    )


_READABLE = f"""
FROM mcp_tools_proxy.documents d
WHERE d.tenant_id = $1 AND d.doc_id > $2
    AND (d.reader_users IS NULL OR ($3 <> '' AND $3 = ANY (d.reader_users))
        OR d.reader_roles && $4::text[])
    AND ($5::text[] IS NULL OR d.doc_id = ANY ($5::text[]))
    AND ($6::text IS NULL OR $6 = ANY (d.folded[3:]))
    AND starts_with(d.folded[2], $7)
    AND array_to_string(d.folded, E'\\n') LIKE ALL ($8::text[])
    AND (d.expires_at IS NULL OR d.expires_at > $9::timestamptz)
    {filter_conditions(10)}
"""
LIST_READABLE = (
    f"SELECT d.doc_id, {HEAD_COLUMNS}, d.imported_at {_READABLE} ORDER BY d.doc_id LIMIT $17"
)
"""Reads in primary-key order (tenant first), from the cursor on."""
READABLE_IDS = f"SELECT d.doc_id {_READABLE}"
LIST_HEADS = f"""
SELECT d.doc_id, {HEAD_COLUMNS} FROM mcp_tools_proxy.documents d
WHERE d.tenant_id = $1 AND d.doc_id > $2 ORDER BY d.doc_id LIMIT $3
"""

_MARK = "\ufdd0"
"""Escapes U+0000, which PostgreSQL cannot store, and itself. Texts do not contain it: Unicode
reserves it for internal use."""

_STORED = {"\x00": f"{_MARK}0", _MARK: f"{_MARK}1"}
_LOADED = {stored: text for text, stored in _STORED.items()}
_NEVER_STORED = f"{_MARK}2"


def stored(text: str) -> str:
    """Return a text in its stored form: PDFs contain U+0000, which PostgreSQL rejects."""
    if "\x00" not in text and _MARK not in text:
        return text
    return re.sub(f"[\x00{_MARK}]", lambda found: _STORED[found[0]], text)


def loaded(text: str) -> str:
    """Return the original of a stored text."""
    if _MARK not in text:
        return text
    return re.sub(f"{_MARK}[01]", lambda found: _LOADED[found[0]], text)


def sought(text: str) -> str:
    """Return an id in its stored form; one that cannot be stored matches no document.

    A caller can send a lone surrogate, which UTF-8 cannot encode: an unknown document, not a
    database error.
    """
    return re.sub("[\ud800-\udfff]", _NEVER_STORED, stored(text))


def stored_json(value: object) -> str:
    """Return a value as JSON whose texts are in their stored form. Raises ValueError."""
    return to_json(_with_texts(value, stored)).decode()


def _loaded_json(value: str) -> Any:
    return _with_texts(from_json(value), loaded)


def _with_texts(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case dict():
            return {change(name): _with_texts(it, change) for name, it in value.items()}
        case list() | tuple():
            return [_with_texts(it, change) for it in value]
    return value


def head_of_row(tenant_id: str, doc_id: str, row: asyncpg.Record) -> DocumentHead:
    """Return the head in a row of ``documents``."""
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
        date=row["date"],
        metadata=load_metadata(_loaded_json(row["metadata"])),
        source=None if row["source"] is None else DocumentSource(*_loaded_json(row["source"])),
        expires_at=row["expires_at"],
        is_untrusted=row["untrusted"],
    )


def sections_of(listed: str | None) -> Mapping[str, Section]:
    """Return sections from a JSON list: id, title, pages, characters."""
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


def document_of_row(head: DocumentHead, row: asyncpg.Record) -> Document:
    """Return the whole document in a row; ``chunks`` is JSON: id, page, text."""
    return Document(
        tenant_id=head.tenant_id,
        doc_id=head.doc_id,
        title=head.title,
        tags=head.tags,
        pages=tuple(map(loaded, row["pages"])),
        sections=sections_of(row["sections"]),
        own_chunks=_chunks_of(row["chunks"] or "[]") if row["has_chunks"] else None,
        readers=head.readers,
        language=head.language,
        ocr=head.ocr,
        text_format=row["text_format"],
        date=head.date,
        metadata=head.metadata,
        warnings=warnings_of(row["warnings"]),
        source=head.source,
        expires_at=head.expires_at,
        is_untrusted=head.is_untrusted,
    )


def warnings_of(listed: str) -> tuple[ImportWarning, ...]:
    """Return warnings from a JSON list: code, message."""
    return tuple(ImportWarning(*it) for it in _loaded_json(listed))


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
