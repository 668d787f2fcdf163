"""All names share one table: a unique name never resolves to another item."""

import pytest

from mcp_tools_proxy.policy.visibility import Permissions, Visibility
from mcp_tools_proxy.registry.access_rules import WITHOUT_AGENT
from mcp_tools_proxy.registry.component_table import ComponentTable, drop_name_conflicts
from tests.support.fakes import FakeTool
from tests.support.tables import each_row

OWN = FakeTool(name="a:x", server_id="a")
IMPOSTOR = FakeTool(name="b:a:x", server_id="b")
TABLE = ComponentTable(
    [OWN, IMPOSTOR], names_of=lambda tool: (tool.spec.name,), first_shadows=False
)


@pytest.mark.requirement("A-19")
def test_the_full_name_of_a_hidden_tool_does_not_resolve_to_another_servers_tool() -> None:
    only_b = Permissions("reader", Visibility(server_ids=frozenset({"b"})))
    assert (TABLE.find("a:x", WITHOUT_AGENT), TABLE.find("a:x", only_b)) == ((OWN,), ())
    assert TABLE.find("b:a:x", only_b) == (IMPOSTOR,)


@each_row(
    ("name", "alias"),
    [("local", "x"), ("x", "local"), ("a:one", "x"), ("x", "a__one"), ("a__one", "x")],
)
def test_a_remote_tool_never_replaces_an_existing_name_or_alias(name: str, alias: str) -> None:
    local = FakeTool(name="local")
    one = FakeTool(name="a:one", alias="a__one", server_id="a")
    twin = FakeTool(name=name, alias=alias, server_id="a")
    assert drop_name_conflicts([local], [one, twin]) == ((one,), (twin,))
