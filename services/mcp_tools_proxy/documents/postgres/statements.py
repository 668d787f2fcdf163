"""The statements that read documents, each of them one version."""

HEAD_COLUMNS = (
    "d.version, d.title, d.tags, d.page_count, d.section_count, d.text_chars, d.has_chunks, "
    "d.reader_users, d.reader_roles, d.language, d.ocr"
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
WHOLE = f"SELECT {HEAD_COLUMNS}, {_SECTIONS}, {_CHUNKS}, {_pages('')} {_FROM}"
HAS_READERS = (
    "SELECT EXISTS (SELECT FROM mcp_tools_proxy.documents "
    "WHERE tenant_id = $1 AND reader_users IS NOT NULL)"
)
LIST_READABLE = f"""
SELECT d.doc_id, {HEAD_COLUMNS}, d.imported_at FROM mcp_tools_proxy.documents d
WHERE d.tenant_id = $1 AND d.doc_id > $2
    AND (d.reader_users IS NULL OR ($3 <> '' AND $3 = ANY (d.reader_users))
        OR d.reader_roles && $4::text[])
    AND ($5::text[] IS NULL OR d.doc_id = ANY ($5::text[]))
    AND ($6::text IS NULL OR $6 = ANY (d.folded[3:]))
    AND starts_with(d.folded[2], $7)
    AND array_to_string(d.folded, E'\\n') LIKE ALL ($8::text[])
ORDER BY d.doc_id LIMIT $9
"""
"""Read in the order of the primary key, which begins with the tenant, from the cursor on."""
LIST_HEADS = f"""
SELECT d.doc_id, {HEAD_COLUMNS} FROM mcp_tools_proxy.documents d
WHERE d.tenant_id = $1 AND d.doc_id > $2 ORDER BY d.doc_id LIMIT $3
"""
