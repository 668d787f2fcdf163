"""Refusals for agents: identical for all kinds, and revealing nothing hidden."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json, make_agent, make_preset
from tests.support.http_api import (
    ALPHA,
    DENIED,
    ENTRIES,
    EVERYTHING,
    KIND,
    TEXT,
    USER,
    two_servers,
    use,
)
from tests.support.service import BATCH, EXECUTE, PROMPTS, RESOURCES, TOOLS, Service

ONLY_A = make_preset("only_a", tools=[("a", "whoami"), ("a", "alpha")])
NOT_ON_A_B = ["beta", "raw://beta", "a-b:whoami", "a-b:greet", "a-b:plain", f"a-b:{TEXT}"]

WAYS = {
    "client_ids": make_agent(client_ids=["a"]),
    "exclude_components": make_agent(exclude=[*NOT_ON_A_B, "a-b:raw://item/{id}"]),
    "preset": make_agent(preset="only_a"),
}
"""The ways in which a profile can hide all items of server a-b."""

BETA = {"execute": "a-b:beta", "batch": "a-b:beta", "prompt": "beta", "resource": "raw://beta"}
NOWHERE = {kind: name.replace("beta", "omega") for kind, name in BETA.items()}

WRONG_NAMES = [
    "bet",
    "betaa",
    "Beta",
    "a-b",
    "a-b:",
    ":beta",
    "a-b:bet",
    "a-b__bet",
    "a-b__beta",
    "tool:a-b:beta",
    "raw://bet",
    "raw://beta/",
    "raw://bet?",
    "raw:",
    "a-b:raw://bet",
    "whoam",
    "whoami2",
    "gree",
    "plai",
    "raw://tex",
    "raw://items/",
]
"""Names similar to hidden ones, and names similar to visible ones."""


def error_without(envelope: Mapping[str, Any], name_used: str) -> str:
    """Return the answer without the name that the caller sent."""
    return json.dumps(envelope["error"]).replace(name_used, "")


@pytest.mark.requirement("A-09", "A-11")
@pytest.mark.parametrize("way", WAYS)
async def test_no_answer_reveals_hidden_items(way: str) -> None:
    async with two_servers(WAYS[way], presets=[EVERYTHING, ONLY_A]) as two:
        for entry in ENTRIES:
            for name in (*WRONG_NAMES, BETA[entry], NOWHERE[entry]):
                answer = error_without(await use(two.service, entry, name, "reader"), name)
                hidden = ("a-b", "beta", "omega", "preset", "client", "exclude")
                assert (entry, name, [word for word in hidden if word in answer]) == (
                    entry,
                    name,
                    [],
                )
        assert two.uses == 0


@pytest.mark.requirement("A-09")
@pytest.mark.parametrize("way", WAYS)
async def test_a_refusal_has_the_same_words_for_every_kind(way: str) -> None:
    async with two_servers(WAYS[way], presets=[EVERYTHING, ONLY_A]) as two:
        for entry in ENTRIES:
            error = (await use(two.service, entry, BETA[entry], "reader"))["error"]
            kind = KIND[entry]
            assert error == {
                "code": DENIED[entry],
                "message": f'{kind} "{BETA[entry]}" is not permitted for agent "reader"; '
                f"use one from that agent's list of {kind}s",
            }


@pytest.mark.parametrize("entry", ["execute", "batch"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_hidden_tool_with_its_qualified_name_is_refused_like_an_unknown_one(
    way: str, entry: str
) -> None:
    async with two_servers(WAYS[way], presets=[EVERYTHING, ONLY_A]) as two:
        answers = [
            (await use(two.service, entry, name, "reader"))["error"]
            for name in (BETA[entry], NOWHERE[entry])
        ]
        assert answers[0]["code"] == answers[1]["code"]
        assert answers[0]["message"].replace("beta", "omega") == answers[1]["message"]


@pytest.mark.parametrize(
    ("entry", "name", "meant"),
    [
        ("execute", "alphas", "a:alpha"),
        ("prompt", "alphas", "alpha"),
        ("resource", "raw://alphas", "raw://alpha"),
    ],
)
async def test_a_name_is_suggested_only_to_callers_that_may_use_it(
    entry: str, name: str, meant: str
) -> None:
    agents = [make_agent("may"), make_agent("not", exclude=["alpha", "raw://alpha"])]
    async with two_servers(*agents) as two:
        suggested = {
            agent: f'"{meant}"' in (await use(two.service, entry, name, agent))["error"]["message"]
            for agent in ("may", "not")
        }
        assert suggested == {"may": True, "not": False}


# The log has the reason


@pytest.mark.requirement("F-22", "A-09")
@pytest.mark.parametrize("way", WAYS)
async def test_a_denial_is_logged_with_the_reason(way: str) -> None:
    async with two_servers(WAYS[way], presets=[EVERYTHING, ONLY_A]) as two:
        for entry in ENTRIES:
            with capture_logs() as lines:
                await use(two.service, entry, BETA[entry], "reader")
            (line,) = [it for it in lines if it["event"].startswith("proxy.")]
            kind = KIND[entry]
            key = {"tool": "toolName", "prompt": "promptName", "resource": "resourceUri"}[kind]
            assert (line["event"], line["log_level"], line[key], line["agent"], line["reason"]) == (
                f"proxy.{kind}.denied",
                "warning",
                BETA[entry],
                "reader",
                f"the agent's {way}",
            ), entry


# Unknown and missing agents


async def answers_of(service: Service, agent: str | None) -> dict[str, str]:
    query = {} if agent is None else {"agent": agent}
    lists = {route: await service.get(route, **query) for route in (TOOLS, PROMPTS, RESOURCES)}
    uses = {entry: await use(service, entry, ALPHA[entry], agent) for entry in ENTRIES}
    return {
        key: answer["error"]["code"] if "error" in answer else "OK"
        for key, answer in (lists | uses).items()
    }


async def local(service: Service, **top_level: Any) -> str:
    return await service.code("list_available_tools", **top_level)


@pytest.mark.parametrize("required", [None, True, False])
async def test_an_agent_without_a_profile_is_refused_on_every_route(required: bool | None) -> None:
    async with two_servers(make_agent(), require_agent=required) as two:
        for agent in ("nobody", "Reader", "reader ", "a", "*", "null"):
            answers = await answers_of(two.service, agent)
            assert set(answers.values()) == {"AGENT_NOT_FOUND"}, agent
            assert (await local(two.service, agent=agent), two.uses) == ("AGENT_NOT_FOUND", 0)


@pytest.mark.parametrize(
    ("agents", "required", "expected"),
    [
        ([make_agent()], None, "AGENT_REQUIRED"),
        ([make_agent()], True, "AGENT_REQUIRED"),
        ([], True, "AGENT_REQUIRED"),
        ([make_agent()], False, "OK"),
        ([], None, "OK"),
        ([], False, "OK"),
    ],
)
async def test_an_agent_is_required_if_profiles_exist_unless_the_setting_disables_it(
    agents: list[Json], required: bool | None, expected: str
) -> None:
    async with two_servers(*agents, require_agent=required) as two:
        answers = await answers_of(two.service, None)
        assert set(answers.values()) == {expected}
        assert await local(two.service) == expected


async def test_each_call_of_a_batch_without_an_agent_is_refused() -> None:
    async with two_servers(make_agent()) as two:
        body = {"calls": [{"tool_name": "a:alpha"}, {"tool_name": "x"}], "user": USER}
        results = (await two.service.http.post(BATCH, json=body)).json()["results"]
        assert [it["error"]["code"] for it in results] == ["AGENT_REQUIRED"] * 2


async def test_the_error_for_an_unknown_agent_names_no_profile() -> None:
    async with two_servers(make_agent("secret-agent"), require_agent=True) as two:
        answers = [await use(two.service, "execute", "a:alpha", it) for it in (None, "secret")]
        assert "secret-agent" not in json.dumps(answers)


@pytest.mark.parametrize("agent", [None, ""])
async def test_an_empty_agent_is_refused(agent: str | None) -> None:
    async with two_servers(make_agent()) as two:
        body = {"tool_name": "a:alpha", "user": USER, "agent": agent}
        answer = (await two.service.http.post(EXECUTE, json=body)).json()["error"]["code"]
        lists = [await two.service.get(route, agent="") for route in (TOOLS, PROMPTS, RESOURCES)]
        assert answer == ("AGENT_REQUIRED" if agent is None else "INVALID_REQUEST")
        assert ({it["error"]["code"] for it in lists}, two.uses) == ({"INVALID_REQUEST"}, 0)
