import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.domain.errors import RateLimitExceeded
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import Limiter, build_limiter
from mcp_tools_proxy.ratelimit.redis_storage import open_redis
from mcp_tools_proxy.ratelimit.storage import CountingStorage, MemoryStorage
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S, until
from tests.support.redis_server import RedisServer


@pytest.fixture(params=["memory", "redis"])
async def url(
    request: pytest.FixtureRequest, shared_server: RedisServer
) -> AsyncIterator[str | None]:
    if request.param == "memory":
        yield None
        return
    opened = open_redis(shared_server.url)
    await opened.storage.reset()
    yield shared_server.url
    await opened.disconnect()


@pytest.fixture
async def storage(url: str | None) -> AsyncIterator[CountingStorage]:
    if url is None:
        yield MemoryStorage(clock=time.monotonic)
        return
    opened = open_redis(url)
    yield opened.storage
    await opened.disconnect()


class Limiters:
    """Limiters over one storage, closed at the end of the test."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._memory = MemoryStorage()
        self._open: list[Limiter] = []

    def build(self, **limits: int) -> Limiter:
        off = {"document_calls": 0, "document_tokens": 0, "tenant_calls": 0, "tenant_tokens": 0}
        budgets = BudgetLimits(**{**off, "window_s": 60, **limits})
        metrics = Metrics()
        if self._url is None:
            return Limiter(budgets, memory=self._memory, shared=None, metrics=metrics)
        self._open.append(
            build_limiter(budgets, storage_url=self._url, metrics=metrics, probe_interval_s=0.05)
        )
        return self._open[-1]

    async def close(self) -> None:
        for limiter in self._open:
            await limiter.close()


@pytest.fixture
async def limiters(url: str | None, patient_limits: None) -> AsyncIterator[Limiters]:
    del patient_limits
    limiters = Limiters(url)
    yield limiters
    await limiters.close()


@pytest.fixture
async def on_server(server: RedisServer) -> AsyncIterator[Limiters]:
    limiters = Limiters(server.url)
    yield limiters
    await limiters.close()


async def passed(limiter: Limiter, calls: int, doc_id: str | None = "b") -> int:
    await limiter.connect()
    outcomes = await asyncio.gather(
        *(limiter.admit(ChargedCall("a", doc_id=doc_id)) for _ in range(calls)),
        return_exceptions=True,
    )
    return sum(not isinstance(outcome, RateLimitExceeded) for outcome in outcomes)


async def until_up(limiter: Limiter, *, up: bool) -> None:
    await until(lambda: limiter.up is up)


async def test_charges_add_up(storage: CountingStorage) -> None:
    assert [await storage.incr("sum", 60, amount) for amount in (1, 2, 30)] == [1, 3, 33]


async def test_an_uncharged_key_has_a_count_of_zero(storage: CountingStorage) -> None:
    assert await storage.get("unknown") == 0


async def test_a_window_expires(storage: CountingStorage) -> None:
    await storage.incr("short", 1)
    async with asyncio.timeout(BOUND_S):
        while await storage.get("short"):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)
    assert await storage.incr("short", 1) == 1


async def test_a_fully_refunded_key_starts_again(storage: CountingStorage) -> None:
    await storage.incr("given back", 1)
    await storage.incr("given back", 1, -1)
    await storage.incr("given back", 60_000)
    ((used, left_s),) = await storage.read_many([("given back", 60_000)])
    assert used == 1
    assert left_s == pytest.approx(60_000, abs=30)


async def test_clearing_a_key_removes_its_charges(storage: CountingStorage) -> None:
    await storage.incr("cleared", 60)
    await storage.clear("cleared")
    assert await storage.get("cleared") == 0


@pytest.mark.requirement("T-09")
async def test_exactly_n_of_m_parallel_calls_pass(limiters: Limiters) -> None:
    assert await passed(limiters.build(document_calls=10), 200) == 10


@pytest.mark.requirement("T-09")
async def test_exactly_n_pass_when_the_tenants_budget_is_smaller(limiters: Limiters) -> None:
    assert await passed(limiters.build(document_calls=50, tenant_calls=10), 200) == 10


@pytest.mark.requirement("T-09")
async def test_calls_refused_by_the_tenants_budget_are_not_charged_to_their_document(
    limiters: Limiters,
) -> None:
    await passed(limiters.build(document_calls=50, tenant_calls=10), 100)
    assert await passed(limiters.build(document_calls=50), 100) == 40


@pytest.mark.requirement("T-09")
async def test_calls_refused_by_their_document_are_not_charged_to_the_tenant(
    limiters: Limiters,
) -> None:
    limiter = limiters.build(document_calls=5, tenant_calls=20)
    await passed(limiter, 100)
    assert await passed(limiter, 100, doc_id=None) == 15


@pytest.mark.requirement("T-09")
async def test_an_overdrawn_token_budget_refuses_the_next_call(limiters: Limiters) -> None:
    limiter = limiters.build(document_tokens=100)
    await limiter.charge_tokens(await limiter.admit(ChargedCall("a", doc_id="b")), 5000)
    assert await passed(limiter, 1) == 0


@pytest.mark.requirement("T-09")
async def test_a_refused_call_may_be_retried_within_the_window(limiters: Limiters) -> None:
    limiter = limiters.build(document_calls=1)
    await limiter.admit(ChargedCall("a", doc_id="b"))
    with pytest.raises(RateLimitExceeded) as caught:
        await limiter.admit(ChargedCall("a", doc_id="b"))
    assert 50 < (caught.value.retry_after_s or 0) <= 60


@pytest.mark.requirement("T-08")
@pytest.mark.parametrize("doc_id", ["b:c", "x" * 256, "дo\N{SNOWMAN}", "\ud800", " {b}/*?"])
async def test_every_identifier_has_a_separate_budget(limiters: Limiters, doc_id: str) -> None:
    limiter = limiters.build(document_calls=2)
    await passed(limiter, 5, doc_id="b")
    assert await passed(limiter, 5, doc_id=doc_id) == 2


@pytest.mark.requirement("T-10")
async def test_the_service_starts_without_its_redis(
    on_server: Limiters, server: RedisServer
) -> None:
    await asyncio.to_thread(server.stop)
    assert await passed(on_server.build(document_calls=5), 20) == 5


@pytest.mark.requirement("T-10")
async def test_killing_redis_during_calls_fails_none_of_them(
    on_server: Limiters, server: RedisServer
) -> None:
    limiter = on_server.build(tenant_calls=100_000)
    async with asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(passed(limiter, 20, doc_id=None)) for _ in range(20)]
        tasks.create_task(asyncio.to_thread(server.stop))
    assert (sum(call.result() for call in calls), await passed(limiter, 1)) == (400, 1)


@pytest.mark.requirement("T-10")
async def test_no_call_waits_long_for_a_paused_redis(
    on_server: Limiters, server: RedisServer
) -> None:
    limiter = on_server.build(document_calls=5)
    await limiter.admit(ChargedCall("warm up", doc_id="b"))
    server.pause()
    admitted = await passed(limiter, 100)
    assert (admitted, limiter.up) == (5, False)


@pytest.mark.requirement("T-10")
@pytest.mark.usefixtures("patient_limits")
async def test_a_restarted_redis_is_used_again(on_server: Limiters, server: RedisServer) -> None:
    limiter = on_server.build(document_calls=5)
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(limiter.run())
        await passed(limiter, 50)
        await asyncio.to_thread(server.stop)
        await limiter.admit(ChargedCall("a"))
        await limiter.admit(ChargedCall("a", doc_id="c"))
        await until_up(limiter, up=False)
        await asyncio.to_thread(server.start)
        await until_up(limiter, up=True)
        admitted = await passed(limiter, 50)
        watch.cancel()
    assert (admitted, limiter.state) == (5, "redis")


@pytest.mark.requirement("T-10")
async def test_answers_are_correct_after_many_calls_timed_out_on_a_paused_redis(
    server: RedisServer,
) -> None:
    opened = open_redis(f"{server.url}?socket_timeout=60")

    async def impatient(number: int) -> None:
        async with asyncio.timeout(0.001 * (number % 30)):
            await opened.storage.incr(f"impatient {number}", 60, 1_000_000 + number)

    await asyncio.gather(*(opened.storage.get(f"warm {n}") for n in range(50)))
    server.pause()
    async with asyncio.timeout(BOUND_S):
        await asyncio.gather(*(impatient(number) for number in range(60)), return_exceptions=True)
    server.resume()
    answers = await asyncio.gather(
        *(opened.storage.incr(f"patient {number}", 60, number) for number in range(1, 51))
    )
    await opened.disconnect()
    assert answers == list(range(1, 51))
