from collections.abc import Sequence
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.budget import CallField, ChargedCall, LimitRule
from mcp_tools_proxy.ratelimit.budget_rules import MAX_CACHED, BudgetLimits, CallBudgets
from tests.unit.ratelimit.limit_rules import UNLIMITED, rule

CALL = ChargedCall("acme", "ann", "reader", "tickets", "tickets:find", "doc")
SETTINGS = BudgetLimits(
    document_calls=1, document_tokens=1, tenant_calls=1, tenant_tokens=1, window_s=60
)


def names(rules: Sequence[LimitRule], call: ChargedCall = CALL) -> list[str]:
    return [budget.name for budget in CallBudgets(UNLIMITED, rules).applying_to(call)]


def keys(rules: Sequence[LimitRule], call: ChargedCall) -> set[str]:
    return {budget.key for budget in CallBudgets(UNLIMITED, rules).applying_to(call)}


def test_a_rule_without_conditions_applies_to_all_calls() -> None:
    assert names([rule(calls=1)], ChargedCall("a")) == ["rule"]


def test_every_condition_must_match() -> None:
    exact = {
        field: frozenset({value}) for field, value in zip(CallField, map(str, CALL), strict=True)
    }
    other = frozenset({"other"})
    wrong = [replace(rule(calls=1), match={**exact, field: other}) for field in exact]
    assert names([replace(rule("all", calls=1), match=exact), *wrong]) == ["all"]


def test_one_matching_value_of_several_is_enough() -> None:
    assert names([rule(calls=1, tenant="other acme")]) == ["rule"]


def test_a_tool_is_matched_by_name_and_alias() -> None:
    rules = [rule("full", calls=1, tool="tickets:find"), rule("bare", calls=1, tool="find")]
    assert names([*rules, rule("other", calls=1, tool="notes:find")]) == ["full", "bare"]


def test_a_rule_for_tools_does_not_apply_to_prompts() -> None:
    prompt = ChargedCall("acme", server_id="tickets")
    rules = [rule("tool", calls=1, tool="find"), rule("server", calls=1, server="tickets")]
    assert names(rules, prompt) == ["server"]


def test_a_rule_for_documents_applies_to_calls_with_a_document() -> None:
    rules = [
        rule("match", calls=1, document="doc"),
        rule("each", calls=1, each="document"),
        rule("other", calls=1),
    ]
    assert (names(rules), names(rules, CALL._replace(doc_id=None))) == (
        ["match", "each", "other"],
        ["other"],
    )


def test_rules_apply_in_addition_to_settings_and_documents_come_first() -> None:
    rules = [rule("of_all", calls=1, tokens=1), rule("of_documents", calls=1, each="document")]
    assert [
        (budget.name, budget.charged_to, budget.unit)
        for budget in CallBudgets(SETTINGS, rules).applying_to(CALL)
    ] == [
        ("document_calls", "document", "calls"),
        ("document_tokens", "document", "tokens"),
        ("of_documents", "document", "calls"),
        ("tenant_calls", "tenant", "calls"),
        ("tenant_tokens", "tenant", "tokens"),
        ("of_all", "tenant", "calls"),
        ("of_all", "tenant", "tokens"),
    ]


def test_a_budget_has_the_path_of_its_rule() -> None:
    budgets = CallBudgets(SETTINGS, [rule(calls=1)]).applying_to(ChargedCall("a"))
    assert [budget.source for budget in budgets] == [
        RuleSource("settings", "MCP_PROXY_RATE_LIMIT_TENANT_CALLS"),
        RuleSource("settings", "MCP_PROXY_RATE_LIMIT_TENANT_TOKENS"),
        RuleSource("limits.json", "$.rule"),
    ]


IDS = st.text("ab:{}-#/,1", min_size=0, max_size=4)
NAMES = st.text("ab", min_size=1, max_size=2)


@st.composite
def calls(draw: st.DrawFn) -> ChargedCall:
    optional = st.none() | NAMES
    server, bare = draw(optional), draw(optional)
    tool = bare if bare is None or server is None else f"{server}:{bare}"
    return ChargedCall(draw(NAMES), draw(NAMES), draw(optional), server, tool, draw(optional))


def matches(rule: LimitRule, call: ChargedCall) -> bool:
    """Match a rule by comparing each condition."""
    values = dict(zip(CallField, ({it} for it in call), strict=True))
    if call.tool and call.server_id:
        values[CallField.TOOL] = {call.tool, call.tool.partition(":")[2]}
    return all(values[field] & wanted for field, wanted in rule.match.items()) and (
        call.doc_id is not None or not rule.is_of_documents
    )


