import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from redis import Redis

from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.domain.errors import RateLimitExceeded
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits, CallBudgets
from mcp_tools_proxy.ratelimit.limiter import Limiter, build_limiter
from mcp_tools_proxy.ratelimit.storage import MemoryStorage
from mcp_tools_proxy.storage.redis_pool import KEY_PREFIX
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.captured_logs import capture_logs
from tests.support.redis_server import RedisServer
from tests.support.virtual_time import ManualClock

WINDOW_S = 60
BUDGETS = BudgetLimits(
    document_calls=2, document_tokens=100, tenant_calls=50, tenant_tokens=1000, window_s=WINDOW_S
)
pytestmark = [pytest.mark.requirement("T-09"), pytest.mark.requirement("T-10")]


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    return shared_server


@pytest.fixture
async def limiter(
    server: RedisServer, redis: Redis, patient_limits: None
) -> AsyncIterator[Limiter]:
    del redis, patient_limits  # for their effects: an empty Redis, patient limits
    limiter = build_limiter(BUDGETS, storage_url=server.url, metrics=Metrics())
    await limiter.connect()
    yield limiter
    await limiter.close()


def key_of(name: str, doc_id: str = "doc") -> str:
    call = ChargedCall("t", doc_id=doc_id)
    (budget,) = (b for b in CallBudgets(BUDGETS).applying_to(call) if b.name == name)
    return f"{KEY_PREFIX}:{budget.key}"


async def passed(limiter: Limiter, calls: int, doc_id: str = "doc") -> int:
    outcomes = await asyncio.gather(
        *(limiter.admit(ChargedCall("t", doc_id=doc_id)) for _ in range(calls)),
        return_exceptions=True,
    )
    assert all(isinstance(it, RateLimitExceeded) for it in outcomes if isinstance(it, Exception))
    return sum(not isinstance(outcome, Exception) for outcome in outcomes)


async def retry_after_s(limiter: Limiter) -> float:
    with pytest.raises(RateLimitExceeded) as refused:
        await limiter.admit(ChargedCall("t", doc_id="doc"))
    assert refused.value.retry_after_s is not None
    return refused.value.retry_after_s


async def test_in_memory_a_clock_set_back_extends_no_wait_beyond_the_window() -> None:
    clock = ManualClock(20_000.0)
    memory = MemoryStorage(clock=clock)
    limiter = Limiter(BUDGETS, memory=memory, shared=None, metrics=Metrics())
    assert await passed(limiter, 5) == 2
    clock.now -= 10_800
    wait_s = await retry_after_s(limiter)
    assert 0 < wait_s <= WINDOW_S
    clock.now += wait_s
    assert await passed(limiter, 5) == 2


async def test_in_redis_a_clock_set_back_extends_no_wait_beyond_the_window(
    limiter: Limiter, redis: Redis
) -> None:
    assert await passed(limiter, 5) == 2
    redis.expire(
        key_of("document_calls"), 10_829
    )  # the remaining value after its clock was set back
    assert 0 < await retry_after_s(limiter) <= WINDOW_S
    assert 0 < redis.ttl(key_of("document_calls")) <= WINDOW_S


async def test_waits_for_two_exhausted_budgets_with_odd_windows_stay_within_the_window(
    limiter: Limiter, redis: Redis
) -> None:
    redis.set(key_of("tenant_calls"), 50, ex=100_000)
    redis.set(key_of("tenant_tokens"), 5000, ex=WINDOW_S * 10)
    assert 0 < await retry_after_s(limiter) <= WINDOW_S


Put = Callable[[Redis, str], object]

FOREIGN: dict[str, Put] = {
    "a list": lambda redis, key: redis.rpush(key, "x"),
    "a hash": lambda redis, key: redis.hset(key, "x", "1"),
    "a word": lambda redis, key: redis.set(key, "many", ex=WINDOW_S),
    "nothing": lambda redis, key: redis.set(key, "", ex=WINDOW_S),
    "bytes": lambda redis, key: redis.set(key, b"\xff\x00", ex=WINDOW_S),
    "a fraction": lambda redis, key: redis.set(key, "1.5", ex=WINDOW_S),
    "an exponent": lambda redis, key: redis.set(key, "1e3", ex=WINDOW_S),
    "a huge number": lambda redis, key: redis.set(key, "9" * 40, ex=WINDOW_S),
    "the largest number": lambda redis, key: redis.set(key, str(2**63 - 1), ex=WINDOW_S),
    "a number without an end": lambda redis, key: redis.set(key, "1000"),
}


