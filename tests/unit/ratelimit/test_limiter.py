import asyncio
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.domain.errors import RateLimitExceeded
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import Limiter, build_limiter
from mcp_tools_proxy.ratelimit.storage import CounterReading, CountingStorage, MemoryStorage
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.tables import each_row
from tests.support.virtual_time import ManualClock


def budgets(
    document_calls: int = 0,
    document_tokens: int = 0,
    tenant_calls: int = 0,
    tenant_tokens: int = 0,
) -> BudgetLimits:
    return BudgetLimits(
        document_calls=document_calls,
        document_tokens=document_tokens,
        tenant_calls=tenant_calls,
        tenant_tokens=tenant_tokens,
        window_s=60,
    )


def limiter(
    of: BudgetLimits, *, clock: ManualClock | None = None, metrics: Metrics | None = None
) -> Limiter:
    clock = clock or ManualClock()
    memory = MemoryStorage(clock=clock)
    return Limiter(of, memory=memory, shared=None, metrics=metrics or Metrics())


async def passed(limit: Limiter, calls: Iterable[tuple[str, str | None]]) -> int:
    """Send all calls concurrently; return how many were admitted."""
    outcomes = await asyncio.gather(
        *(limit.admit(ChargedCall(tenant, doc_id=doc_id)) for tenant, doc_id in calls),
        return_exceptions=True,
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, RateLimitExceeded)]
    return len(outcomes) - len(refused)


async def refusal(limit: Limiter, tenant: str, doc_id: str | None) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        await limit.admit(ChargedCall(tenant, doc_id=doc_id))
    return caught.value


@pytest.mark.requirement("T-09")
@given(limit=st.integers(1, 30), calls=st.integers(0, 60))
async def test_exactly_n_of_m_parallel_calls_pass(limit: int, calls: int) -> None:
    admitted = await passed(limiter(budgets(document_calls=limit)), [("a", "b")] * calls)
    assert admitted == min(limit, calls)


@pytest.mark.requirement("T-09")
@given(
    document=st.integers(0, 4),
    tenant=st.integers(0, 8),
    calls=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", None]))),
)
async def test_a_call_refused_by_one_budget_is_not_charged_to_any(
    document: int, tenant: int, calls: list[tuple[str, str | None]]
) -> None:
    limit = limiter(budgets(document_calls=document, tenant_calls=tenant))
    charged: dict[tuple[str, ...], int] = {}
    for owner, doc_id in calls:
        limits = {(owner, doc_id): document, (owner,): tenant} if doc_id else {(owner,): tenant}
        fits = all(not most or charged.get(key, 0) < most for key, most in limits.items())
        assert await passed(limit, [(owner, doc_id)]) == fits
        if fits:
            charged.update({key: charged.get(key, 0) + 1 for key in limits})


@pytest.mark.requirement("T-08")
async def test_the_tenants_budget_limits_calls_with_invented_documents() -> None:
    limit = limiter(budgets(document_calls=10, tenant_calls=20))
    assert await passed(limit, [("a", f"doc {number}") for number in range(50)]) == 20


@pytest.mark.requirement("T-08")
async def test_without_budgets_every_call_passes() -> None:
    assert await passed(limiter(budgets()), [("a", "b")] * 100) == 100


@pytest.mark.requirement("T-09")
async def test_exhausted_tokens_refuse_the_next_call() -> None:
    limit = limiter(budgets(document_tokens=100))
    await limit.charge_tokens(await limit.admit(ChargedCall("a", doc_id="b")), 100)
    assert (await refusal(limit, "a", "b")).details == {
        "budget": "document_tokens",
        "limit": 100,
        "window_s": 60,
    }


@pytest.mark.requirement("T-09")
async def test_one_token_left_admits_a_call() -> None:
    limit = limiter(budgets(document_tokens=100))
    await limit.charge_tokens(await limit.admit(ChargedCall("a", doc_id="b")), 99)
    assert await passed(limit, [("a", "b")]) == 1


@pytest.mark.requirement("T-09")
async def test_an_overdraft_of_tokens_is_charged() -> None:
    limit = limiter(budgets(tenant_tokens=100))
    await limit.charge_tokens(await limit.admit(ChargedCall("a", doc_id="b")), 5000)
    assert await passed(limit, [("a", "other document")]) == 0


@pytest.mark.requirement("T-09")
async def test_a_single_token_is_charged() -> None:
    limit = limiter(budgets(document_tokens=1))
    await limit.charge_tokens(await limit.admit(ChargedCall("a", doc_id="b")), 1)
    assert await passed(limit, [("a", "b")]) == 0


async def test_zero_tokens_are_not_charged() -> None:
    limit = limiter(budgets(document_tokens=1))
    await limit.charge_tokens(await limit.admit(ChargedCall("a", doc_id="b")), 0)
    assert await passed(limit, [("a", "b")]) == 1


@pytest.mark.requirement("T-09")
async def test_the_budget_is_restored_when_its_window_ends() -> None:
    clock = ManualClock()
    limit = limiter(budgets(document_calls=3), clock=clock)
    await passed(limit, [("a", "b")] * 3)
    clock.now += 60
    assert await passed(limit, [("a", "b")] * 5) == 3


@pytest.mark.requirement("T-09")
async def test_a_refusal_names_the_budget_and_the_retry_time() -> None:
    clock = ManualClock()
    limit = limiter(budgets(document_calls=1), clock=clock)
    await limit.admit(ChargedCall("a", doc_id="b"))
    clock.now += 19.5
    assert (await refusal(limit, "a", "b")).message == (
        "this document's budget of 1 calls in 60 s is used up; retry in 41 s"
    )


