import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from limits.errors import StorageError

from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.domain.errors import RateLimitExceeded
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.failover import SharedStore
from mcp_tools_proxy.ratelimit.limiter import STORE_WAIT_S, Limiter
from mcp_tools_proxy.ratelimit.storage import (
    CounterReading,
    CountingStorage,
    MemoryStorage,
    SharedStorage,
)
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs

pytestmark = pytest.mark.requirement("T-10")

BUDGETS = BudgetLimits(
    document_calls=3, document_tokens=100, tenant_calls=50, tenant_tokens=1000, window_s=60
)


class ScriptedStorage(MemoryStorage):
    """A shared store in memory that counts attempts, and fails or hangs on demand."""

    add_many = CountingStorage.add_many
    charge_unless_exhausted = CountingStorage.charge_unless_exhausted

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0
        self.failure: Exception | None = None
        self.hangs = False
        self.fails_at_attempt: int | None = None

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        await self._step()
        return await super().incr(key, expiry, amount)

    async def read_many(self, counters: Sequence[tuple[str, int]]) -> list[CounterReading]:
        await self._step()
        return await super().read_many(counters)

    async def _step(self) -> None:
        self.attempts += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        if self.attempts == self.fails_at_attempt:
            raise StorageError(ConnectionResetError())


class Sleeper:
    """A sleep that ends when the test wakes it."""

    def __init__(self) -> None:
        self._may_wake = asyncio.Semaphore(0)
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self._may_wake.acquire()

    def wake(self) -> None:
        self._may_wake.release()


class Rig:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.storage = ScriptedStorage()
        self.sleeper = Sleeper()
        self.disconnected = 0
        self.shared = SharedStore(
            SharedStorage(
                storage=self.storage,
                name="redis://store:6379/0",
                disconnect=self._disconnect,
            ),
            metrics=self.metrics,
            sleep=self.sleeper,
        )
        memory = MemoryStorage()
        self.limiter = Limiter(BUDGETS, memory=memory, shared=self.shared, metrics=self.metrics)

    async def _disconnect(self) -> None:
        self.disconnected += 1

    def metric(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"mcp_proxy_rate_limit_{name}")

    async def passed(self, calls: int) -> int:
        outcomes = await asyncio.gather(
            *(self.limiter.admit(ChargedCall("a", doc_id="b")) for _ in range(calls)),
            return_exceptions=True,
        )
        return sum(not isinstance(outcome, RateLimitExceeded) for outcome in outcomes)


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def until_up(limiter: Limiter, *, up: bool) -> None:
    async with asyncio.timeout(BOUND_S):
        while limiter.up is not up:  # noqa: ASYNC110 - the limiter does not announce it
            await asyncio.sleep(0)


FAILURES = [
    StorageError(ConnectionRefusedError()),
    TimeoutError(),
    ConnectionResetError(),
]


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
async def test_a_failing_store_is_replaced_by_counters_of_this_process(
    rig: Rig, failure: Exception
) -> None:
    rig.storage.failure = failure
    assert await rig.passed(10) == 3


async def test_a_hanging_store_is_replaced_by_counters_of_this_process(rig: Rig) -> None:
    rig.storage.hangs = True
    assert await rig.passed(10) == 3


async def test_a_store_known_to_be_down_is_not_called(rig: Rig) -> None:
    rig.storage.failure = StorageError(ConnectionRefusedError())
    admission = await rig.limiter.admit(ChargedCall("a", doc_id="b"))
    attempts = rig.storage.attempts
    await rig.limiter.charge_tokens(admission, 5)
    await rig.passed(10)
    assert rig.storage.attempts == attempts


async def test_a_call_waits_for_a_hanging_store_once_and_briefly(rig: Rig) -> None:
    rig.storage.hangs = True
    started = time.monotonic()
    await rig.limiter.admit(ChargedCall("a", doc_id="b"))
    assert time.monotonic() - started >= STORE_WAIT_S * 0.9


async def test_time_waited_by_admission_is_not_waited_again_by_the_charge(rig: Rig) -> None:
    admission = await rig.limiter.admit(ChargedCall("a", doc_id="b"))
    rig.storage.hangs = True
    spent = replace(admission, wait_left_s=0.0)
    attempts = rig.storage.attempts
    await rig.limiter.charge_tokens(spent, 5)
    assert rig.storage.attempts == attempts


async def test_the_remaining_wait_after_admission_is_within_the_limit(rig: Rig) -> None:
    wait_left_s = (await rig.limiter.admit(ChargedCall("a", doc_id="b"))).wait_left_s
    assert 0 < wait_left_s < 0.251  # the difference of two clocks: it may go back by microseconds


