"""Rate limiting of calls: admission against the budgets, then the charge of the tokens used."""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Sequence
from operator import itemgetter
from typing import Literal, TypeVar

from mcp_tools_proxy.aiokits.idle_timeout import idle_clock
from mcp_tools_proxy.domain.audit.rule_source import SETTINGS
from mcp_tools_proxy.domain.budget import ChargedCall, LimitRule, LimitRules
from mcp_tools_proxy.domain.errors import LimitsUnavailable, RateLimitExceeded
from mcp_tools_proxy.ratelimit.admission import (
    Admission,
    BudgetReading,
    read_budgets,
    status_of_refusal,
)
from mcp_tools_proxy.ratelimit.budget_counter import BudgetCounter
from mcp_tools_proxy.ratelimit.budget_limits import MAX_CACHED, Budget, BudgetLimits
from mcp_tools_proxy.ratelimit.failover import PROBE_INTERVAL_S, SharedStore, StoreDown
from mcp_tools_proxy.ratelimit.memory_storage import MemoryStorage
from mcp_tools_proxy.ratelimit.rule_index import RuleIndex
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.telemetry.tracing.spans import child_span
from mcp_tools_proxy.wire.identifiers import IDENTIFIER_CHARS

_TENANT, _DOCUMENT = ChargedCall._fields.index("tenant_id"), ChargedCall._fields.index("doc_id")


class CallBudgets:
    """Finds the budgets that a call is charged to; without ``rules`` those of the settings alone.

    What was found is cached for each combination of the fields on which any budget depends.
    """

    def __init__(self, limits: BudgetLimits, rules: Sequence[LimitRule] = ()) -> None:
        self._limits = limits
        self._index = RuleIndex(rules) if rules else None
        fields = {_TENANT, _DOCUMENT, *(self._index.fields if self._index else ())}
        self._combination_of = itemgetter(*sorted(fields))
        self._cached: dict[object, Sequence[Budget]] = {}

    def __repr__(self) -> str:
        return repr(self._limits)

    def applying_to(self, call: ChargedCall) -> Sequence[Budget]:
        """Return the budgets of a call: those that concern its document, then the others."""
        if self._index is None:
            return self._limits.applying_to(call.tenant_id, call.doc_id)
        if call.doc_id is not None and len(call.doc_id) > IDENTIFIER_CHARS:
            return self._build(self._index, call)  # of any length: never cached
        combination = self._combination_of(call)
        found = self._cached.get(combination)
        if found is None:
            if len(self._cached) >= MAX_CACHED:
                del self._cached[next(iter(self._cached))]
            found = self._cached[combination] = self._build(self._index, call)
        return found

    def _build(self, index: RuleIndex, call: ChargedCall) -> Sequence[Budget]:
        of_settings = self._limits.applying_to(call.tenant_id, call.doc_id)
        of_documents, others = index.budgets_of(call)
        documents = [budget for budget in of_settings if budget.charged_to == "document"]
        tenants = of_settings[len(documents) :]
        return (*documents, *of_documents, *tenants, *others)


T = TypeVar("T")

STORE_WAIT_S = 0.25
"""Longest wait of one call for the store, admission and charge together (T-10)."""

_REDIS = {"db.system.name": "redis"}


class Limiter:
    """Budgets of calls and tokens (T-08, T-09), counted in ``shared`` while that is up (T-10).

    Without ``shared``, or while it is down, ``memory`` counts for this process alone. The settings'
    budgets are ``budgets``; the rules of limits.json apply besides them, see ``apply_rules``.
    """

    def __init__(
        self,
        budgets: BudgetLimits,
        *,
        memory: BudgetCounter,
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
        """Whether the configured store is in use now."""
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
        """Apply the rules of limits.json to later calls; None, if unknown, refuses all calls.

        The counters of a rule that is the same as before go on.
        """
        if rules != self._rules:
            self._rules = rules
            self._budgets = CallBudgets(self._limits, rules.rules if rules else ())

    async def admit(self, call: ChargedCall) -> Admission:
        """Charge one call to each budget that applies.

        Raises RateLimitExceeded when a budget is used up; then none is charged (T-09). A call that
        is cancelled here may stay charged, but no call runs uncharged. In a shared store all
        budgets are read and charged in one round trip. Raises LimitsUnavailable while the rules are
        unknown.
        """
        budgets = self._applying_to(call)
        waited = 0.0
        if self._shared is None:
            refusal, readings = await self._memory.charge_call(budgets)
        else:
            started = idle_clock()
            refusal, readings = await self._count(
                lambda counting: counting.charge_call(budgets), STORE_WAIT_S
            )
            waited = idle_clock() - started
        if refusal is not None:
            self._metrics.limit_refusals.labels(refusal.budget.name).inc()
            error = exceeded(refusal.budget, refusal.retry_after_s)
            error.budget = status_of_refusal(refusal, budgets, readings)
            raise error
        return Admission(budgets=budgets, readings=readings, wait_left_s=STORE_WAIT_S - waited)

    async def charge_tokens(self, admission: Admission, tokens: int) -> None:
        """Charge the tokens that the call used, even beyond a limit: the next call is refused."""
        if tokens <= 0:
            return
        if self._shared is None:
            await self._memory.charge_tokens(admission.budgets, tokens)
        else:
            await self._count(
                lambda counting: counting.charge_tokens(admission.budgets, tokens),
                admission.wait_left_s,
            )

    async def peek(self, call: ChargedCall) -> Sequence[BudgetReading]:
        """Read each budget that applies to a call, and charge nothing.

        Raises LimitsUnavailable while the rules are unknown.
        """
        budgets = self._applying_to(call)
        readings = await self._count(lambda counting: counting.read(budgets), STORE_WAIT_S)
        return read_budgets(budgets, readings)

    def _applying_to(self, call: ChargedCall) -> Sequence[Budget]:
        if self._rules is None:
            raise LimitsUnavailable(
                "limits.json is invalid, so budgets are unknown; ask an operator to fix it"
            )
        return self._budgets.applying_to(call)

    async def connect(self) -> None:
        """Open the connections to the shared store before the first call; without one do nothing.

        Call it once, before the service is ready. A store that cannot be reached is no error.
        """
        if self._shared is not None:
            await self._shared.connect()

    async def run(self) -> None:
        """Probe the shared store until cancelled; without one return at once."""
        if self._shared is not None:
            await self._shared.run()

    async def close(self) -> None:
        """Drop the store's connections."""
        if self._shared is not None:
            await self._shared.close()

    async def _count(self, operation: Callable[[BudgetCounter], Awaitable[T]], wait_s: float) -> T:
        """Count in the shared store, or from the start in memory if that fails."""
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

    Does not connect. Raises ValueError, naming the variable, when the URL is invalid.
    """
    memory = BudgetCounter(MemoryStorage())
    if storage_url is None:
        return Limiter(budgets, memory=memory, shared=None, metrics=metrics)
    # redis-py is slow to import
    from mcp_tools_proxy.ratelimit.redis_storage import open_redis  # noqa: PLC0415

    opened = open_redis(storage_url)
    shared = SharedStore(
        BudgetCounter(opened.storage),
        name=opened.name,
        connect=opened.connect,
        disconnect=opened.disconnect,
        metrics=metrics,
        probe_interval_s=probe_interval_s,
        sleep=sleep,
    )
    return Limiter(budgets, memory=memory, shared=shared, metrics=metrics)


def exceeded(budget: Budget, retry_after_s: float) -> RateLimitExceeded:
    """Build the error of a call that a budget refuses until its window ends."""
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
