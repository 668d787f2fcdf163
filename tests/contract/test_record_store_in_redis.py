import asyncio
from collections.abc import AsyncIterator

import pytest
from redis import Redis

from mcp_tools_proxy.domain.errors import OutcomeUnknown, StateUnavailable
from mcp_tools_proxy.storage.idempotency.records import RecordState
from mcp_tools_proxy.storage.idempotency.redis_store import RedisRecordStore
from mcp_tools_proxy.storage.redis_requests import WAIT_S
from tests.contract.record_stores import (
    OUTCOME,
    REQUEST,
    is_record,
    key,
    opened,
    redis_store,
    settled_state,
    state,
)
from tests.contract.slow_network import slow_network
from tests.support.bounds import BOUND_S, until
from tests.support.redis_server import RedisServer
from tests.support.virtual_time import ManualClock


@pytest.fixture
async def one(server: RedisServer, redis: Redis) -> AsyncIterator[RedisRecordStore]:
    redis.config_set("maxmemory-policy", "noeviction")
    store = redis_store(server.url)
    async with opened(store):
        yield store


@pytest.fixture
async def two(server: RedisServer, one: RedisRecordStore) -> AsyncIterator[RedisRecordStore]:
    store = redis_store(server.url)
    async with opened(store):
        yield store


async def test_a_replica_sees_the_records_of_another(
    one: RedisRecordStore, two: RedisRecordStore
) -> None:
    assert await state(one) is RecordState.CLAIMED
    assert (await two.claim(key(), REQUEST)) == (RecordState.RUNNING, REQUEST, b"")
    await one.keep(key(), OUTCOME)
    assert (await two.claim(key(), REQUEST)) == (RecordState.DONE, REQUEST, OUTCOME)


async def test_only_one_of_two_parallel_claims_succeeds(
    one: RedisRecordStore, two: RedisRecordStore
) -> None:
    for number in range(20):
        states = await asyncio.gather(*(state(it, key(str(number))) for it in (one, two)))
        assert sorted(it.value for it in states) == ["claimed", "running"]


async def test_a_renewed_lease_continues_and_another_one_expires(
    server: RedisServer, two: RedisRecordStore
) -> None:
    alive = redis_store(server.url, lease_s=2)
    async with opened(alive):
        assert await state(alive) is RecordState.CLAIMED
        await asyncio.sleep(3)
        assert await state(two) is RecordState.RUNNING
    dead = redis_store(server.url, lease_s=0.2)
    await dead.connect()
    assert await state(dead, key("d")) is RecordState.CLAIMED
    assert await settled_state(two, key("d")) is RecordState.UNKNOWN
    await dead.keep(key("d"), OUTCOME)  # it was only slow
    assert await state(two, key("d")) is RecordState.DONE
    await dead.close()


async def test_a_record_now_held_by_another_replica_is_not_overwritten(
    server: RedisServer, two: RedisRecordStore, redis: Redis
) -> None:
    async with opened(redis_store(server.url, renew_s=1000)) as slow:
        for name in ("kept", "released"):
            assert await state(slow, key(name)) is RecordState.CLAIMED
        redis.flushall()
        for name in ("kept", "released"):
            assert await state(two, key(name)) is RecordState.CLAIMED
        await slow.keep(key("kept"), OUTCOME)
        await slow.release(key("released"))
        for name in ("kept", "released"):
            assert await state(slow, key(name)) is RecordState.RUNNING


async def test_calls_of_a_stopped_replica_have_an_unknown_outcome(
    server: RedisServer, two: RedisRecordStore
) -> None:
    async with opened(redis_store(server.url)) as stopping:
        assert await state(stopping) is RecordState.CLAIMED
    assert await state(two) is RecordState.UNKNOWN


async def test_redis_contains_nothing_readable(one: RedisRecordStore, redis: Redis) -> None:
    secret_key = key("secret", "secret-tenant")
    assert await state(one, secret_key) is RecordState.CLAIMED
    await one.keep(secret_key, b"+secret-outcome")
    hashes = (name for name in redis.scan_iter() if redis.type(name) == b"hash")
    stored = [redis.hgetall(name) | {b"name": name} for name in hashes]
    assert stored
    assert b"secret" not in repr(stored).encode()


