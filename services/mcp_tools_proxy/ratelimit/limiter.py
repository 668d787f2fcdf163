"""Rate limiting of calls: admission against the budgets, then the charge of the used tokens."""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from mcp_tools_proxy.domain.audit import SETTINGS
from mcp_tools_proxy.domain.budget import BudgetStatus, ChargedCall, LimitRules
from mcp_tools_proxy.domain.errors import LimitsUnavailable, RateLimitExceeded
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.ratelimit.budget_rules import Budget, BudgetLimits, CallBudgets
from mcp_tools_proxy.ratelimit.failover import PROBE_INTERVAL_S, SharedStore, StoreDown
from mcp_tools_proxy.ratelimit.storage import (
    Attempt,
    CounterReading,
    CountingStorage,
    MemoryStorage,
)
from mcp_tools_proxy.storage.redis_timeout import idle_clock
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.spans import child_span

T = TypeVar("T")

STORE_WAIT_S = 0.25
"""Longest wait of one call for the store, admission and charge together (T-10)."""

_REDIS = {"db.system.name": "redis"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReading:
    """The remainder of one counter; ``reset_s`` is 0 while its count is 0."""

    budget: Budget
    remaining: int
    reset_s: int

    @property
    def as_json(self) -> dict[str, object]:
        """The budget and its remainder in the format of routes, without the rule."""
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
    """An admitted call, with the budgets for its tokens.

    ``readings`` are those at the admission, including this call.
    """

    budgets: Sequence[Budget]
    readings: Sequence[CounterReading]
    wait_left_s: float

    def status_after(self, tokens: int) -> BudgetStatus | None:
        """Return the budget with the smallest remaining share, with ``tokens`` charged as well.

        The first of equal shares counts; None without budgets.
        """
        tightest, most_used = -1, -1.0
        counted = zip(self.budgets, self.readings, strict=True)
        for place, (budget, (used, _)) in enumerate(counted):
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


class Limiter:
    """Budgets of calls and tokens (T-08, T-09), counted in ``shared`` while that is up (T-10).

    Otherwise ``memory`` counts for this process alone. The rules of limits.json apply in addition
    to ``budgets``, those of the settings; see ``apply_rules``.
    """

    def __init__(
        self,
        budgets: BudgetLimits,
        *,
        memory: CountingStorage,
        shared: SharedStore | None,
        metrics: Metrics,
    ) -> None:
        self._limits = budgets
        self._rules: LimitRules | None = LimitRules()
        self._budgets = CallBudgets(budgets)
        self._memory = memory
        self._shared = shared
        self._metrics = metrics
        metrics.limit_store_up.set(1)

    def __repr__(self) -> str:
        return f"<Limiter {self.state} {self._limits}>"

    @property
    def store(self) -> Literal["memory", "redis"]:
        """The configured store of the budgets."""
        return "memory" if self._shared is None else "redis"

    @property
    def up(self) -> bool:
        """Whether the configured store is in use."""
        return self._shared is None or self._shared.up

    @property
    def problem(self) -> str | None:
        """Why the configured store is not in use, for operators."""
        return None if self._shared is None else self._shared.problem

    @property
    def state(self) -> str:
        """Text for operators: ``memory``, ``redis`` or ``memory (redis down)``."""
        return self.store if self.up else "memory (redis down)"

    def apply_rules(self, rules: LimitRules | None) -> None:
        """Apply the rules of limits.json to later calls; None (unknown) refuses all calls.

        Unchanged rules keep their counters.
        """
        if rules != self._rules:
            self._rules = rules
            self._budgets = CallBudgets(self._limits, rules.rules if rules else ())

    async def admit(self, call: ChargedCall) -> Admission:
        """Charge one call to each budget that applies.

        Raises LimitsUnavailable while the rules are unknown, and RateLimitExceeded if a budget is
        used up; then no budget is charged (T-09). A call that is cancelled here may stay charged,
        but no call runs uncharged. In a shared store this is one round trip.
        """
        budgets = self._applying_to(call)
        waited = 0.0
        if self._shared is None:
            attempt = await self._memory.charge_unless_exhausted(budgets)
        else:
            started = idle_clock()
            attempt = await self._count(
                lambda storage: storage.charge_unless_exhausted(budgets), STORE_WAIT_S
            )
            waited = idle_clock() - started
        if attempt.spent:
            raise self._refusal(budgets, attempt)
        wait_left_s = STORE_WAIT_S - waited
        return Admission(budgets=budgets, readings=attempt.readings, wait_left_s=wait_left_s)

    def _refusal(self, budgets: Sequence[Budget], attempt: Attempt) -> RateLimitExceeded:
        """Return the error of the exhausted budget whose window ends last (T-09).

        The tenant's budgets come before the document's (contract §1, order of checks).
        """
        spent = [budget for budget in attempt.spent if budget.charged_to == "tenant"]
        places = [budgets.index(budget) for budget in spent or attempt.spent]
        place = max(places, key=lambda it: attempt.readings[it][1])
        budget = budgets[place]
        self._metrics.limit_refusals.labels(budget.name).inc()
        retry_after_s = max(math.ceil(attempt.readings[place][1] * 1000), 1) / 1000
        error = exceeded(budget, retry_after_s)
        error.budget = _status(
            place, budgets, attempt.readings, tokens=0, reset_s=math.ceil(retry_after_s)
        )
        return error

    async def charge_tokens(self, admission: Admission, tokens: int) -> None:
        """Charge the tokens that the call used, even beyond a limit: the next call is refused."""
        if tokens <= 0:
            return
        if self._shared is None:
            await self._memory.charge_tokens(admission.budgets, tokens)
        else:
            await self._count(
                lambda storage: storage.charge_tokens(admission.budgets, tokens),
                admission.wait_left_s,
            )

    async def peek(self, call: ChargedCall) -> Sequence[BudgetReading]:
        """Read each budget that applies to a call.

        Raises LimitsUnavailable while the rules are unknown.
        """
        budgets = self._applying_to(call)
        readings = await self._count(lambda storage: storage.read(budgets), STORE_WAIT_S)
        return [_reading(*counted) for counted in zip(budgets, readings, strict=True)]

    def _applying_to(self, call: ChargedCall) -> Sequence[Budget]:
        if self._rules is None:
            raise LimitsUnavailable(
                "limits.json is invalid, so budgets are unknown; ask an operator to fix it"
            )
        return self._budgets.applying_to(call)

    async def connect(self) -> None:
        """Open the connections to the shared store, if there is one.

        Call it once, before the service is ready. An unreachable store is not an error.
        """
        if self._shared is not None:
            await self._shared.connect()

    async def run(self) -> None:
        """Probe the shared store until cancelled; return at once without one."""
        if self._shared is not None:
            await self._shared.run()

    async def close(self) -> None:
        """Drop the store's connections."""
        if self._shared is not None:
            await self._shared.close()

    async def _count(
        self, operation: Callable[[CountingStorage], Awaitable[T]], wait_s: float
    ) -> T:
        """Count in the shared store, or repeat the whole count in memory if that fails."""
        if self._shared is not None and self._shared.up and wait_s > 0:
            with contextlib.suppress(StoreDown), child_span("limits.count", _REDIS, is_client=True):
                return await self._shared.attempt(operation, wait_s)
        return await operation(self._memory)


def build_limiter(
    budgets: BudgetLimits,
    *,
    storage_url: str | None,
    metrics: Metrics,
    probe_interval_s: float = PROBE_INTERVAL_S,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Limiter:
    """Build a limiter that counts in memory, or in the Redis at ``storage_url``.

    Does not connect. Raises ValueError, naming the variable, if the URL is invalid.
    """
    memory = MemoryStorage()
    if storage_url is None:
        return Limiter(budgets, memory=memory, shared=None, metrics=metrics)
    # redis-py is slow to import
    from mcp_tools_proxy.ratelimit.redis_storage import open_redis  # noqa: PLC0415

    opened = open_redis(storage_url)
    shared = SharedStore(opened, metrics=metrics, probe_interval_s=probe_interval_s, sleep=sleep)
    return Limiter(budgets, memory=memory, shared=shared, metrics=metrics)


def exceeded(budget: Budget, retry_after_s: float) -> RateLimitExceeded:
    """Build the error of a call that a budget refuses."""
    named = f"this {budget.charged_to}'s budget"
    if budget.source.file != SETTINGS:
        named = f"the budget {budget.name}"
    error = RateLimitExceeded(
        f"{named} of {budget.limit} {budget.unit} in {budget.window_s} s is used up; "
        f"retry in {math.ceil(retry_after_s)} s",
        details={
            "budget": budget.name,
            "limit": budget.limit,
            "window_s": budget.window_s,
        },
        retry_after_s=retry_after_s,
    )
    error.rule = budget.source
    return error


def _reading(budget: Budget, reading: CounterReading) -> BudgetReading:
    used, left_s = reading
    return BudgetReading(
        budget=budget,
        remaining=max(budget.limit - used, 0),
        reset_s=math.ceil(left_s) if used else 0,
    )


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
    """Return a budget with its remainder, or both budgets of a rule that limits calls and tokens.

    The two are adjacent, calls first.
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
