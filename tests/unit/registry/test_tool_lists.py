"""Each tool is serialized once; lists join the results."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.policy.visibility import Permissions, Visibility
from mcp_tools_proxy.registry.access_rules import WITHOUT_AGENT
from mcp_tools_proxy.registry.component_table import ComponentTable
from mcp_tools_proxy.registry.tool_lists import SerializedTools, ToolLists
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat, definition_of
from tests.support.fakes import FakeTool

SMALL = [FakeTool(name=f"s:t{n}", alias=f"s__t{n}", server_id="s") for n in range(6)]
EVERY_FORMAT = pytest.mark.parametrize("tool_format", ToolFormat)


def lists_of(tools: Sequence[FakeTool]) -> ToolLists:
    names = {id(tool): (tool.spec.name, tool.spec.alias) for tool in tools}
    return ToolLists(
        ComponentTable(tools, names_of=lambda tool: names[id(tool)], first_shadows=False)
    )


def agent(name: str, *excluded: str) -> Permissions:
    return Permissions(name, Visibility(excluded=Exclusions(excluded)))


@EVERY_FORMAT
@given(chosen=st.lists(st.booleans(), min_size=len(SMALL), max_size=len(SMALL)))
async def test_a_list_equals_the_serialization_of_its_tools(
    tool_format: ToolFormat, chosen: list[bool]
) -> None:
    seen = list(compress(SMALL, chosen))
    hidden = [tool.spec.bare_name for tool in SMALL if tool not in seen]
    found = await lists_of(SMALL).list_for(agent("a", *hidden), tool_format)
    shown = [definition_of(tool.spec, tool_format).definition for tool in seen]
    assert found.body == to_json({"tools": shown, "format": tool_format})


@EVERY_FORMAT
async def test_a_list_without_tools_is_empty(tool_format: ToolFormat) -> None:
    found = await lists_of([]).list_for(WITHOUT_AGENT, tool_format)
    assert (found.body, found.warnings) == (to_json({"tools": [], "format": tool_format}), [])


async def test_only_requested_tools_are_serialized() -> None:
    serialized = SerializedTools([tool.spec for tool in SMALL], ToolFormat.OPENAI)
    await serialized.serialize(b"\x01\x00\x00\x01\x00\x00")
    assert [bool(json) for json in serialized.json] == [True, False, False, True, False, False]


async def test_serialized_tools_are_shared_between_viewers() -> None:
    lists = lists_of(SMALL)
    first = await lists.list_for(agent("a", "t1"), ToolFormat.MCP)
    once = first.serialized.json[0]
    second = await lists.list_for(agent("b", "t2"), ToolFormat.MCP)
    assert second.serialized.json[0] is once


async def test_agents_with_the_same_tools_share_one_tag() -> None:
    lists = lists_of(SMALL)
    found = [await lists.list_for(agent(name, "t1"), ToolFormat.MCP) for name in "abc"]
    tags = {one.etag for one in found}
    assert (len(tags), len(found[0].serialized.etags)) == (1, 1)


async def test_subsets_do_not_leak_memory() -> None:
    lists = lists_of(SMALL)
    for name in ("s:t1", "s:t2", "nope"):
        found = await lists.list_for(WITHOUT_AGENT, ToolFormat.MCP, [name])
        assert found.etag
    assert found.serialized.etags == {}


async def test_looking_up_many_names_does_not_block_other_tasks() -> None:
    turns: list[int] = []

    async def others() -> None:
        for turn in range(3):
            turns.append(turn)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(others())
        names = [f"n{number}" for number in range(500)]
        await lists_of(SMALL).list_for(WITHOUT_AGENT, ToolFormat.OPENAI, names)
        assert len(turns) == 3


async def test_serializing_a_large_tool_does_not_block_other_tasks() -> None:
    served = threading.Event()
    tool = FakeTool(name="s:t", server_id="s")
    tool.spec = replace(tool.spec, input_schema=SlowSchema(served))

    async def others() -> None:
        served.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(others())
        found = await lists_of([tool]).list_for(WITHOUT_AGENT, ToolFormat.OPENAI)
    assert found.specs == [tool.spec]


class SlowSchema(dict[str, object]):
    """A schema whose serialization waits until other tasks were served."""

    def __init__(self, served: threading.Event) -> None:
        super().__init__(type="object", properties={})
        self._served = served

    def __contains__(self, key: object) -> bool:
        assert self._served.wait(15), "the event loop was blocked"
        return super().__contains__(key)
