"""Token cost and completeness of the gateway's own tool definitions.

Tokens are counted like in the gateway: bytes of the JSON // 4."""

import json
from typing import Any

import pytest

from mcp_tools_proxy.wire.text import estimate_tokens
from tests.api.document_operator import CONTENT, Operator, operated
from tests.connector.backend_link import begun, linked_to_one
from tests.support.local_tools import LISTED_TOOLS, LOCAL_TOOLS
from tests.support.mcp_endpoint import LEGACY, MODERN, serving
from tests.support.raw_mcp_client import raw_client
from tests.support.service import TOOLS, running

FORMATS = ("mcp", "openai", "anthropic", "gemini")
SCHEMA_KEYS = ("inputSchema", "parameters", "input_schema")
MAX_TOKENS = 2_500
DOCUMENT = {"tenant_id": "acme", "doc_id": "manual"}
PAGES = ["# Pumps\n\nTurn the valve to 12 bar, then wait.", "Close the lid. Call the service desk."]


def tokens_of(tools: list[Any]) -> int:
    return estimate_tokens(len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False)))


@pytest.mark.parametrize("tool_format", FORMATS)
async def test_a_list_of_the_gateways_tools_is_short_in_every_format(tool_format: str) -> None:
    async with running(retrieval_window_url="local") as service:
        tools = (await service.get(TOOLS, format=tool_format))["tools"]
    assert [tool.get("function", tool)["name"] for tool in tools] == [*LOCAL_TOOLS]
    assert tokens_of(tools) <= MAX_TOKENS


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize(("windows", "names"), [("local", LOCAL_TOOLS), (None, LISTED_TOOLS)])
async def test_a_list_over_mcp_is_equally_short_and_complete(
    era: str, windows: str | None, names: tuple[str, ...]
) -> None:
    async with serving(retrieval_window_url=windows) as served:
        client = await raw_client(served, era)
        tools = (await client.request("tools/list"))["result"]["tools"]
    assert [tool["name"] for tool in tools] == [*names]
    assert tokens_of(tools) <= MAX_TOKENS


async def test_the_connector_lists_the_configured_tools() -> None:
    async with linked_to_one() as (_, backend, _):
        await begun(backend, LEGACY)
        listed = await backend.session().result("tools/list")
    assert [it["name"] for it in listed["tools"] if ":" not in it["name"]] == [*LISTED_TOOLS]


async def test_a_tool_that_is_not_configured_is_in_no_list_even_by_name() -> None:
    async with running() as service:
        answers = [
            await service.get(TOOLS, names="read_chunk_window", format=tool_format)
            for tool_format in FORMATS
        ]
    assert [it["tools"] for it in answers] == [[]] * len(FORMATS)
    assert [it["warnings"][0]["tool"] for it in answers] == ["read_chunk_window"] * len(FORMATS)


QUESTIONS: dict[str, tuple[str, dict[str, object], tuple[str | int, ...], object]] = {
    "Which document has the answer?": (
        "search_documents",
        {"query": "valve"},
        ("places", 0, "doc_id"),
        "manual",
    ),
    "Where in a document is it?": (
        "doc_local_search",
        {"doc_id": "manual", "query": "valve"},
        ("snippets", 0, "sources", 0, "page"),
        1,
    ),
    "Which sections does it have, and on which pages?": (
        "read_doc_metadata",
        {"doc_id": "manual"},
        ("sections", 0, "page_end"),
        2,
    ),
    "What does the section say?": (
        "read_doc_section",
        {"doc_id": "manual", "section_id": "pumps"},
        ("sources", 1, "page"),
        2,
    ),
    "What do the pages say?": (
        "read_doc_pages",
        {"doc_id": "manual", "page_start": 1, "page_end": 2},
        ("sources", 0, "start_char"),
        0,
    ),
    "What is around a place?": (
        "read_chunk_window",
        {"doc_id": "manual", "anchor_chunk_id": "p1-c1", "radius": 1},
        ("chunks", 1, "sources", 0, "page"),
        2,
    ),
    "How sure is a text that was read by OCR?": (
        "read_doc_pages",
        {"doc_id": "manual", "page_start": 2, "page_end": 2},
        ("sources", 0, "ocr"),
        93,
    ),
    "Is a quotation right, and where is it?": (
        "verify_quote",
        {"doc_id": "manual", "quote": "Turn the valve to 12 bar"},
        ("matches", 0, "page"),
        1,
    ),
    "What does the document say in place of a wrong quotation?": (
        "verify_quote",
        {"doc_id": "manual", "quote": "Turn the valve to 13 bar, then wait."},
        ("nearest", "text"),
        "Turn the valve to 12 bar, then wait.",
    ),
    "What did the version say that was cited?": (
        "read_doc_pages",
        {"doc_id": "manual", "page_start": 1, "page_end": 1, "version": "$OLD"},
        ("text",),
        "An old text.",
    ),
}
"""Questions about documents: tool, arguments, path of the answer, answer."""


async def put(operator: Operator, condition: str, **content: object) -> str:
    body = json.dumps({**DOCUMENT, "title": "Manual", "tags": [], **content})
    headers = {"Content-Type": "application/json", condition: "*"}
    answer = await operator.send("PUT", CONTENT, DOCUMENT, body, **headers)
    return str(answer.json()["version"])


@pytest.mark.parametrize("question", QUESTIONS)
async def test_every_format_has_the_information_for_the_ten_questions(question: str) -> None:
    tool, arguments, path, expected = QUESTIONS[question]
    async with operated(retrieval_window_url="local") as operator:
        old = await put(operator, "If-None-Match", pages=["An old text."], sections=[])
        section = {"section_id": "pumps", "title": "Pumps", "page_start": 1, "page_end": 2}
        await put(operator, "If-Match", pages=PAGES, sections=[section], ocr=[None, 93])
        arguments = {key: old if it == "$OLD" else it for key, it in arguments.items()}
        lists = [
            (await operator.service.get(TOOLS, format=it, names=tool))["tools"] for it in FORMATS
        ]
        answer = await operator.service.execute(tool, arguments, tenant_id="acme")
    for (listed,) in lists:
        shown = listed.get("function", listed)
        schema = next(shown[it] for it in SCHEMA_KEYS if it in shown)
        assert set(schema.get("required", [])) <= set(arguments) <= set(schema["properties"])
    found: Any = answer["result"]
    for step in path:
        found = found[step]
    assert found == expected
