import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
from redis import Redis

from mcp_tools_proxy.domain.caller import Caller, StandIn
from mcp_tools_proxy.domain.errors import (
    PolicyDenied,
    RateLimitExceeded,
    RunExpired,
    StateUnavailable,
)
from mcp_tools_proxy.domain.run import RunRequest
from mcp_tools_proxy.policy.runs.run_memory import RunMemory
from mcp_tools_proxy.storage.runs.run_store import (
    OPENINGS_S,
    MemoryRunStore,
    RunStore,
    UnusableRunStore,
    run_key,
)
from tests.contract.run_stores import (
    IDLE_S,
    MARK_S,
    RunReplicas,
    count_call,
    key,
    limits,
    one_call,
    open_replicas,
    read_calls,
)
from tests.support.postgres_databases import Databases
from tests.support.redis_server import RedisServer
from tests.support.virtual_time import ManualClock

Build = Callable[..., Awaitable[RunReplicas]]


@pytest.fixture(params=["memory", "redis", "postgres"])
async def build(
    request: pytest.FixtureRequest, databases: Databases, shared_server: RedisServer
) -> AsyncIterator[Build]:
    """Return a function that opens stores with limits."""
    with Redis.from_url(shared_server.url) as client:
        client.flushall()
    async with AsyncExitStack() as stack:

        async def build(**options: object) -> RunReplicas:
            return await open_replicas(
                request.param,
                stack,
                redis_url=shared_server.url,
                postgres=await databases.new(),
                **options,
            )

        yield build


@pytest.fixture
async def replicas(build: Build) -> RunReplicas:
    return await build()


@pytest.fixture
def store(replicas: RunReplicas) -> RunStore:
    return replicas.stores[0]


async def test_every_replica_continues_a_run(replicas: RunReplicas) -> None:
    numbers = [await it.update(key(), count_call) for it in replicas.stores * 2]
    assert numbers == [*range(1, len(numbers) + 1)]


async def test_a_look_sees_the_changes_of_all_replicas_and_makes_none(
    replicas: RunReplicas,
) -> None:
    first, last = replicas.stores[0], replicas.stores[-1]
    assert await last.peek(key(), count_call) == 1  # the run does not begin
    await first.update(key(), count_call)
    await last.update(key(), count_call)
    assert [await it.peek(key(), count_call) for it in (first, last, first)] == [3, 3, 3]
    await replicas.advance(IDLE_S + 1)
    for it in replicas.stores:
        with pytest.raises(RunExpired):
            await it.peek(key(), count_call)


async def test_all_facts_of_a_run_are_kept(replicas: RunReplicas) -> None:
    def declare(memory: RunMemory) -> bytes:
        memory.declare(RunRequest(run_id="r", task="mail bob", tools=frozenset({"a"})))
        memory.reserve(one_call())
        return memory.encode()

    def finish(memory: RunMemory) -> bytes:
        memory.succeed(one_call(), 7, [("A-7", "crm:get#id")])
        return memory.encode()

    first, last = replicas.stores[0], replicas.stores[-1]
    declared = await first.update(key(), declare)
    assert await last.update(key(), lambda it: it.encode()) == declared
    finished = await last.update(key(), finish, may_begin=False)
    assert await first.update(key(), lambda it: it.encode()) == finished
    assert await first.update(key(), lambda it: it.origins("a-7")) == {"crm:get#id"}


