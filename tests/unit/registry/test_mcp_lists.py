from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ResourceSpec, ToolNameStyle
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Offers, Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.mcp_lists import NameStyles
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_caller
from tests.support.fakes import FakePrompt, FakeResource, FakeTemplate, FakeTool
from tests.support.registry_lists import KINDS, mcp_list, visible
from tests.support.tables import each_row
from tests.unit.registry.registry_cases import outcome

LOCAL = FakeTool(name="local")
SEARCH = FakeTool(name="a:search", alias="a__search", server_id="a", properties=("query",))
ODD = FakeTool(name="a:drop all", alias="a_drop_all_1f2e3d4c", server_id="a")
TWIN = FakeTool(name="b:search", alias="b__search", server_id="b")

EVERY_STYLE = pytest.mark.parametrize("style", ToolNameStyle)
CALLER = make_caller()
NARROW = {
    "of_a": Visibility(server_ids=frozenset("a")),
    "same": Visibility(server_ids=frozenset("a")),
    "tools": Visibility(excluded=Exclusions(["local"])),
}


def registry_of(
    *tools: FakeTool,
    style: ToolNameStyle = ToolNameStyle.SERVER,
    servers: Sequence[str] = ("a", "b"),
) -> Registry:
    """Build a registry of tools, and two prompts, resources and templates with the same name."""
    return Registry.build(
        tools,
        prompts=[FakePrompt("hello", server_id=it) for it in "ab"],
        resources=[FakeResource("u://1", server_id=it) for it in "ab"],
        templates=[FakeTemplate("v://", server_id=it) for it in "ab"],
        access_rules=AccessRules(agents=NARROW),
        offers=Offers(servers=servers),
        name_styles=NameStyles(default=ListOptions(name_style=style)),
    )


async def names(registry: Registry, agent: str | None = None) -> list[object]:
    return [it["name"] for it in (await registry.mcp_tools(make_caller(agent=agent))).definitions]


# Names


@pytest.mark.requirement("F-11")
@each_row(
    ("style", "listed"),
    [
        (ToolNameStyle.SERVER, ["local", "a:search", "a:drop all"]),
        (ToolNameStyle.ALIAS, ["local", "a__search", "a_drop_all_1f2e3d4c"]),
        (ToolNameStyle.BARE, ["local", "search", "drop all"]),
    ],
)
async def test_each_tool_is_listed_once_with_its_name_in_the_style(
    style: ToolNameStyle, listed: list[str]
) -> None:
    assert await names(registry_of(LOCAL, SEARCH, ODD, style=style)) == listed


@EVERY_STYLE
async def test_only_the_name_differs_from_the_servers_definition(style: ToolNameStyle) -> None:
    spec = replace(SEARCH.spec, extra={"_meta": {"x": 1}}, annotations={"title": "T"})
    tool = FakeTool()
    tool.spec = spec
    (shown,) = (await registry_of(tool, style=style).mcp_tools(CALLER)).definitions
    assert {**shown, "name": "a:search"} == spec.as_mcp


async def test_a_bare_name_of_two_tools_is_not_listed_for_either() -> None:
    registry = registry_of(SEARCH, TWIN, ODD, style=ToolNameStyle.BARE)
    assert await names(registry) == ["a:search", "b:search", "drop all"]


@each_row("name", ["local", "a__search", "b:search"])
async def test_a_bare_name_equal_to_another_tools_full_name_is_not_listed(name: str) -> None:
    tool = FakeTool(name=f"b:{name}", alias="b_0", server_id="b")
    registry = registry_of(LOCAL, SEARCH, TWIN, tool, style=ToolNameStyle.BARE)
    assert (await names(registry))[-1] == f"b:{name}"


@pytest.mark.requirement("A-19")
async def test_a_bare_name_that_looks_like_another_servers_tool_is_not_listed() -> None:
    tool = FakeTool(name="a:bank__pay", alias="a__bank__pay", server_id="a")
    registry = registry_of(tool, style=ToolNameStyle.BARE, servers=("a", "bank"))
    assert await names(registry) == ["a:bank__pay"]


@EVERY_STYLE
def test_bare_names_work_without_an_agent(style: ToolNameStyle) -> None:
    found = outcome(registry_of(SEARCH, style=style), Kind.TOOL, "search", None)
    assert found == (Kind.TOOL, "a", "search")


def test_a_bare_name_of_two_tools_is_ambiguous() -> None:
    registry = registry_of(SEARCH, TWIN, style=ToolNameStyle.BARE)
    assert outcome(registry, Kind.TOOL, "search", None) == "AMBIGUOUS_NAME"


@EVERY_STYLE
@pytest.mark.parametrize("name", ["a:search", "a__search"])
def test_full_names_and_aliases_are_accepted_in_every_style(
    style: ToolNameStyle, name: str
) -> None:
    registry = registry_of(SEARCH, TWIN, style=style)
    assert outcome(registry, Kind.TOOL, name, None) == (Kind.TOOL, "a", "search")


@EVERY_STYLE
async def test_prompts_and_resources_have_the_same_names_in_every_style(
    style: ToolNameStyle,
) -> None:
    registry, caller = registry_of(style=style), make_caller(agent="tools")
    shown = [
        *(it["name"] for it in (await mcp_list(registry, "prompts", caller)).definitions),
        *(it["uri"] for it in (await mcp_list(registry, "resources", caller)).definitions),
        *(it["uriTemplate"] for it in (await mcp_list(registry, "templates", caller)).definitions),
    ]
    bare = ["hello", "u://1", "v://{rest}"]
    assert shown == [f"{server}:{name}" for name in bare for server in "ab"]


