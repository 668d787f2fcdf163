"""Properties of all agents for any servers and files."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import AgentProfile, Preset, Reference
from mcp_tools_proxy.domain.errors import AmbiguousName
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.access_rules import AccessRules
from mcp_tools_proxy.registry.registry import Registry
from tests.support.builders import make_call, make_caller, make_snapshot
from tests.support.examples import at_most
from tests.support.fakes import FakePrompt
from tests.support.registry_lists import visible
from tests.unit.registry.registry_cases import (
    AGENT,
    IMPOSTORS,
    LOCAL,
    PLAIN,
    SERVERS,
    TEMPLATES,
    URIS,
    Case,
    Item,
    cases,
    entries,
    outcome,
    outcomes,
    presets,
    some_servers,
)

ALL_NAMES = (*PLAIN, *IMPOSTORS)
pytestmark = pytest.mark.slow
thoroughly = at_most(100)
agents = st.sampled_from([AGENT, None])


# Listed items are usable


def listed(registry: Registry, agent: str | None) -> list[tuple[Kind, str]]:
    """Return all listed names, except templates."""
    caller = make_caller(agent=agent)
    return [
        *((Kind.TOOL, spec.name) for spec in registry.visible_to(caller)),
        *((Kind.PROMPT, str(it["name"])) for it in visible(registry, "prompts", caller)),
        *((Kind.RESOURCE, str(it["uri"])) for it in visible(registry, "resources", caller)),
    ]


def templates_listed(registry: Registry, agent: str | None) -> list[str]:
    shown = visible(registry, "templates", make_caller(agent=agent))
    return [str(it["uriTemplate"]) for it in shown]


def offered(case: Case) -> list[Item]:
    """Return all items that the servers offer, except templates."""
    return [
        (kind, server_id, name)
        for server_id, it in case.snapshots.items()
        for kind, names in (
            (Kind.TOOL, it.tools),
            (Kind.PROMPT, it.prompts),
            (Kind.RESOURCE, it.resources),
        )
        for name in names
    ]


@pytest.mark.requirement("A-10", "A-13")
@thoroughly
@given(cases(ALL_NAMES), agents)
def test_a_listed_item_is_found_by_full_name(case: Case, agent: str | None) -> None:
    registry = case.registry
    shown = [outcome(registry, kind, name, agent) for kind, name in listed(registry, agent)]
    usable = {
        item
        for item in offered(case)
        if outcome(registry, item[0], f"{item[1]}:{item[2]}", agent) == item
    }
    assert len(shown) == len(set(shown))
    assert {item for item in shown if item[1] is not None} == usable


@pytest.mark.requirement("A-13")
@thoroughly
@given(cases(PLAIN), agents)
def test_uris_of_a_listed_template_are_read_from_its_server(case: Case, agent: str | None) -> None:
    """Templates that overlap partly cannot be distinguished by their lists: ambiguous."""
    registry = case.registry
    for shown in templates_listed(registry, agent):
        server_id, colon, _ = shown.rpartition(":")
        uri = shown.replace("{rest}", "only")
        found = outcome(registry, Kind.RESOURCE, uri, agent)
        excluded = agent is not None and found == "RESOURCE_NOT_ALLOWED"
        assert excluded or found == "AMBIGUOUS_NAME" or found[2] in TEMPLATES
        assert not colon or excluded or found[:2] == (Kind.RESOURCE, server_id)


# Filters only narrow


def fewer(preset: Preset) -> Preset:
    """Drop every second reference, and restrict unrestricted kinds to nothing."""
    return replace(
        preset,
        tools=preset.tools[::2],
        prompts=(preset.prompts or ())[::2],
        resources=(preset.resources or ())[::2],
    )


@st.composite
def narrowings(draw: st.DrawFn, names: tuple[str, ...]) -> tuple[Case, Case]:
    """Draw a case, and the same case with one more filter."""
    case = draw(cases(names))
    match draw(st.sampled_from(["server_ids", "exclude_components", "preset", "exclude"])):
        case "server_ids":
            left = draw(some_servers)
            ids = case.profile.server_ids
            both = left if ids is None else tuple(it for it in ids if it in left)
            return case, replace(case, profile=replace(case.profile, server_ids=both))
        case "exclude_components":
            more = draw(entries(names))
            every = (*case.profile.exclude_components, *more)
            return case, replace(case, profile=replace(case.profile, exclude_components=every))
        case "preset":
            now = case.agents_preset
            return case, replace(case, agents_preset=fewer(now) if now else draw(presets(names)))
    server_id, more = draw(st.sampled_from(SERVERS)), draw(entries(names))
    excluded = (*case.exclude.get(server_id, ()), *more)
    return case, replace(case, exclude={**case.exclude, server_id: excluded})


def usable(case: Case, agent: str | None) -> set[Item]:
    """Return all items that any spelling resolves to; for resources and templates, the URI read."""
    found: set[Item] = set()
    for (kind, spelling), it in outcomes(case, agent, ALL_NAMES).items():
        if not isinstance(it, str):
            _, server_id, name = it
            uri = spelling.removeprefix(f"{server_id}:")
            found.add((kind, server_id, uri if kind is Kind.RESOURCE else name))
    return found


@pytest.mark.requirement("A-14")
@thoroughly
@given(narrowings(ALL_NAMES))
def test_another_filter_never_adds_a_component(both: tuple[Case, Case]) -> None:
    before, after = both
    assert usable(after, AGENT) <= usable(before, AGENT)
    assert len(listed(after.registry, AGENT)) <= len(listed(before.registry, AGENT))
    assert len(templates_listed(after.registry, AGENT)) <= len(
        templates_listed(before.registry, AGENT)
    )


@pytest.mark.requirement("A-14", "A-08")
@thoroughly
@given(narrowings(PLAIN))
def test_another_filter_makes_only_ambiguous_names_usable(
    both: tuple[Case, Case],
) -> None:
    """The filter may leave one of the candidates of an ambiguous name, which is then used."""
    before, after = (outcomes(case, AGENT, PLAIN) for case in both)
    newly = {name: before[name] for name, it in after.items() if not isinstance(it, str)}
    refused = {code for code in newly.values() if isinstance(code, str)}
    assert refused <= {"AMBIGUOUS_NAME"}


@pytest.mark.requirement("A-01", "P-13")
@thoroughly
@given(narrowings(PLAIN))
def test_without_an_agent_another_filter_reveals_only_shadowed_items(
    both: tuple[Case, Case],
) -> None:
    """If the first of two items is excluded, the second gets the name: the preset allowed both. A
    tool's name is different: it was ambiguous."""
    before, after = both
    everything = replace(before, profile=AgentProfile(name=AGENT), agents_preset=None)
    assert usable(after, None) <= usable(everything, AGENT)
    were, are = outcomes(before, None, PLAIN), outcomes(after, None, PLAIN)
    newly = [
        were[kind, name]
        for (kind, name), it in are.items()
        if name in (*PLAIN, *URIS) and not isinstance(it, str) and isinstance(were[kind, name], str)
    ]
    assert {*newly} <= {"AMBIGUOUS_NAME"}


