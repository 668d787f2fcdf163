import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis import Redis

from mcp_tools_proxy.mcp.server.http import live_sessions, shared_sessions
from mcp_tools_proxy.mcp.server.http.session_ids import SessionName
from mcp_tools_proxy.storage.redis_pool import open_pool
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_preset
from tests.support.mcp_endpoint import BOTH, LEGACY, TENANT, Served, serving
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.raw_mcp_client import RawMcpClient, messages_of, raw_client
from tests.support.redis_server import RedisServer, running_redis
from tests.support.service import eventually

KEY, OLD_KEY = "k" * 32, "o" * 32
FORM = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
UPDATED = "notifications/resources/updated"
URI = "raw://text"
CHANNEL = "mcp-tools-proxy:sessions"


class Replicas(NamedTuple):
    """Two services with the same server behind them."""

    a: Served
    b: Served
    server: RawServer

    def at_b(self, client: RawMcpClient) -> RawMcpClient:
        """Return a session's client as if its balancer had chosen the other replica."""
        return RawMcpClient(self.b, LEGACY, client.session_id, {})


@asynccontextmanager
async def two_replicas(
    *tools: str, redis: RedisServer | None = None, b_keys: str = KEY, **settings: Any
) -> AsyncIterator[Replicas]:
    """Run them with the same keys, unless ``b_keys`` differs."""
    if redis is not None:
        settings["rate_limit_storage_url"] = redis.url
    async with running_raw(era="legacy", sse=True) as server, AsyncExitStack() as stack:
        preset = make_preset(tools=[("s1", tool) for tool in ("whoami", *tools)])
        config = Config(servers={"s1": server.entry}, presets=[preset])
        a, b = [
            await stack.enter_async_context(serving(config=config, session_keys=keys, **settings))
            for keys in (KEY, b_keys)
        ]
        if redis is not None:
            await both_listen(redis)
        yield Replicas(a, b, server)


async def both_listen(redis: RedisServer) -> None:
    """Wait until both replicas know of each other's sessions."""
    with Redis.from_url(redis.url) as client:

        async def both_subscribe() -> bool:
            return dict(client.pubsub_numsub(CHANNEL)) == {CHANNEL.encode(): 2}

        await eventually(both_subscribe)