async def test_an_admission_interrupted_by_a_failing_store_is_repeated_in_memory(rig: Rig) -> None:
    rig.storage.fails_at_attempt = 3  # the read, the document's charge, then the tenant's
    assert [await rig.passed(1) for _ in range(4)] == [1, 1, 1, 0]


async def test_tokens_that_the_store_did_not_accept_are_charged_in_memory(rig: Rig) -> None:
    admission = await rig.limiter.admit(ChargedCall("a", doc_id="b"))
    rig.storage.failure = StorageError(ConnectionResetError())
    await rig.limiter.charge_tokens(admission, 100)
    assert await rig.passed(1) == 0


async def test_a_refusal_by_the_shared_store_is_not_a_failure(rig: Rig) -> None:
    await rig.passed(5)
    assert (rig.limiter.up, rig.metric("store_failures_total")) == (True, 0)


async def test_the_metrics_show_that_the_store_is_down(rig: Rig) -> None:
    rig.storage.failure = StorageError(ConnectionRefusedError())
    await rig.limiter.admit(ChargedCall("a", doc_id="b"))
    assert (rig.metric("store_up"), rig.metric("store_failures_total")) == (0, 1)


async def test_the_state_reports_that_the_store_is_down(rig: Rig) -> None:
    rig.storage.failure = StorageError(ConnectionRefusedError())
    await rig.limiter.admit(ChargedCall("a", doc_id="b"))
    assert (rig.limiter.store, rig.limiter.state) == ("redis", "memory (redis down)")


async def test_an_outage_is_logged_once_for_any_number_of_failing_calls(rig: Rig) -> None:
    rig.storage.failure = StorageError(ConnectionRefusedError())
    with capture_logs() as lines:
        await asyncio.gather(*(rig.limiter.admit(ChargedCall(f"tenant {n}")) for n in range(20)))
    assert lines == [
        {
            "event": "limits.store_down",
            "log_level": "warning",
            "store": "redis://store:6379/0",
            "error": "ConnectionRefusedError",
            "reason": "connection refused",
        }
    ]


async def test_the_first_probe_detects_that_the_store_is_down(rig: Rig) -> None:
    rig.storage.failure = StorageError(ConnectionRefusedError())
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(rig.limiter.run())
        await until_up(rig.limiter, up=False)
        watch.cancel()
    assert rig.metric("store_up") == 0


async def test_the_probe_switches_back_to_a_recovered_store(rig: Rig) -> None:
    rig.storage.failure = StorageError(ConnectionRefusedError())
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(rig.limiter.run())
        await until_up(rig.limiter, up=False)
        rig.storage.failure = None
        with capture_logs() as lines:
            rig.sleeper.wake()
            await until_up(rig.limiter, up=True)
        watch.cancel()
    assert ([line["event"] for line in lines], rig.metric("store_up")) == (["limits.store_up"], 1)


async def test_calls_are_counted_in_the_store_again_after_recovery(rig: Rig) -> None:
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(rig.limiter.run())
        rig.storage.failure = StorageError(ConnectionRefusedError())
        await until_up(rig.limiter, up=False)
        rig.storage.failure = None
        rig.sleeper.wake()
        await until_up(rig.limiter, up=True)
        attempts = rig.storage.attempts
        await rig.limiter.admit(ChargedCall("a", doc_id="b"))
        watch.cancel()
    assert rig.storage.attempts > attempts


async def test_a_store_that_stays_down_is_probed_at_intervals_of_a_second(rig: Rig) -> None:
    rig.storage.failure = StorageError(ConnectionRefusedError())
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(rig.limiter.run())
        await until_up(rig.limiter, up=False)
        for _ in range(3):
            rig.sleeper.wake()
            await asyncio.sleep(0.01)
        watch.cancel()
    assert (rig.storage.attempts, rig.sleeper.slept) == (4, [1.0] * 4)


async def test_connections_from_before_a_failure_are_dropped(rig: Rig) -> None:
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(rig.limiter.run())
        await asyncio.sleep(0.01)
        rig.storage.failure = StorageError(ConnectionRefusedError())
        await rig.limiter.admit(ChargedCall("a", doc_id="b"))
        await asyncio.sleep(0.01)
        watch.cancel()
    assert rig.disconnected == 1


async def test_the_store_reports_its_name_and_availability(rig: Rig) -> None:
    assert repr(rig.shared) == "<SharedStore redis://store:6379/0 up>"


async def test_closing_drops_the_connections(rig: Rig) -> None:
    await rig.limiter.close()
    assert rig.disconnected == 1


async def test_a_programming_error_is_not_treated_as_a_failing_store(rig: Rig) -> None:
    rig.storage.failure = KeyError("defect")
    with pytest.raises(KeyError):
        await rig.limiter.admit(ChargedCall("a", doc_id="b"))
