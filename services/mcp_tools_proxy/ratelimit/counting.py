"""Admission and charges on one storage, whichever it is."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from limits.aio.storage import Storage

from mcp_tools_proxy.ratelimit.budgets import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The budget that has nothing left, and the seconds (> 0) until its window ends."""

    budget: Budget
    retry_after_s: float


class CountingStorage(Storage):
    """A ``limits`` storage that can also read several counters at once."""

    @abstractmethod
    async def get_many(self, keys: Sequence[str]) -> list[int]:
        """Give the counts of ``keys`` in their order, 0 for a key without a live window."""


class Counting:
    """Fixed windows (T-09) of a storage; lets the storage's own exceptions through.

    ``limits`` counts: a charge is its storage's ``incr``, which opens a key's window. Its own
    fixed-window strategy adds a comparison and makes every key anew, which is most of the cost.

    ``clock`` is the one the storage's ``get_expiry`` answers on, ``coarseness_s`` by how much that
    answer may be too early.
    """

    def __init__(
        self,
        storage: CountingStorage,
        *,
        clock: Callable[[], float],
        coarseness_s: float = 0.0,
    ) -> None:
        self.storage = storage
        self._clock = clock
        self._coarseness_s = coarseness_s

    async def take_call(self, budgets: Sequence[Budget]) -> Refusal | None:
        """Charge one call to every call budget, or none to any and say which has nothing left.

        The tenant's budgets come before the document's (contract §1, order of checks); of several
        of one owner the one whose window ends last is named (T-09).
        """
        spent = await self._spent(budgets) or await self._hit_calls(budgets)
        tenants = [budget for budget in spent if budget.owner == "tenant"]
        return await self._refusal(tenants or spent) if spent else None

    async def charge_tokens(self, budgets: Sequence[Budget], tokens: int) -> None:
        """Add ``tokens`` to every token budget, over its limit if need be (T-09)."""
        for budget in budgets:
            if budget.unit == "tokens":
                await self.storage.incr(budget.key, budget.window_s, tokens)

    async def _spent(self, budgets: Sequence[Budget]) -> list[Budget]:
        counts = await self.storage.get_many([b.key for b in budgets])
        return [b for b, count in zip(budgets, counts, strict=True) if count >= b.limit]

    async def _hit_calls(self, budgets: Sequence[Budget]) -> list[Budget]:
        """Charge the document, then the tenant: a document's charge is only ever given back for a
        tenant with nothing left, so nobody who could pass sees it.
        """
        taken: list[Budget] = []
        for budget in budgets:
            if budget.unit == "calls":
                taken.append(budget)
                if await self.storage.incr(budget.key, budget.window_s) > budget.limit:
                    await self._give_back(taken)
                    return [budget]
        return []

    async def _give_back(self, taken: Iterable[Budget]) -> None:
        for budget in taken:
            if await self.storage.incr(budget.key, budget.window_s, -1) < 0:
                await self.storage.incr(budget.key, budget.window_s, 1)  # its window had ended

    async def _refusal(self, spent: list[Budget]) -> Refusal:
        left = [(await self._seconds_left(budget), budget) for budget in spent]
        seconds, budget = max(left, key=lambda pair: pair[0])
        return Refusal(budget=budget, retry_after_s=seconds)

    async def _seconds_left(self, budget: Budget) -> float:
        ends = await self.storage.get_expiry(budget.key)
        left = ends - self._clock() + self._coarseness_s
        return max(math.ceil(left * 1000), 1) / 1000