@given(
    conditions=st.lists(
        st.dictionaries(st.sampled_from(CallField), st.frozensets(NAMES, min_size=1)), max_size=8
    ),
    each=st.frozensets(st.sampled_from(CallField)),
    called=st.lists(calls(), min_size=1, max_size=4),
)
def test_the_found_rules_equal_those_matched_one_by_one(
    conditions: list[dict[CallField, frozenset[str]]],
    each: frozenset[CallField],
    called: list[ChargedCall],
) -> None:
    rules = [
        LimitRule(
            name=str(place),
            match=match,
            each=each,
            calls=1,
            tokens=0,
            window_s=60,
            source=RuleSource("limits.json", "$"),
        )
        for place, match in enumerate(conditions)
    ]
    budgets = CallBudgets(UNLIMITED, rules)
    for call in called * 2:
        found = {budget.name for budget in budgets.applying_to(call)}
        assert found == {rule.name for rule in rules if matches(rule, call)}


@given(each=st.frozensets(st.sampled_from(CallField)), one=st.tuples(*[IDS] * 6), other=st.data())
def test_a_rule_has_separate_counters_for_each_value_of_its_fields(
    each: frozenset[CallField], one: tuple[str, ...], other: st.DataObject
) -> None:
    first = ChargedCall(*one)
    second = ChargedCall(*other.draw(st.tuples(*[st.sampled_from(one) | IDS] * 6)))
    counted = set(each)
    if counted & {CallField.USER, CallField.DOCUMENT}:
        counted.add(CallField.TENANT)
    places = [place for place, field in enumerate(CallField) if field in counted]
    is_same = all(first[place] == second[place] for place in places)
    rules = [rule(calls=1, tokens=1, each=" ".join(each))]
    assert (keys(rules, first) == keys(rules, second)) is is_same
    assert bool(keys(rules, first) & keys(rules, second)) is is_same


@given(IDS, IDS)
def test_calls_without_an_agent_have_a_separate_counter(agent: str, tool: str) -> None:
    rules = [rule(calls=1, each="agent tool")]
    with_agent = keys(rules, ChargedCall("a", agent=agent, tool=tool))
    assert not with_agent & keys(rules, ChargedCall("a", tool=tool))


@given(tenant=IDS, other=IDS)
def test_users_and_documents_of_two_tenants_never_share_a_counter(tenant: str, other: str) -> None:
    assume(tenant != other)
    rules = [
        rule("user", calls=1, each="user"),
        rule("document", calls=1, each="document"),
        rule("one_user", calls=1, user="u"),
        rule("one_document", calls=1, document="d"),
    ]
    of_one, of_other = (keys(rules, ChargedCall(it, "u", doc_id="d")) for it in (tenant, other))
    assert (len(of_one), of_one & of_other) == (4, set())


def test_without_each_all_matching_calls_share_one_counter() -> None:
    rules = [rule(calls=1, server="tickets")]
    other = CALL._replace(tenant_id="other", user_id="bob")
    assert keys(rules, CALL) == keys(rules, other)


def test_rules_with_different_limits_names_or_fields_have_separate_counters() -> None:
    variants = [
        rule("a", calls=1),
        rule("b", calls=1),
        rule("a", calls=2),
        rule("a", tokens=1),
        rule("a", calls=1, window_s=61),
        rule("a", calls=1, each="agent"),
        rule("a", calls=1, each="tool"),
        rule("tenant_calls", calls=1),
        rule("tenant", calls=1),
    ]
    call = CALL._replace(agent="x", tool="x", server_id=None)
    found = [keys([one], call) for one in variants]
    of_settings = {budget.key for budget in CallBudgets(SETTINGS).applying_to(CALL)}
    assert len(set.union(*found, of_settings)) == len(variants) + 4


def test_long_values_have_short_distinct_keys() -> None:
    rules = [rule(calls=1, each="document tool")]
    long_ids = ["x" * 1_000_000, "x" * 1_000_001, "\udc00" * 257]
    found = [keys(rules, ChargedCall("a", tool="t", doc_id=doc_id)) for doc_id in long_ids]
    assert len(set.union(*found)) == 3
    assert max(len(key) for group in found for key in group) < 200


def test_the_cache_of_keys_is_bounded_and_correct() -> None:
    budgets = CallBudgets(UNLIMITED, [rule(calls=1, each="user")])
    users = [f"user {number}" for number in range(MAX_CACHED + 10)]
    seen = [budgets.applying_to(ChargedCall("a", user))[0].key for user in users * 2]
    assert (len(set(seen)), seen[: len(users)]) == (len(users), seen[len(users) :])
