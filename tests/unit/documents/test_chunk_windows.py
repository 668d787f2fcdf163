import pytest

from mcp_tools_proxy.documents.layout import build_table, cut_window
from mcp_tools_proxy.domain.document import Document
from mcp_tools_proxy.domain.errors import ChunkNotFound
from tests.support.builders import make_document
from tests.support.tables import each_row


def document_of(*pages: str) -> Document:
    return make_document(pages=pages)


FIVE_PAGES = document_of("one", "two", "three", "four", "five")


def ids(anchor: str, before: int, after: int) -> list[str]:
    table = build_table(FIVE_PAGES)
    return [chunk.chunk_id for chunk in cut_window(table, anchor, before=before, after=after)]


def test_a_window_contains_the_anchor_and_its_neighbours() -> None:
    assert ids("p3-c1", 1, 1) == ["p2-c1", "p3-c1", "p4-c1"]


def test_the_two_sides_can_differ() -> None:
    assert ids("p3-c1", 2, 0) == ["p1-c1", "p2-c1", "p3-c1"]


def test_without_sides_a_window_contains_only_the_anchor() -> None:
    assert ids("p3-c1", 0, 0) == ["p3-c1"]


@pytest.mark.requirement("T-02")
def test_at_the_start_of_a_document_fewer_chunks_are_returned() -> None:
    assert ids("p1-c1", 2, 1) == ["p1-c1", "p2-c1"]


@pytest.mark.requirement("T-02")
def test_at_the_end_of_a_document_fewer_chunks_are_returned() -> None:
    assert ids("p5-c1", 1, 2) == ["p4-c1", "p5-c1"]


def test_sides_larger_than_the_document_return_all_chunks() -> None:
    assert ids("p3-c1", 10**12, 10**12) == ["p1-c1", "p2-c1", "p3-c1", "p4-c1", "p5-c1"]


@each_row("anchor", ["p6-c1", "p1-c2", "P1-C1", ""])
def test_an_unknown_anchor_is_not_found(anchor: str) -> None:
    with pytest.raises(ChunkNotFound):
        ids(anchor, 1, 1)


def test_a_document_without_text_does_not_have_an_anchor() -> None:
    with pytest.raises(ChunkNotFound):
        cut_window(build_table(document_of("  ")), "p1-c1", before=0, after=0)
