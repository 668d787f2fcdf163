"""Every text and snippet says where it stands, by page and characters (contract §2)."""

from typing import Any

import pytest

from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Chunk
from tests.support.builders import make_document
from tests.support.service import Service, running

PAGES = ("Первая страница  начинается здесь.\n" * 60, "", "The  second\npage ends. " * 70)
DOCUMENT = make_document(doc_id="d", pages=PAGES)
OWN = make_document(
    doc_id="own",
    pages=["Before the installer. After."],
    own_chunks=tuple(
        Chunk(chunk_id=f"c{n}", page=1, chunk_index=n, source=text, start=0, end=len(text))
        for n, text in enumerate(("the installer.", "An installer of no page."))
    ),
)


def cited(sources: list[dict[str, Any]]) -> str:
    """Return the text that sources point to, as a reader of the document finds it."""
    return "".join(PAGES[it["page"] - 1][it["start_char"] : it["end_char"]] for it in sources)


async def test_sources_name_document_and_version() -> None:
    async with running(DOCUMENT) as service:
        result = await service.result(
            "read_doc_pages", {"doc_id": "d", "page_start": 3, "page_end": 3}
        )
    assert result["sources"] == [
        {
            "doc_id": "d",
            "version": version_of(DOCUMENT),
            "page": 3,
            "start_char": 0,
            "end_char": len(PAGES[2]),
        }
    ]


async def test_a_truncated_text_and_what_follows_have_sources_of_their_own() -> None:
    async with running(DOCUMENT, max_text_bytes=5000) as service:
        arguments = {"doc_id": "d", "page_start": 1, "page_end": 3}
        first = await service.result("read_doc_pages", arguments)
        rest = await service.result(
            "read_doc_pages", {**arguments, "start_char": first["next_start_char"]}
        )
    texts = [it["text"].replace("\n\n\n\n", "") for it in (first, rest)]
    assert [cited(first["sources"]), cited(rest["sources"])] == texts


async def search(service: Service, doc_id: str, query: str) -> list[dict[str, Any]]:
    result = await service.result("doc_local_search", {"doc_id": doc_id, "query": query})
    snippets: list[dict[str, Any]] = result["snippets"]
    return snippets


@pytest.mark.parametrize("query", ["страница", "second page"])
async def test_a_snippets_sources_hold_its_words(query: str) -> None:
    async with running(DOCUMENT) as service:
        snippets = await search(service, "d", query)
    assert snippets
    for snippet in snippets:
        words = cited(snippet["sources"]).split()
        assert words == snippet["snippet"].strip("…").split()


async def test_a_chunk_whose_text_is_not_its_pages_has_no_source() -> None:
    async with running(OWN) as service:
        snippets = await search(service, "own", "the installer")
    places = {
        it["chunk_id"]: [tuple(place.values())[2:] for place in it["sources"]] for it in snippets
    }
    assert places == {"c0": [(1, 7, 21)], "c1": []}


async def test_chunks_of_a_window_are_cut_together_with_their_places() -> None:
    async with running(DOCUMENT, retrieval_window_url="local", max_text_bytes=1500) as service:
        result = await service.result(
            "read_chunk_window", {"doc_id": "d", "anchor_chunk_id": "p3-c1", "radius": 1}
        )
    chunks = result["chunks"]
    assert (result["truncated"], len(chunks)) == (True, 2)
    assert [cited(chunk["sources"]) for chunk in chunks] == [chunk["text"] for chunk in chunks]
    assert {chunk["sources"][0]["version"] for chunk in chunks} == {version_of(DOCUMENT)}
