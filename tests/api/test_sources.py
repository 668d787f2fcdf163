"""Every text and snippet has its page and character position (contract §2)."""

from typing import Any

import pytest

from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Chunk, Section
from tests.support.builders import make_document
from tests.support.configuration import Config, Json
from tests.support.mcp_endpoint import serving
from tests.support.raw_mcp_client import ERAS, raw_client
from tests.support.service import EXECUTE, Service, put_all, running

USER = {"user_id": "u", "tenant_id": "tenant_1"}

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
SCAN = make_document(
    doc_id="scan",
    pages=["A page of typed text, of the file itself.", "The scanned page: at most twelve bar."],
    sections={"all": Section(section_id="all", title="All", page_start=1, page_end=2)},
    ocr=[None, 93],
)


def cited(sources: list[dict[str, Any]]) -> str:
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


async def test_a_truncated_text_and_its_continuation_have_separate_sources() -> None:
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
async def test_the_sources_of_a_snippet_contain_its_words(query: str) -> None:
    async with running(DOCUMENT) as service:
        snippets = await search(service, "d", query)
    assert snippets
    for snippet in snippets:
        words = cited(snippet["sources"]).split()
        assert words == snippet["snippet"].strip("…").split()


async def test_a_chunk_that_differs_from_its_pages_has_no_source() -> None:
    async with running(OWN) as service:
        snippets = await search(service, "own", "the installer")
    places = {
        it["chunk_id"]: [tuple(place.values())[2:] for place in it["sources"]] for it in snippets
    }
    assert places == {"c0": [(1, 7, 21)], "c1": []}


async def test_chunks_of_a_window_are_truncated_with_their_sources() -> None:
    async with running(DOCUMENT, retrieval_window_url="local", max_text_bytes=1500) as service:
        result = await service.result(
            "read_chunk_window", {"doc_id": "d", "anchor_chunk_id": "p3-c1", "radius": 1}
        )
    chunks = result["chunks"]
    assert (result["truncated"], len(chunks)) == (True, 2)
    assert [cited(chunk["sources"]) for chunk in chunks] == [chunk["text"] for chunk in chunks]
    assert {chunk["sources"][0]["version"] for chunk in chunks} == {version_of(DOCUMENT)}


def places_of(answer: object) -> list[dict[str, Any]]:
    if isinstance(answer, list):
        return [place for item in answer for place in places_of(item)]
    if not isinstance(answer, dict):
        return []
    inner = [place for value in answer.values() for place in places_of(value)]
    return [answer, *inner] if "start_char" in answer else inner


@pytest.mark.parametrize(
    ("tool", "arguments", "confidences"),
    [
        ("read_doc_section", {"section_id": "all"}, [None, 93]),
        ("read_doc_pages", {"page_start": 1, "page_end": 2}, [None, 93]),
        ("doc_local_search", {"query": "scanned bar"}, [93]),
        ("doc_local_search", {"query": "typed text"}, [None]),
        ("read_chunk_window", {"anchor_chunk_id": "p1-c1", "radius": 1}, [None, 93]),
        ("verify_quote", {"quote": "at most twelve bar"}, [93]),
        ("verify_quote", {"quote": "The scanned page: at most twenty bar."}, [93]),
        ("verify_quote", {"quote": "A page of typed text"}, [None]),
    ],
)
async def test_a_source_on_an_ocr_page_has_its_confidence(
    tool: str, arguments: dict[str, object], confidences: list[int | None]
) -> None:
    async with running(SCAN, retrieval_window_url="local") as service:
        result = await service.result(tool, {"doc_id": "scan", **arguments})
    assert [place.get("ocr") for place in places_of(result)] == confidences


def sources_in(result: Any) -> set[str]:
    nested = [it for part in result.values() if isinstance(part, list) for it in part]
    objects = [result, *(it for it in nested if isinstance(it, dict))]
    return {key for it in objects for key in it if key == "sources"}