@pytest.fixture(autouse=True)
def patient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Redis without the usual limit of 1 s, after which each replica continues alone."""
    monkeypatch.setattr(shared_sessions, "WAIT_S", BOUND_S)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        yield server


@asynccontextmanager
async def session_stream(client: RawMcpClient, served: Served) -> AsyncIterator[AsyncIterator[Any]]:
    """Open the stream of a session at a replica, and yield its messages."""
    _, headers = client.build("", {})
    async with served.http.stream("GET", "/mcp", headers=headers) as response:
        assert response.status_code == 200
        yield messages_of(response)


async def status_at(served: Served, client: RawMcpClient) -> int:
    body, headers = client.build("ping", {})
    return (await served.http.post("/mcp", json=body, headers=headers)).status_code


async def test_each_replica_serves_the_sessions_of_the_other() -> None:
    async with two_replicas("echo") as replicas:
        client = await raw_client(replicas.a, LEGACY)
        elsewhere = replicas.at_b(client)
        listed = await elsewhere.request("tools/list")
        result = await elsewhere.call("echo", {"text": "x"})
    assert ("s1:echo" in json.dumps(listed), "isError" in result) == (True, False)


async def test_a_session_keeps_its_name_style_at_every_replica() -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with two_replicas("echo") as replicas:
        session_id = await replicas.a.open_session(path="/mcp?name_style=alias")
        headers = {**BOTH, **TENANT, "Mcp-Session-Id": session_id}
        found = [
            await replicas.b.http.post(path, json=body, headers=headers)
            for path in ("/mcp", "/mcp?name_style=alias", "/mcp?name_style=bare")
        ]
    assert [it.status_code for it in found] == [200, 200, 404]
    assert ['"s1__echo"' in it.text for it in found] == [True, True, False]


async def test_a_session_is_unknown_to_a_replica_with_another_key() -> None:
    async with two_replicas(b_keys=OLD_KEY) as replicas:
        client = await raw_client(replicas.a, LEGACY)
        assert await status_at(replicas.b, client) == 404


async def test_keys_are_changed_one_replica_after_the_other() -> None:
    async with two_replicas(b_keys=f"{OLD_KEY},{KEY}") as replicas:
        client = await raw_client(replicas.a, LEGACY)
        assert await status_at(replicas.b, client) == 200


async def test_a_session_of_another_tenant_is_unknown_at_every_replica() -> None:
    async with two_replicas() as replicas:
        client = await raw_client(replicas.a, LEGACY)
        body, headers = client.build("ping", {})
        other = {**headers, "X-Tenant-Id": "tenant_2"}
        statuses = [
            (await served.http.post("/mcp", json=body, headers=other)).status_code
            for served in (replicas.a, replicas.b)
        ]
    assert statuses == [404, 404]


async def test_the_clients_capabilities_are_known_at_every_replica() -> None:
    async with two_replicas("request_client") as replicas:
        client = await raw_client(replicas.a, LEGACY, elicitation={})
        elsewhere = replicas.at_b(client)
        call = {"name": "s1:request_client", "arguments": FORM}
        async with elsewhere.stream("tools/call", call) as messages:
            request = await anext(messages)
            await elsewhere.notify({"id": request["id"], "result": {"action": "decline"}})
            answers = (await anext(messages))["result"]["structuredContent"]["answers"]
    assert answers == [{"result": {"action": "decline"}}]


async def test_an_ended_session_is_unknown_to_all(redis: RedisServer) -> None:
    async with two_replicas(redis=redis) as replicas:
        client = await raw_client(replicas.a, LEGACY)
        known = await status_at(replicas.b, client)
        _, headers = client.build("", {})
        ended = await replicas.a.http.delete("/mcp", headers=headers)

        async def is_unknown() -> bool:
            return await status_at(replicas.b, client) == 404

        await eventually(is_unknown)
        other = await raw_client(replicas.a, LEGACY)
        deleted = await replicas.a.http.delete("/mcp", headers=other.build("", {})[1])
        at_once = await status_at(replicas.b, other)
    assert (known, ended.status_code, deleted.status_code, at_once) == (200, 204, 204, 404)


async def test_a_session_that_no_replica_uses_ends(redis: RedisServer) -> None:
    async with two_replicas(redis=redis, session_idle_s=1) as replicas:
        client = await raw_client(replicas.a, LEGACY)

        async def has_ended() -> bool:
            await asyncio.sleep(1.5)
            return await status_at(replicas.b, client) == 404

        await eventually(has_ended)


async def test_an_ended_session_stays_ended_although_its_client_continues(
    redis: RedisServer,
) -> None:
    name = SessionName("tenant_1", b"1")
    pool = open_pool(redis.url, max_connections=2)
    shared = shared_sessions.SharedSessions(pool, "a", idle_s=0.5, max_set=10)
    await shared.end(name)
    for _ in range(5):
        (state,) = await shared.load([name]) or ()
        assert state.has_ended or not state.is_known
        await asyncio.sleep(0.2)
    await shared.close()


async def test_the_number_of_a_tenants_sessions_in_redis_is_limited(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_sessions, "MAX_OF_TENANT", 2)
    async with two_replicas(redis=redis) as replicas:
        clients = [await raw_client(replicas.a, LEGACY) for _ in range(6)]
        for client in clients:
            assert await status_at(replicas.b, client) == 200
        for client in clients[:4]:
            await replicas.a.http.delete("/mcp", headers=client.build("", {})[1])
        with Redis.from_url(redis.url) as store:
            sizes = {key: store.zcard(key) for key in store.keys("*:sessions:*")}
    keys = (f"{CHANNEL}:{{tenant_1}}:{kind}".encode() for kind in ("used", "ended"))
    assert sizes == dict.fromkeys(keys, 2)


async def test_the_number_of_a_tenants_sessions_with_settings_is_limited(
    redis: RedisServer,
) -> None:
    async with two_replicas(redis=redis, max_sessions=2) as replicas:
        clients = [await raw_client(replicas.a, LEGACY) for _ in range(3)]
        other = await raw_client(replicas.a, LEGACY, caller={"X-Tenant-Id": "tenant_2"})
        for client in (other, *clients):
            await client.request("resources/subscribe", {"uri": URI})
        at_once = [await status_at(replicas.a, client) for client in (other, *clients)]

        async def is_known_to_both() -> bool:
            return await status_at(replicas.b, clients[0]) == 404

        await eventually(is_known_to_both)
        after = [await status_at(replicas.b, client) for client in (other, *clients)]
        with Redis.from_url(redis.url) as store:
            hashes = [key for key in store.keys("*:sessions:*") if store.type(key) == b"hash"]
    assert (at_once, after, len(hashes)) == ([200, 404, 200, 200], [200, 404, 200, 200], 3)


async def test_replicas_publish_the_sessions_in_use(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_sessions, "CHECK_S", 0.05)
    async with two_replicas(redis=redis) as replicas:
        client = await raw_client(replicas.a, LEGACY)
        published = 0
        with Redis.from_url(redis.url) as store:

            async def is_published_again() -> bool:
                nonlocal published
                await status_at(replicas.a, client)
                published += store.delete(*store.keys("*:used"), "another")
                return bool(published > 1)

            await eventually(is_published_again)


async def test_a_sessions_log_level_applies_at_every_replica(redis: RedisServer) -> None:
    async with two_replicas("notify", redis=redis) as replicas:
        client = await raw_client(replicas.a, LEGACY)
        elsewhere = replicas.at_b(client)
        levels = ("debug", "error")
        sent = [
            {"method": "notifications/message", "params": {"level": level, "data": "x"}}
            for level in levels
        ]
        call = {"name": "s1:notify", "arguments": {"messages": sent}}

        async def received() -> list[str]:
            async with elsewhere.stream("tools/call", call) as messages:
                return [m["params"]["level"] async for m in messages if "params" in m]

        before = await received()
        await client.request("logging/setLevel", {"level": "error"})

        async def is_set() -> bool:
            return await received() == ["error"]

        await eventually(is_set)
    assert before == [*levels]


@pytest.mark.parametrize("first", ["the stream", "the subscription"])
async def test_a_resource_is_followed_at_the_replica_with_the_stream(
    first: str, redis: RedisServer
) -> None:
    async with two_replicas("notify", redis=redis) as replicas, AsyncExitStack() as stack:
        client = await raw_client(replicas.a, LEGACY)
        elsewhere = replicas.at_b(client)
        if first == "the stream":
            messages = await stack.enter_async_context(session_stream(client, replicas.b))
            await client.request("resources/subscribe", {"uri": URI})
        else:
            await client.request("resources/subscribe", {"uri": URI})
            messages = await stack.enter_async_context(session_stream(client, replicas.b))

        async def is_followed() -> bool:
            return replicas.server.script.updates.watches(URI) > 0

        await eventually(is_followed)
        updated = {"method": UPDATED, "params": {"uri": URI}}
        waiting = asyncio.ensure_future(anext(messages))
        while not waiting.done():
            await elsewhere.call("notify", {"messages": [updated]})
        assert (await waiting)["params"] == {"uri": URI}
        await client.request("resources/unsubscribe", {"uri": URI})

        async def is_left() -> bool:
            return replicas.server.script.updates.watches(URI) == 0

        await eventually(is_left)


async def test_the_client_can_answer_at_another_replica(redis: RedisServer) -> None:
    async with two_replicas("request_client", redis=redis) as replicas:
        client = await raw_client(replicas.a, LEGACY, elicitation={})
        call = {"name": "s1:request_client", "arguments": FORM}
        async with client.stream("tools/call", call) as messages:
            request = await anext(messages)
            answer = {"id": request["id"], "result": {"action": "decline"}}
            await replicas.at_b(client).notify(answer)
            answers = (await anext(messages))["result"]["structuredContent"]["answers"]
    assert answers == [{"result": {"action": "decline"}}]


async def test_another_session_cannot_answer_at_another_replica(redis: RedisServer) -> None:
    async with two_replicas("request_client", redis=redis) as replicas:
        client = await raw_client(replicas.a, LEGACY, elicitation={})
        other = await raw_client(replicas.b, LEGACY, elicitation={})
        call = {"name": "s1:request_client", "arguments": FORM}
        async with client.stream("tools/call", call) as messages:
            request = await anext(messages)
            await other.notify({"id": request["id"], "result": {"action": "accept"}})
            await replicas.at_b(client).notify(
                {"id": request["id"], "result": {"action": "decline"}}
            )
            answers = (await anext(messages))["result"]["structuredContent"]["answers"]
    assert answers == [{"result": {"action": "decline"}}]


async def test_a_call_can_be_cancelled_from_another_replica(redis: RedisServer) -> None:
    async with two_replicas("hang", redis=redis) as replicas:
        client = await raw_client(replicas.a, LEGACY)
        body, headers = client.build("tools/call", {"name": "s1:hang", "arguments": {}})
        call = asyncio.ensure_future(replicas.a.http.post("/mcp", json=body, headers=headers))

        async def runs() -> bool:
            return replicas.server.script.running_count > 0

        await eventually(runs)
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": body["id"]}}
        await replicas.at_b(client).notify(cancelled)
        assert "Request cancelled" in (await call).text


async def test_sessions_continue_at_both_replicas_while_redis_is_down(redis: RedisServer) -> None:
    async with two_replicas("echo", redis=redis) as replicas:
        known = await raw_client(replicas.a, LEGACY)
        redis.stop()
        new = await raw_client(replicas.a, LEGACY)
        statuses = [await status_at(replicas.b, client) for client in (known, new)]
        level = await new.request("logging/setLevel", {"level": "error"})
        ended = await replicas.a.http.delete("/mcp", headers=new.build("", {})[1])
        redis.start()
        await both_listen(redis)
        after = await status_at(replicas.b, await raw_client(replicas.a, LEGACY))
    assert (statuses, level["result"], ended.status_code, after) == ([200, 200], {}, 204, 200)


async def test_invalid_data_in_a_redis_stream_is_ignored(redis: RedisServer) -> None:
    async with two_replicas(redis=redis) as replicas:
        client = await raw_client(replicas.a, LEGACY)
        with Redis.from_url(redis.url) as other:
            for nonsense in (
                b"",
                b"{",
                b"[]",
                b'{"from": "x", "session": {"tenant": "t", "nonce": "zz"}, "message": null}',
            ):
                other.publish(CHANNEL, nonsense)
            message = {"method": "notifications/cancelled", "params": [1]}
            session = {"tenant": "t", "nonce": "00"}
            notice = {"from": "x", "session": session, "message": message}
            other.publish(CHANNEL, json.dumps(notice))
        ended = await replicas.a.http.delete("/mcp", headers=client.build("", {})[1])
        assert (ended.status_code, await status_at(replicas.b, client)) == (204, 404)
