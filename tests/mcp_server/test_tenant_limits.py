"""One tenant leaves room for the others: streams, and the sessions that they keep in use."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from tests.support.mcp_endpoint import BOTH, ENVELOPE, MODERN, TENANT, Served, serving

OTHER = {**TENANT, "X-Tenant-Id": "tenant_2"}
WANTED = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
LISTEN = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": WANTED}
MODERN_HEADERS = {**BOTH, "MCP-Protocol-Version": MODERN, "Mcp-Method": LISTEN["method"]}


@asynccontextmanager
async def opened(
    served: Served, kind: str, headers: dict[str, str]
) -> AsyncIterator[httpx.Response]:
    """Open a stream of one kind."""
    match kind:
        case "listen":
            sent = {"url": "/mcp", "json": LISTEN, "headers": {**MODERN_HEADERS, **headers}}
            method = "POST"
        case "session":
            session_id = await served.open_session(headers=headers)
            sent = {"url": "/mcp", "headers": {**BOTH, **headers, "Mcp-Session-Id": session_id}}
            method = "GET"
        case _:
            sent, method = {"url": "/mcp/sse", "headers": headers}, "GET"
    async with served.http.stream(method, **sent) as response:  # type: ignore[arg-type]
        yield response


async def refused(response: httpx.Response) -> str:
    """Return the message of a refusal for want of capacity."""
    await response.aread()
    error = response.json()["error"]
    assert error["data"]["code"] == "NO_ROOM"
    return str(error["message"])


@pytest.mark.parametrize("kind", ["listen", "session", "legacy-sse"])
async def test_a_tenant_leaves_others_a_quarter_of_the_streams(kind: str) -> None:
    async with serving(max_sessions=4) as served, AsyncExitStack() as stack:
        for _ in range(3):
            response = await stack.enter_async_context(opened(served, kind, TENANT))
            assert response.headers["content-type"].startswith("text/event-stream")
        async with opened(served, kind, TENANT) as response:
            assert "your tenant has 3 streams open" in await refused(response)
        async with opened(served, kind, OTHER) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
