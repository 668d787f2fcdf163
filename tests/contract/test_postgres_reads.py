import asyncio

import pytest
from pydantic_core import from_json

from mcp_tools_proxy.documents.document_store import Reading, Wanted
from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.documents.postgres.database import Database
from mcp_tools_proxy.documents.postgres.rows import PAGES
from mcp_tools_proxy.documents.postgres.writer import PostgresWriter
from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Document, Section
from mcp_tools_proxy.domain.errors import DocumentsUnavailable
from tests.support.builders import make_document
from tests.support.postgres_databases import OpenStore

KEY = ("acme", "doc")
TEXTS = ("even", "odd")


def document(text: str, *, page_count: int = 20, doc_id: str = "doc") -> Document:
    section = Section(section_id="s", title=text, page_start=2, page_end=page_count - 1)
    return make_document(
        tenant_id="acme",
        doc_id=doc_id,
        title=text,
        pages=tuple(f"{text} {number}" for number in range(page_count)),
        sections={"s": section},
    )


async def put(writer: PostgresWriter, written: Document) -> None:
    await writer.put(written, expected=Expected.ANYTHING, keep_readers=False)


def texts_of(reading: Reading) -> set[str]:
    pages = reading.document.pages if reading.document else tuple(reading.pages.values())
    sections = reading.document.sections if reading.document else reading.sections or {}
    titles = [reading.head.title, *(section.title for section in sections.values())]
    return {*titles, *(page.split()[0] for page in pages)}


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(pages=(1, 20)),
        Wanted(sections=True),
        Wanted(section_id="s"),
        Wanted(whole=True),
    ],
    ids=["pages", "sections", "section", "whole"],
)
async def test_no_reading_mixes_two_versions(opened: OpenStore, wanted: Wanted) -> None:
    versions = {text: version_of(document(text)) for text in TEXTS}
    await put(opened.writer, document(TEXTS[0]))
    written = asyncio.Event()

    async def replace() -> None:
        for number in range(40):
            await put(opened.writer, document(TEXTS[number % 2]))
        written.set()

    seen = set()
    async with asyncio.TaskGroup() as group:
        group.create_task(replace())
        while not written.is_set():
            reading = await opened.store.read(KEY, wanted)
            assert reading is not None
            (text,) = texts_of(reading)
            assert versions[text] == reading.head.version
            seen.add(text)
    assert seen <= set(TEXTS)


async def blocks_read(database: Database, doc_id: str) -> int:
    """Return how many blocks the server touches for two pages in the middle of a document."""
    async with database.transaction("acme") as connection:
        await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        plan = await connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {PAGES}", "acme", doc_id, 5, 6
        )
        (top,) = from_json(plan)
        return int(top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"])


async def test_reading_two_pages_costs_the_same_for_large_and_small_documents(
    opened: OpenStore,
) -> None:
    await put(opened.writer, document("small", page_count=10, doc_id="small"))
    await put(opened.writer, document("large", page_count=20_000, doc_id="large"))
    small, large = [await blocks_read(opened.database, doc_id) for doc_id in ("small", "large")]
    assert large <= small + 3  # one more level of the index


async def test_storing_an_unchanged_document_writes_nothing(opened: OpenStore) -> None:
    await put(opened.writer, document("same"))
    async with opened.database.transaction("acme") as connection:
        before = await connection.fetchval("SELECT xmin::text FROM mcp_tools_proxy.documents")
    await put(opened.writer, document("same"))
    async with opened.database.transaction("acme") as connection:
        after = await connection.fetchval("SELECT xmin::text FROM mcp_tools_proxy.documents")
    assert before == after


async def test_a_failed_lookup_of_readers_is_not_cached(opened: OpenStore) -> None:
    opened.database.problem = "away"
    with pytest.raises(DocumentsUnavailable):
        await opened.store.has_readers("acme")
    opened.database.problem = None
    assert not await opened.store.has_readers("acme")