async def test_a_record_copied_to_another_key_is_not_read(
    one: RedisRecordStore, redis: Redis
) -> None:
    for name in ("a", "b"):
        assert await state(one, key(name)) is RecordState.CLAIMED
        await one.keep(key(name), b"+" + name.encode())
    first, second = [name for name in redis.scan_iter() if is_record(name)]
    redis.hset(second, "content", redis.hget(first, "content"))
    found = []
    for name in ("a", "b"):
        try:
            found.append((await one.claim(key(name), REQUEST)).outcome)
        except OutcomeUnknown:
            found.append(b"unknown")
    assert b"unknown" in found
    assert found in ([b"+a", b"unknown"], [b"unknown", b"+b"])


async def test_a_record_of_another_secret_is_neither_read_nor_claimed(
    server: RedisServer, one: RedisRecordStore
) -> None:
    assert await state(one) is RecordState.CLAIMED
    await one.keep(key(), OUTCOME)
    async with opened(
        redis_store(server.url, secret=b"another secret of over 32 characters")
    ) as it:
        with pytest.raises(OutcomeUnknown):
            await state(it)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_redis_that_may_evict_keys_is_not_used(
    one: RedisRecordStore, redis: Redis, policy: str
) -> None:
    redis.config_set("maxmemory-policy", policy)
    await until(lambda: one.readiness()["status"] == "degraded")
    assert policy in str(one.readiness()["problem"])
    with pytest.raises(StateUnavailable):
        await state(one)
    redis.config_set("maxmemory-policy", "noeviction")
    await until(lambda: one.readiness()["status"] == "ok")
    assert await state(one) is RecordState.CLAIMED


async def test_no_claim_succeeds_without_redis(one: RedisRecordStore, server: RedisServer) -> None:
    server.stop()
    with pytest.raises(StateUnavailable) as refused:
        await state(one)
    assert refused.value.retryable
    await until(lambda: one.readiness()["status"] == "degraded")
    server.start()
    await until(lambda: one.readiness()["status"] == "ok")
    assert await state(one) is RecordState.CLAIMED


async def test_a_claim_whose_answer_was_lost_is_released(
    one: RedisRecordStore, two: RedisRecordStore, server: RedisServer
) -> None:
    server.pause()
    with pytest.raises(StateUnavailable):
        await state(one)
    server.resume()
    await until(lambda: two.readiness()["status"] == "ok" and one.readiness()["status"] == "ok")
    assert await settled_state(two) is RecordState.CLAIMED


async def test_a_claim_that_redis_processes_too_late_takes_no_key(
    server: RedisServer, two: RedisRecordStore
) -> None:
    """Its call was refused, and its replica may be killed before releasing the key."""
    clock = ManualClock()
    late = redis_store(server.url, clock=clock)
    await late.connect()
    clock.now -= 10  # as if Redis had needed that long
    with pytest.raises(StateUnavailable) as refused:
        await state(late)
    assert refused.value.retryable
    assert await state(two) is RecordState.CLAIMED
    await late.close()


async def test_a_lease_that_could_not_be_renewed_does_not_count_as_a_lost_replica(
    server: RedisServer, one: RedisRecordStore
) -> None:
    """After a Redis outage each replica renews at a different time."""
    slow = redis_store(server.url, renew_s=1000, lease_s=0.2)
    await slow.connect()
    assert await state(slow) is RecordState.CLAIMED
    server.pause()
    with pytest.raises(StateUnavailable):
        await state(one, key("other"))
    await until(lambda: one.readiness()["status"] == "degraded")
    server.resume()
    await until(lambda: one.readiness()["status"] == "ok")
    assert await state(one) is RecordState.RUNNING
    await slow.keep(key(), OUTCOME)
    assert await settled_state(one) is RecordState.DONE
    await slow.close()


async def test_calls_waiting_for_a_slot_do_not_wait_for_a_failed_redis(
    one: RedisRecordStore, server: RedisServer
) -> None:
    """640 of them were answered after up to 20 s, which also delayed outcomes of other calls."""
    assert await state(one, key("runs")) is RecordState.CLAIMED
    server.pause()
    claims = [asyncio.ensure_future(state(one, key(str(number)))) for number in range(640)]
    done, waiting = await asyncio.wait(claims, timeout=4 * WAIT_S)
    assert not waiting
    assert {type(claim.exception()) for claim in done} == {StateUnavailable}
    assert await one.keep(key("runs"), OUTCOME)
    server.resume()


