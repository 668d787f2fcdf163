"""Documents that a header binds one MCP request over HTTP to, in every era."""

import pytest

from mcp_tools_proxy.wire.tracing import DOCUMENTS_KEY
from tests.carriers.clients import LIST_CHANGES, over_sse
from tests.mcp_server.list_change_listener import switch
from tests.support.configuration import make_agent, write_json
from tests.support.http_api import EVERYTHING
from tests.support.mcp_endpoint import BOTH, LEGACY, MODERN, TENANT, in_front_of_two, serving
from tests.support.raw_mcp_client import raw_client
from tests.support.service import CONFIG_DIR

CALL = {"name": "read_doc_metadata", "arguments": {"doc_id": "doc_1"}}
REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
HEADERS: tuple[tuple[dict[str, str], bool], ...] = (
    ({}, False),
    ({"X-Documents": "doc_1,other"}, False),
    ({"X-Documents": "other"}, True),
    ({"X-Documents": ""}, True),
    ({}, False),
)
"""The documents of the requests in one session, and whether each is refused."""


async def test_a_request_of_the_newer_era_is_bound() -> None:
    async with serving() as served:
        for documents, refused in HEADERS:
            response = await served.request("tools/call", CALL, headers={**TENANT, **documents})
            assert ("ACCESS_DENIED" in response.text) is refused


@pytest.mark.parametrize("first", [{}, {"X-Documents": "doc_1"}, {"X-Documents": "other"}])
async def test_a_session_does_not_remember_documents(first: dict[str, str]) -> None:
    async with serving() as served:
        session = await served.open_session(headers={**TENANT, **first})
        for documents, refused in HEADERS:
            headers = {**BOTH, **TENANT, **documents, "Mcp-Session-Id": session}
            response = await served.http.post("/mcp", json=REQUEST, headers=headers)
            assert response.status_code == 200
            assert ("ACCESS_DENIED" in response.text) is refused


async def test_each_message_of_a_stream_is_bound_by_its_own_header() -> None:
    async with serving() as served, over_sse(served, LEGACY, {}) as client:
        for documents, refused in HEADERS:
            served.http.headers.pop("X-Documents", None)
            served.http.headers.update(documents)
            result = await client.result("tools/call", CALL)
            assert bool(result.get("isError")) is refused


async def test_a_stream_of_changes_compares_the_lists_for_its_bound_documents() -> None:
    """A profile limited to one document does not change the list of a caller bound to it."""
    without_prompts = EVERYTHING | {"id": "other", "prompts": []}
    wanted = {"notifications": LIST_CHANGES}
    bound = wanted | {"_meta": {DOCUMENTS_KEY: ["doc_1"]}}
    caller = {**TENANT, "X-Agent-Id": "reader"}
    async with in_front_of_two(make_agent(), presets=(EVERYTHING, without_prompts)) as served:
        client = await raw_client(served, MODERN, caller=caller)
        async with (
            client.stream("subscriptions/listen", wanted) as concerned,
            client.stream("subscriptions/listen", bound) as unconcerned,
        ):
            for stream in (concerned, unconcerned):
                await anext(stream)  # acknowledges the subscription
            narrowed = {"agents": [make_agent(documents=["doc_1"])]}
            write_json(CONFIG_DIR / "agents.json", narrowed)
            assert (await anext(concerned))["method"] == "notifications/tools/list_changed"
            await switch(served, "other")
            for stream in (concerned, unconcerned):
                message = await anext(stream)
                assert message["method"] == "notifications/prompts/list_changed"