@pytest.mark.parametrize("put", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("name", ["document_calls", "tenant_tokens"])
async def test_a_foreign_value_in_a_counters_key_is_deleted_and_counting_continues(
    limiter: Limiter, redis: Redis, name: str, put: Put
) -> None:
    assert await passed(limiter, 5, "other") == 2
    put(redis, key_of(name))
    with capture_logs() as lines:
        assert await passed(limiter, 5) == 2
    assert await passed(limiter, 5, "other") == 0
    assert [line["event"] for line in lines] == ["limits.key_deleted"]
    assert (limiter.state, int(redis.get(key_of("document_calls")) or 0)) == ("redis", 2)


@pytest.mark.parametrize("put", FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_value_written_during_a_call_does_not_stop_its_charge(
    limiter: Limiter, redis: Redis, put: Put
) -> None:
    admission = await limiter.admit(ChargedCall("t", doc_id="doc"))
    put(redis, key_of("document_tokens"))
    await limiter.charge_tokens(admission, 70)
    assert (limiter.state, int(redis.get(key_of("tenant_tokens")) or 0)) == ("redis", 70)
    assert await passed(limiter, 5) == 1


async def test_an_undeletable_key_is_counted_in_this_process_until_it_is_deleted(
    server: RedisServer, redis: Redis, patient_limits: None
) -> None:
    del patient_limits
    redis.acl_setuser(
        "clerk", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-del"]
    )
    url = f"redis://clerk:pw@127.0.0.1:{server.port}/0"
    limiter = build_limiter(BUDGETS, storage_url=url, metrics=Metrics())
    redis.rpush(key_of("document_calls"), "x")
    with capture_logs() as lines:
        assert [await passed(limiter, 5), await passed(limiter, 5, "other")] == [2, 2]
    assert [line["event"] for line in lines] == ["limits.key_unusable"]
    assert 0 < await retry_after_s(limiter) <= WINDOW_S
    assert (limiter.state, int(redis.get(key_of("document_calls", "other")) or 0)) == ("redis", 2)
    redis.delete(key_of("document_calls"))
    assert (await passed(limiter, 5), limiter.state) == (2, "redis")
    assert int(redis.get(key_of("document_calls")) or 0) == 2
    await limiter.close()


async def test_an_admission_and_a_charge_are_one_script_each(
    limiter: Limiter, redis: Redis
) -> None:
    await limiter.connect()
    redis.config_resetstat()
    admission = await limiter.admit(ChargedCall("t", doc_id="doc"))
    await limiter.charge_tokens(admission, 70)
    ran = redis.info("commandstats")["cmdstat_evalsha"]
    assert (ran["calls"], ran["failed_calls"]) == (2, 0)


async def test_a_tenants_counters_are_on_one_node_of_a_cluster(
    limiter: Limiter, redis: Redis
) -> None:
    admission = await limiter.admit(ChargedCall("t}{", doc_id="doc"))
    await limiter.charge_tokens(admission, 1)
    keys = [str(key) for key in redis.keys("*t}{*")]
    tags = [key.partition("{")[2].partition("}")[0] for key in keys]
    assert tags == ["3:t"] * 4


async def test_scripts_missing_in_redis_are_loaded_again(limiter: Limiter, redis: Redis) -> None:
    admission = await limiter.admit(ChargedCall("t", doc_id="doc"))
    redis.script_flush()
    await limiter.charge_tokens(admission, 70)
    redis.script_flush()
    assert (await passed(limiter, 5), limiter.state) == (1, "redis")
    redis.script_flush()
    assert 0 < await retry_after_s(limiter) <= WINDOW_S
