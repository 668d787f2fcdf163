from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis import Redis

from mcp_tools_proxy.domain.errors import StateUnavailable
from mcp_tools_proxy.storage.idempotency.records import (
    MAX_OUTCOME_BYTES,
    MemoryRecordStore,
    RecordState,
    RecordStore,
)
from tests.contract.record_stores import (
    LIMIT_BYTES,
    OTHER_REQUEST,
    OUTCOME,
    REQUEST,
    key,
    opened,
    redis_store,
    state,
)
from tests.support.redis_server import RedisServer
from tests.support.virtual_time import ManualClock


@pytest.fixture(params=["memory", "redis"])
async def build(
    request: pytest.FixtureRequest, shared_server: RedisServer
) -> AsyncIterator[Callable[..., Any]]:
    """Return a function that opens a store with ``ttl_s`` and ``max_bytes``."""
    async with AsyncExitStack() as stack:

        async def build(**options: Any) -> RecordStore:
            options = {"ttl_s": 60, "max_bytes": LIMIT_BYTES} | options
            if request.param == "memory":
                return await stack.enter_async_context(opened(MemoryRecordStore(**options)))
            with Redis.from_url(shared_server.url) as redis:
                redis.flushall()
            return await stack.enter_async_context(
                opened(redis_store(shared_server.url, **options))
            )

        yield build


@pytest.fixture
async def store(build: Callable[..., Any]) -> RecordStore:
    opened_store: RecordStore = await build()
    return opened_store


async def test_a_claim_succeeds_once_and_later_ones_get_the_outcome(store: RecordStore) -> None:
    assert await state(store) is RecordState.CLAIMED
    await store.keep(key(), OUTCOME)
    for _ in range(2):
        record = await store.claim(key(), OTHER_REQUEST)
        assert record == (RecordState.DONE, REQUEST, OUTCOME)


async def test_a_released_key_can_be_claimed_again(store: RecordStore) -> None:
    for _ in range(3):
        assert await state(store) is RecordState.CLAIMED
        await store.release(key())


async def test_an_unknown_outcome_stays_unknown(store: RecordStore) -> None:
    assert await state(store) is RecordState.CLAIMED
    store.mark_unknown(key())
    for _ in range(2):
        record = await store.claim(key(), OTHER_REQUEST)
        assert (record.state, record.request) == (RecordState.UNKNOWN, REQUEST)


async def test_equal_keys_of_other_tenants_are_separate(store: RecordStore) -> None:
    assert await state(store, key("k", "t")) is RecordState.CLAIMED
    assert await state(store, key("k", "u")) is RecordState.CLAIMED


async def test_an_outcome_over_the_size_limit_is_not_kept(
    build: Callable[..., Any],
) -> None:
    store = await build(max_bytes=4 * MAX_OUTCOME_BYTES)
    for size, expected in (
        (MAX_OUTCOME_BYTES, RecordState.DONE),
        (MAX_OUTCOME_BYTES + 1, RecordState.UNKNOWN),
    ):
        assert await state(store, key(str(size))) is RecordState.CLAIMED
        await store.keep(key(str(size)), b"+" * size)
        assert await state(store, key(str(size))) is expected


async def test_an_outcome_without_free_space_is_unknown_and_uses_none(
    store: RecordStore,
) -> None:
    assert await state(store) is RecordState.CLAIMED
    await store.keep(key(), b"+" * LIMIT_BYTES)
    assert await state(store) is RecordState.UNKNOWN
    assert await state(store, key("k2")) is RecordState.CLAIMED


async def test_a_tenant_over_the_limit_is_refused_and_others_are_not(
    store: RecordStore,
) -> None:
    async def claim_all() -> None:
        for number in range(LIMIT_BYTES):
            await state(store, key(str(number)))

    with pytest.raises(StateUnavailable) as refused:
        await claim_all()
    assert refused.value.retryable
    assert await state(store, key("k", "another")) is RecordState.CLAIMED
    await store.keep(key("k", "another"), OUTCOME)
    assert await state(store, key("k", "another")) is RecordState.DONE


async def test_later_tenants_also_get_space() -> None:
    """When each took half of the remaining space, the 16th found none."""
    store = MemoryRecordStore(ttl_s=60, max_bytes=32 * 1024 * 1024)
    kept: list[int] = []
    for tenant in range(30):
        for number in range(40_000):
            record = key(str(number), str(tenant))
            try:
                await store.claim(record, REQUEST)
            except StateUnavailable:
                break
            await store.keep(record, b"+" * 2_000)
            if (await store.claim(record, REQUEST)).state is RecordState.UNKNOWN:
                break
        kept.append(number)
    assert kept[0] > 4_000
    assert min(kept) > 80


async def test_an_expired_record_frees_its_space() -> None:
    clock = ManualClock()
    store = MemoryRecordStore(ttl_s=60, max_bytes=LIMIT_BYTES, clock=clock)
    for number in range(4):
        assert await state(store, key(str(number))) is RecordState.CLAIMED
    await store.keep(key("0"), OUTCOME)
    store.mark_unknown(key("1"))
    await store.release(key("2"))
    clock.now += 60
    for number in (0, 1, 2):
        assert await state(store, key(str(number))) is RecordState.CLAIMED
    assert await state(store, key("3")) is RecordState.RUNNING
    for number in range(4):
        await store.release(key(str(number)))
    assert (store.used_bytes, store.readiness()["kept"]) == (0, 0)


async def test_records_in_redis_expire(shared_server: RedisServer) -> None:
    with Redis.from_url(shared_server.url) as redis:
        redis.flushall()
        async with opened(redis_store(shared_server.url, ttl_s=60)) as store:
            for name in ("done", "unknown", "running"):
                assert await state(store, key(name)) is RecordState.CLAIMED
            await store.keep(key("done"), OUTCOME)
            store.mark_unknown(key("unknown"))
            left = [redis.pttl(name) for name in redis.scan_iter() if not name.endswith(b"probe")]
            assert len(left) == 4
            assert all(50_000 < it <= 3_600_000 for it in left)
