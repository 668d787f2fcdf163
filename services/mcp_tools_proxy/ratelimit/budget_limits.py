"""The budgets that a call is charged to, and their storage keys. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Literal, NamedTuple

from mcp_tools_proxy.wire.identifiers import IDENTIFIER_CHARS

ChargedTo = Literal["document", "tenant"]
Unit = Literal["calls", "tokens"]


class Budget(NamedTuple):
    """One counter with its limit: ``limit`` of ``unit`` in each window, for a document or tenant.

    ``key`` has all of these and the id of what is charged: no two settings or ids share a counter.
    """

    charged_to: ChargedTo
    unit: Unit
    limit: int
    window_s: int
    key: str

    @property
    def name(self) -> str:
        """The budget's setting and metric label, e.g. ``document_calls``."""
        return f"{self.charged_to}_{self.unit}"


MAX_CACHED = 1024
"""Pairs of tenant and document whose keys are cached, about 2 MB: building them takes a tenth of an
admission."""

_KeyedLimit = tuple[ChargedTo, Unit, int, str]
"""What is charged, unit, limit, and the prefix of its keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
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
    _document: tuple[_KeyedLimit, ...] = field(init=False, repr=False)
    _tenant: tuple[_KeyedLimit, ...] = field(init=False, repr=False)
    _cached: Callable[[str, str | None], Sequence[Budget]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.window_s < 1:
            raise ValueError(f"window_s is {self.window_s}, the least is 1 second")
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
            (charged_to, unit, limit, f"{charged_to}_{unit}/{limit}/{self.window_s}/")
            for unit, limit in limits
            if limit
        )

    def applying_to(self, tenant_id: str, doc_id: str | None) -> Sequence[Budget]:
        """Return the budgets of a call: those of its document, then those of its tenant.

        With ``doc_id`` None only the tenant's apply. Two different (tenant, document) pairs never
        share a key, whatever characters they hold: the tenant's length is its prefix (T-08). The
        tenant is in braces: of a cluster of Redis one node has all its keys.
        """
        if doc_id is not None and len(doc_id) > IDENTIFIER_CHARS:  # of any length: never cached
            return self._build(tenant_id, doc_id)
        return self._cached(tenant_id, doc_id)

    def _build(self, tenant_id: str, doc_id: str | None) -> Sequence[Budget]:
        window_s = self.window_s
        tenant = f"{{{len(tenant_id)}:{tenant_id}}}"
        budgets = [
            Budget(charged_to, unit, limit, window_s, begin + tenant)
            for charged_to, unit, limit, begin in self._tenant
        ]
        if doc_id is not None:
            document = tenant + _document_suffix(doc_id)
            budgets[:0] = [
                Budget(charged_to, unit, limit, window_s, begin + document)
                for charged_to, unit, limit, begin in self._document
            ]
        return budgets


def _document_suffix(doc_id: str) -> str:
    """Return what follows the tenant in the keys of a document's budgets.

    A downstream tool's ``doc_id`` may have any length: 150 calls with 1 MB each took 1.2 GB of keys
    in memory. So one that is longer than an identifier is hashed.
    """
    if len(doc_id) <= IDENTIFIER_CHARS:
        return f":{doc_id}"
    return "#" + sha256(doc_id.encode(errors="surrogatepass")).hexdigest()
