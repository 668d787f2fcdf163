from collections.abc import Iterable

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.budget import CallField, LimitRule, LimitRules
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import Limiter
from mcp_tools_proxy.ratelimit.storage import MemoryStorage
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.virtual_time import ManualClock

UNLIMITED = BudgetLimits(
    document_calls=0, document_tokens=0, tenant_calls=0, tenant_tokens=0, window_s=60
)


def rule(
    name: str = "rule",
    *,
    each: str = "",
    calls: int = 0,
    tokens: int = 0,
    window_s: int = 60,
    **match: str,
) -> LimitRule:
    """Build a rule; values of ``match`` and fields of ``each`` are separated by spaces."""
    return LimitRule(
        name=name,
        match={CallField(field): frozenset(values.split()) for field, values in match.items()},
        each=frozenset(CallField(field) for field in each.split()),
        calls=calls,
        tokens=tokens,
        window_s=window_s,
        source=RuleSource("limits.json", f"$.{name}"),
    )


def limiter_of(
    rules: Iterable[LimitRule],
    limits: BudgetLimits = UNLIMITED,
    *,
    clock: ManualClock | None = None,
    metrics: Metrics | None = None,
) -> Limiter:
    memory = MemoryStorage(clock=clock or ManualClock())
    limiter = Limiter(limits, memory=memory, shared=None, metrics=metrics or Metrics())
    limiter.apply_rules(LimitRules(rules=tuple(rules)))
    return limiter