# Ambiguity


def test_an_ambiguity_error_lists_only_candidates_that_the_agent_can_use() -> None:
    prompts = [FakePrompt("x", server_id=server_id) for server_id in ("a", "a-b", "b")]
    narrow = Visibility(server_ids=frozenset({"a", "b"}))
    registry = Registry.build([], prompts=prompts, access_rules=AccessRules(agents={AGENT: narrow}))
    with pytest.raises(AmbiguousName, match=r'2 servers have it.*"a:x", "b:x"$') as caught:
        registry.resolve(make_call("x", kind=Kind.PROMPT, agent=AGENT))
    assert caught.value.details == {"candidates": ["a:x", "b:x"]}


# Every spelling resolves to the item that it spells

any_servers = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True) | st.sampled_from(
    ["a", "a-b", "a_", "a__b", "b"]
)
any_names = st.text(min_size=1, max_size=300) | st.text(
    st.sampled_from("ab_:-."), min_size=1, max_size=6
)
pairs = st.lists(st.tuples(any_servers, any_names), min_size=1, max_size=8, unique=True)


@pytest.mark.requirement("A-19")
@thoroughly
@given(pairs, agents)
def test_every_tool_is_found_by_full_name_and_by_alias(
    tools: list[tuple[str, str]], agent: str | None
) -> None:
    offers = {server_id: [n for s, n in tools if s == server_id] for server_id, _ in tools}
    preset = Preset(
        preset_id="p",
        name="P",
        tools=tuple(Reference(server_id=server_id, name=name) for server_id, name in tools),
    )
    registry = Case(
        snapshots={server_id: make_snapshot(tools=names) for server_id, names in offers.items()},
        preset=preset,
        profile=AgentProfile(name=AGENT),
    ).registry
    for server_id, name in tools:
        item = (Kind.TOOL, server_id, name)
        spelt = (qualified_name(server_id, name), alias_of(server_id, name))
        assert [outcome(registry, Kind.TOOL, it, agent) for it in spelt] == [item, item]
    aliases = [spec.alias for spec in registry.visible_to(make_caller(agent=agent))]
    assert aliases == [LOCAL.spec.alias, *(alias_of(*pair) for pair in tools)]
