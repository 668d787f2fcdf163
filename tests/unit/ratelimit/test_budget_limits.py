from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.ratelimit.budget_rules import Budget, BudgetLimits, CallBudgets

# Identifiers that consist of possible separators collide first.
IDS = st.text(min_size=1, max_size=8) | st.text("a:/1% \N{SNOWMAN}", min_size=1, max_size=6)


def budgets(
    calls: int = 10, tokens: int = 2000, window_s: int = 60, tenant: int = 10
) -> BudgetLimits:
    return BudgetLimits(
        document_calls=calls,
        document_tokens=tokens,
        tenant_calls=tenant,
        tenant_tokens=tenant,
        window_s=window_s,
    )


def applying(of: BudgetLimits, tenant_id: str = "a", doc_id: str | None = "b") -> Sequence[Budget]:
    return CallBudgets(of).applying_to(ChargedCall(tenant_id, doc_id=doc_id))


def keys(of: BudgetLimits, tenant_id: str, doc_id: str | None) -> set[str]:
    return {budget.key for budget in applying(of, tenant_id, doc_id)}


@pytest.mark.requirement("T-08")
def test_a_document_call_uses_the_budgets_of_document_and_tenant() -> None:
    names = [budget.name for budget in applying(budgets())]
    assert names == ["document_calls", "document_tokens", "tenant_calls", "tenant_tokens"]


@pytest.mark.requirement("T-08")
def test_a_call_without_a_document_uses_only_the_tenants_budgets() -> None:
    names = [budget.name for budget in applying(budgets(), "a", None)]
    assert names == ["tenant_calls", "tenant_tokens"]


@pytest.mark.requirement("T-08")
def test_a_budget_of_zero_is_disabled() -> None:
    names = [budget.name for budget in applying(budgets(calls=0, tenant=0))]
    assert names == ["document_tokens"]


@pytest.mark.requirement("T-08")
def test_a_colon_in_an_id_does_not_mix_tenant_and_document() -> None:
    assert not keys(budgets(tenant=0), "a", "b:c") & keys(budgets(tenant=0), "a:b", "c")


@pytest.mark.requirement("T-08")
def test_long_document_ids_have_short_distinct_keys() -> None:
    """A downstream tool's ``doc_id`` can be as long as a request's body."""
    long_ids = ["\N{SNOWMAN}" * 1_000_000, "\N{SNOWMAN}" * 1_000_001, "\udc00" * 257]
    of = budgets(tenant=0)
    found = [keys(of, "a", doc_id) for doc_id in long_ids]
    assert len(set.union(*found)) == 2 * len(long_ids)
    assert max(len(key) for group in found for key in group) < 200
    assert not set.union(*found) & keys(of, "a", next(iter(found[0])).rpartition("#")[2])


@pytest.mark.requirement("T-08")
@given(IDS, IDS, IDS, IDS)
def test_different_pairs_never_share_a_document_budget(
    tenant: str, document: str, other_tenant: str, other_document: str
) -> None:
    assume((tenant, document) != (other_tenant, other_document))
    of = budgets(tenant=0)
    assert not keys(of, tenant, document) & keys(of, other_tenant, other_document)


@pytest.mark.requirement("T-08")
@given(IDS, IDS)
def test_different_tenants_never_share_a_budget(tenant: str, other: str) -> None:
    assume(tenant != other)
    assert not keys(budgets(), tenant, None) & keys(budgets(), other, None)


@given(IDS, IDS)
def test_the_budgets_of_a_call_have_four_counters_even_with_equal_limits(
    tenant: str, document: str
) -> None:
    assert len(keys(budgets(calls=10, tokens=10, tenant=10), tenant, document)) == 4


def test_a_changed_window_length_uses_a_new_counter() -> None:
    assert not keys(budgets(window_s=60), "a", "b") & keys(budgets(window_s=30), "a", "b")


def test_a_changed_limit_uses_a_new_counter() -> None:
    """Otherwise a lowered limit would count the calls that the higher one admitted."""
    assert not keys(budgets(10, 10, tenant=10), "a", "b") & keys(
        budgets(20, 20, tenant=20), "a", "b"
    )


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="0 switches it off"):
        budgets(calls=-1)


def test_a_window_of_zero_length_is_refused() -> None:
    with pytest.raises(ValueError, match="window_s"):
        budgets(window_s=0)


def test_the_shortest_window_is_one_second() -> None:
    assert {budget.window_s for budget in applying(budgets(window_s=1))} == {1}
