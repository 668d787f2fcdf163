from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.budget import BudgetStatus, ChargedCall, LimitRules
from mcp_tools_proxy.domain.errors import LimitsUnavailable, RateLimitExceeded
from mcp_tools_proxy.ratelimit.budget_rules import BudgetLimits
from mcp_tools_proxy.ratelimit.limiter import Limiter
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.virtual_time import ManualClock
from tests.unit.ratelimit.limit_rules import limiter_of, rule

CALL = ChargedCall("a", doc_id="b")


async def status(limiter: Limiter, tokens: int = 0, call: ChargedCall = CALL) -> BudgetStatus:
    """Return the budget shown for one call."""
    admission = await limiter.admit(call)
    await limiter.charge_tokens(admission, tokens)
    shown = admission.status_after(tokens)
    assert shown is not None
    return shown


async def refusal(limiter: Limiter, call: ChargedCall = CALL) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        await limiter.admit(call)
    return caught.value


async def left(limiter: Limiter, call: ChargedCall = CALL) -> dict[tuple[str, str], int]:
    readings = await limiter.peek(call)
    return {(it.budget.name, it.budget.unit): it.remaining for it in readings}


async def test_the_budget_with_the_smallest_share_left_is_shown() -> None:
    limits = BudgetLimits(
        document_calls=10, document_tokens=1000, tenant_calls=100, tenant_tokens=1000, window_s=60
    )
    limiter = limiter_of([], limits)
    shown = [await status(limiter, tokens) for tokens in (50, 500)]
    assert [it.as_json for it in shown] == [
        {"name": "document_calls", "remaining_calls": 9, "reset_s": 60},
        {"name": "document_tokens", "remaining_tokens": 450, "reset_s": 60},
    ]


async def test_both_budgets_of_a_rule_with_calls_and_tokens_are_shown() -> None:
    limiter = limiter_of([rule(calls=10, tokens=100)])
    assert [(await status(limiter, tokens)).as_json for tokens in (5, 15)] == [
        {"name": "rule", "remaining_calls": 9, "remaining_tokens": 95, "reset_s": 60},
        {"name": "rule", "remaining_calls": 8, "remaining_tokens": 80, "reset_s": 60},
    ]


async def test_reset_is_the_remaining_window_in_whole_seconds() -> None:
    clock = ManualClock()
    limiter = limiter_of([rule(calls=10)], clock=clock)
    resets = [(await status(limiter)).reset_s]
    clock.now += 19.5
    assert [*resets, (await status(limiter)).reset_s] == [60, 41]


async def test_an_uncharged_budget_does_not_need_a_reset() -> None:
    limiter = limiter_of([rule(tokens=10)])
    assert [(await status(limiter, tokens)).reset_s for tokens in (0, 1)] == [0, 60]


async def test_overdrawn_tokens_are_shown_as_zero_left() -> None:
    assert (await status(limiter_of([rule(tokens=10)]), 50)).remaining_tokens == 0


async def test_without_budgets_nothing_is_shown() -> None:
    assert (await limiter_of([]).admit(CALL)).status_after(10) is None


async def test_a_refusal_shows_the_exhausted_budget() -> None:
    clock = ManualClock()
    limiter = limiter_of([rule("wide", calls=9), rule("used_up", calls=1, tokens=9)], clock=clock)
    await status(limiter, 4)
    clock.now += 10.5
    shown = (await refusal(limiter)).budget
    assert shown is not None
    assert shown.as_json == {
        "name": "used_up",
        "remaining_calls": 0,
        "remaining_tokens": 5,
        "reset_s": 50,
    }


async def test_a_refusal_by_a_rule_names_the_rule_and_its_path() -> None:
    limiter = limiter_of([rule("nightly", calls=1)])
    await status(limiter)
    error = await refusal(limiter)
    assert (error.message, error.details, error.rule) == (
        "the budget nightly of 1 calls in 60 s is used up; retry in 60 s",
        {"budget": "nightly", "limit": 1, "window_s": 60},
        RuleSource("limits.json", "$.nightly"),
    )


