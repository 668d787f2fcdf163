"""Filtering by presets (seed-behaviours A.2; P-03 … P-14)."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import EMPTY_PRESET, Missing, Preset, Reference
from mcp_tools_proxy.domain.offers import Route, Shadowed, Snapshot, View
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.presets import filter_capabilities, without_excluded
from tests.support.builders import make_preset, make_snapshot
from tests.support.tables import each_row
from tests.unit.policy.any_preset import presets_of, references_to, some_server_id

S1 = make_snapshot(tools=["t1", "t2"], prompts=["p1"], resources=["u1", "u2"], by="s1")
S2 = make_snapshot(tools=["t3"], prompts=["p2"], resources=["u3"], templates=["u/{x}"], by="s2")
BOTH = {"s1": S1, "s2": S2}


def owners(routes: Mapping[str, tuple[Route, ...]]) -> dict[str, str]:
    """Return the names and their servers, in order."""
    return {key: first.server_id for key, (first, *_) in routes.items()}


def missing(view: View) -> list[str]:
    return [f"{item.kind.value} {item.server_id}/{item.name}" for item in view.missing]


@pytest.mark.requirement("P-14")
def test_filtering_returns_view_allow_set_missing_items_and_two_routing_maps() -> None:
    view = filter_capabilities(BOTH, make_preset(tools=["s1/t1", "s2/t3", "s1/missing"]))
    assert (
        list(view.tools),
        view.allowed,
        view.missing,
        owners(view.prompts),
        owners(view.resources),
        owners(view.templates),
    ) == (
        ["s1:t1", "s2:t3"],
        frozenset({"s1:t1", "s2:t3"}),
        (Missing(kind=Kind.TOOL, server_id="s1", name="missing"),),
        {"p1": "s1", "p2": "s2"},
        {"u1": "s1", "u2": "s1", "u3": "s2"},
        {"u/{x}": "s2"},
    )


@pytest.mark.requirement("P-04", "P-11", "P-12")
def test_a_server_named_only_by_a_prompt_is_in_scope_without_tools() -> None:
    snapshots = {
        "s1": make_snapshot(tools=["t1"], prompts=["p1", "p2"], resources=["u1", "u2"]),
        "s2": make_snapshot(tools=["t3"], prompts=["p3"], resources=["u9"]),
    }
    preset = make_preset(tools=["s1/t1"], prompts=["s1/p1", "s2/p3"], resources=["s1/u2"])
    view = filter_capabilities(snapshots, preset)
    assert (list(view.tools), owners(view.prompts), owners(view.resources)) == (
        ["s1:t1"],
        {"p1": "s1", "p3": "s2"},
        {"u2": "s1"},
    )


@pytest.mark.requirement("P-04", "P-12")
def test_a_resource_alone_puts_its_server_in_scope() -> None:
    view = filter_capabilities(BOTH, make_preset(resources=["s1/u1"]))
    assert (owners(view.prompts), owners(view.resources)) == ({"p1": "s1"}, {"u1": "s1"})


@pytest.mark.requirement("P-05")
@each_row(
    "preset",
    [
        EMPTY_PRESET,
        make_preset(),
        make_preset(prompts=[]),
        make_preset(resources=[]),
        make_preset(tools=["-s1/t1"], prompts=["-s1/p1"]),
    ],
    ids=["empty", "open", "no prompts", "no resources", "all disabled"],
)
def test_a_preset_without_servers_shows_nothing(preset: Preset) -> None:
    assert filter_capabilities(BOTH, preset) == View()


@pytest.mark.requirement("P-06", "P-08")
def test_a_listed_tool_keeps_its_descriptor_and_others_are_excluded() -> None:
    view = filter_capabilities(BOTH, make_preset(tools=["s1/t1"]))
    route = Route(server_id="s1", name="t1", descriptor=S1.tools["t1"])
    assert view.tools == {"s1:t1": route}


@pytest.mark.requirement("P-07")
@each_row("reference", ["s1/T1", "s1/t", "s1/t3", "gone/t1", "s1/"])
def test_a_tool_that_is_not_offered_is_missing_and_nothing_else_changes(reference: str) -> None:
    view = filter_capabilities(BOTH, make_preset(tools=["s1/t1", reference]))
    assert (list(view.tools), missing(view)) == (["s1:t1"], [f"tool {reference}"])


@pytest.mark.requirement("P-07")
def test_missing_prompts_and_resources_are_listed_too() -> None:
    preset = make_preset(prompts=["s1/nope", "down/p"], resources=["s1/u3", "s2/u/{x}"])
    view = filter_capabilities(BOTH, preset)
    assert missing(view) == ["prompt s1/nope", "prompt down/p", "resource s1/u3"]


def test_a_missing_tool_still_puts_its_server_in_scope() -> None:
    view = filter_capabilities(BOTH, make_preset(tools=["s1/nope"]))
    assert (owners(view.prompts), owners(view.resources)) == (
        {"p1": "s1"},
        {"u1": "s1", "u2": "s1"},
    )


@pytest.mark.requirement("P-03")
def test_a_disabled_reference_does_not_put_its_server_in_scope() -> None:
    view = filter_capabilities(BOTH, make_preset(tools=["s1/t1", "-s2/t3", "-s2/nope"]))
    assert (list(view.tools), owners(view.prompts), view.missing) == (["s1:t1"], {"p1": "s1"}, ())


@pytest.mark.requirement("P-09")
def test_a_tool_name_on_two_servers_gives_two_tools() -> None:
    snapshots = {"a": make_snapshot(tools=["t"]), "a-b": make_snapshot(tools=["t"])}
    view = filter_capabilities(snapshots, make_preset(tools=["a-b/t", "a/t"]))
    assert {name: route.server_id for name, route in view.tools.items()} == {
        "a-b:t": "a-b",
        "a:t": "a",
    }


@pytest.mark.requirement("F-08")
def test_a_tool_name_can_contain_colons() -> None:
    view = filter_capabilities({"a": make_snapshot(tools=["b:c"])}, make_preset(tools=["a/b:c"]))
    assert [(key, route.name) for key, route in view.tools.items()] == [("a:b:c", "b:c")]


@pytest.mark.requirement("P-10")
def test_unrestricted_prompts_and_resources_come_from_servers_in_scope() -> None:
    view = filter_capabilities(BOTH, make_preset(tools=["s2/t3"]))
    assert (owners(view.prompts), owners(view.resources), owners(view.templates)) == (
        {"p2": "s2"},
        {"u3": "s2"},
        {"u/{x}": "s2"},
    )


@pytest.mark.requirement("P-11", "P-12")
@each_row("none", [[], ["-s1/p1", "-s1/u1"]], ids=["empty", "all disabled"])
def test_a_list_without_enabled_references_allows_nothing(none: list[str]) -> None:
    view = filter_capabilities(BOTH, make_preset(tools=["s1/t1"], prompts=none, resources=none))
    assert (view.prompts, view.resources) == ({}, {})


@pytest.mark.requirement("P-11")
def test_a_prompt_is_allowed_on_the_named_server() -> None:
    snapshots = {"a": make_snapshot(prompts=["p", "q"]), "b": make_snapshot(prompts=["p", "q"])}
    view = filter_capabilities(snapshots, make_preset(prompts=["a/p", "b/q"]))
    assert owners(view.prompts) == {"p": "a", "q": "b"}


@pytest.mark.requirement("P-12")
def test_a_resource_reference_allows_a_template_by_uri_template() -> None:
    view = filter_capabilities(BOTH, make_preset(resources=["s2/u/{x}"]))
    assert (owners(view.resources), owners(view.templates), view.missing) == (
        {},
        {"u/{x}": "s2"},
        (),
    )


@pytest.mark.requirement("P-13")
def test_of_two_equal_offers_the_first_in_scope_is_listed() -> None:
    items = {"prompts": ["p"], "resources": ["u"], "templates": ["t/{x}"]}
    snapshots = {"a": make_snapshot(**items, by="a"), "b": make_snapshot(**items, by="b")}
    view = filter_capabilities(snapshots, make_preset(tools=["b/x", "a/x"]))
    routes = [view.prompts["p"][0], view.resources["u"][0], view.templates["t/{x}"][0]]
    assert [(route.server_id, route.descriptor["description"]) for route in routes] == [
        ("b", "b")
    ] * 3
    assert view.shadowed == tuple(
        Shadowed(kind=kind, server_id="a", name=name, winner="b")
        for kind, name in [(Kind.PROMPT, "p"), (Kind.RESOURCE, "u"), (Kind.RESOURCE, "t/{x}")]
    )


@pytest.mark.requirement("P-13")
def test_scope_order_is_tools_then_prompts_then_resources() -> None:
    snapshots = {name: make_snapshot(prompts=["p"]) for name in "abc"}
    preset = make_preset(tools=["c/x"], prompts=["a/p", "b/p", "c/p"], resources=["b/u"])
    view = filter_capabilities(snapshots, preset)
    assert (owners(view.prompts), [item.server_id for item in view.shadowed]) == (
        {"p": "c"},
        ["a", "b"],
    )


def test_a_reference_that_is_repeated_counts_once() -> None:
    preset = make_preset(tools=["s1/t1", "s1/t1", "s1/no", "s1/no"], prompts=["s1/p1", "s1/p1"])
    view = filter_capabilities(BOTH, preset)
    assert (list(view.tools), missing(view), list(view.prompts), view.shadowed) == (
        ["s1:t1"],
        ["tool s1/no"],
        ["p1"],
        (),
    )


@pytest.mark.requirement("P-19")
def test_the_empty_preset_does_not_allow_any_tool() -> None:
    assert filter_capabilities(BOTH, EMPTY_PRESET).allowed == frozenset()


names = st.sampled_from(["x", "y", "z", "x:y", "t/{v}"])
lists = st.lists(names, unique=True)
snapshots_of_servers = st.dictionaries(
    some_server_id,
    st.builds(make_snapshot, tools=lists, prompts=lists, resources=lists, templates=lists),
)
references = references_to(names)
presets = presets_of(references)


@pytest.mark.requirement("P-06", "P-08")
@given(snapshots_of_servers, presets)
def test_exactly_the_referenced_and_offered_tools_are_allowed(
    snapshots: dict[str, Snapshot], preset: Preset
) -> None:
    named = {(ref.server_id, ref.name) for ref in preset.tools if ref.enabled}
    offered = {(server_id, name) for server_id, it in snapshots.items() for name in it.tools}
    view = filter_capabilities(snapshots, preset)
    assert {(route.server_id, route.name) for route in view.tools.values()} == named & offered


@pytest.mark.requirement("P-11", "P-12")
@given(snapshots_of_servers, presets)
def test_items_outside_the_list_or_the_scope_are_not_allowed(
    snapshots: dict[str, Snapshot], preset: Preset
) -> None:
    view = filter_capabilities(snapshots, preset)
    named = [*preset.tools, *(preset.prompts or ()), *(preset.resources or ())]
    scope = {ref.server_id for ref in named if ref.enabled}
    for routes, listed in (
        (view.prompts, preset.prompts),
        (view.resources, preset.resources),
        (view.templates, preset.resources),
    ):
        let_through = {(route.server_id, route.name) for same in routes.values() for route in same}
        assert {server_id for server_id, _ in let_through} <= scope
        if listed is not None:
            assert let_through <= {(ref.server_id, ref.name) for ref in listed if ref.enabled}


@pytest.mark.requirement("P-07")
@given(snapshots_of_servers, presets)
def test_every_reference_is_allowed_or_shadowed_or_missing(
    snapshots: dict[str, Snapshot], preset: Preset
) -> None:
    view = filter_capabilities(snapshots, preset)
    accounted_for = {(it.server_id, it.name) for it in view.missing}
    accounted_for |= {(it.server_id, it.name) for it in view.shadowed}
    accounted_for |= {(route.server_id, route.name) for route in view.tools.values()}
    for routes in (view.prompts, view.resources, view.templates):
        accounted_for |= {(route.server_id, route.name) for route, *_ in routes.values()}
    named = [*preset.tools, *(preset.prompts or ()), *(preset.resources or ())]
    assert {(ref.server_id, ref.name) for ref in named if ref.enabled} <= accounted_for


@pytest.mark.requirement("P-03")
@given(snapshots_of_servers, presets, references)
def test_adding_disabled_references_changes_nothing(
    snapshots: dict[str, Snapshot], preset: Preset, more: tuple[Reference, ...]
) -> None:
    off = tuple(Reference(server_id=it.server_id, name=it.name, enabled=False) for it in more)
    wider = Preset(
        preset_id=preset.preset_id,
        name=preset.name,
        tools=off + preset.tools,
        prompts=None if preset.prompts is None else off + preset.prompts,
        resources=None if preset.resources is None else off + preset.resources,
    )
    assert filter_capabilities(snapshots, wider) == filter_capabilities(snapshots, preset)


def test_an_excluded_item_of_any_kind_is_not_offered() -> None:
    items: Mapping[str, JsonObject] = {"x": {"name": "x"}, "y": {"name": "y"}}
    offered = Snapshot(
        tools=items,
        prompts=items,
        resources=items,
        templates=items,
        need_task=frozenset({"x", "y"}),
    )
    left = without_excluded(offered, "s1", Exclusions(["s1:x"]))
    kinds = (left.tools, left.prompts, left.resources, left.templates, left.need_task)
    assert [set(kind) for kind in kinds] == [{"y"}] * 5
