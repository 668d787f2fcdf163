"""What budgets are charged for, the rules of limits.json, and what a caller sees of a budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from mcp_tools_proxy.domain.audit import RuleSource

Unit = Literal["calls", "tokens"]


class ChargedCall(NamedTuple):
    """All of a call that rules of budgets match; its fields are those of ``CallField``.

    ``user_id`` is empty where the user is unknown. ``tool`` is the name in lists, with the server's
    id in front; None for a prompt or a resource. ``server_id`` is None for what is no server's,
    ``doc_id`` for a call that names no document.
    """

    tenant_id: str
    user_id: str = ""
    agent: str | None = None
    server_id: str | None = None
    tool: str | None = None
    doc_id: str | None = None


class CallField(StrEnum):
    """The fields of a call by which a rule of limits.json matches, and counts apart.

    They are in the order of ``ChargedCall``.
    """

    TENANT = "tenant"
    USER = "user"
    AGENT = "agent"
    SERVER = "server"
    TOOL = "tool"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """One rule of limits.json: a budget for the calls that ``match``; 0 is no limit of that unit.

    Each field of ``match`` has the values that it may have. For each value of the fields in
    ``each`` the rule counts apart.
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
        """Whether the rule concerns only calls that name a document."""
        return CallField.DOCUMENT in self.match or CallField.DOCUMENT in self.each


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRules:
    """Contents of ``limits.json``; the default stands for a missing file."""

    rules: tuple[LimitRule, ...] = ()


class BudgetStatus(NamedTuple):
    """What is left of the budget that has the smallest share left, once a call was charged to it.

    A rule may limit calls and tokens: then both remain. The other fields describe the one of the
    two that has the smaller share left.
    """

    name: str
    remaining_calls: int | None
    remaining_tokens: int | None
    reset_s: int
    """Whole seconds until all of the budget is there again; 0 if nothing was charged to it."""
    unit: Unit
    limit: int
    window_s: int

    @property
    def remaining(self) -> int:
        """What is left of ``limit``."""
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