@pytest.mark.requirement("T-09")
async def test_retry_after_is_the_time_to_the_windows_end() -> None:
    clock = ManualClock()
    limit = limiter(budgets(document_calls=1), clock=clock)
    await limit.admit(ChargedCall("a", doc_id="b"))
    clock.now += 19.5
    assert (await refusal(limit, "a", "b")).retry_after_s == 40.5


@pytest.mark.requirement("T-09")
async def test_retry_after_is_positive_even_if_the_window_has_ended() -> None:
    class Ended(MemoryStorage):
        charge_unless_exhausted = CountingStorage.charge_unless_exhausted

        async def read_many(self, counters: Sequence[tuple[str, int]]) -> list[CounterReading]:
            return [(1, 0.0) for _ in counters]

    memory = Ended(clock=ManualClock())
    limit = Limiter(budgets(tenant_calls=1), memory=memory, shared=None, metrics=Metrics())
    assert (await refusal(limit, "a", None)).retry_after_s == 0.001


@pytest.mark.requirement("T-09")
async def test_of_two_exhausted_budgets_the_one_that_resets_last_is_named() -> None:
    clock = ManualClock()
    limit = limiter(budgets(document_calls=1, document_tokens=1), clock=clock)
    admission = await limit.admit(ChargedCall("a", doc_id="b"))
    clock.now += 10
    await limit.charge_tokens(admission, 5)
    assert "tokens" in (await refusal(limit, "a", "b")).message


@pytest.mark.requirement("T-09")
async def test_the_tenants_budget_is_named_in_preference_to_the_documents() -> None:
    clock = ManualClock()
    limit = limiter(budgets(document_calls=1, tenant_calls=2), clock=clock)
    await limit.admit(ChargedCall("a", doc_id="first"))
    clock.now += 10
    await limit.admit(ChargedCall("a", doc_id="second"))
    assert "tenant" in (await refusal(limit, "a", "second")).message


@pytest.mark.requirement("T-09")
async def test_a_refund_after_the_window_ended_does_not_extend_the_next_window() -> None:
    clock = ManualClock()

    class Late(MemoryStorage):
        add_many = CountingStorage.add_many
        charge_unless_exhausted = CountingStorage.charge_unless_exhausted

        async def read_many(self, counters: Sequence[tuple[str, int]]) -> list[CounterReading]:
            return [(0, 0.0) for _ in counters]  # read before other calls used up the budget

        async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
            if amount < 0 and await self.get(key):
                clock.now += 60
            return await super().incr(key, expiry, amount)

    storage = Late(clock=clock)
    memory = storage
    limit = Limiter(budgets(document_calls=2), memory=memory, shared=None, metrics=Metrics())
    assert [await passed(limit, [("a", "b")]) for _ in range(6)] == [1, 1, 0, 1, 1, 0]


async def test_a_refusal_is_counted_by_its_budget() -> None:
    metrics = Metrics()
    limit = limiter(budgets(tenant_calls=1), metrics=metrics)
    await passed(limit, [("a", None)] * 4)
    labels = {"budget": "tenant_calls"}
    assert metrics.registry.get_sample_value("mcp_proxy_rate_limit_refusals_total", labels) == 3


async def test_without_a_url_budgets_are_counted_in_memory() -> None:
    limit = build_limiter(budgets(), storage_url=None, metrics=Metrics())
    assert (limit.store, limit.up, limit.state) == ("memory", True, "memory")


async def test_counters_in_memory_need_neither_watching_nor_closing() -> None:
    limit = build_limiter(budgets(tenant_calls=1), storage_url=None, metrics=Metrics())
    await limit.run()
    await limit.close()
    assert await passed(limit, [("a", None)] * 2) == 1


def test_the_repr_shows_the_store_and_the_budgets() -> None:
    shown = repr(build_limiter(budgets(tenant_calls=7), storage_url=None, metrics=Metrics()))
    assert shown == (
        "<Limiter memory BudgetLimits(document_calls=0, document_tokens=0, tenant_calls=7,"
        " tenant_tokens=0, window_s=60)>"
    )


@each_row(
    "url",
    [
        "memcached://localhost:11211",
        "localhost:6379",
        "redis://",
        "redis://:secret@localhost:notaport",
        "redis://:sec/ret@localhost:6379",
        "redis://localhost/zero",
        "redis://localhost?db=zero",
        "redis://:secret@localhost?no_such_option=1",
        "redis://[::1",
        "redis://localhost?protocol=9",
    ],
)
def test_an_invalid_url_is_refused_in_one_line_with_its_variable(url: str) -> None:
    with pytest.raises(ValueError, match=r"^MCP_PROXY_RATE_LIMIT_STORAGE_URL: [^\n]+$") as caught:
        build_limiter(budgets(), storage_url=url, metrics=Metrics())
    assert "sec" not in str(caught.value)


@each_row(
    "url", ["redis://localhost", "redis://user:secret@[::1]:7000/3", "rediss://redis.example/1"]
)
def test_a_valid_url_builds_a_limiter_without_connecting(url: str) -> None:
    assert build_limiter(budgets(), storage_url=url, metrics=Metrics()).state == "redis"


def test_the_urls_password_is_not_shown() -> None:
    limit = build_limiter(budgets(), storage_url="redis://:secret@localhost", metrics=Metrics())
    assert "secret" not in repr(limit)
