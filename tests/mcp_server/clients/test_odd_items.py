import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.clients.client_programs import MCP1_PYTHON, output_of
from tests.mcp_server.entries import ByMcp
from tests.support.local_tools import LOCAL_TEMPLATES, LOCAL_TOOLS
from tests.support.mcp_endpoint import Served
from tests.support.raw_mcp_client import in_front_of_one
from tests.support.service import RESOURCES

pytestmark = [pytest.mark.e2e]

HERE = Path(__file__).parent
Json = dict[str, Any]

OBJECT = {"type": "object"}
ODD_FIELDS: list[Json] = [
    {"title": 5},
    {"title": None},
    {"description": {"en": "x"}},
    {"_meta": "x"},
    {"icons": "no"},
    {"icons": [{"src": 5}, {}]},
    {"icons": [{"src": "x", "sizes": 5}]},
    {"annotations": "x"},
]
ODD_TOOL_FIELDS: list[Json] = [
    {"annotations": {"readOnlyHint": "perhaps", "title": 5}},
    {"outputSchema": "x"},
    {"outputSchema": [1]},
    {"execution": "x"},
    {"execution": {"taskSupport": "perhaps"}},
]
ODD_PROMPT_FIELDS: list[Json] = [
    {"arguments": "x"},
    {"arguments": [{}]},
    {"arguments": [5, {"name": 5}]},
    {"arguments": [{"name": "a", "required": "perhaps"}]},
    {"arguments": [{"name": "a", "description": 5}]},
]
ODD_RESOURCE_FIELDS: list[Json] = [
    {"mimeType": 5},
    {"annotations": {"priority": 7, "audience": ["dog"]}},
    {"annotations": {"audience": "user"}},
    {"name": None},
    {"name": 5},
]
NAMELESS: list[Any] = [5, "x", None, [], {}, {"name": None}, {"name": 5}, {"name": ""},
                       {"name": "a\nb"}]  # fmt: skip


def odd(key: str, beginning: str, fields: list[Json], **plain: Any) -> list[Json]:
    """Build an item for each odd field."""
    return [
        {key: f"{beginning}{number}", "name": "n", **plain, **field}
        for number, field in enumerate([*ODD_FIELDS, *fields])
    ]


TOOLS = [it | {"name": it["key"]} for it in odd("key", "tool", ODD_TOOL_FIELDS, inputSchema=OBJECT)]
PROMPTS = [it | {"name": it["key"]} for it in odd("key", "prompt", ODD_PROMPT_FIELDS)]
EXTRA: dict[str, list[Any]] = {
    "tools": [
        *TOOLS,
        *({"inputSchema": OBJECT, **it} for it in NAMELESS if isinstance(it, dict)),
        *(it for it in NAMELESS if not isinstance(it, dict)),
        {"name": "typed", "inputSchema": "x"},
        {"name": "listed", "inputSchema": [1]},
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "task", "inputSchema": OBJECT, "execution": {"taskSupport": "required"}},
        {"name": "either", "inputSchema": {"type": ["object", "null"]}},
    ],
    "prompts": [*PROMPTS, *NAMELESS],
    "resources": [
        *odd("uri", "odd://", ODD_RESOURCE_FIELDS),
        {"uri": "odd://size", "name": "n", "size": "big"},
        {"uri": "odd://nameless"},
        {"uri": "template://{id}", "name": "n", "size": 5},
        {"uri": "no-scheme", "name": "n"},
        {"uri": "http://[broken", "name": "n"},
        {"name": "no-uri"},
        {"uri": 5, "name": "n"},
        {"uri": "", "name": "n"},
        *NAMELESS,
    ],
    "resourceTemplates": [
        *odd("uriTemplate", "odd://{x}/", ODD_RESOURCE_FIELDS),
        {"uriTemplate": "nameless://{x}"},
        {"uriTemplate": "broken://{"},
        {"uriTemplate": 5, "name": "n"},
        *NAMELESS,
    ],
}
NAMES = ["either", "task", *(tool["name"] for tool in TOOLS)]
SEEN = {
    "tools": sorted(f"s1:{name}" for name in ["whoami", *NAMES] if name != "task"),
    "prompts": sorted(["greet", "plain", *(prompt["name"] for prompt in PROMPTS)]),
    "resources": sorted(
        ["raw://text", "odd://size", "odd://nameless", *(f"odd://{i}" for i in range(13))]
    ),
    "templates": sorted(
        [
            *("raw://item/{id}", "template://{id}", "nameless://{x}"),
            *(f"odd://{{x}}/{i}" for i in range(13)),
        ]
    ),
}
OURS = {*LOCAL_TOOLS, *LOCAL_TEMPLATES}


@asynccontextmanager
async def serving_odd_items() -> AsyncIterator[Served]:
    settings = {"default_tenant_id": "tenant_1"}
    async with in_front_of_one(tuple(NAMES), extra=EXTRA, settings=settings) as (served, _):
        yield served


def downstream(seen: dict[str, list[str]]) -> dict[str, list[str]]:
    return {kind: sorted(set(names) - OURS) for kind, names in seen.items()}


def test_there_are_twenty_odd_items_of_each_kind() -> None:
    assert {kind: len(items) >= 20 for kind, items in EXTRA.items()} == dict.fromkeys(EXTRA, True)


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_a_client_of_sdk_1_lists_all_other_items(transport: str) -> None:
    async with serving_odd_items() as served:
        path = "/mcp/sse" if transport == "sse" else "/mcp"
        entry = {"transport": transport, "url": served.url + path, "headers": {}}
        program: list[str | Path] = [MCP1_PYTHON, HERE / "mcp1_lists.py", json.dumps(entry)]
        seen = json.loads(await output_of(program))
    assert downstream(seen) == SEEN


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_sdk_2_lists_all_other_items(mode: str) -> None:
    async with serving_odd_items() as served, served.client(mode=mode) as client:
        shown = await ByMcp(client).shown()
    assert downstream(shown._asdict()) == SEEN


async def test_an_item_not_listed_over_mcp_is_listed_and_readable_over_http() -> None:
    async with serving_odd_items() as served, served.client() as client:
        listed = (await served.service.get(RESOURCES))["resources"]
        read = await client.read_resource("no-scheme")
        through = await client.read_resource("raw://item/7")
    keys = {it.get("uri") or it["name"] for it in listed}
    assert {"no-scheme", "http://[broken", "no-uri"} <= keys
    assert [str(it.uri) for it in (*read.contents, *through.contents)] == [
        "no-scheme",
        "raw://item/7",
    ]
