"""Remembers budgets that calls left near their end.

Each outcome has the budget with the smallest share left, so no store is asked. Other budgets of the
same call are not known here.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mcp_tools_proxy.domain.budget import BudgetStatus

NEAR_END = 0.2
"""The share of a budget that is left when it counts as near its end."""

MAX_BUDGETS = 1000
"""Budgets that are remembered; of more those that are there already."""


class TightBudget(NamedTuple):
    """A budget of a tenant as a call left it; its window ends at ``ends_at``."""

    tenant_id: str
    status: BudgetStatus
    ends_at: float

    @property
    def share(self) -> float:
        """The share that is left."""
        return self.status.remaining / self.status.limit


class TightBudgets:
    """The budgets near their end, each until its window ends.

    A rule may count apart for each user or document: of its budgets in one tenant the one with the
    least left is remembered.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._budgets: dict[tuple[str, str, str], TightBudget] = {}

    def note(self, tenant_id: str, status: BudgetStatus) -> None:
        """Remember what a call left of its tightest budget, if that is little."""
        if status.remaining > NEAR_END * status.limit:
            return
        now = self._clock()
        budget = TightBudget(tenant_id, status, now + status.reset_s)
        key = (tenant_id, status.name, status.unit)
        known = self._budgets.get(key)
        if known is None and not self._has_place(now):
            return
        if known is None or known.ends_at <= now or budget.share <= known.share:
            self._budgets[key] = budget

    def near_end(self, tenant_id: str | None) -> Sequence[TightBudget]:
        """Return a tenant's budgets near their end, each with the seconds until it is whole again.

        None is all tenants. The tightest is the first.
        """
        now = self._clock()
        self._forget_ended(now)
        found = (it for it in self._budgets.values() if tenant_id in (None, it.tenant_id))
        return [
            it._replace(status=it.status._replace(reset_s=math.ceil(it.ends_at - now)))
            for it in sorted(found, key=lambda it: (it.share, it.tenant_id, it.status.name))
        ]

    def _has_place(self, now: float) -> bool:
        if len(self._budgets) >= MAX_BUDGETS:
            self._forget_ended(now)
        return len(self._budgets) < MAX_BUDGETS

    def _forget_ended(self, now: float) -> None:
        self._budgets = {key: it for key, it in self._budgets.items() if it.ends_at > now}
