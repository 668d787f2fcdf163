"""The budgets of each call: those of the settings, and those of the rules of limits.json. Pure."""

from collections.abc import Sequence
from operator import itemgetter

from mcp_tools_proxy.domain.limits.budget import ChargedCall, LimitRule
from mcp_tools_proxy.ratelimit.budget_limits import MAX_CACHED, Budget, BudgetLimits
from mcp_tools_proxy.ratelimit.rule_index import RuleIndex
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
