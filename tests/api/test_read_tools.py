"""read_doc_section, read_doc_pages, read_doc_metadata through the API (contract §2)."""

from collections.abc import AsyncIterator

import pytest

from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Section
from tests.support.builders import make_document
from tests.support.configuration import Json
from tests.support.service import Envelope, Service, running

PAGES = ("Первая страница. " * 20, "Second page. " * 30, "third\n" * 40, "4" * 100)
DOCUMENT = make_document(
    tenant_id="tenant_1",
    doc_id="d",
    title="A title",
    tags=("a", "b"),
    pages=PAGES,
    sections={
        section.section_id: section
        for section in (
            Section(section_id="whole", title="Whole", page_start=1, page_end=4),
            Section(section_id="top", title="Top", page_start=2, page_end=2, end_char=13),
            Section(section_id="rest", title="Rest", page_start=2, page_end=3, start_char=13,
                    end_char=6),
        )
    },
)  # fmt: skip


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    async with running(DOCUMENT, **shared_settings) as started:
        yield started


async def section(service: Service, section_id: str, **arguments: object) -> Envelope:
    return await service.result(
        "read_doc_section", {"doc_id": "d", "section_id": section_id, **arguments}
    )


async def pages(service: Service, start: object, end: object, **arguments: object) -> Envelope:
    return await service.result(
        "read_doc_pages", {"doc_id": "d", "page_start": start, "page_end": end, **arguments}
    )


async def test_a_section_has_all_its_fields(service: Service) -> None:
    assert await section(service, "top") == {
        "text": "Second page. ",
        "tokens": 3,
        "section_id": "top",
        "doc_id": "d",
        "truncated": False,
        "title": "Top",
        "page_start": 2,
        "page_end": 2,
        "sources": [
            {
                "doc_id": "d",
                "version": version_of(DOCUMENT),
                "page": 2,
                "start_char": 0,
                "end_char": 13,
            }
        ],
    }


async def test_two_sections_on_one_page_have_separate_texts(service: Service) -> None:
    text = (await section(service, "rest"))["text"]
    assert text == "Second page. " * 29 + "\n\n" + "third\n"


async def test_pages_are_joined_by_a_blank_line(service: Service) -> None:
    assert (await pages(service, 1, 4))["text"] == "\n\n".join(PAGES)


async def test_a_span_is_clamped_to_the_document(service: Service) -> None:
    result = await pages(service, 3, 7)
    assert (result["page_start"], result["page_end"]) == (3, 4)


async def test_tokens_are_a_quarter_of_the_characters(service: Service) -> None:
    result = await pages(service, 1, 1)
    assert result["tokens"] == len(result["text"]) // 4


async def test_an_integer_can_be_a_string(service: Service) -> None:
    assert (await pages(service, "1", "2"))["page_end"] == 2


@pytest.mark.requirement("T-01")
async def test_pages_in_the_wrong_order_are_refused_and_both_are_named(service: Service) -> None:
    arguments = {"doc_id": "d", "page_start": 3, "page_end": 2}
    error = (await service.execute("read_doc_pages", arguments))["error"]
    assert (error["code"], error["message"], error["details"]) == (
        "INVALID_ARGUMENTS",
        "page_end is before page_start",
        {"arguments": ["page_start", "page_end"]},
    )


async def test_a_text_at_the_end_is_empty_and_not_truncated(service: Service) -> None:
    result = await section(service, "top", start_char=10_000)
    assert (result["text"], result["truncated"]) == ("", False)


async def test_metadata_describes_the_document(service: Service) -> None:
    result = await service.result("read_doc_metadata", {"doc_id": "d"})
    tokens = result.pop("tokens")
    assert (tokens > 0, result) == (
        True,
        {
            "doc_id": "d",
            "title": "A title",
            "pages": 4,
            "sections": [
                {"section_id": "whole", "title": "Whole", "page_start": 1, "page_end": 4},
                {"section_id": "top", "title": "Top", "page_start": 2, "page_end": 2},
                {"section_id": "rest", "title": "Rest", "page_start": 2, "page_end": 3},
            ],
            "section_count": 3,
            "truncated": False,
            "tags": ["a", "b"],
            "tenant_id": "tenant_1",
        },
    )


