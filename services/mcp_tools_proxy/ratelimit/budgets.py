"""Which budgets a call draws on, and under which keys. Pure."""

from dataclasses import dataclass, field
from typing import Literal

from limits.limits import RateLimitItem, RateLimitItemPerSecond

Owner = Literal["document", "tenant"]
Unit = Literal["calls", "tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One counter with its limit: ``item.amount`` of ``unit`` in each window of ``owner``.

    ``key`` is the only identifier handed to ``limits``, whose own key then also holds the budget's
    name, the limit and the window's length: no two settings share a counter.
    """

    owner: Owner
    unit: Unit
    item: RateLimitItem
    key: str

    @property
    def name(self) -> str:
        """The budget's setting and metric label, e.g. ``document_calls``."""
        return f"{self.owner}_{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The limits in force (T-08); 0 switches that budget off.

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
    _document: tuple[tuple[Unit, RateLimitItem], ...] = field(init=False, repr=False)
    _tenant: tuple[tuple[Unit, RateLimitItem], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.window_s < 1:
            raise ValueError(f"window_s is {self.window_s}, the least is 1 second")
        document = self._items("document", self.document_calls, self.document_tokens)
        tenant = self._items("tenant", self.tenant_calls, self.tenant_tokens)
        object.__setattr__(self, "_document", document)
        object.__setattr__(self, "_tenant", tenant)

    def _items(
        self, owner: Owner, calls: int, tokens: int
    ) -> tuple[tuple[Unit, RateLimitItem], ...]:
        if calls < 0 or tokens < 0:
            raise ValueError(f"a {owner} budget is negative; 0 switches it off")
        amounts: tuple[tuple[Unit, int], ...] = (("calls", calls), ("tokens", tokens))
        return tuple(
            (unit, RateLimitItemPerSecond(amount, self.window_s, f"{owner}_{unit}"))
            for unit, amount in amounts
            if amount
        )

    def applying_to(self, tenant_id: str, scope: str | None) -> tuple[Budget, ...]:
        """Give the budgets of a call: its document's first (``scope``, the doc_id), its tenant's.

        Two different (tenant, document) pairs never share a key, whatever characters they hold:
        the tenant's length goes in front (T-08). With ``scope`` None only the tenant's apply.
        """
        owned_by_tenant = f"{len(tenant_id)}:{tenant_id}"
        tenant = tuple(
            Budget(owner="tenant", unit=unit, item=item, key=owned_by_tenant)
            for unit, item in self._tenant
        )
        if scope is None:
            return tenant
        owned_by_document = f"{owned_by_tenant}:{scope}"
        return (
            *(
                Budget(owner="document", unit=unit, item=item, key=owned_by_document)
                for unit, item in self._document
            ),
            *tenant,
        )
