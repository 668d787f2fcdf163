"""read_doc_metadata of a document with more sections than one answer can list (contract §2)."""

import json
from itertools import pairwise

import pytest

from mcp_tools_proxy.domain.document import Document, Section
from tests.support.builders import make_document
from tests.support.service import TOOLS, Envelope, Service, running

LIMIT = 1000


def with_sections(count: int, title: str = "Глава") -> Document:
    sections = [
        Section(section_id=f"s{n}", title=f"{title} {n}", page_start=1, page_end=1)
        for n in range(count)
    ]
    return make_document(doc_id="d", sections={s.section_id: s for s in sections})


async def described(service: Service, **arguments: object) -> Envelope:
    return await service.result("read_doc_metadata", {"doc_id": "d"} | arguments)


def size(sections: object) -> int:
    return len(json.dumps(sections, ensure_ascii=False, separators=(",", ":")).encode())


async def test_the_parts_together_list_every_section_once_in_order() -> None:
    document = with_sections(100)
    async with running(document, max_text_bytes=LIMIT) as service:
        part = await described(service)
        listed = [part["sections"]]
        while part["truncated"]:
            part = await described(service, start_section=part["next_start_section"])
            listed.append(part["sections"])
        ids = [section["section_id"] for sections in listed for section in sections]
        assert ids == list(document.sections)
        assert max(map(size, listed)) <= LIMIT
        for sections, after in pairwise(listed):
            assert size(sections + after[:1]) > LIMIT, "no part is shorter than it has to be"


async def test_a_part_has_the_total_number_of_sections() -> None:
    async with running(with_sections(100), max_text_bytes=LIMIT) as service:
        part = await described(service)
        assert (part["section_count"], part["truncated"], part["next_start_section"]) == (
            100,
            True,
            len(part["sections"]),
        )


async def test_the_last_part_is_not_truncated() -> None:
    async with running(with_sections(100), max_text_bytes=LIMIT) as service:
        part = await described(service, start_section="99")
        assert (len(part["sections"]), part["truncated"], "next_start_section" in part) == (
            1,
            False,
            False,
        )


@pytest.mark.parametrize("start", [100, 101, 10**30])
async def test_a_start_past_the_end_returns_no_sections_and_is_not_truncated(start: int) -> None:
    async with running(with_sections(100)) as service:
        part = await described(service, start_section=start)
        assert (part["sections"], part["section_count"], part["truncated"]) == ([], 100, False)


async def test_one_section_is_listed_at_any_length() -> None:
    async with running(with_sections(3, "x" * 5000), max_text_bytes=LIMIT) as service:
        part = await described(service, start_section=1)
        assert ([s["section_id"] for s in part["sections"]], part["next_start_section"]) == (
            ["s1"],
            2,
        )


@pytest.mark.parametrize(("spare", "truncated"), [(0, False), (-1, True)])
async def test_the_limit_applies_to_the_bytes_of_the_list_as_json(
    spare: int, *, truncated: bool
) -> None:
    async with running(with_sections(10)) as service:
        whole = size((await described(service))["sections"])
    async with running(with_sections(10), max_text_bytes=whole + spare) as service:
        assert (await described(service))["truncated"] is truncated


async def test_a_document_without_sections_lists_none() -> None:
    async with running(make_document(doc_id="d")) as service:
        part = await described(service)
        assert (part["sections"], part["section_count"], part["truncated"]) == ([], 0, False)


@pytest.mark.requirement("T-01")
@pytest.mark.parametrize("start", [-1, 1.5, "first", True])
async def test_an_invalid_start_is_refused(start: object) -> None:
    async with running(with_sections(1)) as service:
        arguments = {"doc_id": "d", "start_section": start}
        assert await service.code("read_doc_metadata", arguments) == "INVALID_ARGUMENTS"


async def test_a_part_has_at_most_about_five_thousand_tokens_by_default() -> None:
    async with running(with_sections(2000, "A heading of usual length")) as service:
        assert (await described(service))["tokens"] <= 5_200


async def test_the_description_explains_how_to_continue() -> None:
    async with running() as service:
        listed = await service.get(TOOLS, tenant_id="tenant_1", user_id="u")
        (tool,) = [t for t in listed["tools"] if t["name"] == "read_doc_metadata"]
        assert "next_start_section" in tool["description"]
        assert "start_section" in tool["inputSchema"]["properties"]
        assert {"section_count", "truncated", "next_start_section"} <= tool["outputSchema"][
            "properties"
        ].keys()
        assert "next_start_section" not in tool["outputSchema"].get("required", ())
