"""Arguments of the original service's callers for its six tools (T-01, seed 004)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcp_tools_proxy.domain.document import Section
from tests.support.builders import make_document
from tests.support.service import TOOLS, Service, running

pytestmark = pytest.mark.requirement("T-01")

SECTION = Section(section_id="3", title="Three", page_start=1, page_end=2)
NUMBERED = make_document(doc_id="7", pages=("one", "two", "three"), sections={"3": SECTION})
PAGES: dict[str, object] = {"doc_id": "7", "page_start": 1, "page_end": 2}
WINDOW: dict[str, object] = {"doc_id": "7", "anchor_chunk_id": "p2-c1"}
SIX: dict[str, dict[str, object]] = {
    "read_doc_section": {"doc_id": "7", "section_id": "3"},
    "read_doc_pages": PAGES,
    "read_doc_metadata": {"doc_id": "7"},
    "doc_local_search": {"doc_id": "7", "query": "two"},
    "read_chunk_window": WINDOW,
    "list_available_tools": {},
}


@pytest.fixture(scope="module")
async def service(shared_settings: dict[str, Any]) -> AsyncIterator[Service]:
    async with running(NUMBERED, retrieval_window_url="local", **shared_settings) as started:
        yield started


@pytest.mark.parametrize(
    ("tool", "change"),
    [
        ("read_doc_pages", {"page_start": 1.0}),
        ("read_doc_pages", {"page_end": 2.0}),
        ("read_doc_section", {"start_char": 0.0}),
        ("read_doc_metadata", {"start_section": 0.0}),
        ("doc_local_search", {"max_results": 3.0}),
        ("read_chunk_window", {"window_before": 1.0}),
        ("read_chunk_window", {"radius": 1.0}),
    ],
    ids=str,
)
async def test_a_whole_float_is_accepted_as_an_integer(
    service: Service, tool: str, change: dict[str, object]
) -> None:
    plain = {name: int(str(value).removesuffix(".0")) for name, value in change.items()}
    expected = await service.result(tool, SIX[tool] | plain)
    assert await service.result(tool, SIX[tool] | change) == expected


@pytest.mark.parametrize(
    ("tool", "change"),
    [
        *((tool, {"doc_id": 7}) for tool, arguments in SIX.items() if arguments),
        ("read_doc_section", {"section_id": 3}),
        ("read_chunk_window", {"section_id": 3}),
        ("verify_quote", {"doc_id": 7, "quote": "one two three"}),
    ],
    ids=str,
)
async def test_an_integer_is_accepted_as_an_id(
    service: Service, tool: str, change: dict[str, object]
) -> None:
    known = {**SIX.get(tool, {}), **change}
    expected = await service.result(tool, {k: _text_of_id(k, v) for k, v in known.items()})
    assert await service.result(tool, known) == expected


def _text_of_id(name: str, value: object) -> object:
    return str(value) if name.endswith("_id") else value


async def test_an_integer_is_accepted_as_the_id_of_a_chunk(service: Service) -> None:
    error = (await service.execute("read_chunk_window", WINDOW | {"anchor_chunk_id": 7}))["error"]
    assert error["code"] == "CHUNK_NOT_FOUND"


async def test_a_document_named_by_an_integer_has_one_budget_and_record() -> None:
    async with running(NUMBERED, rate_limit_calls=2) as started:
        codes = [
            await started.code("read_doc_metadata", {"doc_id": doc_id}) for doc_id in (7, "7", 7)
        ]
        assert codes == ["OK", "OK", "RATE_LIMIT_EXCEEDED"]


async def test_an_integer_can_name_only_the_bound_document(service: Service) -> None:
    codes = [
        await service.code("read_doc_metadata", {"doc_id": doc_id}, documents=["7"])
        for doc_id in (7, 8)
    ]
    assert codes == ["OK", "ACCESS_DENIED"]


@pytest.mark.parametrize("value", [True, False, 7.5, [7], {"id": 7}], ids=str)
async def test_other_values_are_refused_as_ids(service: Service, value: object) -> None:
    error = (await service.execute("read_doc_metadata", {"doc_id": value}))["error"]
    assert (error["code"], error["details"]) == (
        "INVALID_ARGUMENTS",
        {"arguments": ["doc_id"]},
    )


@pytest.mark.requirement("T-02")
@pytest.mark.parametrize(
    "sides",
    [
        {"window_before": 1, "window_after": 1},
        {"window_before": 1.0, "window_after": "1"},
        {"window_after": 1},
    ],
    ids=str,
)
async def test_a_radius_is_accepted_with_equal_sides(
    service: Service, sides: dict[str, object]
) -> None:
    result = await service.result("read_chunk_window", WINDOW | {"radius": 1} | sides)
    assert (result["window_before"], result["window_after"]) == (1, 1)


@pytest.mark.requirement("T-02")
@pytest.mark.parametrize(
    "sides",
    [
        {"window_before": 1, "window_after": 2},
        {"window_before": 2, "window_after": 2},
        {"window_before": 0, "window_after": 1},
    ],
    ids=str,
)
async def test_a_radius_with_different_sides_is_refused(
    service: Service, sides: dict[str, object]
) -> None:
    answer = await service.execute("read_chunk_window", WINDOW | {"radius": 1} | sides)
    assert (answer["error"]["code"], answer["error"]["details"]) == (
        "INVALID_ARGUMENTS",
        {"arguments": ["radius", "window_before", "window_after"]},
    )


@pytest.mark.parametrize("tool", SIX)
@pytest.mark.parametrize("unknown", [{"stream": True}, {"top_k": 5, "tenant_id": "tenant_2"}])
async def test_unknown_arguments_are_ignored_and_listed(
    service: Service, tool: str, unknown: dict[str, object]
) -> None:
    expected = await service.result(tool, SIX[tool])
    result = await service.result(tool, SIX[tool] | unknown)
    assert result == expected | {"ignored_arguments": list(unknown)}


async def test_a_null_unknown_argument_counts_as_absent(service: Service) -> None:
    result = await service.result("read_doc_pages", PAGES | {"stream": None})
    assert "ignored_arguments" not in result


async def test_a_long_list_of_unknown_arguments_is_shortened(service: Service) -> None:
    unknown = {f"{number}?" * 100: 1 for number in range(10_000, 11_000)}
    named = (await service.result("read_doc_pages", unknown | PAGES))["ignored_arguments"]
    assert (len(named), max(map(len, named)) <= 200) == (20, True)


@pytest.mark.parametrize(
    ("tool", "misspelt", "meant"),
    [
        ("doc_local_search", "max_result", "max_results"),
        ("doc_local_search", "maxResults", "max_results"),
        ("read_chunk_window", "raduis", "radius"),
        ("read_chunk_window", "windowBefore", "window_before"),
        ("read_doc_metadata", "start-section", "start_section"),
        ("read_doc_section", "startchar", "start_char"),
        ("list_available_tools", "formats", "format"),
        ("list_available_tools", "name", "names"),
    ],
)
async def test_a_misspelt_argument_is_refused_and_corrected(
    service: Service, tool: str, misspelt: str, meant: str
) -> None:
    error = (await service.execute(tool, SIX[tool] | {misspelt: 1, "stream": 1}))["error"]
    assert (error["code"], f'did you mean "{meant}"?' in error["message"]) == (
        "INVALID_ARGUMENTS",
        True,
    )


async def test_another_error_also_lists_unknown_arguments(
    service: Service,
) -> None:
    error = (await service.execute("read_doc_metadata", {"document": "7"}))["error"]
    assert (error["code"], error["details"]) == (
        "INVALID_ARGUMENTS",
        {"arguments": ["doc_id", "document"]},
    )


@pytest.mark.parametrize("tool", ["list_documents", "search_documents", "verify_quote"])
async def test_other_tools_refuse_unknown_arguments(service: Service, tool: str) -> None:
    known = {"search_documents": {"query": "one"}, "verify_quote": {"quote": "one two three"}}
    arguments = {**known.get(tool, {}), "stream": True}
    error = (await service.execute(tool, arguments))["error"]
    assert (error["code"], "stream" in error["message"]) == ("INVALID_ARGUMENTS", True)


async def test_published_schemas_allow_no_other_arguments(service: Service) -> None:
    listed = await service.get(TOOLS, tenant_id="tenant_1", user_id="u")
    schemas = {tool["name"]: tool["inputSchema"] for tool in listed["tools"]}
    assert [schemas[tool]["additionalProperties"] for tool in SIX] == [False] * len(SIX)
