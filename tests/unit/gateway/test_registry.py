"""Looking tools up."""

import pytest

from mcp_tools_proxy.domain.errors import AgentNotFound, ToolNotAllowed, ToolNotFound
from mcp_tools_proxy.gateway.registry import Registry
from tests.builders import make_caller
from tests.fakes import FakeTool

SEARCH = FakeTool(name="search")
REMOTE = FakeTool(name="a:b", alias="a__b")
REGISTRY = Registry.build([SEARCH, REMOTE])


@pytest.mark.parametrize(("name", "tool"), [("search", SEARCH), ("a:b", REMOTE), ("a__b", REMOTE)])
def test_a_name_or_an_alias_finds_its_tool(name: str, tool: FakeTool) -> None:
    assert REGISTRY.resolve(name, make_caller()) is tool


@pytest.mark.parametrize("name", ["a:c", "x:y", "a:b:c", "search:x"])
def test_a_qualified_name_outside_the_view_is_not_allowed(name: str) -> None:
    with pytest.raises(ToolNotAllowed):
        REGISTRY.resolve(name, make_caller())


@pytest.mark.parametrize("name", ["", "Search", "search ", ":b", "a:", ":", "b"])
def test_any_other_unknown_name_is_not_found_and_says_what_is_expected(name: str) -> None:
    with pytest.raises(ToolNotFound) as caught:
        REGISTRY.resolve(name, make_caller())
    assert "expected" in (caught.value.details or {})


def test_what_is_listed_resolves() -> None:
    names = [spec.name for spec in REGISTRY.visible_to(make_caller())]
    assert [REGISTRY.resolve(name, make_caller()).spec.name for name in names] == ["search", "a:b"]


def test_an_agent_without_a_profile_sees_nothing() -> None:
    with pytest.raises(AgentNotFound):
        REGISTRY.visible_to(make_caller(agent="a"))


@pytest.mark.parametrize(
    "twin", [FakeTool(name="search", alias="other"), FakeTool(name="other", alias="search")]
)
def test_two_tools_of_one_name_are_refused(twin: FakeTool) -> None:
    with pytest.raises(ValueError, match="two tools"):
        Registry.build([SEARCH, twin])
