"""What is left of a call's budgets, as of its admission less its own calls and tokens. Pure."""

import math
from collections.abc import Sequence

from mcp_tools_proxy.domain.budget import BudgetStatus
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.ratelimit.budget_counter import BudgetExceeded, CounterReading
from mcp_tools_proxy.ratelimit.budget_limits import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReading:
    """What is left of one counter; ``reset_s`` is 0 while nothing is charged to it."""

    budget: Budget
    remaining: int
    reset_s: int

    @property
    def as_json(self) -> dict[str, object]:
        """The budget and what is left of it, as routes show it; without its rule."""
        return {
            "name": self.budget.name,
            "unit": self.budget.unit,
            "limit": self.budget.limit,
            "remaining": self.remaining,
            "reset_s": self.reset_s,
            "window_s": self.budget.window_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """An admitted call: the budgets that its tokens are charged to when it has finished.

    ``readings`` are those of the budgets at the admission, this call included.
    """

    budgets: Sequence[Budget]
    readings: Sequence[CounterReading]
    wait_left_s: float

    def status_after(self, tokens: int) -> BudgetStatus | None:
        """Return the budget with the smallest share left once ``tokens`` are charged, too.

        Of equal shares it is the first one; None without any budget.
        """
        tightest, most_used = -1, -1.0
        for place, budget in enumerate(self.budgets):
            used, _ = self.readings[place]
            share = (used if budget.unit == "calls" else used + tokens) / budget.limit
            if share > most_used:
                most_used, tightest = share, place
        if tightest < 0:
            return None
        budget = self.budgets[tightest]
        used, left_s = self.readings[tightest]
        reset_s = math.ceil(left_s)
        if not used:  # its window opens with the charge of this call's tokens
            reset_s = budget.window_s if budget.unit == "tokens" and tokens else 0
        return _status(tightest, self.budgets, self.readings, tokens=tokens, reset_s=reset_s)


def status_of_refusal(
    refusal: BudgetExceeded, budgets: Sequence[Budget], readings: Sequence[CounterReading]
) -> BudgetStatus:
    """Return the budget that has refused a call, which was charged to none."""
    place = budgets.index(refusal.budget)
    reset_s = math.ceil(refusal.retry_after_s)
    return _status(place, budgets, readings, tokens=0, reset_s=reset_s)


def read_budgets(
    budgets: Sequence[Budget], readings: Sequence[CounterReading]
) -> Sequence[BudgetReading]:
    """Return what is left of each budget."""
    return [
        BudgetReading(
            budget=budget,
            remaining=max(_left(budget, reading, 0), 0),
            reset_s=math.ceil(reading[1]) if reading[0] else 0,
        )
        for budget, reading in zip(budgets, readings, strict=True)
    ]


def _left(budget: Budget, reading: CounterReading, tokens: int) -> int:
    left = budget.limit - reading[0]
    return left - tokens if budget.unit == "tokens" else left


def _status(
    place: int,
    budgets: Sequence[Budget],
    readings: Sequence[CounterReading],
    *,
    tokens: int,
    reset_s: int,
) -> BudgetStatus:
    """Return a budget with what is left of it: of a rule that limits calls and tokens both.

    The two of a rule stand side by side, first the calls.
    """
    shown = budgets[place]
    other = place + (1 if shown.unit == "calls" else -1)
    left = max(_left(shown, readings[place], tokens), 0)
    left_of_other = None
    if 0 <= other < len(budgets) and budgets[other].name == shown.name:
        left_of_other = max(_left(budgets[other], readings[other], tokens), 0)
    calls, left_tokens = (left, left_of_other) if shown.unit == "calls" else (left_of_other, left)
    return BudgetStatus(
        shown.name, calls, left_tokens, reset_s, shown.unit, shown.limit, shown.window_s
    )
