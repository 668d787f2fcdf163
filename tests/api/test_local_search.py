"""doc_local_search through the API (T-07)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import make_document
from tests.support.examples import at_most
from tests.support.service import Envelope, Service, running

pytestmark = pytest.mark.requirement("T-07")

DOCUMENT = make_document(
    doc_id="d",
    pages=[
        "The installer configures the server. Then it restarts.",
        "Настройка серверов занимает минуту. Сервером управляет администратор.",
        "Nothing of interest stands here, only filler about cats.",
        *(f"Page {n}: the common word gateway." for n in range(4, 14)),
    ],
)


@pytest.fixture(scope="module")
async def service(shared_settings: dict[str, Any]) -> AsyncIterator[Service]:
    async with running(DOCUMENT, **shared_settings) as started:
        yield started


async def search(service: Service, query: str, **arguments: object) -> Envelope:
    return await service.result("doc_local_search", {"doc_id": "d", "query": query, **arguments})


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("configuring", 1),
        ("CONFIGURED servers", 1),
        ("настройки", 2),
        ("серверами", 2),
        ("cat", 3),
    ],
)
async def test_a_word_is_found_in_another_inflection(
    service: Service, query: str, page: int
) -> None:
    assert (await search(service, query))["snippets"][0]["page"] == page


async def test_a_hit_has_its_position(service: Service) -> None:
    snippet = (await search(service, "restarts"))["snippets"][0]
    assert (snippet["page"], snippet["chunk_id"], "restarts" in snippet["snippet"]) == (
        1,
        "p1-c1",
        True,
    )


async def test_the_best_hit_comes_first(service: Service) -> None:
    scores = [
        s["score"] for s in (await search(service, "gateway page", max_results=5))["snippets"]
    ]
    assert scores == sorted(scores, reverse=True)


async def test_three_results_are_the_default(service: Service) -> None:
    assert (await search(service, "gateway"))["count"] == 3


@pytest.mark.parametrize("wanted", [5, 6, 1000, "99", 10**20])
async def test_more_than_five_results_are_reduced_to_five(service: Service, wanted: object) -> None:
    assert (await search(service, "gateway", max_results=wanted))["count"] == 5


@pytest.mark.parametrize("wanted", [0, -1, "-3"])
async def test_fewer_than_one_result_is_an_error(service: Service, wanted: object) -> None:
    arguments = {"doc_id": "d", "query": "gateway", "max_results": wanted}
    assert await service.code("doc_local_search", arguments) == "INVALID_ARGUMENTS"


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
async def test_an_empty_query_is_an_error(service: Service, query: str) -> None:
    arguments = {"doc_id": "d", "query": query}
    assert await service.code("doc_local_search", arguments) == "INVALID_ARGUMENTS"


async def test_no_match_is_ok(service: Service) -> None:
    result = await search(service, "xylophone")
    assert (result["count"], result["snippets"], result["tokens"]) == (0, [], 0)


async def test_no_match_returns_the_searched_words(service: Service) -> None:
    result = await search(service, "xylophone, Ксилофон! xylophone 木琴")
    assert result["searched_for"] == ["xylophone", "Ксилофон", "木琴"]


async def test_a_match_does_not_return_the_searched_words(service: Service) -> None:
    assert "searched_for" not in await search(service, "gateway")


async def test_a_long_query_is_truncated_at_1000_characters(service: Service) -> None:
    assert (await search(service, "x " * 500 + "gateway"))["count"] == 0


async def test_spaces_before_a_query_do_not_count(service: Service) -> None:
    assert (await search(service, " " * 1000 + "gateway"))["count"] == 3


@pytest.mark.parametrize(
    "query",
    ['"', '"gateway', "gateway AND", "(gateway", "field:gateway", "gateway~9^2", "*", "-gateway",
     "[a TO b]", "\\", "!" * 10_000, "\U0001f600", "\x00gateway", "NOT", "a" * 900],
)  # fmt: skip
async def test_any_query_text_is_accepted(service: Service, query: str) -> None:
    code = await service.code("doc_local_search", {"doc_id": "d", "query": query})
    assert code == "OK"


async def test_all_snippets_together_obey_the_byte_limit() -> None:
    async with running(DOCUMENT, max_text_bytes=40) as service:
        result = await search(service, "gateway")
        assert sum(len(s["snippet"].encode()) for s in result["snippets"]) <= 40


async def test_a_changed_document_gets_a_new_index() -> None:
    async with running(DOCUMENT) as changing:
        await search(changing, "gateway")
        changing.gateway.repository.hold(make_document(doc_id="d", pages=["only a zebra"]))
        counts = [(await search(changing, query))["count"] for query in ("zebra", "gateway")]
    assert counts == [1, 0]


async def test_parallel_first_searches_build_one_index() -> None:
    async with running(DOCUMENT) as fresh:
        await asyncio.gather(*(search(fresh, f"gateway {n}") for n in range(20)))
        exposition = (await fresh.http.get("/metrics")).text
    assert "mcp_proxy_search_index_builds_total 1.0" in exposition


@at_most(50)
@given(query=st.text(min_size=1, max_size=200))
async def test_no_query_breaks_the_search(service: Service, query: str) -> None:
    code = await service.code("doc_local_search", {"doc_id": "d", "query": query})
    assert code == ("OK" if query.strip() else "INVALID_ARGUMENTS")
