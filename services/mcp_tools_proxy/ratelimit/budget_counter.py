"""Counts calls and tokens against budgets on one storage, in memory or in Redis."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from limits.aio.storage import Storage

from mcp_tools_proxy.ratelimit.budget_limits import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExceeded:
    """The budget that has nothing left, and the seconds (> 0) until its window ends."""

    budget: Budget
    retry_after_s: float


CounterReading = tuple[int, float]
"""A counter as it is read: what was charged, and the seconds until its window ends.

Both are 0 for a counter without a live window. A window that would end later than its length,
because a clock went back, is cut. (``get_expiry`` of ``limits`` returns a time of day, which needs
two clocks that agree.) It is a plain tuple, since a call makes several: a named one takes 0.4 µs.
"""


class Attempt(NamedTuple):
    """An attempt to charge a call: the budgets that refuse it, and all its budgets afterwards.

    With nothing ``spent`` the call is admitted, and its own charge is in ``readings``.
    """

    spent: Sequence[Budget]
    readings: Sequence[CounterReading]


class CountingStorage(Storage):
    """A ``limits`` storage that also reads several counters at once, and bounds their windows."""

    @abstractmethod
    async def read_many(self, counters: Sequence[tuple[str, int]]) -> list[CounterReading]:
        """Read counters, each given as key and seconds of its window, in their order."""

    async def add_many(self, charges: Sequence[tuple[str, int, int]]) -> list[int]:
        """Add each charge (key, seconds of its window, amount), and return the sums after each."""
        return [await self.incr(*charge) for charge in charges]

    async def charge_unless_exhausted(self, budgets: Sequence[Budget]) -> Attempt:
        """Charge one call to every call budget, or to none if some are exhausted."""
        counters = [(b.key, b.window_s) for b in budgets]
        readings = await self.read_many(counters)
        spent = spent_of(budgets, readings) or await self._charge_calls(budgets)
        return Attempt(spent, await self.read_many(counters))

    async def _charge_calls(self, budgets: Sequence[Budget]) -> list[Budget]:
        """Charge the document, then the tenant; return the first budget exceeded, if any.

        In this order a document's charge is undone only for a tenant with nothing left, so no
        other call that could pass ever sees the charge.
        """
        charged: list[Budget] = []
        for budget in budgets:
            if budget.unit == "calls":
                charged.append(budget)
                if await self.incr(budget.key, budget.window_s) > budget.limit:
                    await self._return_calls(charged)
                    return [budget]
        return []

    async def _return_calls(self, charged: Sequence[Budget]) -> None:
        sums = await self.add_many([(b.key, b.window_s, -1) for b in charged])
        ended = [b for b, count in zip(charged, sums, strict=True) if count < 0]
        if ended:  # their windows ended in between, and the charges with them
            await self.add_many([(b.key, b.window_s, 1) for b in ended])


class BudgetCounter:
    """Counts in fixed windows (T-09) on one storage; passes the storage's exceptions on.

    A charge is ``incr`` of ``limits``' storage, which opens a key's window. The fixed-window
    strategy of ``limits`` is not used: it rebuilds every key, which is most of the cost.
    """

    def __init__(self, storage: CountingStorage) -> None:
        self.storage = storage

    async def charge_call(
        self, budgets: Sequence[Budget]
    ) -> tuple[BudgetExceeded | None, Sequence[CounterReading]]:
        """Charge one call to every call budget, or to none and return the exhausted budget.

        The tenant's budgets come before the document's (contract §1, order of checks); of several
        of either the one whose window ends last is returned (T-09). The readings are those of
        ``budgets`` afterwards.
        """
        spent, readings = await self.storage.charge_unless_exhausted(budgets)
        return _refusal(budgets, spent, readings) if spent else None, readings

    async def charge_tokens(self, budgets: Sequence[Budget], tokens: int) -> None:
        """Add ``tokens`` to every token budget, over its limit if need be (T-09)."""
        await self.storage.add_many(
            [(b.key, b.window_s, tokens) for b in budgets if b.unit == "tokens"]
        )

    async def read(self, budgets: Sequence[Budget]) -> Sequence[CounterReading]:
        """Read the counters of ``budgets``, and charge nothing."""
        return await self.storage.read_many([(b.key, b.window_s) for b in budgets])


def spent_of(budgets: Sequence[Budget], readings: Sequence[CounterReading]) -> list[Budget]:
    """Return the budgets of which nothing is left."""
    return [b for b, (used, _) in zip(budgets, readings, strict=True) if used >= b.limit]


def _refusal(
    budgets: Sequence[Budget], spent: Sequence[Budget], readings: Sequence[CounterReading]
) -> BudgetExceeded:
    tenants = [budget for budget in spent if budget.charged_to == "tenant"]
    named = tenants or spent
    left = [(left_s, b) for b, (_, left_s) in zip(budgets, readings, strict=True) if b in named]
    seconds, budget = max(left, key=lambda pair: pair[0])
    return BudgetExceeded(budget=budget, retry_after_s=max(math.ceil(seconds * 1000), 1) / 1000)
