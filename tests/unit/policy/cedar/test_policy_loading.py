"""Policies at load: misspelt names, states, and text that would crash Cedar's parser."""

from dataclasses import replace

import pytest

from mcp_tools_proxy.domain.run import ToolLabels
from mcp_tools_proxy.policy.cedar.active_policies import load_policies
from mcp_tools_proxy.policy.cedar.condition_facts import InvalidPolicy
from mcp_tools_proxy.policy.cedar.fact_schema import schema_text
from mcp_tools_proxy.policy.cedar.written_policy import read_policies
from tests.unit.policy.cedar.policy_parts import (
    READ,
    SEND,
    action,
    call,
    forbid,
    load,
    refuses,
    run,
)


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("context.args has nte", '"nte" is not an argument'),
        ("context has rnu", 'did you mean "run"'),
        ('context has run && context.run.seen.contains("label:send")', '"label:sends"'),
        ('context.target.contains("txt")', '"text"'),
        ('context.origin.to.containsAny(["crm:get#di"])', '"crm:get#id"'),
        ('context has run && context.run.called["crm:gte"] > 0', '"crm:get"'),
        ('context has run && context.run.total["mail:send#cent"] > 0', '"mail:send#cents"'),
        ('"apii" == context.entry', '"api"'),
        ('resource == Server::"mali"', '"mail"'),
        ('resource in [Server::"crm", Server::"cmr"]', '"cmr" is not a server'),
        ('action == Action::"mail:sned"', '"mail:send"'),
        ("context.args.to == 5", "type"),
        ("context.args.cents > 5", "optional attribute"),
    ],
)
def test_a_misspelt_name_is_a_problem(condition: str, problem: str) -> None:
    active = load(forbid(condition))
    assert problem in " ".join(it.problem for it in active.problems)
    assert active.decide(call({}), run()).unavailable


@pytest.mark.parametrize(
    "condition",
    [
        *("context == context", "context.run == context.run", "principal has x"),
        *("(if true then context.run else context.run).calls > 1", "{a: context.args}.a has to"),
    ],
)
def test_whole_records_and_other_uses_of_has_are_refused(condition: str) -> None:
    with pytest.raises(InvalidPolicy):
        load(forbid(condition))


@pytest.mark.parametrize(
    "text",
    [
        *("forbid(principal, action, resource);", '@id("p") permit(principal, action, resource);'),
        *(
            forbid("true", '@mode("of")'),
            forbid("true", '@run("no")'),
            forbid("true", '@massage("")'),
        ),
        *("forbid(", "\0", "\ud800"),
    ],
)
def test_an_invalid_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidPolicy):
        list(read_policies("a.cedar", text))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("// a\n\nfrobid(principal);", 3),
        (f"{forbid('true')}\n/\n", 2),
        (f'{forbid("true")}\n@id(";")\n// a ;\nforbid(principal, action, resource)\n', 2),
        (f"{forbid('true')}\n{forbid('context.a == && b')}\n{forbid('true')}", 2),
    ],
)
def test_a_syntax_error_names_the_line_of_its_policy(text: str, line: int) -> None:
    with pytest.raises(InvalidPolicy, match=f"in the policy that starts in line {line}$"):
        list(read_policies("a.cedar", text))


def test_a_name_that_is_unknown_in_many_places_is_one_problem() -> None:
    counted = 'context has run && context.run.called["crm:gte"] > 0'
    condition = f'{counted} && context.run.succeeded["crm:gte"] > 0'
    (problem,) = load(forbid(condition, scope='action == Action::"crm:gte"')).problems
    assert problem.problem == '"crm:gte" is not a tool or group of tools; did you mean "crm:get"?'


@pytest.mark.parametrize(
    "opened", ["(", "[", "{a:", "true && ", "!", "if true then true else ", "x."]
)
def test_deep_text_never_reaches_the_parser(opened: str) -> None:
    with pytest.raises(InvalidPolicy):
        list(read_policies("a.cedar", forbid(opened * 50_000)))


def test_the_last_valid_set_stays_and_applies_to_new_tools() -> None:
    before = load(forbid("true", scope='action in Action::"label:sends"'))
    new = action("mail:post", SEND.labels)
    active = load(forbid("context has rnu"), before, actions=[SEND, READ, new])
    assert active.problems
    assert active.decide(call({}, of=new), None).enforced


def test_a_policy_waits_for_the_tools_of_a_server() -> None:
    text = forbid('context has run && context.run.called["bank:pay"] > 0')
    active = load(text, undiscovered=["bank"])
    assert active.waiting == {"p": ("bank",)}
    assert active.decide(call({}), run()).unavailable == ("p",)
    assert not refuses(active.decide(call({}, of=READ), run()))
    pay = action("bank:pay", SEND.labels)
    assert not refuses(load(text, active, actions=[SEND, READ, pay]).decide(call({}), run()))
    wrong = load_policies(
        active, None, actions=[SEND, READ], servers=["mail", "crm", "bank"], undiscovered=[]
    )
    assert wrong.problems
    assert wrong.decide(call({}), run()).unavailable


def test_a_misspelt_server_in_the_scope_is_a_problem() -> None:
    scoped = forbid("true").replace("resource)", 'resource == Server::"mali")')
    assert [it.problem for it in load(scoped).problems] == [
        '"mali" is not a server; did you mean "mail"?'
    ]
    assert not load(scoped.replace("mali", "mail")).problems


def test_a_policy_waits_for_a_tool_in_its_condition() -> None:
    text = forbid('action == Action::"bank:pay"', scope="action")
    active = load(text, undiscovered=["bank"])
    assert (active.waiting, active.problems) == ({"p": ("bank",)}, ())
    pay = action("bank:pay", SEND.labels)
    known = load(text, active, actions=[SEND, READ, pay])
    assert known.decide(call({}, of=pay), None).enforced
    assert not refuses(known.decide(call({}), None))


def test_the_keys_of_a_record_can_be_names_of_operators() -> None:
    text = forbid('{"contains": 1, "Value": context.entry}.Value == "api"')
    active = load(text)
    assert active.decide(call({}), None).enforced


def test_a_label_without_tools_is_valid() -> None:
    assert not load(forbid("true", scope='action in Action::"label:destructive"')).problems


def test_a_changed_schema_leaves_policies_active() -> None:
    text = forbid('context.args has to && context.args.to == "eve"')
    changed = replace(SEND, types={})
    active = load(text, load(text), actions=[changed, READ])
    assert not active.problems
    assert refuses(active.decide(call({"to": "eve"}, of=changed), None))


def test_a_tool_with_the_name_of_a_group_is_unavailable_and_changes_nothing_else() -> None:
    named = [action("server:mail", ToolLabels()), action("label:sends", ToolLabels())]
    active = load(forbid('context.args has to && context.args.to == "eve"'), actions=[*named, SEND])
    assert active.problems == ()
    assert active.decide(call({"to": "eve"}), None).enforced
    assert not refuses(active.decide(call({"to": "bob"}), None))
    assert all(active.decide(call({}, of=it), None).unavailable for it in named)


def test_no_policy_replaces_the_base_permission() -> None:
    text = '@id("(permit)") forbid(principal, action, resource);'
    assert load(text).decide(call({}), None).enforced


def test_the_schema_has_only_the_counts_that_policies_read() -> None:
    """With all of them, it grew with the square of the tools."""
    facts = {("run", "called", "mail:send"), ("args", "to")}
    text = schema_text([SEND, READ], facts)
    assert (text.count('"mail:send"'), text.count('"crm:get"')) == (2, 1)
    assert ("cents" in text, "to?: String" in text.replace('"', "")) == (False, True)