async def test_a_refusal_is_counted_with_the_name_of_its_rule() -> None:
    metrics = Metrics()
    limiter = limiter_of([rule("nightly", calls=1)], metrics=metrics)
    await status(limiter)
    await refusal(limiter)
    labels = {"budget": "nightly"}
    assert metrics.registry.get_sample_value("mcp_proxy_rate_limit_refusals_total", labels) == 1


async def test_tenant_budgets_are_checked_before_document_budgets() -> None:
    limiter = limiter_of(
        [rule("of_documents", calls=1, each="document", window_s=90), rule("of_all", calls=1)]
    )
    await status(limiter)
    assert (await refusal(limiter)).details == {"budget": "of_all", "limit": 1, "window_s": 60}


async def test_each_rule_has_a_separate_window_length() -> None:
    clock = ManualClock()
    limiter = limiter_of([rule("short", calls=2, window_s=10), rule("long", calls=3)], clock=clock)
    refused = []
    for _ in range(3):
        await status(limiter)
        try:
            await status(limiter)
        except RateLimitExceeded as error:
            refused.append(str((error.details or {})["budget"]))
            break
        refused.append(str(((await refusal(limiter)).details or {})["budget"]))
        clock.now += 10
    assert refused == ["short", "long"]


async def test_reapplied_rules_keep_their_counters() -> None:
    limiter = limiter_of([rule(calls=2)])
    await status(limiter)
    limiter.apply_rules(LimitRules(rules=(rule("other", calls=9), rule(calls=2))))
    assert await left(limiter) == {("other", "calls"): 9, ("rule", "calls"): 1}


async def test_a_removed_rule_does_not_refuse_calls() -> None:
    limiter = limiter_of([rule(calls=1)])
    await status(limiter)
    limiter.apply_rules(LimitRules())
    assert (await limiter.admit(CALL)).status_after(0) is None


async def test_while_the_rules_are_unknown_calls_are_refused() -> None:
    limiter = limiter_of([])
    limiter.apply_rules(None)
    with pytest.raises(LimitsUnavailable, match="ask an operator to fix it"):
        await limiter.admit(CALL)


async def test_peeking_does_not_charge_budgets() -> None:
    limiter = limiter_of([rule(calls=3, tokens=100)])
    await status(limiter, 30)
    seen = [await left(limiter) for _ in range(5)]
    assert seen == [{("rule", "calls"): 2, ("rule", "tokens"): 70}] * 5


RULES = [
    rule("all", calls=12, tokens=90),
    rule("user", calls=5, each="user", window_s=7),
    rule("document", tokens=25, each="document", window_s=30),
    rule("agent", calls=4, agent="x", window_s=90),
]
CALLS = st.builds(
    ChargedCall,
    tenant_id=st.sampled_from("ab"),
    user_id=st.sampled_from("uv"),
    agent=st.sampled_from([None, "x"]),
    doc_id=st.sampled_from([None, "d", "e"]),
)


@given(st.lists(st.tuples(CALLS, st.integers(0, 20), st.integers(0, 9)), max_size=40))
async def test_the_shown_budget_is_correct_and_has_the_smallest_share_left(
    called: Sequence[tuple[ChargedCall, int, int]],
) -> None:
    clock = ManualClock()
    limiter = limiter_of(RULES, clock=clock)
    for call, tokens, later in called:
        clock.now += later
        try:
            shown = await status(limiter, tokens, call)
        except RateLimitExceeded:
            continue
        readings = await limiter.peek(call)
        of_shown = [it for it in readings if it.budget.name == shown.name]
        assert {it.budget.unit: it.remaining for it in of_shown} == {
            unit: remaining
            for unit, remaining in (
                ("calls", shown.remaining_calls),
                ("tokens", shown.remaining_tokens),
            )
            if remaining is not None
        }
        least = min(it.remaining / it.budget.limit for it in readings)
        assert shown.remaining / shown.limit == least


@given(calls=st.integers(1, 20), limit=st.integers(1, 20))
async def test_concurrent_calls_never_see_more_than_the_remainder(calls: int, limit: int) -> None:
    limiter = limiter_of([rule(calls=limit)])
    admitted = [await limiter.admit(CALL) for _ in range(min(calls, limit))]
    shown = [admission.status_after(0) for admission in admitted]
    remaining = [it.remaining_calls for it in shown if it is not None]
    assert remaining == [limit - 1 - place for place in range(len(admitted))]
