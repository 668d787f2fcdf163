"""Documents that a header binds a request of MCP over HTTP to: of each request, in every era."""

import pytest

from tests.carriers.clients import over_sse
from tests.support.mcp_endpoint import BOTH, LEGACY, TENANT, serving

CALL = {"name": "read_doc_metadata", "arguments": {"doc_id": "doc_1"}}
REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
HEADERS: tuple[tuple[dict[str, str], bool], ...] = (
    ({}, False),
    ({"X-Documents": "doc_1,other"}, False),
    ({"X-Documents": "other"}, True),
    ({"X-Documents": ""}, True),
    ({}, False),
)
"""What the requests of one session name, and whether each is refused."""


async def test_a_request_of_the_newer_era_is_bound() -> None:
    async with serving() as served:
        for documents, refused in HEADERS:
            response = await served.request("tools/call", CALL, headers={**TENANT, **documents})
            assert ("ACCESS_DENIED" in response.text) is refused


@pytest.mark.parametrize("first", [{}, {"X-Documents": "doc_1"}, {"X-Documents": "other"}])
async def test_a_session_remembers_no_documents(first: dict[str, str]) -> None:
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
