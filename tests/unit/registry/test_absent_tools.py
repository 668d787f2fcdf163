"""A bare name shared by tools of two servers resolves to neither while one is away (A-19)."""

from dataclasses import replace

import pytest

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.errors import AmbiguousName
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.policy.aliases import alias_of
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Offers, PresetScope, Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_call, make_caller, make_preset
from tests.support.fakes import FakeTool
from tests.support.tables import each_row
from tests.unit.registry.registry_cases import outcome

AGENTS = {
    "all": Visibility(),
    "of_a": Visibility(server_ids=frozenset("a")),
    "not_b": Visibility(excluded=Exclusions(["b:pay"])),
    "narrow": Visibility(preset=PresetScope.of(make_preset(tools=["a/pay"]))),
}


def tool(server_id: str, name: str) -> FakeTool:
    alias = alias_of(server_id, name)
    return FakeTool(name=f"{server_id}:{name}", alias=alias, server_id=server_id)


def registry_of(
    *tools: FakeTool,
    preset: tuple[str, ...] = ("a/pay", "b/pay"),
    servers: tuple[str, ...] = ("a", "b"),
    exclude: tuple[str, ...] = (),
) -> Registry:
    """Build the registry of a preset; ``exclude`` applies to server b."""
    return Registry.build(
        tools,
        access_rules=AccessRules(agents=AGENTS),
        offers=Offers(
            scope=PresetScope.of(make_preset(tools=preset)),
            servers=servers,
            exclude={"b": Exclusions(exclude)},
        ),
    )


async def listed_bare(registry: Registry, agent: str | None) -> list[object]:
    listed = await registry.mcp_tools(
        make_caller(agent=agent), ListOptions(name_style=ToolNameStyle.BARE)
    )
    return [it["name"] for it in listed.definitions]


@pytest.mark.requirement("A-10", "A-19")
@each_row("agent", [None, "all"])
async def test_a_bare_name_stays_ambiguous_while_one_of_its_servers_is_away(
    agent: str | None,
) -> None:
    registry = registry_of(tool("a", "pay"))
    with pytest.raises(AmbiguousName) as caught:
        registry.resolve(replace(make_call("pay"), caller=make_caller(agent=agent)))
    assert caught.value.details == {"candidates": ["a:pay", "b:pay"]}
    assert await listed_bare(registry, agent) == ["a:pay"]
    assert registry.input_schema("pay", make_caller(agent=agent)) is None


@each_row("agent", ["of_a", "not_b", "narrow"])
async def test_a_name_is_unique_for_agents_that_cannot_see_the_other_server(agent: str) -> None:
    for tools in ([tool("a", "pay")], [tool("a", "pay"), tool("b", "pay")]):
        registry = registry_of(*tools)
        assert outcome(registry, Kind.TOOL, "pay", agent) == (Kind.TOOL, "a", "pay")
        assert await listed_bare(registry, agent) == ["pay"]


@each_row(
    "options",
    [{"servers": ("a",)}, {"exclude": ("pay",)}, {"preset": ("a/pay", "b/other")}],
)
async def test_items_that_can_never_be_offered_do_not_reserve_a_name(
    options: dict[str, tuple[str]],
) -> None:
    registry = registry_of(tool("a", "pay"), **options)
    assert outcome(registry, Kind.TOOL, "pay", None) == (Kind.TOOL, "a", "pay")
    assert await listed_bare(registry, None) == ["pay"]


@pytest.mark.requirement("A-19")
@each_row("agent", [None, "all", "of_a", "not_b"])
async def test_the_alias_of_an_absent_tool_is_not_used_as_a_bare_name(agent: str | None) -> None:
    alias = alias_of("b", "pay now")
    assert "__" not in alias
    registry = registry_of(tool("a", alias), preset=(f"a/{alias}", "b/pay now"))
    assert outcome(registry, Kind.TOOL, alias, agent) == "TOOL_NOT_FOUND"
    assert await listed_bare(registry, agent) == [f"a:{alias}"]


async def test_callers_with_the_same_tools_can_see_different_names() -> None:
    """They do not share a list: only one of them may use the absent tool."""
    registry = registry_of(tool("a", "pay"))
    names = [await listed_bare(registry, agent) for agent in ("of_a", "all", "of_a")]
    assert names == [["pay"], ["a:pay"], ["pay"]]


def test_while_all_servers_of_a_name_are_away_it_is_unknown() -> None:
    assert outcome(registry_of(), Kind.TOOL, "pay", None) == "TOOL_NOT_FOUND"
