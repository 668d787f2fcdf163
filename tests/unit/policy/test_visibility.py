"""Visibility rules, one case each (seed-behaviours B.2a; A-03 … A-05, A-14)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import EMPTY_PRESET, AgentProfile, Preset
from mcp_tools_proxy.policy.presets import filter_capabilities
from mcp_tools_proxy.policy.visibility import (
    Denial,
    NamedItem,
    Permissions,
    PresetScope,
    Reason,
    Visibility,
    Why,
    decide,
    reason_of,
)
from tests.support.builders import make_preset, make_snapshot
from tests.support.tables import each_row
from tests.unit.policy.any_preset import presets_of, references_to, some_server_id


def visibility(
    *,
    server_ids: tuple[str, ...] | None = None,
    exclude: tuple[str, ...] = (),
    preset: Preset | None = None,
) -> Visibility:
    profile = AgentProfile(name="reader", server_ids=server_ids, exclude_components=exclude)
    return Visibility.of(profile, None if preset is None else PresetScope.of(preset))


@pytest.mark.requirement("A-03", "A-04")
@each_row(
    ("server_ids", "left"),
    [
        (None, ["A", "B", "C"]),
        (("A",), ["A"]),
        (("C", "A"), ["A", "C"]),
        (("D",), []),
        ((), []),
        (("A", "A", "nowhere"), ["A"]),
        (("a", "A-", ""), []),
    ],
)
def test_client_ids_keep_only_the_listed_servers(
    server_ids: tuple[str, ...] | None, left: list[str]
) -> None:
    of_agent = visibility(server_ids=server_ids)
    assert [s for s in "ABC" if of_agent.denial(Kind.TOOL, s, "x") is None] == left


@pytest.mark.requirement("A-05", "A-06", "A-15")
@each_row(
    ("exclude", "left"),
    [
        ((), ["tool_A", "tool_B", "prompt_C"]),
        (("tool_A",), ["tool_B", "prompt_C"]),
        (("nowhere",), ["tool_A", "tool_B", "prompt_C"]),
        (("tool_A", "tool_B", "prompt_C"), []),
    ],
)
def test_exclude_components_removes_the_listed_names(
    exclude: tuple[str, ...], left: list[str]
) -> None:
    of_agent = visibility(exclude=exclude)
    names = ["tool_A", "tool_B", "prompt_C"]
    assert [it for it in names if of_agent.denial(Kind.TOOL, "s", it) is None] == left


@pytest.mark.requirement("A-09")
def test_the_server_is_checked_before_exclusions() -> None:
    of_agent = visibility(server_ids=("A",), exclude=("x",), preset=EMPTY_PRESET)
    assert of_agent.denial(Kind.TOOL, "B", "x") is Denial.SERVER


@each_row("name", ["x", "tool:x"])
def test_local_tools_can_be_excluded_only_by_name(name: str) -> None:
    narrow = visibility(server_ids=(), exclude=("y",), preset=EMPTY_PRESET)
    assert narrow.denial(Kind.TOOL, None, "x") is None
    assert visibility(exclude=(name,)).denial(Kind.TOOL, None, "x") is Denial.EXCLUDED


ITEM = NamedItem(Kind.TOOL, "s", "x")
HIDDEN = reason_of(Why.QUARANTINED)


@pytest.mark.requirement("A-09")
@each_row(
    ("exclude", "has_tenant", "needs_tenant", "hidden", "expected"),
    [
        ((), True, True, None, None),
        ((), False, False, None, None),
        ((), False, True, None, Denial.TENANT),
        (("x",), False, True, None, Denial.EXCLUDED),
        (("x",), False, True, HIDDEN, HIDDEN),
        ((), True, False, HIDDEN, HIDDEN),
    ],
)
def test_the_order_of_checks_is_global_reason_then_profile_then_tenant(
    exclude: tuple[str, ...],
    has_tenant: bool,
    needs_tenant: bool,
    hidden: Reason | None,
    expected: Denial | Reason | None,
) -> None:
    caller = Permissions("reader", visibility(exclude=exclude), has_tenant)
    assert decide(caller, ITEM._replace(needs_tenant=needs_tenant), hidden) is expected


@each_row("kind", Kind)
def test_the_empty_preset_refuses_all_items_of_servers(kind: Kind) -> None:
    assert visibility(preset=EMPTY_PRESET).denial(kind, "s", "x") is Denial.PRESET


@each_row(
    ("preset", "left"),
    [
        (make_preset(tools=["a/x"]), ["tool a", "prompt a", "resource a"]),
        (make_preset(tools=["-a/x"]), []),
        (make_preset(prompts=["a/x"], resources=[]), ["prompt a"]),
        (make_preset(tools=["a/y"], prompts=[], resources=["a-b/x"]), ["resource a-b"]),
        (make_preset(tools=["a/y"], prompts=[]), ["resource a"]),
    ],
)
def test_an_agents_preset_has_the_same_effect_as_an_active_one(
    preset: Preset, left: list[str]
) -> None:
    of_agent = visibility(preset=preset)
    offered = [(kind, server) for server in ("a", "a-b") for kind in Kind]
    found = [f"{k.value} {s}" for k, s in offered if of_agent.denial(k, s, "x") is None]
    assert found == left


names = st.sampled_from(["x", "y", "z:x"])
presets = presets_of(references_to(names, at_most=4))


@given(presets)
def test_a_preset_as_a_predicate_agrees_with_the_filter(preset: Preset) -> None:
    everything = ["x", "y", "z:x"]
    snapshots = {
        server_id: make_snapshot(tools=everything, prompts=everything, resources=everything)
        for server_id in ("a", "a-b", "b")
    }
    view = filter_capabilities(snapshots, preset)
    let_through = {(Kind.TOOL, route.server_id, route.name) for route in view.tools.values()}
    for kind, routes in ((Kind.PROMPT, view.prompts), (Kind.RESOURCE, view.resources)):
        let_through |= {(kind, it.server_id, it.name) for same in routes.values() for it in same}
    scope = PresetScope.of(preset)
    offered = {(k, s, n) for k in Kind for s in snapshots for n in everything}
    assert {it for it in offered if scope.allows(*it)} == let_through


@given(
    st.none() | st.lists(some_server_id).map(tuple),
    st.none() | presets,
    st.sampled_from(Kind),
    some_server_id,
)
def test_may_allow_is_true_exactly_if_one_item_is_allowed(
    server_ids: tuple[str, ...] | None, preset: Preset | None, kind: Kind, server_id: str
) -> None:
    of_agent = visibility(server_ids=server_ids, preset=preset)
    allowed = [it for it in ("x", "y", "z:x") if of_agent.denial(kind, server_id, it) is None]
    assert of_agent.may_allow(kind, server_id) is bool(allowed)


@pytest.mark.requirement("A-14")
@given(
    st.none() | st.lists(some_server_id).map(tuple),
    st.lists(names | st.sampled_from(["tool:x", "a:y"])).map(tuple),
    st.none() | presets,
    st.sampled_from(Kind),
    some_server_id,
    names,
)
def test_combined_filters_allow_the_intersection(
    server_ids: tuple[str, ...] | None,
    exclude: tuple[str, ...],
    preset: Preset | None,
    kind: Kind,
    server_id: str,
    name: str,
) -> None:
    alone = (
        visibility(server_ids=server_ids),
        visibility(exclude=exclude),
        visibility(preset=preset),
    )
    together = visibility(server_ids=server_ids, exclude=exclude, preset=preset)
    assert (together.denial(kind, server_id, name) is None) == all(
        it.denial(kind, server_id, name) is None for it in alone
    )
