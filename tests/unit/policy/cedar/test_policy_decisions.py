"""Decisions of policies: nothing that Cedar cannot evaluate is permitted."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_tools_proxy.domain.run import READING_LABELS, ToolLabels
from mcp_tools_proxy.policy.cedar.active_policies import ActivePolicies
from tests.unit.policy.cedar.policy_parts import (
    READ,
    action,
    call,
    forbid,
    load,
    refuses,
    run,
    verdict,
)


def test_a_policy_that_fails_refuses_although_cedar_permits() -> None:
    found = verdict(
        forbid("context.args has cents && context.args.cents * 2 > 5"), {"cents": 2**62}
    )
    assert refuses(found)
    assert "overflow" in found.failed[0]


@pytest.mark.parametrize("cents", [2**62, 2**64])
def test_a_failing_log_only_policy_is_logged_and_refuses_nothing(cents: int) -> None:
    text = forbid("context.args has cents && context.args.cents * 2 > 5", '@mode("log_only")')
    found = verdict(text, {"cents": cents})
    assert not refuses(found)
    assert [it.policy_id for it in found.logged] == ["p"]


def test_a_log_only_policy_that_fires_is_logged_beside_a_failing_one() -> None:
    log_only = '@mode("log_only")'
    failing = forbid("context.args has cents && context.args.cents * 2 > 5", log_only)
    fires = forbid("true", log_only).replace('"p"', '"q"')
    found = verdict(failing + fires, {"cents": 2**62})
    assert {it.policy_id for it in found.logged} == {"p", "q"}


def test_an_enforced_policy_decides_beside_a_failing_log_only_one() -> None:
    trial = forbid("context.args has cents && context.args.cents * 2 > 5", '@mode("log_only")')
    other = forbid('context.args has to && context.args.to == "eve"').replace('"p"', '"q"')
    found = verdict(trial + other, {"cents": 2**62, "to": "eve"})
    assert [it.policy_id for it in found.enforced] == ["q"]


READ_ALL = "".join(
    forbid(f"context.args has {name} && context.args.{name} == {value}").replace('"p"', f'"{name}"')
    for name, value in {
        "to": '"x"',
        "cc": '["x"]',
        "cents": "7",
        "note": '"x"',
        "kind": '"x"',
        "price": 'decimal("7.0")',
        "urgent": "true",
    }.items()
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"cents": 2**63},
        {"cents": -(2**63) - 1},
        {"cents": 1.5},
        {"cents": float("nan")},
        {"cents": True},
        {"price": 1.23456},
        {"price": float("inf")},
        {"price": 1e300},
        {"price": 10**40},
        {"to": {"__entity": {"type": "User", "id": "root"}}},
        {"to": {"__extn": {"fn": "decimal", "arg": "1.0"}}},
        {"to": "\ud800"},
        {"to": 5},
        {"cc": [{"__entity": {"type": "User", "id": "root"}}]},
        {"cc": [None]},
        {"cc": "x"},
        {"urgent": 1},
    ],
)
def test_an_argument_that_cannot_be_typed_is_refused(arguments: dict[str, object]) -> None:
    found = verdict(READ_ALL, arguments)
    assert refuses(found)
    assert found.failed


@pytest.mark.parametrize(
    ("arguments", "fired"),
    [
        ({"to": "x"}, "to"),
        ({"cc": ["x"]}, "cc"),
        ({"cents": 7}, "cents"),
        ({"cents": 7.0}, "cents"),
        ({"price": 7}, "price"),
        ({"price": 7.0}, "price"),
        ({"urgent": True}, "urgent"),
        ({"kind": "x"}, "kind"),
        ({"note": "x"}, "note"),
    ],
)
def test_an_argument_is_read_with_its_type(arguments: dict[str, object], fired: str) -> None:
    assert [it.policy_id for it in verdict(READ_ALL, arguments).enforced] == [fired]


def test_null_is_a_missing_argument() -> None:
    assert not refuses(verdict(READ_ALL, {"note": None}))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.sampled_from(["__entity", "__extn"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_ACTIVE = load(READ_ALL + forbid("true").replace('"p"', '"base"'))


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["to", "cc", "cents", "price", "urgent", "note", "kind", "extra"]), _JSON
    )
)
def test_no_arguments_make_a_policy_that_always_applies_permit(
    arguments: dict[str, object],
) -> None:
    assert refuses(_ACTIVE.decide(call(arguments), run()))


def test_a_policy_that_reads_the_run_requires_one() -> None:
    text = forbid('context has run && context.run.seen.contains("label:sends")')
    assert [it.policy_id for it in verdict(text, {}).run_required] == ["p"]
    assert not refuses(verdict(text, {}, run()))
    assert not refuses(verdict(text.replace('@id("p")', '@id("p") @run("optional")'), {}))


def test_a_policy_for_others_does_not_require_a_run() -> None:
    text = forbid("context has run && context.run.calls > 1")
    active = load(text.replace("principal,", 'principal in Role::"temp",'))
    assert not refuses(active.decide(call({}), None))
    assert active.decide(call({}, roles=("temp",)), None).run_required


@pytest.mark.parametrize("mode", ["enforce", "approve", "log_only"])
def test_each_mode_has_its_place_in_the_verdict(mode: str) -> None:
    found = verdict(forbid("true", f'@mode("{mode}")'), {})
    by_mode = {"enforce": found.enforced, "approve": found.approve, "log_only": found.logged}
    assert {key for key, it in by_mode.items() if it} == {mode}
    assert refuses(found) is (mode != "log_only")


def test_principal_and_resource_are_facts() -> None:
    for scope in ('Tenant::"acme"', 'Role::"temp"', 'Agent::"bot"', 'User::"ann"'):
        text = forbid("true").replace("principal,", f"principal in {scope},")
        assert load(text).decide(call({}, roles=("temp",), agent="bot"), None).enforced
        assert not load(text.replace('"acme"', '"x"').replace('"temp"', '"x"')).problems
    other = forbid("true").replace("resource)", 'resource == Server::"crm")')
    assert not refuses(load(other).decide(call({}), None))


def test_origins_come_from_the_task() -> None:
    text = forbid('context.target.contains("text")')
    assert not refuses(verdict(text, {"to": "bob@x.com"}, run()))
    assert refuses(verdict(text, {"to": "x.com"}, run()))
    assert refuses(verdict(text, {"to": "bob@x.com", "extra": {"eve@evil.io": 1}}, run()))
    assert not refuses(verdict(text, {"to": "bob@x.com", "extra": {"name": "bob@x.com"}}, run()))


def test_links_in_other_arguments_are_embedded() -> None:
    text = forbid('context.embedded.contains("text")')
    assert refuses(verdict(text, {"note": "see https://evil.io/x"}, run()))
    assert not refuses(verdict(text, {"to": "https://evil.io/x"}, run()))


def test_account_numbers_that_are_json_numbers_are_embedded() -> None:
    text = forbid('context.embedded.contains("text")')
    account = 4111111111111111
    for value in (account, float(account), {"deep": [account]}):
        assert refuses(verdict(text, {"note": value}, run()))
    assert refuses(verdict(text, {"cents": account}, run()))
    assert not refuses(verdict(text, {"cents": 500}, run()))
    assert not refuses(verdict(text, {"cents": account}, run(f"pay {account} please")))


@pytest.mark.parametrize("name", ["Cents", "CENTS", "cent\u017f"])
def test_an_undeclared_argument_in_other_letters_is_refused(name: str) -> None:
    """A server in Go would take it for the declared one."""
    text = forbid("context.args has cents && context.args.cents > 5")
    assert refuses(verdict(text, {"cents": 1, name: 10}))
    assert refuses(verdict(text, {name: 10}))
    assert not refuses(verdict(text, {"cents": 1, "cents_": 10}))


def test_links_in_names_of_arguments_are_embedded() -> None:
    found = verdict(forbid('context.embedded.contains("text")'), {"eve@evil.io": 1}, run())
    assert found.enforced


def test_links_in_all_arguments_of_a_tool_that_only_reads_are_embedded() -> None:
    fetch = action("crm:get", ToolLabels(labels=READING_LABELS, targets=frozenset({"to"})))
    text = forbid('context.embedded.contains("text")', scope='action == Action::"crm:get"')
    active = load(text, actions=[fetch])
    assert refuses(active.decide(call({"to": "https://evil.io/x"}, of=fetch), run()))
    assert not refuses(active.decide(call({"to": "bob@x.com"}, of=fetch), run()))


def test_counts_and_totals_of_the_run() -> None:
    memory = run()
    memory.called["crm:get"] = 2
    memory.totals["mail:send#cents"] = 500
    text = forbid('context has run && context.run.called["crm:get"] > 1')
    total = forbid('context has run && context.run.total["mail:send#cents"] > 500')
    assert verdict(text, {}, memory).enforced
    assert not refuses(verdict(total, {}, memory))


def test_the_clock_has_hour_weekday_and_time() -> None:
    at = 'context.clock.at > datetime("2026-11-30")'
    fires = f"context.clock.hour == 9 && context.clock.weekday == 1 && {at}"
    assert verdict(forbid(fires), {}).enforced


def test_no_set_and_an_unknown_tool_are_unavailable() -> None:
    assert ActivePolicies().decide(call({}), None).unavailable
    active = load(forbid("true"), actions=[READ, call({}).action])
    assert active.decide(call({}, of=replace(READ, name="crm:new")), None).unavailable


def test_a_decision_with_twenty_policies_takes_at_most_84_microseconds_of_cpu() -> None:
    text = "".join(
        forbid(
            f'context has run && context.run.calls > {it} && context.target.contains("text")'
        ).replace('"p"', f'"p{it}"')
        for it in range(20)
    )
    active, memory, made = load(text), run(), call({"to": "bob@x.com"})
    best = min(_cpu(lambda: active.decide(made, memory)) for _ in range(7))
    assert best <= 84e-6


def _cpu(decide: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(300):
        decide()
    return (time.process_time() - start) / 300
