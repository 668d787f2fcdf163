"""verify_quote through the API (contract §2)."""

from collections.abc import AsyncIterator

import pytest

from mcp_tools_proxy.documents.versions import version_of
from tests.support.builders import make_document
from tests.support.configuration import Json
from tests.support.service import Envelope, Service, running

PAGES = ("The pump holds at most 12 bar. It was built by\nAda Lovelace", "in 1843, not in 1834.")
DOCUMENT = make_document(doc_id="d", pages=PAGES)


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    async with running(DOCUMENT, **shared_settings) as started:
        yield started


async def verify(service: Service, quote: str) -> Envelope:
    return await service.result("verify_quote", {"doc_id": "d", "quote": quote})


def source(page: int, start_char: int, end_char: int) -> dict[str, object]:
    return {
        "doc_id": "d",
        "version": version_of(DOCUMENT),
        "page": page,
        "start_char": start_char,
        "end_char": end_char,
    }


async def test_a_correct_quote_returns_its_source(service: Service) -> None:
    assert await verify(service, "at most 12 bar") == {
        "verified": True,
        "matches": [source(1, 15, 29)],
        "doc_id": "d",
        "tokens": 0,
    }


async def test_a_quote_over_two_pages_has_two_sources(service: Service) -> None:
    result = await verify(service, "built by Ada Lovelace in 1843")
    assert result["matches"] == [source(1, 38, 59), source(2, 0, 7)]


@pytest.mark.parametrize(
    ("quote", "nearest"),
    [
        ("The pump holds at most 21 bar", "The pump holds at most 12 bar"),
        ("It was built by Grace Lovelace", "It was built by\nAda Lovelace"),
        ("in 1843, in 1834.", "in 1843, not in 1834."),
    ],
)
async def test_a_changed_quote_returns_the_original_text(
    service: Service, quote: str, nearest: str
) -> None:
    result = await verify(service, quote)
    assert (result["verified"], result["matches"]) == (False, [])
    place = result["nearest"]["source"]
    text = PAGES[place["page"] - 1][place["start_char"] : place["end_char"]]
    assert (result["nearest"]["text"], text) == (nearest, nearest)
    assert 0.6 < result["nearest"]["similarity"] < 1


async def test_a_quote_without_similar_text_has_no_nearest_passage(service: Service) -> None:
    assert "nearest" not in await verify(service, "elephants of Burma")


async def test_the_nearest_passage_is_truncated_like_other_texts() -> None:
    async with running(DOCUMENT, max_text_bytes=8) as service:
        result = await verify(service, "The pump holds at most 21 bar")
    assert (result["nearest"]["text"], result["nearest"]["source"], result["tokens"]) == (
        "The pump",
        source(1, 0, 8),
        2,
    )


@pytest.mark.requirement("T-01")
@pytest.mark.parametrize(
    ("quote", "message"),
    [
        ("  short  ", "quote: should have at least 8 characters; quote more words"),
        ("x" * 2001, "quote: should have at most 2000 characters; verify it in several parts"),
    ],
)
async def test_a_quote_of_invalid_length_is_refused(
    service: Service, quote: str, message: str
) -> None:
    answer = await service.execute("verify_quote", {"doc_id": "d", "quote": quote})
    assert (answer["error"]["code"], answer["error"]["message"]) == ("INVALID_ARGUMENTS", message)


async def test_a_repeated_quote_has_the_same_result(service: Service) -> None:
    first = await verify(service, "at most 12 bar")
    assert await verify(service, "at most 12 bar") == first
