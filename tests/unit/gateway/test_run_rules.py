"""The rules over calls and runs follow changes of files and of servers' offers."""

import asyncio
import threading
from typing import Any

import pytest

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.config.labels import ActiveLabels
from mcp_tools_proxy.config.policies import PolicyFiles
from mcp_tools_proxy.domain.run import ToolLabels
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules


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
