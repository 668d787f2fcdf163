from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits, CallBudgets
from mcp_tools_proxy.ratelimit.storage import MemoryStorage
from tests.support.virtual_time import ManualClock


async def test_a_window_ends_its_length_after_the_first_charge() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    await storage.incr("key", 60)
    clock.now += 59
    await storage.incr("key", 60)
    clock.now += 1
    assert await storage.get("key") == 0


async def test_a_later_charge_does_not_move_the_end_of_the_window() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    await storage.incr("key", 60)
    clock.now += 30
    await storage.incr("key", 60)
    assert await storage.get_expiry("key") == 1060


async def test_a_charge_after_the_end_opens_a_new_window() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    await storage.incr("key", 60, 7)
    clock.now += 60
    assert await storage.incr("key", 60) == 1


async def test_the_reset_time_of_an_unknown_key_is_now() -> None:
    assert await MemoryStorage(clock=ManualClock()).get_expiry("key") == 1000


async def test_the_remaining_time_of_a_window_counts_down_to_zero() -> None:
    clock = ManualClock(7.0)
    storage = MemoryStorage(clock=clock)
    await storage.incr("key", 60)
    left: list[float] = []
    for later in (0, 29, 30, 1, 1, 600):
        clock.now += later
        left += [left_s for _, left_s in await storage.read_many([("key", 60)])]
    assert left == [60, 31, 1, 0, 0, 0]


async def test_ended_windows_are_removed_when_new_ones_open() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    for number in range(400):
        await storage.incr(f"old {number}", 60)
    clock.now += 60
    for number in range(200):
        await storage.incr(f"new {number}", 60)
    assert len(storage) == 200


async def test_a_cleanup_removes_at_most_four_windows() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    for number in range(1000):
        await storage.incr(f"old {number}", 60)
    clock.now += 60
    await storage.incr("new", 60)
    assert len(storage) == 1000 - 4 + 1


async def test_live_keys_are_bounded() -> None:
    storage = MemoryStorage(clock=ManualClock(), max_keys=100)
    for number in range(1000):
        await storage.incr(str(number), 60)
    assert len(storage) == 100


async def test_a_full_storage_evicts_the_window_that_ends_first() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock, max_keys=2)
    for key in ("first", "second", "third"):
        clock.now += 1
        await storage.incr(key, 60)
    assert [await storage.get(key) for key in ("first", "second", "third")] == [0, 1, 1]


async def test_a_full_storage_removes_ended_windows_before_evicting_a_live_one() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock, max_keys=2)
    await storage.incr("ended", 60)
    clock.now += 59
    await storage.incr("live", 60)
    clock.now += 1
    await storage.incr("new", 60)
    assert [await storage.get("live"), await storage.get("new")] == [1, 1]


async def test_a_full_storage_evicts_the_first_ending_window_of_any_length() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock, max_keys=3)
    for key, length in (("day", 86_400), ("hour", 3600), ("minute", 60), ("new", 7200)):
        clock.now += 1
        await storage.incr(key, length)
    assert [await storage.get(key) for key in ("day", "hour", "minute", "new")] == [1, 1, 0, 1]


async def test_ended_windows_are_removed_despite_an_earlier_longer_one() -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    await storage.incr("day", 86_400)
    for length in (5, 10):
        for number in range(200):
            await storage.incr(f"{length} {number}", length)
    clock.now += 10
    for number in range(400):
        await storage.incr(f"new {number}", 60)
    assert len(storage) == 1 + 400


async def test_a_key_is_cleared_for_windows_of_any_length() -> None:
    storage = MemoryStorage(clock=ManualClock())
    await storage.incr("other", 60)
    await storage.incr("key", 10)
    await storage.clear("key")
    assert (await storage.get("key"), len(storage)) == (0, 1)


async def test_reset_returns_the_number_of_removed_windows() -> None:
    storage = MemoryStorage(clock=ManualClock())
    await storage.incr("a", 60)
    await storage.incr("b", 60)
    assert await storage.reset() == 2


async def test_memory_storage_is_always_available() -> None:
    assert await MemoryStorage().check()


def test_the_repr_shows_the_number_of_keys() -> None:
    assert repr(MemoryStorage(max_keys=5)) == "<MemoryStorage keys=0 max_keys=5>"


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40)), max_size=60))
async def test_storage_counts_like_a_simple_reference_model(charges: list[tuple[str, int]]) -> None:
    clock = ManualClock()
    storage = MemoryStorage(clock=clock)
    table: dict[str, tuple[int, float]] = {}
    for key, later in charges:
        clock.now += later
        count, ends = table.get(key, (0, 0.0))
        table[key] = (count + 1, ends) if clock.now < ends else (1, clock.now + 60)
        assert await storage.incr(key, 60) == table[key][0]


async def test_a_charge_that_evicts_a_window_of_the_same_call_is_counted() -> None:
    storage = MemoryStorage(clock=ManualClock(), max_keys=1)
    limits = BudgetLimits(
        document_calls=9, document_tokens=0, tenant_calls=9, tenant_tokens=0, window_s=60
    )
    document, tenant = CallBudgets(limits).applying_to(ChargedCall("t", doc_id="d"))
    await storage.charge_unless_exhausted([tenant])
    await storage.charge_unless_exhausted([document, tenant])
    assert (await storage.get(tenant.key), len(storage)) == (1, 1)
