"""What ``check`` asks a registry about agents."""

from collections.abc import Mapping, Sequence

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents
from mcp_tools_proxy.gateway.check.agents import (
    EntryFindings,
    describe_agent_view,
    explain_exclusions,
    summarize_agents,
)
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.access import Access
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_call, make_snapshot
from tests.support.fakes import FakePrompt, FakeResource, FakeTemplate, FakeTool

SNAPSHOTS = {
    "a": make_snapshot(tools=["search"], prompts=["hello"], resources=["u://1"]),
    "b": make_snapshot(tools=["search"], prompts=["hello"], resources=["u://1"]),
}


def agents_of(**profiles: Sequence[str]) -> Agents:
    """Make profiles with nothing but excluded names."""
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
    """Make a registry of servers ``a`` and ``b`` that offer the same, and of a local tool.

    Server ``a`` has a template ``n://{rest}``, too.
    """
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
        access=Access(
            agents={
                name: Visibility(client_ids=ids, excluded=Exclusions(profile.exclude_components))
                for name, profile in agents.profiles.items()
            },
            exclude={key: Exclusions(entries) for key, entries in (exclude or {}).items()},
        ),
    )


def hidden_by(*entries: str, client_ids: Sequence[str] | None = None) -> list[tuple[str, ...]]:
    """Give what each entry of an agent hides."""
    agents = agents_of(reader=entries)
    registry = registry_of(agents, client_ids=client_ids)
    return [found.hidden for found in explain_exclusions(registry, agents, {}, SNAPSHOTS)]


def test_agents_are_counted_by_what_they_see_in_the_files_order() -> None:
    agents = agents_of(b=["search", "n://{rest}"], a=["hello", "u://1"], c=[])
    counted = [
        (it.profile.name, it.tools, it.prompts, it.resources, it.templates)
        for it in summarize_agents(registry_of(agents), agents)
    ]
    assert counted == [("b", 1, 2, 2, 0), ("a", 3, 0, 0, 1), ("c", 3, 2, 2, 1)]


def test_an_agent_without_tools_costs_no_token() -> None:
    agents = agents_of(reader=["search", "local"])
    (found,) = summarize_agents(registry_of(agents), agents)
    assert found.tokens == 0


@pytest.mark.requirement("A-10", "A-13")
@pytest.mark.parametrize("client_ids", [None, ["a"]])
def test_every_name_that_is_shown_leads_to_another_component(
    client_ids: list[str] | None,
) -> None:
    registry = registry_of(agents_of(reader=[]), client_ids=client_ids)
    seen = describe_agent_view(registry, "reader").visible
    calls = [make_call(it.name.replace("{rest}", "x"), kind=it.kind, agent="reader") for it in seen]
    specs = [registry.resolve(call).spec for call in calls]
    assert len({(it.kind, it.server_id, it.bare_name) for it in specs}) == len(seen)


@pytest.mark.requirement("A-10")
def test_what_several_servers_offer_is_named_with_the_server() -> None:
    seen = describe_agent_view(registry_of(agents_of(reader=[])), "reader").visible
    assert [it.name for it in seen if it.kind is not Kind.TOOL] == [
        *("a:hello", "b:hello", "a:u://1", "b:u://1"),
        "n://{rest}",
    ]


def test_all_that_is_not_seen_is_hidden_by_a_part_of_the_profile() -> None:
    registry = registry_of(agents_of(reader=["local", "search"]), client_ids=["a"])
    hidden = describe_agent_view(registry, "reader").hidden
    assert [(it.spec.server_id, it.spec.bare_name, it.denial.value) for it in hidden] == [
        (None, "local", "exclude_components"),
        ("a", "search", "exclude_components"),
        ("b", "search", "client_ids"),
        ("b", "hello", "client_ids"),
        ("b", "u://1", "client_ids"),
    ]


@pytest.mark.requirement("A-18")
def test_an_entry_hides_all_that_it_spells() -> None:
    assert hidden_by("search", "prompt:hello", "b:u://1", "local", "tool:hello") == [
        ("tool:a:search", "tool:b:search"),
        ("prompt:a:hello", "prompt:b:hello"),
        ("resource:b:u://1",),
        ("tool:local",),
        (),
    ]


def test_what_another_filter_hides_is_not_hidden_by_an_entry() -> None:
    assert hidden_by("search", "b:hello", "a:n://7", client_ids=["b"]) == [
        ("tool:b:search",),
        ("prompt:b:hello",),
        (),
    ]


@pytest.mark.requirement("A-20")
@pytest.mark.parametrize(
    ("entry", "hidden"),
    [
        *(
            (it, ("URIs of resource:a:n://{rest}",))
            for it in ("n://7", "a:n://7", "resource:n://7")
        ),
        *((it, ()) for it in ("b:n://7", "tool:n://7", "m://7")),
    ],
)
def test_an_entry_may_hide_a_uri_of_a_template(entry: str, hidden: tuple[str, ...]) -> None:
    assert hidden_by(entry) == [hidden]


def test_a_uri_that_its_server_hides_is_not_hidden_by_an_agents_entry() -> None:
    agents = agents_of(reader=["n://7"])
    exclude = {"a": ["n://7"]}
    found = explain_exclusions(registry_of(agents, exclude=exclude), agents, exclude, SNAPSHOTS)
    assert [(it.owners, it.hidden) for it in found] == [
        (("server a",), ("URIs of resource:a:n://{rest}",)),
        (("agent reader",), ()),
    ]


@pytest.mark.requirement("A-01")
def test_an_entry_of_a_server_hides_what_this_server_offers_whatever_the_preset() -> None:
    exclude = {"a": ["search", "local", "b:search"], "gone": ["search"]}
    found = explain_exclusions(Registry.build(()), Agents(), exclude, SNAPSHOTS)
    assert [(it.owners, it.entry, it.hidden) for it in found] == [
        (("server a",), "search", ("tool:a:search",)),
        (("server a",), "local", ()),
        (("server a",), "b:search", ()),
        (("server gone",), "search", ()),
    ]


def test_agents_whose_entry_hides_the_same_are_told_together() -> None:
    agents = agents_of(first=["search"], second=["search", "search"])
    found = explain_exclusions(registry_of(agents), agents, {}, SNAPSHOTS)
    assert found == (
        EntryFindings(
            owners=("agent first", "agent second"),
            entry="search",
            hidden=("tool:a:search", "tool:b:search"),
        ),
    )
