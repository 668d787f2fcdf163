"""Counts calls and tokens against budgets on one storage, in memory or in Redis."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from limits.aio.storage import Storage

from mcp_tools_proxy.ratelimit.budget_limits import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExceeded:
    """The budget that has nothing left, and the seconds (> 0) until its window ends."""

    budget: Budget
    retry_after_s: float


class CountingStorage(Storage):
    """A ``limits`` storage that also reads several counters at once, and bounds their windows."""

    @abstractmethod
    async def get_many(self, keys: Sequence[str]) -> list[int]:
        """Return the counts of ``keys`` in their order, 0 for a key without a live window."""

    @abstractmethod
    async def seconds_left(self, keys: Sequence[str], window_s: int) -> list[float]:
        """Return the seconds until each key's window ends; 0 for a key without one.

        At most ``window_s``: a window that would end later, because a clock went back, is cut.
        (``get_expiry`` of ``limits`` returns a time of day, which needs two clocks that agree.)
        """

    async def add_many(self, charges: Sequence[tuple[str, int, int]]) -> list[int]:
        """Add each charge (key, seconds of its window, amount), and return the sums after each."""
        return [await self.incr(*charge) for charge in charges]

    async def charge_unless_exhausted(self, budgets: Sequence[Budget]) -> list[Budget]:
        """Charge one call to every call budget, or to none if some are exhausted; return those."""
        counts = await self.get_many([b.key for b in budgets])
        spent = [b for b, count in zip(budgets, counts, strict=True) if count >= b.limit]
        return spent or await self._charge_calls(budgets)

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

    async def charge_call(self, budgets: Sequence[Budget]) -> BudgetExceeded | None:
        """Charge one call to every call budget, or to none and return the exhausted budget.

        The tenant's budgets come before the document's (contract §1, order of checks); of several
        of either the one whose window ends last is returned (T-09).
        """
        spent = await self.storage.charge_unless_exhausted(budgets)
        if not spent:
            return None
        tenants = [budget for budget in spent if budget.charged_to == "tenant"]
        return await self._refusal(tenants or spent)

    async def charge_tokens(self, budgets: Sequence[Budget], tokens: int) -> None:
        """Add ``tokens`` to every token budget, over its limit if need be (T-09)."""
        await self.storage.add_many(
            [(b.key, b.window_s, tokens) for b in budgets if b.unit == "tokens"]
        )

    async def _refusal(self, spent: Sequence[Budget]) -> BudgetExceeded:
        left = await self.storage.seconds_left([b.key for b in spent], spent[0].window_s)
        seconds, budget = max(zip(left, spent, strict=True), key=lambda pair: pair[0])
        return BudgetExceeded(budget=budget, retry_after_s=max(math.ceil(seconds * 1000), 1) / 1000)
