"""What every store of unfinished sign-ins promises: in memory, and in Redis."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.logins.sign_ins.memory_sign_ins import MemorySignIns
from mcp_tools_proxy.logins.sign_ins.redis_sign_ins import MAX_CONNECTIONS, RedisSignIns
from mcp_tools_proxy.logins.sign_ins.sign_in_store import RecordKind, RecordSealer, SignInStore
from mcp_tools_proxy.redis_client.connection_pool import open_pool
from tests.support.redis_server import RedisServer

PENDING = RecordKind.PENDING


@pytest.fixture(params=["memory", "redis"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[SignInStore]:
    if request.param == "memory":
        yield MemorySignIns()
        return
    server: RedisServer = request.getfixturevalue("shared_server")
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    shared = RedisSignIns(open_pool(server.url, max_connections=MAX_CONNECTIONS))
    yield shared
    await shared.aclose()


async def test_of_several_at_once_one_adds_and_one_takes(store: SignInStore) -> None:
    added = await asyncio.gather(*(store.add(PENDING, "a", b"%d" % n, 60) for n in range(8)))
    assert len(set(added)) == 1
    taken = await asyncio.gather(*(store.take(PENDING, "a") for _ in range(8)))
    assert [it for it in taken if it is not None] == [added[0]]
    assert await store.find(PENDING, "a") is None


async def test_a_record_is_changed_only_where_it_is(store: SignInStore) -> None:
    await store.replace(PENDING, "a", b"new")
    assert await store.find(PENDING, "a") is None
    await store.add(PENDING, "a", b"old", 60)
    await store.replace(PENDING, "a", b"new")
    assert await store.find(PENDING, "a") == b"new"
    assert await store.find(RecordKind.BROWSER, "a") is None


async def test_there_are_at_most_a_thousand_and_a_taken_one_makes_place(
    store: SignInStore,
) -> None:
    for number in range(1_000):
        assert await store.add(PENDING, str(number), b"", 60) is not None
    assert await store.add(PENDING, "one more", b"", 60) is None
    await store.take(PENDING, "7")
    assert await store.add(PENDING, "one more", b"", 60) is not None


async def test_a_record_ends_with_its_time() -> None:
    now = [0.0]
    memory = MemorySignIns(lambda: now[0])
    await memory.add(PENDING, "a", b"x", 600)
    now[0] = 599.9
    assert await memory.find(PENDING, "a") == b"x"
    now[0] = 600.0
    assert await memory.take(PENDING, "a") is None


async def test_a_redis_that_may_evict_keeps_no_sign_in(shared_server: RedisServer) -> None:
    with redis.Redis.from_url(shared_server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        shared = RedisSignIns(open_pool(shared_server.url, max_connections=1))
        try:
            with pytest.raises(LoginsUnavailable):
                await shared.add(PENDING, "a", b"x", 60)
        finally:
            client.config_set("maxmemory-policy", "noeviction")
            await shared.aclose()


def test_a_record_opens_under_its_own_name_alone() -> None:
    sealer = RecordSealer([b"k" * 32])
    sealed = sealer.seal(b"state", "one")
    assert (sealer.open(sealed, "one"), sealer.open(sealed, "two")) == (b"state", None)
    assert sealer.name_of("a", "bc") != sealer.name_of("ab", "c")
