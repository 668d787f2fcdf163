"""The rules over calls and runs follow changes of files and of servers' offers."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.labels import ActiveLabels
from mcp_tools_proxy.config.policies import PolicyFiles
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.run import ToolLabels
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules
from tests.support.tables import each_row


async def test_an_earlier_change_that_takes_longer_does_not_undo_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_end = threading.Event()
    prepared = ActiveRunRules._prepared

    def slow(*arguments: Any) -> Any:
        may_end.wait(10)
        return prepared(*arguments)

    monkeypatch.setattr(ActiveRunRules, "_prepared", slow)
    rules = ActiveRunRules(())
    later = {"mail:send": ToolLabels()}
    async with asyncio.TaskGroup() as changes:
        changes.create_task(
            rules.follow(ActiveConfig(policies=PolicyFiles(written=(), configured=True)), {})
        )
        await asyncio.sleep(0)
        changes.create_task(rules.follow(ActiveConfig(labels=ActiveLabels(tools=later)), {}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        may_end.set()
    assert (rules.current.labels, rules.current.policies) == (later, None)


SCHEMAS: dict[str, tuple[JsonObject, bool]] = {
    "declared": ({"properties": {"to": {}}}, True),
    "by a reference": ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"to": {}}}}}, True),
    "by a choice": ({"anyOf": [{"properties": {"to": {}}}, {"required": ["x"]}]}, True),
    "below an argument": ({"properties": {"mail": {"properties": {"to": {}}}}}, False),
    "in other letters": ({"properties": {"To": {}}}, False),
    "nothing declared": ({"type": "object"}, False),
    "a reference to itself": ({"$ref": "#"}, False),
}


@each_row("case", SCHEMAS)
async def test_targets_that_a_tool_declares(case: str) -> None:
    schema, is_declared = SCHEMAS[case]
    labels = {"mail:send": ToolLabels(targets=frozenset({"to"}))}
    rules = ActiveRunRules(())
    snapshots = {"mail": Snapshot(tools={"send": {"name": "send", "inputSchema": schema}})}
    await rules.follow(ActiveConfig(labels=ActiveLabels(tools=labels)), snapshots)
    targets = rules.current.labels["mail:send"].targets
    assert (targets is not None, rules.problems == ()) == (is_declared, is_declared)


async def test_a_missing_tool_is_reported_after_a_complete_discovery() -> None:
    rules = ActiveRunRules(())
    config = ActiveConfig(labels=ActiveLabels(tools={"mail:find_x": ToolLabels()}))
    found = Snapshot(tools={"find": {"name": "find"}}, is_remembered=True)
    await rules.follow(config, {"mail": found})
    assert [str(it) for it in rules.warnings] == []
    await rules.follow(config, {"mail": replace(found, is_remembered=False)})
    assert [it.message for it in rules.warnings] == [
        'the server "mail" has no tool "find_x", so the entry has no effect; did you mean "find"?'
    ]
    await rules.follow(ActiveConfig(labels=ActiveLabels(tools={})), {"mail": found})
    assert [str(it) for it in rules.warnings] == []
