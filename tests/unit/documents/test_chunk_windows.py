"""Cutting a window of chunks out of a document."""

import asyncio

import pytest

from mcp_tools_proxy.documents.layout import chunks_of
from mcp_tools_proxy.documents.retrieval.chunk_tables import SMALL_CHARS, ChunkTables
from mcp_tools_proxy.documents.retrieval.chunk_windows import build_table, cut_window
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.errors import ChunkNotFound
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document


def document_of(*pages: str) -> Document:
    return make_document(pages=pages)


FIVE_PAGES = document_of("one", "two", "three", "four", "five")


def ids(anchor: str, before: int, after: int) -> list[str]:
    table = build_table(FIVE_PAGES)
    return [chunk.chunk_id for chunk in cut_window(table, anchor, before=before, after=after)]


def test_a_window_holds_the_anchor_and_its_neighbours() -> None:
    assert ids("p3-c1", 1, 1) == ["p2-c1", "p3-c1", "p4-c1"]


def test_the_sides_may_differ() -> None:
    assert ids("p3-c1", 2, 0) == ["p1-c1", "p2-c1", "p3-c1"]


def test_without_sides_a_window_is_the_anchor_alone() -> None:
    assert ids("p3-c1", 0, 0) == ["p3-c1"]


@pytest.mark.requirement("T-02")
def test_at_the_begin_of_a_document_fewer_chunks_come_back() -> None:
    assert ids("p1-c1", 2, 1) == ["p1-c1", "p2-c1"]


@pytest.mark.requirement("T-02")
def test_at_the_end_of_a_document_fewer_chunks_come_back() -> None:
    assert ids("p5-c1", 1, 2) == ["p4-c1", "p5-c1"]


def test_sides_far_over_the_document_give_all_of_it() -> None:
    assert ids("p3-c1", 10**12, 10**12) == ["p1-c1", "p2-c1", "p3-c1", "p4-c1", "p5-c1"]


@pytest.mark.parametrize("anchor", ["p6-c1", "p1-c2", "P1-C1", ""])
def test_an_unknown_anchor_is_not_found(anchor: str) -> None:
    with pytest.raises(ChunkNotFound):
        ids(anchor, 1, 1)


def test_a_document_without_text_has_no_anchor() -> None:
    with pytest.raises(ChunkNotFound):
        cut_window(build_table(document_of("  ")), "p1-c1", before=0, after=0)


async def test_a_table_is_built_once_for_a_document() -> None:
    tables = ChunkTables(size=2)
    assert await tables.get(FIVE_PAGES) is await tables.get(FIVE_PAGES)


async def test_a_large_document_is_laid_out_too() -> None:
    large = document_of("word " * (SMALL_CHARS // 5 + 1))
    assert (await ChunkTables(size=1).get(large)).chunks == chunks_of(large)


async def test_calls_at_once_share_the_table_of_a_large_document() -> None:
    large = document_of("word " * (SMALL_CHARS // 5 + 1))
    tables = ChunkTables(size=1)
    async with asyncio.timeout(BOUND_S):
        found = await asyncio.gather(*[tables.get(large) for _ in range(8)])
    assert len({id(table) for table in found}) == 1


async def test_a_document_that_was_loaded_anew_gets_its_own_table() -> None:
    tables = ChunkTables(size=2)
    await tables.get(document_of("old"))
    assert (await tables.get(document_of("new"))).chunks[0].text == "new"


async def test_only_the_tables_used_last_are_kept() -> None:
    tables = ChunkTables(size=2)
    for page in ("one", "two", "three"):
        await tables.get(document_of(page))
    assert repr(tables) == "<ChunkTables 2 of 2>"


async def test_a_table_in_use_outlives_one_that_is_not() -> None:
    tables = ChunkTables(size=2)
    used = await tables.get(FIVE_PAGES)
    await tables.get(document_of("unused"))
    await tables.get(FIVE_PAGES)
    await tables.get(document_of("newest"))
    assert await tables.get(FIVE_PAGES) is used
