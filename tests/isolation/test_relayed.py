from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from tests.carriers.clients import HttpClient, cancelled
from tests.isolation.witness import server_of
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import LEGACY, MODERN, Served, serving
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.raw_mcp_client import raw_client
from tests.support.relay_samples import FORM

TOOLS = ("notify", "request_client", "hang", "touch", "meta", "cancelled_count")
KINDS = ("http-legacy", "sse-legacy", "ws-legacy", "stdio-legacy")
ANSWER = {"action": "accept", "content": {"name": "of b"}}


class Pair(NamedTuple):
    """Clients of two tenants of one gateway."""

    a: HttpClient
    b: HttpClient


@asynccontextmanager
async def clients_of_two(entry: Json, era: str) -> AsyncIterator[Pair]:
    config = Config(
        servers={"s": {**entry, "isolation": "tenant"}},
        presets=[make_preset(tools=[("s", tool) for tool in TOOLS])],
        more={"defaultPresetId": "work"},
    )
    async with serving(config=config) as served:
        yield Pair(*[await client_of(served, era, tenant_id) for tenant_id in ("a", "b")])


async def client_of(served: Served, era: str, tenant_id: str) -> HttpClient:
    caller = {"X-Tenant-Id": tenant_id, "X-User-Id": "ann"}
    return HttpClient(served, await raw_client(served, era, caller=caller, elicitation={}))


def call_of(tool: str, **arguments: object) -> Json:
    """Build the params of a call with a progress token."""
    return {"name": f"s:{tool}", "arguments": arguments, "_meta": {"progressToken": "mine"}}


def progress_of(token: int) -> Json:
    """Build the progress notification of any of the gateway's calls."""
    params = {"progressToken": token, "progress": 1, "message": "of a"}
    return {"method": "notifications/progress", "params": params}


@pytest.mark.parametrize("kind", KINDS)
async def test_progress_requests_and_cancellations_stay_with_their_caller(kind: str) -> None:
    """One tenant's server sends progress for every call, and its client cancels every request.

    Meanwhile the other tenant's call waits for an answer to a request that the first tenant cannot
    answer.
    """
    async with (
        server_of(kind, *TOOLS, sse=True) as entry,
        clients_of_two(entry, LEGACY) as (a, b),
    ):
        async with b.exchange("tools/call", call_of("request_client", **FORM)) as waiting:
            question = await anext(waiting.messages)
            async with a.exchange("tools/call", call_of("hang")) as hanging:
                await a.send({"id": question["id"], "result": {"action": "decline"}})
                await a.send(cancelled(waiting.id))
                await hanging.cancel()
            own = (await a.result("tools/call", call_of("meta")))["structuredContent"]
            forged = [progress_of(own["progressToken"] - before) for before in range(10)]
            noted = await a.result("tools/call", call_of("notify", messages=forged))
            await b.send({"id": question["id"], "result": ANSWER})
            rest = [message async for message in waiting.messages]
        counted = await b.result("tools/call", call_of("cancelled_count"))
    assert noted["content"][0]["text"] == "said"
    (answered,) = rest
    assert answered["result"]["structuredContent"]["answers"] == [{"result": ANSWER}]
    if kind == "stdio-legacy":  # otherwise one program serves both sessions
        assert counted["structuredContent"]["count"] == 0


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize("server_era", ["legacy", "modern"])
async def test_an_update_reaches_only_the_session_it_came_from(era: str, server_era: str) -> None:
    uris = ["raw://text", "raw://item/7"]
    entry = raw_entry(era=server_era, only=list(TOOLS))
    async with (
        clients_of_two(entry, era) as (a, b),
        updates_of(a, uris) as of_a,
        updates_of(b, uris) as of_b,
    ):
        for client, messages, uri in ((a, of_a, uris[0]), (b, of_b, uris[1])):
            await client.result("tools/call", call_of("touch", uri=uri))
            assert (await anext(messages))["params"]["uri"] == uri


@asynccontextmanager
async def updates_of(client: HttpClient, uris: list[str]) -> AsyncIterator[AsyncIterator[Json]]:
    """Subscribe to resources in the style of the client's era."""
    if client.era == MODERN:
        wanted = {"notifications": {"resourceSubscriptions": uris}}
        async with client.exchange("subscriptions/listen", wanted) as listening:
            acknowledged = await anext(listening.messages)
            assert acknowledged["params"]["notifications"] == wanted["notifications"]
            yield listening.messages
        return
    for uri in uris:
        await client.result("resources/subscribe", {"uri": uri})
    async with client.notifications() as messages:
        yield messages
