"""A list that a server never answers: the other lists work, and its items are retryable."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import (
    ACTIVE,
    PROMPTS,
    READY,
    RESOURCES,
    TOOLS,
    Service,
    eventually,
    running,
)

PRESET = make_preset(
    tools=[("s1", "echo")], prompts=[("s1", "plain")], resources=[("s1", "raw://text")]
)
USER = {"user_id": "u", "tenant_id": "t"}
USES: dict[str, tuple[str, dict[str, object]]] = {
    "tools/list": ("/internal/mcp/execute", {"tool_name": "echo", "arguments": {"text": "hi"}}),
    "prompts/list": (f"{PROMPTS}/get", {"name": "plain"}),
    "resources/list": (f"{RESOURCES}/read", {"uri": "raw://text"}),
}
UNANSWERED = "server s1 is unavailable: it has not returned its list of"


@asynccontextmanager
async def serving(method: str) -> AsyncIterator[tuple[Service, RawServer]]:
    async with running_raw(mute=(method,)) as server:
        entry = {**server.entry, "connectTimeoutSeconds": 2}
        async with running(config=Config(servers={"s1": entry}, presets=[PRESET])) as service:
            yield service, server


async def outcome(service: Service, method: str) -> tuple[str, bool | None, str]:
    path, body = USES[method]
    answer = (await service.http.post(path, json={**body, "user": USER})).json()
    error = answer.get("error") or {"code": "OK", "message": ""}
    return error["code"], error.get("retryable"), error["message"]


@pytest.mark.parametrize("method", USES)
async def test_an_unanswered_list_does_not_affect_others_until_it_arrives(method: str) -> None:
    async with serving(method) as (service, server):
        assert (await service.http.get(READY)).status_code == 200
        for used in USES.keys() - {method}:
            assert (await outcome(service, used))[0] == "OK"
        code, retryable, message = await outcome(service, method)
        assert (code, retryable) == ("SERVER_UNAVAILABLE", True)
        assert message.startswith(UNANSWERED)
        server.script.options.mute = ()
        server.script.notify_list_changed()

        async def has_come() -> bool:
            return (await outcome(service, method))[0] == "OK"

        await eventually(has_come)


@pytest.mark.parametrize("name", ["s1:echo", "s1__echo", "echo"])
async def test_its_tools_are_unavailable_by_every_name(name: str) -> None:
    async with serving("tools/list") as (service, _):
        assert await service.code(name) == "SERVER_UNAVAILABLE"
        assert await service.code("s1:other") == "TOOL_NOT_ALLOWED"


async def test_lists_and_the_preset_report_its_tools_as_not_listed() -> None:
    async with serving("tools/list") as (service, _):
        reason = f"{UNANSWERED} tools yet"
        warning = {"message": f'{reason}; its tools cannot be called now: "echo"'}
        assert warning in (await service.get(TOOLS))["warnings"]
        (missing,) = (await service.get(ACTIVE))["missing"]
        assert (missing["name"], missing["reason"], missing["message"]) == (
            "echo",
            "not_listed",
            reason,
        )


async def test_a_server_that_declares_no_tools_is_queried_for_them() -> None:
    async with running_raw(undeclared=("tools",)) as server:
        config = Config(servers={"s1": server.entry}, presets=[PRESET])
        async with running(config=config) as service:
            assert await service.code("s1:echo", {"text": "hi"}) == "OK"
            assert server.script.requests["tools/list"] == 1
