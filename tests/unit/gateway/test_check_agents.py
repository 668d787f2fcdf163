import json
from collections.abc import Mapping, Sequence

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents
from mcp_tools_proxy.gateway.check.agent_views import (
    describe_agent_view,
    summarize_agents,
)
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Offers, Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_call, make_snapshot
from tests.support.fakes import FakePrompt, FakeResource, FakeTemplate, FakeTool
from tests.support.tables import each_row

SNAPSHOTS = {
    "a": make_snapshot(tools=["search"], prompts=["hello"], resources=["u://1"]),
    "b": make_snapshot(tools=["search"], prompts=["hello"], resources=["u://1"]),
}


def agents_of(**profiles: Sequence[str]) -> Agents:
    """Build profiles that only exclude names."""
    return Agents(
        profiles={
            name: AgentProfile(name=name, exclude_components=tuple(entries))
            for name, entries in profiles.items()
        }
    )


def registry_of(
    agents: Agents,
    *,
    client_ids: Sequence[str] | None = None,
    exclude: Mapping[str, Sequence[str]] | None = None,
) -> Registry:
    """Build a registry of servers ``a`` and ``b`` with the same items, and a local tool. Server
    ``a`` also has a template ``n://{rest}``."""
    ids = None if client_ids is None else frozenset(client_ids)
    return Registry.build(
        [
            FakeTool(name="local"),
            *(
                FakeTool(name=f"{it}:search", alias=f"{it}__search", server_id=it)
                for it in SNAPSHOTS
            ),
        ],
        prompts=[FakePrompt("hello", server_id=it) for it in SNAPSHOTS],
        resources=[FakeResource("u://1", server_id=it) for it in SNAPSHOTS],
        templates=[FakeTemplate("n://", server_id="a")],
        access_rules=AccessRules(
            agents={
                name: Visibility(server_ids=ids, excluded=Exclusions(profile.exclude_components))
                for name, profile in agents.profiles.items()
            },
        ),
        offers=Offers(
            exclude={key: Exclusions(entries) for key, entries in (exclude or {}).items()}
        ),
    )


def test_visible_items_are_counted_per_agent_in_file_order() -> None:
    agents = agents_of(b=["search", "n://{rest}"], a=["hello", "u://1"], c=[])
    counted = [
        (it.profile.name, *map(len, (it.tools, it.prompts, it.resources, it.templates)))
        for it in summarize_agents(registry_of(agents), agents)
    ]
    assert counted == [("b", 1, 2, 2, 0), ("a", 3, 0, 0, 1), ("c", 3, 2, 2, 1)]


def test_the_token_cost_of_an_agent_is_that_of_its_tool_list() -> None:
    agents = agents_of(reader=[])
    registry = registry_of(agents)
    (found,) = summarize_agents(registry, agents)
    listed = [tool.spec.as_mcp for tool in registry.tools.items]
    assert found.tokens == len(json.dumps(listed, separators=(",", ":"))) // 4


def test_the_token_cost_of_an_agent_without_tools_is_zero() -> None:
    agents = agents_of(reader=["search", "local"])
    (found,) = summarize_agents(registry_of(agents), agents)
    assert found.tokens == 0


@pytest.mark.requirement("A-10", "A-13")
@each_row("client_ids", [None, ["a"]])
def test_every_listed_name_belongs_to_a_different_component(
    client_ids: list[str] | None,
) -> None:
    registry = registry_of(agents_of(reader=[]), client_ids=client_ids)
    seen = describe_agent_view(registry, "reader").visible
    calls = [make_call(it.name.replace("{rest}", "x"), kind=it.kind, agent="reader") for it in seen]
    specs = [registry.resolve(call).spec for call in calls]
    assert len({(it.kind, it.server_id, it.bare_name) for it in specs}) == len(seen)


@pytest.mark.requirement("A-10")
def test_items_offered_by_several_servers_are_prefixed_with_the_server() -> None:
    seen = describe_agent_view(registry_of(agents_of(reader=[])), "reader").visible
    assert [it.name for it in seen if it.kind is not Kind.TOOL] == [
        *("a:hello", "b:hello", "a:u://1", "b:u://1"),
        "n://{rest}",
    ]


def test_each_hidden_item_is_attributed_to_a_part_of_the_profile() -> None:
    registry = registry_of(agents_of(reader=["local", "search"]), client_ids=["a"])
    hidden = describe_agent_view(registry, "reader").hidden
    assert [(it.server_id, it.name, it.hidden_by) for it in hidden] == [
        (None, "local", "exclude_components"),
        ("a", "search", "exclude_components"),
        ("b", "search", "client_ids"),
        ("b", "hello", "client_ids"),
        ("b", "u://1", "client_ids"),
    ]


@pytest.mark.requirement("A-01")
def test_items_excluded_by_a_server_are_attributed_to_its_entry() -> None:
    agents = agents_of(reader=[])
    registry = registry_of(agents, exclude={"a": ["search", "prompt:hello"], "b": ["local"]})
    offers = [(kind, it, name) for it in "ab" for kind, name in SNAPSHOTS[it].components]
    hidden = describe_agent_view(registry, "reader", offers).hidden
    assert [(it.kind, it.server_id, it.name, it.hidden_by) for it in hidden] == [
        (Kind.TOOL, "a", "search", "exclude"),
        (Kind.PROMPT, "a", "hello", "exclude"),
    ]
