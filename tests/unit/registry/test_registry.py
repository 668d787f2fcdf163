import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Call, Kind
from mcp_tools_proxy.domain.configuration import Preset, Reference
from mcp_tools_proxy.domain.errors import (
    AgentNotFound,
    PromptNotFound,
    ProxyError,
    ResourceNotFound,
    ToolNotAllowed,
    ToolNotFound,
)
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.policy.presets import filter_capabilities
from mcp_tools_proxy.policy.visibility import Offers
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_call, make_caller, make_preset, make_snapshot
from tests.support.fakes import FakePrompt, FakeResource, FakeTemplate, FakeTool, fake_components
from tests.support.registry_lists import KINDS, visible
from tests.support.tables import each_row

SEARCH = FakeTool(name="search")
REMOTE = FakeTool(name="a:b", alias="a__b", server_id="a")
HELLO = FakePrompt("hello")
ONE = FakeResource("u://1")
NAMED = FakeResource("a name without a URI")
ANY = FakeTemplate("u://")
LATER = FakeTemplate("u://2")
REGISTRY = Registry.build(
    [SEARCH, REMOTE], prompts=[HELLO], resources=[ONE, NAMED], templates=[ANY, LATER]
)
CALLER = make_caller()


def prompt_call(name: str) -> Call:
    return make_call(name, kind=Kind.PROMPT)


def resource_call(uri: str) -> Call:
    return make_call(uri, kind=Kind.RESOURCE)


def registry_of(snapshots: dict[str, Snapshot], preset: Preset) -> Registry:
    made = fake_components(filter_capabilities(snapshots, preset))
    return Registry.build(
        [SEARCH, *made.tools],
        prompts=made.prompts,
        resources=made.resources,
        templates=made.templates,
    )


@each_row(
    ("name", "tool"), [("search", SEARCH), *((name, REMOTE) for name in ("a:b", "a__b", "b"))]
)
def test_every_name_finds_its_tool(name: str, tool: FakeTool) -> None:
    assert REGISTRY.resolve(make_call(name)) is tool


@pytest.mark.requirement("F-08", "F-09", "F-10", "P-18")
@each_row("name", ["a:c", "x:y", "a:b:c", "search:x", "a::b", "A:b"])
def test_a_qualified_name_outside_the_view_is_not_allowed(name: str) -> None:
    with pytest.raises(ToolNotAllowed, match="the active preset does not allow it, or its server"):
        REGISTRY.resolve(make_call(name))


@pytest.mark.requirement("F-07")
@each_row("name", ["", "Search", "search ", ":b", "a:", ":", "B", "::"])
def test_other_unknown_names_are_not_found_and_the_error_states_the_format(name: str) -> None:
    with pytest.raises(ToolNotFound) as caught:
        REGISTRY.resolve(make_call(name))
    assert "expected" in (caught.value.details or {})


@pytest.mark.requirement("F-08")
def test_servers_and_tools_with_overlapping_names_are_distinguished() -> None:
    pairs = [("a", "b:c"), ("a", "b"), ("a-b", "c"), ("a", "-b:c")]
    snapshots = {
        server_id: make_snapshot(tools=[tool for owner, tool in pairs if owner == server_id])
        for server_id in ("a", "a-b")
    }
    preset = make_preset(tools=[f"{server_id}/{tool}" for server_id, tool in pairs])
    registry = registry_of(snapshots, preset)
    found = [registry.resolve(make_call(f"{server_id}:{tool}")) for server_id, tool in pairs]
    assert [component.spec.server_id for component in found] == [
        server_id for server_id, _ in pairs
    ]


def test_a_similar_name_is_answered_with_the_qualified_name() -> None:
    with pytest.raises(ToolNotFound) as caught:
        REGISTRY.resolve(make_call("a_b"))
    assert (caught.value.details or {})["did_you_mean"] == "a:b"


@pytest.mark.requirement("F-13")
@each_row("name", ["hello", "s:hello"])
def test_a_prompt_is_found_by_name_with_or_without_its_server(name: str) -> None:
    assert REGISTRY.resolve(prompt_call(name)) is HELLO


@pytest.mark.requirement("F-15")
@each_row("name", ["", "Hello", "t:hello", "search", "u://1"])
def test_an_unknown_prompt_is_not_found(name: str) -> None:
    with pytest.raises(PromptNotFound):
        REGISTRY.resolve(prompt_call(name))


@pytest.mark.requirement("F-13")
@each_row(
    ("uri", "resource"),
    [("u://1", ONE), ("s:u://1", ONE), ("a name without a URI", NAMED)],
)
def test_a_resource_is_found_by_key(uri: str, resource: FakeResource) -> None:
    assert REGISTRY.resolve(resource_call(uri)) is resource