async def test_a_truncated_text_is_within_the_byte_limit() -> None:
    async with running(DOCUMENT, max_text_bytes=101) as service:
        result = await section(service, "whole")
        assert 98 <= len(result["text"].encode()) <= 101


async def test_continued_reads_return_the_whole_text() -> None:
    async with running(DOCUMENT, max_text_bytes=150) as service:
        text, start = "", 0
        while True:
            result = await section(service, "whole", start_char=start)
            text += result["text"]
            if not result["truncated"]:
                break
            start = result["next_start_char"]
        assert text == "\n\n".join(PAGES)


async def test_pages_continue_at_start_char_too() -> None:
    async with running(DOCUMENT, max_text_bytes=400) as service:
        first = await pages(service, 2, 3)
        rest = await pages(service, 2, 3, start_char=first["next_start_char"])
        assert first["text"] + rest["text"] == "\n\n".join(PAGES[1:3])


async def test_the_page_limit_is_a_setting() -> None:
    async with running(DOCUMENT, max_pages_per_call=2) as service:
        envelope = await service.execute(
            "read_doc_pages", {"doc_id": "d", "page_start": 1, "page_end": 3}
        )
        assert envelope["error"]["message"] == (
            "3 pages were asked for, the limit is 2; read them in several calls"
        )


@pytest.mark.requirement("T-01")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"doc_id": None}, "doc_id"),
        ({"doc_id": True}, "doc_id"),
        ({"doc_id": 7.0}, "doc_id"),
        ({"doc_id": 10**256}, "doc_id"),
        ({"doc_id": ["d"]}, "doc_id"),
        ({"doc_id": ""}, "doc_id"),
        ({"doc_id": "x" * 257}, "doc_id"),
        ({"doc_id": "a\tb"}, "doc_id"),
        ({"page_start": None}, "page_start"),
        ({"page_start": 0}, "page_start"),
        ({"page_start": -1}, "page_start"),
        ({"page_start": True}, "page_start"),
        ({"page_start": 1.5}, "page_start"),
        ({"page_start": 1e-9}, "page_start"),
        ({"page_start": "x"}, "page_start"),
        ({"page_start": "3.0"}, "page_start"),
        ({"page_start": " 3"}, "page_start"),
        ({"page_start": "٣"}, "page_start"),
        ({"page_start": "9" * 5000}, "page_start"),
        ({"page_start": []}, "page_start"),
        ({"start_char": -1}, "start_char"),
        ({"page_start": 2, "page_end": 1}, "page_end"),
        ({"pagestart": 1}, "pagestart"),
    ],
)
async def test_the_error_for_invalid_arguments_names_them(
    service: Service, change: dict[str, object], named: str
) -> None:
    arguments = {"doc_id": "d", "page_start": 1, "page_end": 1} | change
    error = (await service.execute("read_doc_pages", arguments))["error"]
    assert (error["code"], named in error["message"]) == ("INVALID_ARGUMENTS", True)


@pytest.mark.requirement("T-01")
async def test_invalid_arguments_are_not_charged() -> None:
    async with running(DOCUMENT, rate_limit_calls=1) as service:
        for _ in range(3):
            await service.execute("read_doc_metadata", {"doc_id": "d", "version": 1})
        assert await service.code("read_doc_metadata", {"doc_id": "d"}) == "OK"


@pytest.mark.requirement("T-05")
async def test_the_seed_document_has_its_sections(service: Service) -> None:
    result = await service.result("read_doc_metadata", {"doc_id": "doc_1"})
    spans = [(s["section_id"], s["page_start"], s["page_end"]) for s in result["sections"]]
    assert (result["pages"], spans) == (
        12,
        [("sec_intro", 1, 2), ("sec_setup", 3, 5), ("sec_troubleshooting", 6, 8)],
    )


@pytest.mark.requirement("T-05")
async def test_without_mock_mode_the_seed_document_is_missing() -> None:
    async with running(mock_mode=False) as service:
        assert await service.code("read_doc_metadata", {"doc_id": "doc_1"}) == "DOCUMENT_NOT_FOUND"
