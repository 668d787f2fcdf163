"""Properties of each naming style for any servers, files and callers."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller, Kind
from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.list_options import ListOptions
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat
from tests.support.builders import make_caller
from tests.support.examples import at_most
from tests.unit.registry.registry_cases import (
    AGENT,
    IMPOSTORS,
    PLAIN,
    SERVERS,
    Case,
    cases,
    outcome_for,
)

ALL_NAMES = (*PLAIN, *IMPOSTORS)
pytestmark = pytest.mark.slow
thoroughly = at_most(200)
callers = st.builds(
    make_caller,
    tenant_id=st.sampled_from(["tenant_1", NO_TENANT]),
    agent=st.sampled_from([AGENT, None]),
)
styles = st.sampled_from(ToolNameStyle)


@pytest.mark.requirement("F-11", "A-13")
@thoroughly
@given(cases(ALL_NAMES), styles, callers)
async def test_each_listed_name_resolves_to_its_tool(
    case: Case, style: ToolNameStyle, caller: Caller
) -> None:
    registry = case.registry
    listed = [
        str(it["name"])
        for it in (await registry.mcp_tools(caller, ListOptions(name_style=style))).definitions
    ]
    found = [outcome_for(registry, Kind.TOOL, name, caller) for name in listed]
    seen = registry.visible_to(caller)
    for_http = await registry.list_tools(caller, ToolFormat.MCP, style=style)
    assert [it["name"] for it in for_http.definitions] == listed
    assert len(set(listed)) == len(listed)
    assert found == [(Kind.TOOL, spec.server_id, spec.bare_name) for spec in seen]


@pytest.mark.requirement("F-14", "A-13")
@thoroughly
@given(cases(ALL_NAMES), styles, callers)
async def test_unlisted_tools_cannot_be_reached_by_any_spelling(
    case: Case, style: ToolNameStyle, caller: Caller
) -> None:
    registry = case.registry_in(style)
    spelt = ["local", *ALL_NAMES, *(f"{it}:{name}" for it in SERVERS for name in ALL_NAMES)]
    spelt += [f"{server}__{name}" for server in SERVERS for name in ALL_NAMES]
    found = {outcome_for(registry, Kind.TOOL, name, caller) for name in spelt}
    seen = {(Kind.TOOL, spec.server_id, spec.bare_name) for spec in registry.visible_to(caller)}
    assert {it for it in found if not isinstance(it, str)} <= seen


@thoroughly
@given(cases(ALL_NAMES), callers)
async def test_the_naming_style_does_not_change_visibility(case: Case, caller: Caller) -> None:
    registries = [case.registry_in(style) for style in ToolNameStyle]
    seen = [[spec.name for spec in registry.visible_to(caller)] for registry in registries]
    assert all(names == seen[0] for names in seen)


@thoroughly
@given(cases(ALL_NAMES), styles)
async def test_without_a_tenant_only_tools_that_need_one_are_hidden(
    case: Case, style: ToolNameStyle
) -> None:
    registry = case.registry_in(style)
    for agent in (AGENT, None):
        whole = registry.visible_to(make_caller(agent=agent))
        left = registry.visible_to(make_caller(agent=agent, tenant_id=NO_TENANT))
        assert left == [spec for spec in whole if not spec.needs_tenant]


@pytest.mark.requirement("F-11")
@thoroughly
@given(cases(PLAIN), callers)
async def test_a_tool_is_listed_by_bare_name_if_it_is_unique_in_the_preset(
    case: Case, caller: Caller
) -> None:
    """Names that look like another server's keep their server id."""
    pairs = {(it.server_id, it.name) for it in case.preset.tools if it.enabled}
    times = Counter(name for _, name in pairs)
    registry = case.registry_in(ToolNameStyle.BARE)
    listed = [it["name"] for it in (await registry.mcp_tools(caller)).definitions]
    seen = zip(registry.visible_to(caller), listed, strict=True)
    found = [(spec, name) for spec, name in seen if times[spec.bare_name] <= 1]
    expected = [it.name if ":" in it.bare_name else it.bare_name for it, _ in found]
    assert [name for _, name in found] == expected
