"""Which references of a preset a style of names cannot name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.domain.components import ToolNameStyle
from mcp_tools_proxy.domain.configuration import Reference
from mcp_tools_proxy.policy.aliases import NameConflict, ToolNaming, alias_of, qualified_name
from tests.support.builders import refs

BARE = ToolNaming(style=ToolNameStyle.BARE, own_names=frozenset({"local"}))
HASHED = alias_of("a", "drop all")

NAMES = st.sampled_from(["x", "y", "local", "a:x", "a__x", HASHED, "drop all"])
references = st.lists(
    st.builds(Reference, server_id=st.sampled_from(["a", "b"]), name=NAMES, enabled=st.booleans()),
    max_size=6,
)


@pytest.mark.parametrize("style", [ToolNameStyle.SERVER, ToolNameStyle.ALIAS])
def test_full_names_and_aliases_are_always_unique(style: ToolNameStyle) -> None:
    naming = ToolNaming(style=style, own_names=BARE.own_names)
    assert [*naming.conflicts(refs("a/x", "b/x", "b/local", "b/a:x"))] == []


@pytest.mark.parametrize(
    "tools",
    [
        ("a/x", "b/y"),
        ("a/x", "-b/x"),
        ("a/x", "a/x"),
        ("-a/local", "a/remote"),
        ("a/x", "-b/a:x", "-b/a__x"),
        ("b/a:x", "b/a__x"),
    ],
)
def test_names_of_one_enabled_tool_each_are_taken(tools: tuple[str, ...]) -> None:
    assert [*BARE.conflicts(refs(*tools))] == []


@pytest.mark.parametrize(
    ("tools", "clash"),
    [
        (("a/x", "b/x"), NameConflict(place=1, name="x", other=0)),
        (("-a/x", "a/x", "a/x", "b/x"), NameConflict(place=3, name="x", other=1)),
        (("a/local",), NameConflict(place=0, name="local", other=None)),
        (("a/x", "b/a:x"), NameConflict(place=1, name="a:x", other=0)),
        (("b/a__x", "a/x"), NameConflict(place=0, name="a__x", other=1)),
        (("a/drop all", f"b/{HASHED}"), NameConflict(place=1, name=HASHED, other=0)),
    ],
)
def test_a_name_that_something_else_has_is_reported_with_its_place(
    tools: tuple[str, ...], clash: NameConflict
) -> None:
    assert [*BARE.conflicts(refs(*tools))] == [clash]


def test_each_further_tool_of_a_name_clashes_with_the_first() -> None:
    found = BARE.conflicts(refs("a/x", "b/x", "c/x"))
    assert [(it.place, it.other) for it in found] == [(1, 0), (2, 0)]


@given(references)
def test_a_preset_is_taken_just_when_no_bare_name_means_anything_else(
    tools: list[Reference],
) -> None:
    pairs = {(it.server_id, it.name) for it in tools if it.enabled}
    means = {
        pair: BARE.own_names & {pair[1]}
        | {
            other
            for other in pairs - {pair}
            if pair[1] in (other[1], qualified_name(*other), alias_of(*other))
        }
        for pair in pairs
    }
    assert (not any(means.values())) == (not [*BARE.conflicts(tools)])
