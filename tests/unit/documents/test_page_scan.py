"""Search in a document whose index is not built yet (contract T-07)."""

import time

import pytest

from mcp_tools_proxy.documents.search import page_scan
from mcp_tools_proxy.documents.search.page_scan import scan_document
from mcp_tools_proxy.documents.search.search_index import build_index
from mcp_tools_proxy.domain.document import Chunk, Section
from tests.support.builders import make_document
from tests.support.tables import each_row

FILLER = " ".join(f"filler{n}" for n in range(300))


@each_row(
    ("written", "query"),
    [
        ("Configured servers", "configuration of the server"),
        ("Die Kündigungsfrist beträgt drei Monate", "Kündigungsfrist"),
        ("中文使用手册", "使用手册"),
        ("ESP32-C6", "ESP32-C6"),
    ],
)
def test_a_scan_finds_the_place_that_the_index_finds(written: str, query: str) -> None:
    pages = (FILLER, f"{FILLER} {written} {FILLER}", FILLER)
    section = Section(section_id="s", title="s", page_start=2, page_end=2)
    document = make_document(pages=pages, sections={"s": section})
    scanned, indexed = (
        scan_document(document, query, 1)[0],
        build_index(document).search(query, 1)[0],
    )
    assert (scanned.page, scanned.chunk_id, scanned.section_id) == (
        indexed.page,
        indexed.chunk_id,
        indexed.section_id,
    )
    assert written in scanned.snippet
    assert scanned.span is not None
    assert written in pages[1][scanned.span.start_char : scanned.span.end_char]


def test_more_and_rarer_words_come_first() -> None:
    pages = ("the server", "the server restarts", "the server", "restarts")
    hits = scan_document(make_document(pages=pages), "why does the server restart?", 3)
    assert hits[0].page == 2


def test_chunks_from_the_file_are_scanned() -> None:
    chunk = Chunk(chunk_id="own", page=1, chunk_index=0, source="The needle.", start=0, end=11)
    document = make_document(pages=("other",), own_chunks=(chunk,))
    assert [hit.chunk_id for hit in scan_document(document, "needles", 3)] == ["own"]


def test_nothing_is_found_without_a_word() -> None:
    document = make_document(pages=("some text",))
    assert scan_document(document, "zebra", 3) == ()
    assert scan_document(document, "?!", 3) == ()


def test_a_scan_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_scan, "SCAN_S", 0.05)
    document = make_document(pages=(FILLER * 10,) * 3_000)
    started = time.monotonic()
    scan_document(document, "filler7", 3)
    assert time.monotonic() - started < 5
