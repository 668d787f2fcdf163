"""Records and explanations name the rule that hides an item; callers do not see it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import CONFIG_DIR, Service, running
from tests.support.tokens import bearer

EXPLAIN = "/internal/mcp/explain"
GET_PROMPT = "/internal/mcp/prompts/get"
ADMIN = "correct-horse-battery"
USER = {"tenant_id": "acme", "user_id": "ann"}
TENANT: Json = {"type": "object", "properties": {"tenant": {"type": "string"}}}
OFFER: Json = {
    "tools": [
        {"name": "find", "inputSchema": TENANT},
        {"name": "find_all", "inputSchema": {"type": "object"}},
        {"name": "unclear", "inputSchema": {**TENANT, "anyOf": [{"required": ["tenant"]}, {}]}},
    ],
    "prompts": [{"name": "summary", "arguments": [{"name": "topic"}]}],
}
BOUND = {"file": "mcp.json", "path": "$.mcpServers.s.bind"}
LOCKED = {"file": "definitions.lock.json", "path": "$.items"}
IN_PROFILE = {"file": "agents.json", "path": '$.agents[?@.name=="writer"].bind["s:find"]'}
PRESET = {"file": "preset_work.json", "path": "$.tools"}
REQUIRED: Json = {"bind": {"tenant": "t"}, "bindRequired": True}


@asynccontextmanager
async def serving(*, preset: list[str], lock: bool = False, **entry: Any) -> AsyncIterator[Service]:
    async with running_raw(only=(), extra=deepcopy(OFFER)) as server:
        config = Config(
            servers={"s": {**server.entry, **entry}},
            presets=[make_preset(tools=[("s", name) for name in preset])],
            agents=[
                {**make_agent("writer", exclude=["x"]), "bind": {"s:find": {"tenant": "other"}}}
            ],
            more={"defaultPresetId": "work"},
        )
        config.write(CONFIG_DIR)
        if lock:
            (CONFIG_DIR / "definitions.lock.json").write_text('{"version": 1, "items": []}')
        mode = "pin" if lock else None
        async with running(
            config=config, admin_token=ADMIN, require_agent=False, definitions=mode
        ) as service:
            yield service


@pytest.mark.parametrize(
    ("tool", "entry", "agent", "rule"),
    [
        ("s:find", {"bind": {"tenant": "t"}}, "writer", IN_PROFILE),
        ("find", {"bind": {"tenant": "t"}}, "writer", IN_PROFILE),
        ("s:unclear", {"bind": {"tenant": "t"}}, None, BOUND),
        ("s__unclear", {"bind": {"tenant": "t"}}, "writer", BOUND),
        ("s:find_all", REQUIRED, None, BOUND),
        ("find_all", REQUIRED, "writer", BOUND),
        ("s:find_all", {"lock": True}, None, LOCKED),
        ("s:find_all", {"preset": ["find", "unclear"], **REQUIRED}, None, PRESET),
    ],
)
async def test_the_rule_of_a_hidden_tool_is_recorded_and_in_no_answer(
    tool: str, entry: Json, agent: str | None, rule: Json
) -> None:
    defaults: Json = {"preset": ["find", "find_all", "unclear"]}
    body = {"tool_name": tool, "user": USER, "agent": agent}
    async with serving(**defaults | entry) as service:
        explained = await service.http.post(EXPLAIN, json=body, headers=bearer(ADMIN))
        with capture_logs() as lines:
            answer = await service.execute(tool, user=USER, agent=agent)
    (record,) = [it for it in lines if "code" in it]
    assert record["rule"] == explained.json()["rule"] == rule
    assert record["check"] == explained.json()["check"] == "visibility"
    assert rule["file"] not in str(answer)
    assert "bind" not in str(answer)


@pytest.mark.parametrize("agent", [None, "writer"])
async def test_a_tool_that_its_server_does_not_offer_is_not_blamed_on_the_preset(
    agent: str | None,
) -> None:
    body = {"tool_name": "s:nosuch", "user": USER, "agent": agent}
    async with serving(preset=["find"]) as service:
        answer = await service.http.post(EXPLAIN, json=body, headers=bearer(ADMIN))
    explained = answer.json()
    (refused,) = [it for it in explained["checks"] if it["check"] == "visibility"]
    assert "rule" not in explained
    assert refused["reason"] == 'server "s" does not offer this tool'


async def test_the_rule_of_a_hidden_prompt_is_recorded() -> None:
    async with serving(preset=["find"], **REQUIRED) as service:
        with capture_logs() as lines:
            await service.http.post(GET_PROMPT, json={"name": "summary", "user": USER})
    (record,) = [it for it in lines if "code" in it]
    assert record["rule"] == BOUND