@pytest.mark.requirement("F-13")
@each_row("uri", ["u://other", "u://2", "s:u://2"])
def test_other_uris_are_read_through_the_first_matching_template(uri: str) -> None:
    resource = REGISTRY.resolve(resource_call(uri))
    assert isinstance(resource, FakeResource)
    assert (resource.spec, resource.uri) == (ANY.spec, uri.removeprefix("s:"))


@pytest.mark.requirement("F-14", "F-15")
@each_row("uri", ["", "v://1", "U://1", "hello", "a:b"])
def test_an_unknown_resource_is_not_found(uri: str) -> None:
    with pytest.raises(ResourceNotFound):
        REGISTRY.resolve(resource_call(uri))


def test_a_name_of_another_kind_is_not_found() -> None:
    with pytest.raises(ToolNotFound):
        REGISTRY.resolve(make_call("hello"))


@each_row("call", [prompt_call("helo"), resource_call("w://1")], ids=["prompt", "resource"])
def test_the_error_for_a_wrong_name_states_the_next_step(call: Call) -> None:
    with pytest.raises(ProxyError, match="did you mean"):
        REGISTRY.resolve(call)


def test_a_suggested_tool_name_is_escaped_and_truncated() -> None:
    odd_name = "a__\u202e" + "x" * 1000
    tool = FakeTool(name=f"a:{odd_name}", server_id="a")
    registry = Registry.build([tool], offers=Offers(servers=("a",)))
    with pytest.raises(ToolNotFound, match="did you mean") as caught:
        registry.resolve(make_call(odd_name))
    assert "\u202e" not in caught.value.message
    assert len(caught.value.message) < 1000


@pytest.mark.requirement("F-11")
def test_each_kind_is_listed_once_and_in_order() -> None:
    lists = (
        visible(REGISTRY, "prompts", CALLER),
        visible(REGISTRY, "resources", CALLER),
        visible(REGISTRY, "templates", CALLER),
    )
    assert [spec.name for spec in REGISTRY.visible_to(CALLER)] == ["search", "a:b"]
    assert [[item["name"] for item in items] for items in lists] == [
        ["hello"],
        ["u://1", "a name without a URI"],
        ["u://{rest}", "u://2{rest}"],
    ]


@each_row("kind", Kind)
def test_an_agent_without_a_profile_cannot_use_anything(kind: Kind) -> None:
    with pytest.raises(AgentNotFound):
        REGISTRY.resolve(make_call("search", kind=kind, agent="a"))


def test_an_agent_without_a_profile_does_not_see_anything() -> None:
    agent = make_caller(agent="a")
    with pytest.raises(AgentNotFound):
        REGISTRY.visible_to(agent)
    for kind in KINDS:
        with pytest.raises(AgentNotFound):
            visible(REGISTRY, kind, agent)


@each_row(
    "duplicate", [FakeTool(name="search", alias="other"), FakeTool(name="other", alias="search")]
)
def test_two_tools_with_the_same_name_are_refused(duplicate: FakeTool) -> None:
    with pytest.raises(ValueError, match="two components"):
        Registry.build([SEARCH, duplicate])


names = st.sampled_from(["x", "y", "z:x", "t/{v}"])
server_ids = st.sampled_from(["a", "a-b"])
lists = st.lists(names, unique=True)
references = st.lists(
    st.builds(Reference, server_id=server_ids, name=names, enabled=st.booleans())
).map(tuple)


@pytest.mark.requirement("P-08", "P-18")
@given(
    st.dictionaries(server_ids, st.builds(make_snapshot, tools=lists, prompts=lists)),
    st.builds(
        Preset,
        preset_id=st.just("p"),
        name=st.just("P"),
        tools=references,
        prompts=st.none() | references,
    ),
)
def test_the_listed_items_are_exactly_the_callable_ones(
    snapshots: dict[str, Snapshot], preset: Preset
) -> None:
    registry = registry_of(snapshots, preset)
    tools = {f"{server_id}:{name}" for server_id, it in snapshots.items() for name in it.tools}
    prompts = {name for it in snapshots.values() for name in it.prompts}
    assert {spec.name for spec in registry.visible_to(CALLER)} == {
        name for name in tools | {"search", "x"} if accepts(registry, make_call(name))
    }
    assert {item["name"] for item in visible(registry, "prompts", CALLER)} == {
        name for name in prompts if accepts(registry, prompt_call(name))
    }


def accepts(registry: Registry, call: Call) -> bool:
    try:
        return registry.resolve(call).spec.name == call.name
    except ProxyError:
        return False