WITH_SOURCES: dict[str, dict[str, object]] = {
    "read_doc_pages": {"doc_id": "d", "page_start": 1, "page_end": 3},
    "read_doc_section": {"doc_id": "scan", "section_id": "all"},
    "doc_local_search": {"doc_id": "d", "query": "second page"},
    "search_documents": {"query": "second page", "doc_ids": ["d"]},
    "read_chunk_window": {"doc_id": "d", "anchor_chunk_id": "p1-c1", "radius": 1},
}
CHOICES: tuple[tuple[bool, bool | None, bool | None], ...] = (
    (True, None, None),
    (False, None, None),
    (True, False, None),
    (False, True, None),
    (True, None, False),
    (False, False, True),
    (True, True, False),
)
"""Values of setting, profile and request; the last one present applies."""


@pytest.mark.parametrize("choice", CHOICES)
async def test_setting_profile_or_request_can_omit_sources(
    choice: tuple[bool, bool | None, bool | None],
) -> None:
    setting, profile, request = choice
    wanted = next(it for it in (request, profile, setting) if it is not None)
    agent: Json = {"name": "reader", "sources": profile}
    requested: Json = {} if request is None else {"sources": request}
    config = Config(agents=[agent])
    async with running(
        DOCUMENT, SCAN, config=config, sources=setting, retrieval_window_url="local"
    ) as service:
        for tool, arguments in WITH_SOURCES.items():
            answer = await service.execute(tool, arguments, agent="reader", **requested)
            assert (tool, sources_in(answer["result"])) == (tool, {"sources"} if wanted else set())
            calls = [{"tool_name": tool, "arguments": arguments}]
            body = {"calls": calls, "user": USER, "agent": "reader", **requested}
            (one,) = (await service.http.post(f"{EXECUTE}/batch", json=body)).json()["results"]
            assert one["result"] == answer["result"]


async def test_the_positions_of_a_quote_are_never_omitted() -> None:
    async with running(SCAN, sources=False) as service:
        result = await service.result(
            "verify_quote", {"doc_id": "scan", "quote": "at most twelve bar"}
        )
    assert [it["page"] for it in result["matches"]] == [2]


@pytest.mark.parametrize("wanted", ["no", 0, [], {}])
async def test_an_invalid_value_of_sources_is_refused(wanted: object) -> None:
    async with running() as service:
        answer = await service.execute("list_documents", sources=wanted)
    error = answer["error"]
    assert (error["code"], error["details"]["field"]) == ("INVALID_REQUEST", "sources")


async def test_the_same_key_for_a_request_without_sources_is_a_conflict() -> None:
    tool, arguments = "read_doc_pages", WITH_SOURCES["read_doc_pages"]
    async with running(DOCUMENT) as service:
        first = await service.execute(tool, arguments, idempotency_key="k")
        again = await service.execute(tool, arguments, idempotency_key="k")
        other = await service.execute(tool, arguments, idempotency_key="k", sources=False)
    assert (again["replayed"], again["result"]) == (True, first["result"])
    assert other["error"]["code"] == "IDEMPOTENCY_CONFLICT"


@pytest.mark.parametrize("era", ERAS)
async def test_over_mcp_meta_can_omit_sources(era: str) -> None:
    key = "io.github.mcp-tools-proxy/sources"
    call = {"name": "read_doc_pages", "arguments": WITH_SOURCES["read_doc_pages"]}
    async with serving() as served:
        put_all(served.service, (DOCUMENT,))
        client = await raw_client(served, era)
        answers = [
            await client.request("tools/call", {**call, "_meta": meta})
            for meta in ({}, {key: True}, {key: False}, {key: "no"})
        ]
    shown = [sources_in(it["result"]["structuredContent"]) for it in answers[:3]]
    assert shown == [{"sources"}, {"sources"}, set()]
    assert answers[3]["error"]["code"] == -32602
