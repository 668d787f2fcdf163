import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from tests.support.mcp_endpoint import (
    BOTH,
    ENVELOPE,
    MODERN,
    TENANT,
    Served,
    serving,
)

OTHER = {**TENANT, "X-Tenant-Id": "tenant_2"}
WANTED = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
LISTEN = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": WANTED}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
MODERN_HEADERS = {**BOTH, "MCP-Protocol-Version": MODERN, "Mcp-Method": LISTEN["method"]}


@asynccontextmanager
async def opened(
    served: Served, kind: str, headers: dict[str, str]
) -> AsyncIterator[httpx.Response]:
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
    """Return the message of a refusal because of missing capacity."""
    await response.aread()
    error = response.json()["error"]
    assert error["data"]["code"] == "NO_ROOM"
    return str(error["message"])


@pytest.mark.parametrize("kind", ["listen", "session", "legacy-sse"])
async def test_a_tenant_leaves_a_quarter_of_the_streams_to_others(kind: str) -> None:
    async with serving(max_sessions=4) as served, AsyncExitStack() as stack:
        for _ in range(3):
            response = await stack.enter_async_context(opened(served, kind, TENANT))
            assert response.headers["content-type"].startswith("text/event-stream")
        async with opened(served, kind, TENANT) as response:
            assert "your tenant has 3 streams open" in await refused(response)
        async with opened(served, kind, OTHER) as response:
            assert response.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("kind", ["session", "legacy-sse"])
async def test_the_tenant_with_the_most_sessions_in_streams_ends_no_other_tenants(
    kind: str,
) -> None:
    async with serving(max_sessions=4) as served, AsyncExitStack() as stack:
        others = await served.open_session(headers=OTHER)
        await served.set_log_level(others, headers=OTHER)
        for _ in range(3):
            await stack.enter_async_context(opened(served, kind, TENANT))
        one_more = await served.set_log_level(await served.open_session())
        assert "4 sessions are open and in use" in await refused(one_more)
        assert await pinged(served, others, OTHER) == 200


async def test_a_tenant_with_streams_ends_its_own_unused_session() -> None:
    async with serving(max_sessions=4) as served, AsyncExitStack() as stack:
        others = await served.open_session(headers=OTHER)
        await served.set_log_level(others, headers=OTHER)
        for _ in range(2):
            await stack.enter_async_context(opened(served, "legacy-sse", TENANT))
        own = await served.open_session()
        await served.set_log_level(own)
        await served.set_log_level(await served.open_session())
        assert await pinged(served, own, TENANT) == 404
        assert await pinged(served, others, OTHER) == 200


@pytest.mark.parametrize("unused", [0, 2, 3])
async def test_parallel_sessions_with_settings_stay_within_the_limit(
    unused: int,
) -> None:
    async with serving(max_sessions=3) as served:
        for _ in range(unused):
            await served.set_log_level(await served.open_session())
        session_ids = [await served.open_session() for _ in range(20)]
        # without sockets in between they arrive in one iteration of the event loop
        at_once = served._replace(http=served.service.http)
        first, *more = await asyncio.gather(*map(at_once.set_log_level, session_ids))
        statuses = {response.status_code for response in more}
        assert (first.status_code, served.facade.sessions, statuses <= {200, 503}) == (200, 3, True)


async def test_sessions_without_settings_use_no_capacity() -> None:
    async with serving(max_sessions=1) as served:
        session_ids = [await served.open_session() for _ in range(20)]
        statuses = {await pinged(served, session_id, TENANT) for session_id in session_ids}
        assert (statuses, served.facade.sessions) == ({200}, 0)


async def pinged(served: Served, session_id: str, headers: dict[str, str]) -> int:
    sent = {**BOTH, **headers, "Mcp-Session-Id": session_id}
    return (await served.http.post("/mcp", json=PING, headers=sent)).status_code