async def test_a_state_not_written_by_the_holder_is_rejected(
    one: RedisRecordStore, redis: Redis
) -> None:
    assert await state(one) is RecordState.CLAIMED
    await one.keep(key(), OUTCOME)
    (name,) = [name for name in redis.scan_iter() if is_record(name)]
    for foreign in ("claimed", "running", "unknown", "late"):
        redis.hset(name, "state", foreign)
        with pytest.raises(OutcomeUnknown):
            await state(one)


async def test_an_outcome_that_could_not_be_written_is_written_later(
    one: RedisRecordStore, two: RedisRecordStore, server: RedisServer
) -> None:
    for name in ("kept", "released", "lost"):
        assert await state(one, key(name)) is RecordState.CLAIMED
    server.pause()
    await one.keep(key("kept"), OUTCOME)
    await one.release(key("released"))
    one.mark_unknown(key("lost"))
    assert await state(one, key("kept")) is RecordState.DONE  # it knows the outcome without Redis
    server.resume()
    await until(lambda: two.readiness()["status"] == "ok")
    states = {name: await settled_state(two, key(name)) for name in ("kept", "released", "lost")}
    assert states == {
        "kept": RecordState.DONE,
        "released": RecordState.CLAIMED,
        "lost": RecordState.UNKNOWN,
    }


async def test_a_running_call_keeps_its_key_when_redis_loses_its_data(
    one: RedisRecordStore, two: RedisRecordStore, redis: Redis
) -> None:
    assert await state(one) is RecordState.CLAIMED
    redis.flushall()
    await until(lambda: any(map(is_record, redis.scan_iter())))
    assert await state(two) is RecordState.RUNNING
    redis.flushall()
    await one.keep(key(), OUTCOME)
    assert (await two.claim(key(), REQUEST)).outcome == OUTCOME


async def test_no_call_runs_if_a_foreign_value_replaces_a_record(
    one: RedisRecordStore, redis: Redis
) -> None:
    assert await state(one) is RecordState.CLAIMED
    await one.keep(key(), OUTCOME)
    (name,) = [name for name in redis.scan_iter() if is_record(name)]
    redis.delete(name)
    redis.set(name, "foreign")
    with pytest.raises(StateUnavailable):
        await state(one)


async def test_the_record_of_a_running_call_outlives_the_ttl_of_outcomes(
    server: RedisServer, two: RedisRecordStore
) -> None:
    async with opened(redis_store(server.url, ttl_s=1, renew_s=1000, lease_s=1000)) as frozen:
        assert await state(frozen) is RecordState.CLAIMED
        await asyncio.sleep(1.2)
        assert await state(two) is RecordState.RUNNING


async def test_readiness_reports_that_nothing_can_be_written(
    one: RedisRecordStore, redis: Redis
) -> None:
    redis.config_set("maxmemory", 1)
    await until(lambda: one.readiness()["status"] == "degraded")
    redis.config_set("maxmemory", 0)
    await until(lambda: one.readiness()["status"] == "ok")
    assert await state(one) is RecordState.CLAIMED


async def test_a_released_key_frees_its_bytes(one: RedisRecordStore) -> None:
    for _ in range(100):  # a tenant's limit is 20 records
        assert await state(one) is RecordState.CLAIMED
        await one.release(key())


async def test_calls_over_the_number_of_slots_wait_for_a_free_one(
    server: RedisServer, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("redis_requests", "idempotency.redis_store"):  # waits for a slot, not for Redis
        monkeypatch.setattr(f"mcp_tools_proxy.storage.{module}.WAIT_S", BOUND_S)
    redis.config_set("maxmemory-policy", "noeviction")
    async with slow_network(server.port, delay_s=0.05) as network:
        url = f"redis://127.0.0.1:{network.port}/0"
        async with opened(redis_store(url, max_bytes=10**9)) as store:
            claims = (state(store, key(str(number))) for number in range(400))
            assert set(await asyncio.gather(*claims)) == {RecordState.CLAIMED}