@pytest.mark.requirement("P-12")
async def test_a_resource_without_a_uri_is_listed_by_name() -> None:
    specs = [ResourceSpec(name="n", server_id=it, as_mcp={"name": "n"}) for it in "ab"]
    resources = [FakeResource(spec=spec) for spec in specs]
    registry = Registry.build(
        [], resources=resources, access_rules=AccessRules(agents={"x": Visibility()})
    )
    caller = make_caller(agent="x")
    assert visible(registry, "resources", caller) == ({"name": "a:n"}, {"name": "b:n"})
    assert (await mcp_list(registry, "resources", caller)).definitions == (), "MCP asks for a URI"


async def test_a_resource_with_a_uri_that_some_clients_refuse_is_not_listed_over_mcp() -> None:
    uris = ["notes", "notes://x", "http://[bad", "my notes://x", "urn:x", "", "file:///x y"]
    resources = [
        FakeResource(spec=ResourceSpec(name=uri, server_id="a_b", as_mcp={"uri": uri, "name": "n"}))
        for uri in uris
    ]
    registry = Registry.build([], resources=resources)
    listed = (await mcp_list(registry, "resources", make_caller())).definitions
    assert [it["uri"] for it in listed] == ["notes://x", "urn:x", "file:///x y"]
    assert [it["uri"] for it in visible(registry, "resources", make_caller())] == uris


async def test_a_server_id_that_is_not_a_valid_scheme_is_not_added_to_uris() -> None:
    """If two servers offer the same URI, the server id is added to distinguish them."""
    specs = [
        ResourceSpec(name="notes://x", server_id=it, as_mcp={"uri": "notes://x", "name": "n"})
        for it in ("a_b", "ab")
    ]
    resources = [FakeResource(spec=spec) for spec in specs]
    registry = Registry.build(
        [], resources=resources, access_rules=AccessRules(agents={"x": Visibility()})
    )
    caller = make_caller(agent="x")
    listed = (await mcp_list(registry, "resources", caller)).definitions
    assert [it["uri"] for it in listed] == ["ab:notes://x"]
    assert len(visible(registry, "resources", caller)) == 2


# Shared definitions


@EVERY_STYLE
async def test_every_viewer_is_given_the_same_definition_of_a_tool(style: ToolNameStyle) -> None:
    registry = registry_of(LOCAL, SEARCH, style=style)
    first, second, third = [
        (await registry.mcp_tools(make_caller(agent=agent))).definitions[-1]
        for agent in (None, "of_a", "tools")
    ]
    assert first is second is third


async def test_a_renamed_prompt_is_one_shared_definition() -> None:
    registry = registry_of(LOCAL)
    agents = {"x": Visibility(), "y": Visibility(excluded=Exclusions(["local"]))}
    registry = replace(registry, access_rules=AccessRules(agents=agents))
    first, second = [(await mcp_list(registry, "prompts", make_caller(agent=it))) for it in agents]
    assert first.definitions[0]["name"] == "a:hello"
    assert first.definitions[0] is second.definitions[0]


async def test_a_list_is_unchanged_after_many_other_lists_were_requested() -> None:
    tools = [FakeTool(name=f"a:t{n}", server_id="a") for n in range(50)]
    agents = {f"{n}": Visibility(excluded=Exclusions([f"t{n}"])) for n in range(50)}
    registry = Registry.build(tools, access_rules=AccessRules(agents=agents))
    before = await registry.mcp_tools(make_caller(agent="0"))
    for agent in agents:
        await registry.mcp_tools(make_caller(agent=agent))
    assert await registry.mcp_tools(make_caller(agent="0")) == before


# Tags


async def test_viewers_of_the_same_items_have_the_same_tag() -> None:
    registry = registry_of(LOCAL, SEARCH, TWIN)
    tags = {(await registry.mcp_tools(make_caller(agent=it))).etag for it in ("of_a", "same")}
    assert len(tags) == 1


some_tools = st.lists(
    st.builds(
        FakeTool,
        name=st.sampled_from(["a:x", "a:y", "b:x", "local"]),
        server_id=st.sampled_from(["a"]),
        properties=st.sampled_from([(), ("q",), ("q", "r")]),
    ),
    unique_by=lambda tool: tool.spec.name,
    max_size=4,
)


@given(some_tools, some_tools)
async def test_registries_have_equal_tags_exactly_if_their_lists_are_equal(
    one: list[FakeTool], other: list[FakeTool]
) -> None:
    first, second = [await registry_of(*tools).mcp_tools(CALLER) for tools in (one, other)]
    assert (first.etag == second.etag) == (first.definitions == second.definitions)


async def test_the_tag_of_each_other_kind_changes_with_its_list() -> None:
    registry = registry_of(LOCAL)
    for kind in KINDS:
        whole = await mcp_list(registry, kind, make_caller(agent="tools"))
        narrow = await mcp_list(registry, kind, make_caller())
        assert whole.definitions != narrow.definitions
        assert whole.etag != narrow.etag


# Schemas by name


@each_row("name", ["a:search", "a__search"])
def test_a_schema_is_found_by_every_name_of_its_tool(name: str) -> None:
    assert registry_of(LOCAL, SEARCH).input_schema(name, CALLER) is SEARCH.spec.input_schema


@each_row("name", ["search", "nope", "b:drop all", ""])
def test_an_unknown_or_ambiguous_name_does_not_have_a_schema(name: str) -> None:
    assert registry_of(LOCAL, SEARCH, TWIN).input_schema(name, CALLER) is None


def test_the_schema_of_a_tool_is_hidden_from_callers_that_cannot_use_it() -> None:
    assert registry_of(LOCAL).input_schema(LOCAL.spec.name, make_caller(agent="ghost")) is None
