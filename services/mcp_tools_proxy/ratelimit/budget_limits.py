"""The budgets that a call is charged to, and their storage keys. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from mcp_tools_proxy.domain.audit.rule_source import SETTINGS, RuleSource
from mcp_tools_proxy.domain.budget import Unit
from mcp_tools_proxy.ratelimit.budget_keys import document_suffix, tenant_tag
from mcp_tools_proxy.wire.identifiers import IDENTIFIER_CHARS

ChargedTo = Literal["document", "tenant"]

VARIABLES = {
    "document_calls": "MCP_PROXY_RATE_LIMIT_CALLS",
    "document_tokens": "MCP_PROXY_RATE_LIMIT_TOKENS",
    "tenant_calls": "MCP_PROXY_RATE_LIMIT_TENANT_CALLS",
    "tenant_tokens": "MCP_PROXY_RATE_LIMIT_TENANT_TOKENS",
}
"""The settings' budgets, and the variable that sets each."""


class Budget(NamedTuple):
    """One counter with its limit: ``limit`` of ``unit`` in each window.

    ``charged_to`` decides when it is checked: those of a document after the look-up of the
    document. ``key`` has the name, the limit and the id of what is charged: no two settings, rules
    or ids share a counter. ``name`` is a metric's label; both counters of a rule that limits calls
    and tokens have the rule's.
    """

    name: str
    charged_to: ChargedTo
    unit: Unit
    limit: int
    window_s: int
    key: str
    source: RuleSource


MAX_CACHED = 1024
"""Pairs of tenant and document whose keys are cached, about 2 MB: building them takes a tenth of an
admission."""


class _KeyedLimit(NamedTuple):
    """A budget but for the id of what is charged, with the prefix of its keys."""

    name: str
    charged_to: ChargedTo
    unit: Unit
    limit: int
    window_s: int
    prefix: str
    source: RuleSource

    def budget_of(self, owner: str) -> Budget:
        return Budget(*self[:5], self.prefix + owner, self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """The limits of the settings (T-08); 0 switches that budget off.

    Raises ValueError when a limit is negative or the window is shorter than a second.
    """

    document_calls: int
    """Calls for one (tenant, document) in a window."""
    document_tokens: int
    """Tokens for one (tenant, document) in a window."""
    tenant_calls: int
    """Calls for one tenant in a window."""
    tenant_tokens: int
    """Tokens for one tenant in a window."""
    window_s: int
    """Length of a window in seconds."""
    _document: tuple[_KeyedLimit, ...] = field(init=False, repr=False)
    _tenant: tuple[_KeyedLimit, ...] = field(init=False, repr=False)
    _cached: Callable[[str, str | None], Sequence[Budget]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.window_s < 1:
            raise ValueError(f"window_s is {self.window_s}, the minimum is 1 second")
        document = self._keyed_limits("document", self.document_calls, self.document_tokens)
        tenant = self._keyed_limits("tenant", self.tenant_calls, self.tenant_tokens)
        object.__setattr__(self, "_document", document)
        object.__setattr__(self, "_tenant", tenant)
        object.__setattr__(self, "_cached", lru_cache(MAX_CACHED)(self._build))

    def _keyed_limits(
        self, charged_to: ChargedTo, calls: int, tokens: int
    ) -> tuple[_KeyedLimit, ...]:
        if calls < 0 or tokens < 0:
            raise ValueError(f"a {charged_to} budget is negative; 0 switches it off")
        limits: tuple[tuple[Unit, int], ...] = (("calls", calls), ("tokens", tokens))
        return tuple(
            _KeyedLimit(
                name=(name := f"{charged_to}_{unit}"),
                charged_to=charged_to,
                unit=unit,
                limit=limit,
                window_s=self.window_s,
                prefix=f"{name}/{limit}/{self.window_s}/",
                source=RuleSource(SETTINGS, VARIABLES[name]),
            )
            for unit, limit in limits
            if limit
        )

    def applying_to(self, tenant_id: str, doc_id: str | None) -> Sequence[Budget]:
        """Return the budgets of a call: those of its document, then those of its tenant.

        With ``doc_id`` None only the tenant's apply. Two different (tenant, document) pairs never
        share a key, whatever characters they hold: the tenant's length is its prefix (T-08).
        """
        if doc_id is not None and len(doc_id) > IDENTIFIER_CHARS:  # of any length: never cached
            return self._build(tenant_id, doc_id)
        return self._cached(tenant_id, doc_id)

    def _build(self, tenant_id: str, doc_id: str | None) -> Sequence[Budget]:
        tenant = tenant_tag(tenant_id)
        budgets = [limit.budget_of(tenant) for limit in self._tenant]
        if doc_id is not None:
            document = tenant + document_suffix(doc_id)
            budgets[:0] = [limit.budget_of(document) for limit in self._document]
        return budgets
