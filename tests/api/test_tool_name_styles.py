"""The setting ``tool_name_style``: in every style, exactly the names that MCP lists can be called.

The oracle is that of the agent matrix and shares no code with the gateway."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller
from mcp_tools_proxy.domain.outcome import Failed
from tests.api.agent_oracle import AGENTS, EXCLUDE, OFFERS, PRESETS, Item, may_use
from tests.support.configuration import make_agent, make_preset
from tests.support.http_api import EVERYTHING, OWN, two_servers
from tests.support.local_tools import LISTED_TOOLS
from tests.support.service import ACTIVE, Service

SPELT: Mapping[str, Callable[[str, str], str]] = {
    "server": lambda server, name: f"{server}:{name}",
    "alias": lambda server, name: f"{server}__{name}",
    "bare": lambda _, name: name,
}
UNIQUE = make_preset("unique", tools=[("a", "whoami"), ("a", "alpha"), ("a-b", "beta")])
ONE_EACH = [agent for agent in AGENTS if agent.get("preset") != "reverse"]
DOCUMENT_TOOLS = {*LISTED_TOOLS} - {"list_available_tools"}


async def listed(service: Service, caller: Caller) -> list[str]:
    found = await service.gateway.registry.current.mcp_tools(caller)
    return [str(it["name"]) for it in found.definitions]


async def outcome_of(service: Service, name: str, caller: Caller) -> str:
    call = Call(name=name, caller=caller, trace_id="trace-1")
    outcome = await service.gateway.executor.execute(call)
    if isinstance(outcome, Failed):
        code = outcome.error.code
        return "refused" if code in ("TOOL_NOT_ALLOWED", "TOOL_NOT_FOUND") else code
    who: Any = outcome.result["structured_content"]
    return f"{who['tool']} of {who['server']}"


@pytest.mark.requirement("A-13", "F-11", "F-14")
@pytest.mark.parametrize("tenant_id", ["t", NO_TENANT], ids=["tenant", "tenantless"])
@pytest.mark.parametrize("style", SPELT)
async def test_exactly_the_tools_that_mcp_lists_can_be_called_and_they_match_the_files(
    style: str, tenant_id: str
) -> None:
    spell = SPELT[style]
    tools: list[Item] = [item for item in OFFERS if item[0] == "tool"]
    async with two_servers(
        *ONE_EACH,
        exclude=EXCLUDE,
        presets=[UNIQUE, *PRESETS],
        require_agent=False,
        tool_name_style=style,
    ) as two:
        for agent in (None, *ONE_EACH):
            name = None if agent is None else agent["name"]
            caller = Caller(tenant_id=tenant_id, user_id="u", agent=name)
            usable = [item for item in may_use(UNIQUE, agent) if item[0] == "tool"]
            own = {"list_available_tools"} | (DOCUMENT_TOOLS if tenant_id else set())
            assert {*await listed(two.service, caller)} == own | {
                spell(server, it) for _, server, it in usable
            }
            called = {it: await outcome_of(two.service, spell(*it[1:]), caller) for it in usable}
            assert called == {it: f"{it[2]} of {it[1]}" for it in usable}
            for hidden in (item for item in tools if item not in may_use(UNIQUE, agent)):
                full = await outcome_of(two.service, f"{hidden[1]}:{hidden[2]}", caller)
                assert full == "refused"


@pytest.mark.parametrize("style", SPELT)
async def test_a_bare_name_needs_no_agent_in_any_list_style(style: str) -> None:
    async with two_servers(presets=[UNIQUE], tool_name_style=style) as two:
        assert await two.service.code("alpha") == "OK"


async def test_the_http_list_has_qualified_names_in_every_style() -> None:
    async with two_servers(presets=[UNIQUE], tool_name_style="bare") as two:
        assert await two.service.listed() == ["a:whoami", "a:alpha", "a-b:beta"]


async def test_a_preset_with_ambiguous_bare_names_can_be_chosen() -> None:
    async with two_servers(presets=[UNIQUE, EVERYTHING], tool_name_style="bare") as two:
        answer = await two.service.http.put(ACTIVE, json={"preset_id": EVERYTHING["id"]})
        assert answer.status_code == 200
        caller = Caller(tenant_id="t", user_id="u")
        assert {*await listed(two.service, caller)} - {*LISTED_TOOLS} == {
            *("a:whoami", "alpha", "a-b:whoami", "beta")
        }


async def test_an_agent_can_call_the_bare_names_in_its_list() -> None:
    async with two_servers(
        make_agent("of_b", client_ids=["a-b"]), presets=[UNIQUE], tool_name_style="bare"
    ) as two:
        caller = Caller(tenant_id="t", user_id="u", agent="of_b")
        assert OWN["a-b"] in await listed(two.service, caller)
        assert await outcome_of(two.service, OWN["a-b"], caller) == "beta of a-b"
        assert await outcome_of(two.service, OWN["a"], caller) == "refused"