async def test_fifty_parallel_changes_are_made_one_after_the_other(
    replicas: RunReplicas,
) -> None:
    stores = replicas.stores * (50 // len(replicas.stores))
    numbers = await asyncio.gather(*(it.update(key(), count_call) for it in stores))
    assert sorted(numbers) == [*range(1, 51)]
    assert await stores[0].update(key(), read_calls) == 50


async def test_a_change_that_raises_keeps_nothing(replicas: RunReplicas) -> None:
    def refuse(memory: RunMemory) -> None:
        memory.declare(RunRequest(run_id="r", read_only=True))
        count_call(memory)
        raise PolicyDenied("no")

    store, last = replicas.stores[0], replicas.stores[-1]
    with pytest.raises(PolicyDenied):
        await store.update(key(), refuse)
    with pytest.raises(RunExpired):  # it did not begin
        await last.update(key(), count_call, may_begin=False)
    assert await last.update(key(), count_call) == 1
    with pytest.raises(PolicyDenied):
        await store.update(key(), refuse)
    assert await last.update(key(), lambda it: (it.calls, it.read_only)) == (1, False)


async def test_runs_of_others_with_the_same_id_are_other_runs(store: RunStore) -> None:
    for it in (key(), key(owner="v"), key(tenant="s"), key(name="q")):
        assert await store.update(it, count_call) == 1
    assert await store.update(key(), count_call) == 2


async def test_callers_without_a_tenant_have_runs(store: RunStore) -> None:
    assert [await store.update(key(tenant=""), count_call) for _ in range(2)] == [1, 2]


async def test_an_idle_run_ends_and_its_id_is_marked_until_its_time(
    replicas: RunReplicas,
) -> None:
    store, last = replicas.stores[0], replicas.stores[-1]
    assert await store.update(key(), count_call) == 1
    await replicas.advance(IDLE_S - 5)
    assert await last.update(key(), count_call) == 2
    await replicas.advance(IDLE_S - 5)
    assert await store.update(key(), count_call) == 3
    await replicas.advance(IDLE_S + 5)
    for it in replicas.stores:
        for may_begin in (True, False):
            with pytest.raises(RunExpired):
                await it.update(key(), count_call, may_begin=may_begin)
    await replicas.advance(MARK_S - 20)
    with pytest.raises(RunExpired):
        await last.update(key(), count_call)
    await replicas.advance(40)
    assert await store.update(key(), count_call) == 1


async def test_a_full_tenant_begins_no_run_and_loses_no_mark(build: Build) -> None:
    replicas = await build(runs=5)
    store, last = replicas.stores[0], replicas.stores[-1]
    for number in range(5):
        await store.update(key(str(number)), count_call)
    await replicas.advance(IDLE_S + 5)
    with pytest.raises(StateUnavailable, match="no space") as refused:
        await last.update(key("new"), count_call)
    assert refused.value.retryable
    for number in range(5):
        with pytest.raises(RunExpired):
            await store.update(key(str(number)), count_call)
    assert await store.update(key("new", tenant="other"), count_call) == 1
    await replicas.advance(MARK_S + 5)
    assert await store.update(key("new"), count_call) == 1


async def test_a_full_tenant_continues_its_runs(build: Build) -> None:
    store = (await build(runs=1)).stores[0]
    for number in range(1, 4):
        assert await store.update(key(), count_call) == number


async def test_a_user_begins_a_limited_number_of_runs_in_an_hour(build: Build) -> None:
    replicas = await build(new_runs=2, idle_s=2 * OPENINGS_S)
    store, last = replicas.stores[0], replicas.stores[-1]
    await store.update(key("1"), count_call)
    await replicas.advance(OPENINGS_S / 2)
    await last.update(key("2"), count_call)
    with pytest.raises(RateLimitExceeded) as refused:
        await store.update(key("3"), count_call)
    assert refused.value.retry_after_s == pytest.approx(OPENINGS_S / 2, abs=60)
    assert await last.update(key("1"), count_call) == 2
    assert await last.update(key("3", owner="v"), count_call) == 1
    await replicas.advance(OPENINGS_S / 2 + 60)
    assert await store.update(key("3"), count_call) == 1
    with pytest.raises(RateLimitExceeded):
        await store.update(key("4"), count_call)


async def test_limits_hold_for_parallel_new_runs_of_replicas(build: Build) -> None:
    replicas = await build(runs=7)
    stores = replicas.stores * (20 // len(replicas.stores))
    results = await asyncio.gather(
        *(it.update(key(str(n)), count_call) for n, it in enumerate(stores)),
        return_exceptions=True,
    )
    assert results.count(1) == 7
    assert sum(isinstance(it, StateUnavailable) for it in results) == 13


async def test_a_cancelled_update_leaves_the_run_usable(replicas: RunReplicas) -> None:
    store, last = replicas.stores[0], replicas.stores[-1]
    await store.update(key(), count_call)
    updates = [asyncio.ensure_future(store.update(key(), count_call)) for _ in range(10)]
    await asyncio.sleep(0)
    for it in updates[::2]:
        it.cancel()
    done = await asyncio.gather(*updates, return_exceptions=True)
    numbers = [it for it in done if isinstance(it, int)]
    assert len(numbers) >= 5
    assert len(set(numbers)) == len(numbers)
    assert await last.update(key(), read_calls) >= max(numbers)


@dataclass
class SimpleRuns:
    """The rules of a store with room for five runs, written with times of last use only."""

    now: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)

    def update(self, name: str) -> int | type[Exception]:
        kept = {it: self.now - at for it, at in self.used.items() if self.now - at < 11_000}
        if name in kept and kept[name] >= 1_000:
            return RunExpired
        if name not in kept and len(kept) >= 5:
            return StateUnavailable
        self.calls[name] = self.calls[name] + 1 if name in kept else 1
        self.used[name] = self.now
        return self.calls[name]


@pytest.mark.parametrize("seed", range(3))
async def test_any_order_of_updates_follows_the_simple_rules(build: Build, seed: int) -> None:
    """Times are far from the limits, because the clocks of Redis and PostgreSQL run on."""
    drawn = random.Random(seed)  # noqa: S311 - no secret
    replicas = await build(idle_s=1_000, mark_s=10_000, runs=5)
    simple = SimpleRuns()
    for _ in range(120):
        if drawn.random() < 0.3:
            step = drawn.choice((300, 300, 300, 2_100))
            simple.now += step
            await replicas.advance(step)
        name = drawn.choice("abcdefgh")
        found: int | type[Exception]
        try:
            found = await drawn.choice(replicas.stores).update(key(name), count_call)
        except (RunExpired, StateUnavailable) as error:
            found = type(error)
        assert found == simple.update(name)


async def test_a_store_reports_that_it_is_ready(store: RunStore) -> None:
    assert store.readiness()["status"] == "ok"


async def test_memory_is_shared_fairly_and_freed() -> None:
    clock = ManualClock()
    store = MemoryRunStore(limits(), max_bytes=400_000, clock=clock)
    with pytest.raises(StateUnavailable):
        await _begin_all(store)
    assert 100_000 < store.used_bytes < 300_000
    assert await store.update(key("r", tenant="other"), count_call) == 1
    clock.now += IDLE_S
    store.drop_ended()
    assert 0 < store.used_bytes < 50_000
    clock.now += MARK_S
    store.drop_ended()
    assert store.used_bytes == 0
    assert repr(store) == "<MemoryRunStore 0 runs, 0 marks>"


async def test_a_user_leaves_memory_for_the_others_of_its_tenant() -> None:
    clock = ManualClock()
    store = MemoryRunStore(limits(new_runs=1_000), max_bytes=400_000, clock=clock)
    await store.update(key("r", owner="v"), count_call)
    with pytest.raises(StateUnavailable):
        await _begin_all(store, owner="u")
    assert await store.update(key("r", owner="v"), count_call) == 2
    assert await store.update(key("s", owner="v"), count_call) == 1
    clock.now += IDLE_S + MARK_S
    store.drop_ended()
    assert await store.update(key("1", owner="u"), count_call) == 1


async def _begin_all(store: RunStore, owner: str = "") -> None:
    """Begin runs of one owner, or of many."""
    for number in range(1_000):
        await store.update(key(str(number), owner=owner or str(number)), count_call)


async def test_a_run_without_space_to_grow_still_keeps_its_results() -> None:
    store = MemoryRunStore(limits(), max_bytes=20_000)
    await store.update(key(), count_call)

    def declare(memory: RunMemory) -> None:
        memory.declare(RunRequest(run_id="r", task=" ".join(f"w{it}" for it in range(2_000))))

    with pytest.raises(StateUnavailable):
        await store.update(key(), declare)

    def finish(memory: RunMemory) -> None:
        memory.succeed(one_call(), 1, [(f"id{it}", "a:b#c") for it in range(1_000)])

    await store.update(key(), finish, may_begin=False)
    assert await store.update(key(), lambda it: it.origins("id7"), may_begin=False) == {"a:b#c"}


async def test_a_store_that_is_not_set_up_refuses_runs() -> None:
    store = UnusableRunStore("set a key", is_wanted=True)
    with pytest.raises(StateUnavailable) as refused:
        await store.update(key(), count_call)
    assert not refused.value.retryable
    assert store.readiness() == {"status": "degraded", "store": "none", "problem": "set a key"}


def test_a_run_belongs_to_tenant_and_user_or_token() -> None:
    def caller(tenant: str = "t", user: str = "u", by: str = "1", **more: object) -> Caller:
        return Caller(
            tenant_id=tenant,
            user_id=user,
            token_log_fields={"token_id": by},
            **more,  # type: ignore[arg-type]
        )

    one = run_key(caller(), "r")
    assert one == run_key(caller(by="2", agent="helper", roles=("a",)), "r")
    operator = StandIn(reads_documents=True)
    others = [
        run_key(caller(), "q"),
        run_key(caller(tenant="s"), "r"),
        run_key(caller(user="v"), "r"),
        run_key(caller(user=""), "r"),
        run_key(caller(user="", by="2"), "r"),
        run_key(caller(stand_in=operator), "r"),
        run_key(caller(user_is_unproved=True), "r"),
        run_key(caller(user_is_unproved=True, by="2"), "r"),
        run_key(caller(user="v", user_is_unproved=True), "r"),
        run_key(caller(user="1", by=""), "r"),
    ]
    assert len({one, *others}) == 1 + len(others)
    assert len({it.digest for it in (one, *others)}) == 1 + len(others)
    assert run_key(caller(), "q").owner == one.owner
    assert run_key(caller(user="\ud800"), "\ud800").digest != one.digest
