from collections.abc import Sequence

from mcp_tools_proxy.domain.components import Tool, ToolNameStyle
from mcp_tools_proxy.policy.visibility import Permissions
from mcp_tools_proxy.registry.access_rules import WITHOUT_AGENT
from mcp_tools_proxy.registry.component_table import ComponentTable
from mcp_tools_proxy.registry.mcp_lists import ListShape
from mcp_tools_proxy.registry.shown_tools import MAX_VARIANTS, BoundAgents, ShownTools
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat
from tests.support.fakes import FakeTool
from tests.support.tables import each_row

READ = FakeTool(name="read", properties=("doc_id", "page"))
FIND = FakeTool(name="s:find", alias="s__find", server_id="s", properties=("doc_id", "text"))
BOUND = FakeTool(name="s:find", alias="s__find", server_id="s", properties=("text",))
ONE_DOCUMENT = Permissions(documents=frozenset({"d"}))


def shown_tools(*agents: str) -> ShownTools:
    table: ComponentTable[Tool] = ComponentTable(
        (READ, FIND), names_of=lambda tool: (tool.spec.name, tool.spec.alias), first_shadows=False
    )
    bound = BoundAgents(tools={it: {id(FIND): BOUND} for it in agents})
    return ShownTools(table, bound_agents=bound)


async def arguments_in_lists(shown: ShownTools, permissions: Permissions) -> list[list[str]]:
    """Return the listed arguments; the lists of HTTP API and MCP are the same."""
    variant = shown.variant_for(permissions)
    listed = (await variant.lists.list_for(permissions, ToolFormat.MCP)).definitions
    for style in ToolNameStyle:
        of_mcp = (
            await (await variant.mcp.lists_in(ListShape(style))).list_for(permissions)
        ).definitions
        assert [it["inputSchema"] for it in of_mcp] == [it["inputSchema"] for it in listed]
    return [list(it["inputSchema"]["properties"]) for it in listed]  # type: ignore[index]


@each_row(
    ("permissions", "expected"),
    [
        (WITHOUT_AGENT, [["doc_id", "page"], ["doc_id", "text"]]),
        (ONE_DOCUMENT, [["page"], ["doc_id", "text"]]),
        (Permissions("other"), [["doc_id", "page"], ["doc_id", "text"]]),
        (Permissions("a"), [["doc_id", "page"], ["text"]]),
        (Permissions("a", documents=frozenset({"d"})), [["page"], ["text"]]),
    ],
)
async def test_filled_in_arguments_are_not_listed(
    permissions: Permissions, expected: Sequence[Sequence[str]]
) -> None:
    shown = shown_tools("a")
    assert await arguments_in_lists(shown, permissions) == expected
    assert await arguments_in_lists(shown, WITHOUT_AGENT) == [
        ["doc_id", "page"],
        ["doc_id", "text"],
    ]


def test_callers_with_the_same_filled_in_arguments_share_lists() -> None:
    shown = shown_tools("a")
    assert shown.variant_for(Permissions("b")) is shown.variant_for(WITHOUT_AGENT)
    assert shown.variant_for(ONE_DOCUMENT) is shown.variant_for(
        Permissions("b", documents=frozenset({"d"}))
    )
    assert shown.variant_for(Permissions("a")) is not shown.variant_for(WITHOUT_AGENT)


def test_an_agent_calls_the_tool_bound_by_its_profile() -> None:
    shown = shown_tools("a")
    assert shown.tool_for(FIND, Permissions("a")) is BOUND
    assert shown.tool_for(FIND, Permissions("b")) is FIND
    assert shown.tool_for(READ, Permissions("a")) is READ


def test_the_number_of_cached_lists_is_bounded_for_any_number_of_agents() -> None:
    agents = [f"a{n}" for n in range(3 * MAX_VARIANTS)]
    shown = shown_tools(*agents)
    first, second = (shown.variant_for(Permissions(agent)) for agent in agents[:2])
    for agent in agents:
        shown.variant_for(Permissions(agent))
        assert shown.variant_for(Permissions("a0")) is first  # the newest are kept
    assert shown.variant_for(Permissions("a1")) is not second
