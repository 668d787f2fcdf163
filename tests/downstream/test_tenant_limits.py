import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from mcp_tools_proxy.domain.caller import NO_TENANT
from mcp_tools_proxy.domain.errors import ServerBusy
from mcp_tools_proxy.downstream.resource_subscriptions import (
    MAX_SUBSCRIBED,
    MAX_SUBSCRIBED_BY_TENANT,
)
from tests.downstream.connections import SERVER_KINDS
from tests.downstream.faulty_servers import Scene, scene
from tests.downstream.relay_fixtures import Relay, relaying
from tests.support.bounds import until
from tests.support.builders import make_call, make_caller

LONG = {"requestTimeoutSeconds": 600, "connectTimeoutSeconds": 60}


@asynccontextmanager
async def hanging(it: Scene, calls: int, tenant_id: str) -> AsyncIterator[None]:
    """Keep this many calls of a tenant hanging at the server."""
    before = it.bad.seen("hang")
    tasks = [
        asyncio.ensure_future(it.service.execute("bad:hang", tenant_id=tenant_id))
        for _ in range(calls)
    ]
    await it.has_seen("hang", before + calls)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def code(it: Scene, tenant_id: str) -> str:
    return await it.service.code("bad:echo", {"text": "x"}, tenant_id=tenant_id)


async def test_a_tenant_may_use_three_quarters_of_the_calls() -> None:
    async with scene("http-modern", entry={**LONG, "maxCallsInFlight": 8}) as it:
        async with hanging(it, 6, "tenant_1"):
            error = (await it.service.execute("bad:echo", {"text": "x"}))["error"]
            assert error["code"] == "SERVER_BUSY"
            assert "limit of 6 running calls on server bad" in error["message"]
            assert error["details"] == {"server_id": "bad", "max_calls_in_flight_per_tenant": 6}
            assert await code(it, "tenant_2") == "OK"
            async with hanging(it, 2, "tenant_2"):  # now the server itself has reached its limit
                error = (await it.service.execute("bad:echo", tenant_id="tenant_3"))["error"]
                assert error["details"] == {"server_id": "bad", "max_calls_in_flight": 8}
        assert await code(it, "tenant_1") == "OK"


@pytest.mark.parametrize(("calls", "own"), [(1, 1), (2, 1), (3, 2), (5, 4)])
async def test_of_two_or_more_calls_at_least_one_is_reserved_for_others(
    calls: int, own: int
) -> None:
    async with (
        scene("http-modern", entry={**LONG, "maxCallsInFlight": calls}) as it,
        hanging(it, own, "tenant_1"),
    ):
        assert await code(it, "tenant_1") == "SERVER_BUSY"
        assert await code(it, "tenant_2") == ("SERVER_BUSY" if calls == own else "OK")


@pytest.mark.parametrize("own", [1, 4, 9])
async def test_the_entry_sets_the_limit_of_a_tenant(own: int) -> None:
    entry = {**LONG, "maxCallsInFlight": 4, "maxCallsInFlightPerTenant": own}
    async with (
        scene("http-modern", entry=entry) as it,
        hanging(it, min(own, 4), "tenant_1"),
    ):
        assert await code(it, "tenant_1") == "SERVER_BUSY"
        assert await code(it, "tenant_2") == ("OK" if own < 4 else "SERVER_BUSY")


@pytest.mark.parametrize("kind", [kind for kind in SERVER_KINDS if "stdio" not in kind])
async def test_calls_without_a_tenant_count_as_those_of_one(kind: str) -> None:
    async with relaying(kind, config={"max_calls_in_flight": 2, "call_timeout_s": 600}) as relay:
        task = asyncio.ensure_future(call(relay, "hang", NO_TENANT))
        try:
            await until(lambda: relay.script.running_count)
            with pytest.raises(ServerBusy):
                await call(relay, "echo", NO_TENANT)
            await call(relay, "echo", "tenant_1")
        finally:
            task.cancel()
            await asyncio.wait([task])


async def call(relay: Relay, tool: str, tenant_id: str) -> None:
    found = next(c for c in relay.components.tools if c.spec.bare_name == tool)
    arguments = {"text": "x"} if tool == "echo" else {}
    await found.call(arguments, make_call(tool, arguments, tenant_id=tenant_id))


async def test_a_tenant_leaves_a_quarter_of_the_followed_resources_to_others() -> None:
    async with relaying("http-legacy", config={"call_timeout_s": 60}) as relay:

        async def follow(number: int, tenant_id: str) -> None:
            resource = relay.resource(f"raw://item/{number}")
            leaves[number] = await resource.subscribe(
                lambda: None, make_caller(tenant_id=tenant_id)
            )

        leaves: dict[int, Callable[[], None]] = {}
        share = range(MAX_SUBSCRIBED_BY_TENANT)
        await asyncio.gather(*(follow(number, "tenant_1") for number in share))
        with pytest.raises(ServerBusy, match=f"{MAX_SUBSCRIBED_BY_TENANT} for one tenant"):
            await follow(MAX_SUBSCRIBED, "tenant_1")
        await follow(0, "tenant_1")  # already followed, so it does not count again
        await follow(MAX_SUBSCRIBED, "tenant_2")
        leaves[1]()
        leaves[1]()
        await follow(MAX_SUBSCRIBED, "tenant_1")
        with pytest.raises(ServerBusy):
            await follow(1, "tenant_1")
