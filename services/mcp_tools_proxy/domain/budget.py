"""Budgets: rules of limits.json, the attributes they match, and the status shown to callers."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import NO_QUOTA, RunQuota

Unit = Literal["calls", "tokens"]


class ChargedCall(NamedTuple):
    """The attributes of a call that budget rules match; the fields are those of ``CallField``.

    Unknown users are "". ``tool`` is the qualified name, None for prompts and resources. Local
    components lack ``server_id``, and calls without a document ``doc_id``.
    """

    tenant_id: str
    user_id: str = ""
    agent: str | None = None
    server_id: str | None = None
    tool: str | None = None
    doc_id: str | None = None


class CallField(StrEnum):
    """The fields of a call that a rule of limits.json can match, or count separately.

    The order is that of ``ChargedCall``.
    """

    TENANT = "tenant"
    USER = "user"
    AGENT = "agent"
    SERVER = "server"
    TOOL = "tool"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """One rule of limits.json: a budget for matching calls; 0 means unlimited.

    ``match`` maps fields to accepted values. Each value of the fields in ``each`` has a separate
    count.
    """

    name: str
    match: Mapping[CallField, frozenset[str]]
    each: frozenset[CallField]
    calls: int
    tokens: int
    window_s: int
    source: RuleSource

    @property
    def is_of_documents(self) -> bool:
        """Whether the rule applies only to calls that name a document."""
        return CallField.DOCUMENT in self.match or CallField.DOCUMENT in self.each


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRules:
    """Contents of ``limits.json``; the default represents a missing file."""

    rules: tuple[LimitRule, ...] = ()
    run: RunQuota = NO_QUOTA
    """Limits of each run."""


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """Status of the charged budget with the smallest remaining share, after a call.

    If a rule limits calls and tokens, both remainders are set; the other fields describe the one
    with the smaller share.
    """

    name: str
    remaining_calls: int | None
    remaining_tokens: int | None
    reset_s: int
    """Whole seconds until the budget is full again; 0 if nothing was charged to it."""
    unit: Unit
    limit: int
    window_s: int

    @property
    def remaining(self) -> int:
        """The remaining part of ``limit``."""
        left = self.remaining_calls if self.unit == "calls" else self.remaining_tokens
        return left or 0

    @property
    def as_json(self) -> dict[str, object]:
        """The budget as callers receive it, without empty fields (contract §1)."""
        shown: dict[str, object] = {"name": self.name}
        if self.remaining_calls is not None:
            shown["remaining_calls"] = self.remaining_calls
        if self.remaining_tokens is not None:
            shown["remaining_tokens"] = self.remaining_tokens
        shown["reset_s"] = self.reset_s
        return shown
