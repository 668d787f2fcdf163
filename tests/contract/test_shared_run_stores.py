"""Faults of the shared stores of runs: each leads to a refusal, never to a run without memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from redis import Redis

from mcp_tools_proxy.domain.errors import RunExpired, StateUnavailable
from mcp_tools_proxy.domain.run import Label
from mcp_tools_proxy.storage.redis_requests import WAIT_S
from mcp_tools_proxy.storage.runs.postgres_runs import PostgresRunStore
from mcp_tools_proxy.storage.runs.redis_runs import RedisRunStore
from mcp_tools_proxy.storage.runs.run_store import RunStore
from tests.contract.run_stores import (
    IDLE_S,
    age_postgres_runs,
    count_call,
    key,
    limits,
    opened,
    postgres_runs,
    read_calls,
    redis_runs,
)
from tests.support.bounds import BOUND_S, until
from tests.support.postgres_databases import PostgresDatabase
from tests.support.redis_server import RedisServer
from tests.support.service import eventually


@pytest.fixture
async def one(server: RedisServer, redis: Redis) -> AsyncIterator[RedisRunStore]:
    redis.config_set("maxmemory-policy", "noeviction")
    store = redis_runs(server.url)
    async with opened(store):
        yield store


@pytest.fixture
async def two(server: RedisServer, one: RedisRunStore) -> AsyncIterator[RunStore]:
    async with opened(redis_runs(server.url)) as store:
        yield store


@pytest.fixture
async def in_postgres(postgres: PostgresDatabase) -> AsyncIterator[PostgresRunStore]:
    store = postgres_runs(postgres.url)
    async with opened(store):
        yield store


def run_names(redis: Redis) -> list[bytes]:
    return [it for it in redis.scan_iter("*:runs:{*") if redis.type(it) == b"hash"]


async def test_no_run_continues_without_redis(one: RedisRunStore, server: RedisServer) -> None:
    assert await one.update(key(), count_call) == 1
    server.stop()
    with pytest.raises(StateUnavailable, match="cannot be read right now") as refused:
        await one.update(key(), count_call)
    assert refused.value.retryable
    await until(lambda: one.readiness()["status"] == "degraded")
    server.start()
    await until(lambda: one.readiness()["status"] == "ok")
    with pytest.raises(RunExpired):  # it has no persistence in tests
        await one.update(key(), count_call)


async def test_a_paused_redis_is_a_temporary_error(
    one: RedisRunStore, two: RunStore, server: RedisServer
) -> None:
    assert await one.update(key(), count_call) == 1
    server.pause()
    updates = [asyncio.ensure_future(one.update(key(str(n)), count_call)) for n in range(200)]
    done, waiting = await asyncio.wait(updates, timeout=4 * WAIT_S + BOUND_S)
    assert not waiting
    assert {type(it.exception()) for it in done} == {StateUnavailable}
    server.resume()
    await until(lambda: one.readiness()["status"] == two.readiness()["status"] == "ok")
    assert await two.update(key(), count_call) == 2


async def test_a_run_that_redis_lost_does_not_begin_again_where_it_is_known(
    one: RedisRunStore, two: RunStore, redis: Redis
) -> None:
    await one.update(key(), count_call)
    redis.flushall()
    for it in (one, two, one):  # the first one marks it for the others
        with pytest.raises(RunExpired):
            await it.update(key(), count_call)
    assert await two.update(key("never used"), count_call) == 1


async def test_a_lost_run_that_another_replica_began_again_ends_where_it_is_known(
    one: RedisRunStore, two: RunStore, redis: Redis
) -> None:
    await one.update(key(), count_call)
    redis.flushall()
    assert await two.update(key(), count_call) == 1  # it cannot know the run
    for it in (one, two):
        with pytest.raises(RunExpired):
            await it.update(key(), count_call)


async def test_a_redis_with_an_older_copy_of_a_run_does_not_continue_it(
    one: RedisRunStore, two: RunStore, redis: Redis
) -> None:
    await two.update(key(), count_call)
    (name,) = run_names(redis)
    before = redis.dump(name) or b""
    await one.update(key(), lambda it: it.see(Label.READS_UNTRUSTED))
    redis.restore(name, 60_000, before, replace=True)
    with pytest.raises(RunExpired):
        await one.peek(key(), read_calls)
    for it in (one, two):
        with pytest.raises(RunExpired):
            await it.update(key(), count_call)


async def test_more_runs_than_a_replica_remembers_continue(
    one: RedisRunStore, two: RunStore
) -> None:
    names = [str(number) for number in range(300)]
    for store, expected in ((one, 1), (one, 2), (two, 3), (one, 4)):
        found = await asyncio.gather(*(store.update(key(it), count_call) for it in names))
        assert set(found) == {expected}


async def test_a_run_lost_during_a_call_does_not_begin_with_its_result(
    one: RedisRunStore, two: RunStore, redis: Redis
) -> None:
    await one.update(key(), count_call)
    redis.flushall()
    with pytest.raises(RunExpired):
        await two.update(key(), count_call, may_begin=False)


async def test_a_run_lost_between_reading_and_writing_is_not_written(
    one: RedisRunStore, two: RunStore, redis: Redis
) -> None:
    await one.update(key(), count_call)
    with pytest.raises(RunExpired):
        await two.update(key(), lambda _: redis.flushall())
    assert not run_names(redis)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_redis_that_may_evict_keys_is_not_used_for_runs(
    one: RedisRunStore, redis: Redis, policy: str
) -> None:
    redis.config_set("maxmemory-policy", policy)
    await until(lambda: one.readiness()["status"] == "degraded")
    assert "MCP_PROXY_RUNS_URL" in str(one.readiness()["problem"])
    with pytest.raises(StateUnavailable):
        await one.update(key(), count_call)
    redis.config_set("maxmemory-policy", "noeviction")
    await until(lambda: one.readiness()["status"] == "ok")
    assert await one.update(key(), count_call) == 1


async def test_readiness_reports_a_redis_without_memory(one: RedisRunStore, redis: Redis) -> None:
    await one.update(key(), count_call)
    redis.config_set("maxmemory", 1)
    with pytest.raises(StateUnavailable):
        await one.update(key(), count_call)
    await until(lambda: one.readiness()["status"] == "degraded")
    redis.config_set("maxmemory", 0)
    await until(lambda: one.readiness()["status"] == "ok")
    assert await one.update(key(), count_call) == 2


async def test_foreign_values_in_redis_are_not_used(
    one: RedisRunStore, two: RunStore, redis: Redis
) -> None:
    await one.update(key("a"), count_call)
    (first,) = run_names(redis)
    await one.update(key("b"), count_call)
    (second,) = set(run_names(redis)) - {first}
    content = redis.hget(second, "content")
    old = redis.hgetall(first)
    await one.update(key("a"), count_call)
    changes: tuple[dict[Any, Any], ...] = (
        {"content": redis.hget(first, "content"), "version": redis.hget(second, "version")},
        {"version": "7"},
        {"version": "x"},
        {"content": ""},
        {"content": "foreign"},
        {"content": old[b"content"]},
    )
    for changed in changes:
        kept: Any = redis.hgetall(second)
        redis.hset(second, mapping=changed)
        with pytest.raises(StateUnavailable):
            await two.update(key("b"), count_call)
        redis.hset(second, mapping=kept)
    assert redis.hget(second, "content") == content
    redis.delete(second)
    redis.set(second, "foreign")
    with pytest.raises(StateUnavailable):
        await one.update(key("b"), count_call)


async def test_a_run_of_another_secret_is_neither_read_nor_begun(
    one: RedisRunStore, server: RedisServer
) -> None:
    await one.update(key(), count_call)
    other = redis_runs(server.url, b"another secret of over 32 characters")
    async with opened(other) as it:
        with pytest.raises(StateUnavailable):
            await it.update(key(), count_call)
        assert await it.update(key("other"), count_call) == 1


async def test_redis_contains_nothing_readable_of_a_run(one: RedisRunStore, redis: Redis) -> None:
    await one.update(key("secret", "secret-tenant", "secret-user"), count_call)
    stored = [(it, redis.dump(it)) for it in redis.scan_iter("*:runs:{*") if b":new:" not in it]
    assert len(stored) == 2
    assert b"mail:send" not in repr(stored).encode()
    assert b"secret-tenant:" not in repr(stored).encode()


async def test_everything_in_redis_expires(one: RedisRunStore, redis: Redis) -> None:
    await one.update(key(), count_call)
    left = [redis.pttl(it) for it in redis.scan_iter("*:runs:{*")]
    assert len(left) == 3
    assert all(it > 0 for it in left)
    assert redis.pttl(run_names(redis)[0]) <= IDLE_S * 1000


async def test_a_shorter_setting_of_a_replica_does_not_shorten_marks(
    one: RedisRunStore, server: RedisServer, redis: Redis
) -> None:
    await one.update(key(), count_call)
    (marks,) = redis.scan_iter("*:marks")
    before = redis.pttl(marks)
    async with opened(redis_runs(server.url, limits=limits(idle_s=1, mark_s=1))) as it:
        await it.update(key("other"), count_call)
    assert redis.pttl(marks) > before - 60_000


async def test_an_unavailable_database_is_a_temporary_error_for_runs(
    postgres: PostgresDatabase,
) -> None:
    store = postgres_runs(postgres.server.url("gateway", postgres.name, port=1))
    async with opened(store):
        assert store.readiness()["status"] == "degraded"
        with pytest.raises(StateUnavailable) as refused:
            await store.update(key(), count_call)
        assert refused.value.retryable


async def until_none(owner: asyncpg.Connection, count: str) -> None:
    async def is_none() -> bool:
        return bool(await owner.fetchval(count) == 0)

    await eventually(is_none)


async def test_the_content_of_an_idle_run_is_erased_in_the_database(
    postgres: PostgresDatabase,
) -> None:
    owner = await asyncpg.connect(postgres.owner_url)
    async with opened(postgres_runs(postgres.url, erase_s=0.05)) as store:
        for name, tenant in (("a", "t"), ("b", "s")):
            await store.update(key(name, tenant), count_call)
        await age_postgres_runs(postgres.owner_url, IDLE_S + 5)
        await until_none(owner, "SELECT count(content) FROM mcp_tools_proxy.runs")
        assert await owner.fetchval("SELECT count(*) FROM mcp_tools_proxy.runs") == 2
        with pytest.raises(RunExpired):
            await store.update(key("a"), count_call)
        await age_postgres_runs(postgres.owner_url, 10_000)
        await until_none(owner, "SELECT count(*) FROM mcp_tools_proxy.runs")
    await owner.close()


async def test_a_run_that_the_database_lost_does_not_begin_again_where_it_is_known(
    in_postgres: PostgresRunStore, postgres: PostgresDatabase
) -> None:
    await in_postgres.update(key(), count_call)
    owner = await asyncpg.connect(postgres.owner_url)
    await owner.execute("TRUNCATE mcp_tools_proxy.runs")
    with pytest.raises(RunExpired):
        await in_postgres.update(key(), count_call)
    assert await owner.fetchval("SELECT count(*) FROM mcp_tools_proxy.runs") == 1
    async with opened(postgres_runs(postgres.url)) as other:
        with pytest.raises(RunExpired):
            await other.update(key(), count_call)
    await owner.close()


async def test_a_run_that_another_replica_began_again_ends_in_the_database(
    in_postgres: PostgresRunStore, postgres: PostgresDatabase
) -> None:
    await in_postgres.update(key(), count_call)
    owner = await asyncpg.connect(postgres.owner_url)
    await owner.execute("TRUNCATE mcp_tools_proxy.runs")
    async with opened(postgres_runs(postgres.url)) as other:
        assert await other.update(key(), count_call) == 1
        for it in (in_postgres, other):
            with pytest.raises(RunExpired):
                await it.update(key(), count_call)
    await owner.close()


async def test_a_database_with_an_older_copy_of_a_run_does_not_continue_it(
    in_postgres: PostgresRunStore, postgres: PostgresDatabase
) -> None:
    await in_postgres.update(key(), count_call)
    owner = await asyncpg.connect(postgres.owner_url)
    before = await owner.fetchval("SELECT content FROM mcp_tools_proxy.runs")
    await in_postgres.update(key(), count_call)
    await owner.execute("UPDATE mcp_tools_proxy.runs SET version = 1, content = $1", before)
    for _ in range(2):
        with pytest.raises(RunExpired):
            await in_postgres.update(key(), count_call)
    await owner.close()


async def test_a_row_that_was_moved_or_has_another_version_is_not_read(
    in_postgres: PostgresRunStore, postgres: PostgresDatabase
) -> None:
    for name in ("a", "b"):
        await in_postgres.update(key(name), count_call)
    owner = await asyncpg.connect(postgres.owner_url)
    await owner.execute(
        "UPDATE mcp_tools_proxy.runs SET content = (SELECT content FROM mcp_tools_proxy.runs "
        "WHERE run_key = $1)",
        key("a").digest,
    )
    with pytest.raises(StateUnavailable):
        await in_postgres.update(key("b"), count_call)
    assert await in_postgres.update(key("a"), count_call) == 2
    await owner.execute("UPDATE mcp_tools_proxy.runs SET version = 1")
    with pytest.raises(StateUnavailable):
        await in_postgres.update(key("a"), read_calls)
    await owner.close()


async def test_the_gateways_role_sees_only_runs_of_the_tenant(
    in_postgres: PostgresRunStore, postgres: PostgresDatabase
) -> None:
    await in_postgres.update(key("a", "acme"), count_call)
    gateway = await asyncpg.connect(postgres.url)
    seen = {}
    for tenant in ("acme", "globex", ""):
        async with gateway.transaction():
            await gateway.execute("SELECT set_config('mcp_tools_proxy.tenant', $1, true)", tenant)
            seen[tenant] = await gateway.fetchval("SELECT count(*) FROM mcp_tools_proxy.runs")
    assert seen == {"acme": 1, "globex": 0, "": 0}
    await gateway.close()
