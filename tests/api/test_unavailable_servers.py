"""A server that was never reached: all answers have the same reason and no address."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.api.blocked_service import UNREACHABLE_SERVER
from tests.support.configuration import Config, Json, make_agent, make_preset
from tests.support.service import (
    ACTIVE,
    BATCH,
    PROMPTS,
    READY,
    RESOURCES,
    SERVERS,
    TOOLS,
    Service,
    request_of,
    running,
)

EXPLAIN = "/internal/mcp/explain"
OVERVIEW = "/internal/mcp/overview"
TOKEN = "admin-token-of-the-test"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}

REASON = "server dead is unavailable: connection refused"

PRESET = make_preset(
    tools=[("dead", "echo")], prompts=[("dead", "plain")], resources=[("dead", "raw://text")]
)
USER = {"user_id": "u", "tenant_id": "t"}


@asynccontextmanager
async def serving(
    entry: Json = UNREACHABLE_SERVER, *, agents: list[Json] | None = None, **more: Any
) -> AsyncIterator[Service]:
    config = Config(servers={"dead": entry}, presets=[PRESET], agents=agents)
    async with running(config=config, admin_token=TOKEN, **more) as service:
        yield service


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    async with serving(**shared_settings) as started:
        yield started


@pytest.mark.requirement("P-07")
@pytest.mark.parametrize("agents", [None, [make_agent("a")]], ids=["no agent", "an agent"])
@pytest.mark.parametrize("name", ["dead:echo", "dead__echo", "echo"])
async def test_a_call_by_any_name_of_the_tool_is_retryable(
    name: str, agents: list[Json] | None
) -> None:
    async with serving(agents=agents) as service:
        agent: dict[str, Any] = {"agent": "a"} if agents else {}
        error = (await service.execute(name, **agent))["error"]
        assert (error["code"], error["retryable"], error["details"]) == (
            "SERVER_UNAVAILABLE",
            True,
            {"server_id": "dead"},
        )
        assert error["message"].startswith(REASON)
        assert "127.0.0.1" not in str(error)


async def test_prompts_resources_and_batches_have_the_same_reason(service: Service) -> None:
    bodies = (
        (f"{PROMPTS}/get", {"name": "plain", "user": USER}),
        (f"{RESOURCES}/read", {"uri": "raw://text", "user": USER}),
    )
    for path, body in bodies:
        error = (await service.http.post(path, json=body)).json()["error"]
        assert error["code"] == "SERVER_UNAVAILABLE"
        assert error["message"].startswith(REASON)
    batch = {"calls": [{"tool_name": "dead:echo"}], "user": USER}
    (result,) = (await service.http.post(BATCH, json=batch)).json()["results"]
    assert result["error"]["message"].startswith(REASON)


async def test_an_item_outside_the_preset_is_refused_as_before(service: Service) -> None:
    assert await service.code("dead:other") == "TOOL_NOT_ALLOWED"
    assert await service.code("other") == "TOOL_NOT_FOUND"


async def test_an_agent_without_the_tool_does_not_see_its_server() -> None:
    async with serving(agents=[make_agent("a", exclude=["echo"])]) as service:
        assert await service.code("dead:echo", agent="a") == "TOOL_NOT_ALLOWED"
        listed = await service.result("list_available_tools", agent="a")
        assert "dead" not in str(listed)


async def test_explain_has_the_same_reason_as_the_call(service: Service) -> None:
    body = request_of("dead:echo")
    answer = (await service.http.post(EXPLAIN, json=body, headers=ADMIN)).json()
    error = (await service.execute("dead:echo"))["error"]
    (check,) = (it for it in answer["checks"] if it["check"] == "server")
    assert (answer["decision"], answer["check"]) == ("SERVER_UNAVAILABLE", "server")
    assert check["message"].partition(";")[0] == error["message"].partition(";")[0] == REASON
    assert check["reason"] == "http://127.0.0.1:9/mcp: connection refused"


async def test_lists_name_the_server_and_its_tools(service: Service) -> None:
    warning = f'{REASON}; its tools cannot be called now: "echo"'
    for listed in (
        await service.result("list_available_tools"),
        await service.get(TOOLS, tenant_id="t"),
    ):
        assert {"message": warning} in listed["warnings"]
    named = await service.result("list_available_tools", {"names": ["dead:echo"]})
    assert named["warnings"] == [{"tool": "dead:echo", "message": REASON}]


async def test_the_preset_readiness_and_the_overview_have_the_reason() -> None:
    async with serving(console=True) as service:
        missing = (await service.get(ACTIVE))["missing"]
        assert {(it["reason"], it["message"]) for it in missing} == {("server_unreachable", REASON)}
        checks = (await service.get(READY))["checks"]
        assert (checks["server:dead"]["state"], checks["server:dead"]["reason"]) == (
            "unreachable",
            REASON,
        )
        assert checks["preset"]["reasons"] == [REASON]
        assert "127.0.0.1" not in str(checks)
        overview = (await service.http.get(OVERVIEW, headers=ADMIN)).json()
        found = {it["kind"]: it["message"] for it in overview["attention"]}
        assert found["item_missing"] == f"the preset work names it: {REASON}"
        assert found["server_failing"].endswith("http://127.0.0.1:9/mcp: connection refused")


async def test_operators_see_the_address_the_attempts_and_the_next_one(service: Service) -> None:
    (server,) = (await service.get(SERVERS))["servers"]
    assert (server["state"], server["last_error"]) == (
        "unreachable",
        "http://127.0.0.1:9/mcp: connection refused",
    )
    assert server["attempts"] >= 1
    assert "next_attempt_at" in server or server["attempts"] >= 1


async def test_a_call_over_mcp_has_the_same_reason(service: Service) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "dead:echo", "arguments": {}, "_meta": meta},
    }
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "dead:echo",
        "Accept": "application/json, text/event-stream",
    }
    answer = await service.http.post("/mcp", json=message, headers=headers)
    assert f"SERVER_UNAVAILABLE: {REASON}" in answer.text


@pytest.mark.parametrize(
    ("entry", "reason", "state"),
    [
        ({}, "its entry in mcp.json is invalid", "invalid"),
        (
            {"command": "no-such-command"},
            'the command "no-such-command" was not found',
            "unreachable",
        ),
        (
            {"command": "sh", "args": ["-c", "exit 3"]},
            "the server's process ended with exit code 3",
            "unreachable",
        ),
    ],
    ids=["invalid", "no such command", "exits"],
)
async def test_other_causes_are_consistent_too(entry: Json, reason: str, state: str) -> None:
    async with serving(entry) as service:
        expected = f"server dead is unavailable: {reason}"
        error = (await service.execute("dead:echo"))["error"]
        assert (error["code"], error["message"].startswith(expected)) == (
            "SERVER_UNAVAILABLE",
            True,
        )
        assert (await service.get(SERVERS))["servers"][0]["state"] == state
        assert {it["message"] for it in (await service.get(ACTIVE))["missing"]} == {expected}
        checks = (await service.get(READY))["checks"]
        assert checks["server:dead"]["reason"] == expected


async def test_a_disabled_server_is_reported_as_disabled_and_not_as_failed() -> None:
    async with serving({**UNREACHABLE_SERVER, "enabled": False}) as service:
        assert await service.code("dead:echo") == "TOOL_NOT_ALLOWED"
        messages = {it["message"] for it in (await service.get(ACTIVE))["missing"]}
        assert messages == {"server dead is unavailable: it is disabled in mcp.json"}
