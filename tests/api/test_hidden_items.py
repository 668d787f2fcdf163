"""Hidden offers of servers: tools that require tasks, and items outside the preset."""

from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcp_tools_proxy.downstream.offered_items import NEEDS_TASK
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, Pair, make_agent, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import ACTIVE, EXECUTE, PROMPTS, RESOURCES, TOOLS, Service, running

USER = {"user_id": "u", "tenant_id": "tenant_1"}
OBJECT = {"type": "object"}
TASK = {"name": "research", "inputSchema": OBJECT, "execution": {"taskSupport": "required"}}
OPTIONAL = {"name": "either", "inputSchema": OBJECT, "execution": {"taskSupport": "optional"}}
EXTRA: dict[str, list[Any]] = {
    "tools": [TASK, OPTIONAL],
    "prompts": [{"name": "hidden"}],
    "resources": [{"uri": "hidden://x", "name": "x"}],
    "resourceTemplates": [{"uriTemplate": "hidden://items/{id}", "name": "items"}],
}
UNUSED_URL = "http://127.0.0.1:9/mcp"
ALL = [("s1", "echo"), ("s1", "research"), ("s1", "either")]


@asynccontextmanager
async def serving(
    tools: list[Pair], agents: tuple[Json, ...] = (), **more: Any
) -> AsyncIterator[Service]:
    async with running_raw(extra=EXTRA) as server:
        config = Config(
            servers={"s1": server.entry, "away": {"url": UNUSED_URL, "enabled": False}},
            presets=[make_preset(tools=tools, **more)],
            agents=agents or None,
        )
        async with running(config=config) as service:
            yield service


def warned_of(listed: Mapping[str, Any]) -> list[str]:
    """Return the tools that a list's warnings name as requiring tasks."""
    warnings = listed.get("warnings", [])
    return [it["tool"] for it in warnings if "taskSupport" in it["message"]]


async def test_a_tool_that_requires_tasks_is_not_listed_and_its_list_has_a_warning() -> None:
    async with serving(ALL) as service:
        for shape in ("mcp", "openai", "anthropic", "gemini"):
            assert warned_of(await service.get(TOOLS, format=shape)) == ["s1:research"]
        names = await service.listed()
        assert ("s1:research" in names, "s1:either" in names) == (False, True)
        assert await service.code("s1:research") == "TOOL_NOT_ALLOWED"
        (missing,) = (await service.get(ACTIVE))["missing"]
        assert (missing["name"], missing["reason"]) == ("research", "needs_task")
        catalog = await service.result("list_available_tools", {})
        assert warned_of(catalog) == ["s1:research"]


async def test_callers_without_access_to_the_tool_get_no_warning() -> None:
    async with serving([("s1", "echo")]) as service:
        assert warned_of(await service.get(TOOLS)) == []
    agents = (make_agent("may"), make_agent("not", exclude=["s1:research"]))
    async with serving(ALL, agents) as service:
        seen = {name: warned_of(await service.get(TOOLS, agent=name)) for name in ("may", "not")}
        assert seen == {"may": ["s1:research"], "not": []}


async def test_a_list_of_chosen_names_warns_only_about_these() -> None:
    async with serving(ALL) as service:
        for name in ("s1:research", "s1__research"):
            listed = await service.get(TOOLS, names=f"s1:echo,{name}")
            assert (warned_of(listed), len(listed["warnings"])) == (["s1:research"], 1)
        assert "warnings" not in await service.get(TOOLS, names="s1:echo")


async def test_agents_with_the_same_tools_but_different_warnings_have_different_tags() -> None:
    agents = (make_agent("may"), make_agent("not", exclude=["s1:research"]))
    async with serving(ALL, agents) as service:
        answers = [await service.http.get(TOOLS, params={"agent": it}) for it in ("may", "not")]
        again = [await service.http.get(TOOLS, params={"agent": it}) for it in ("may", "not")]
    assert answers[0].headers["ETag"] != answers[1].headers["ETag"]
    assert [it.headers["ETag"] for it in answers] == [it.headers["ETag"] for it in again]


# Log lines of hidden items


async def denied(service: Service, route: str, **body: str) -> tuple[str, list[tuple[str, Any]]]:
    lines: list[MutableMapping[str, Any]]
    with capture_logs() as lines:
        response = await service.http.post(route, json={**body, "user": USER})
    logged = [(it["event"], it.get("reason")) for it in lines if it.get("code")]
    return response.json()["error"]["code"], logged


HIDDEN = "not visible under the active preset"


@pytest.mark.requirement("F-22")
@pytest.mark.parametrize("name", ["hidden", "s1:hidden"])
async def test_a_prompt_outside_the_preset_is_logged(name: str) -> None:
    async with serving([("s1", "echo")], prompts=[]) as service:
        code, lines = await denied(service, f"{PROMPTS}/get", name=name)
        assert (code, lines) == ("PROMPT_NOT_FOUND", [("proxy.prompt.denied", HIDDEN)])
        code, lines = await denied(service, f"{PROMPTS}/get", name="nosuch")
        assert (code, lines) == ("PROMPT_NOT_FOUND", [("facade_to_llm.error", None)])


@pytest.mark.requirement("F-22")
@pytest.mark.parametrize(
    "uri", ["hidden://x", "s1:hidden://x", "hidden://items/7", "hidden://items/{id}"]
)
async def test_a_resource_outside_the_preset_is_logged(uri: str) -> None:
    async with serving([("s1", "echo")], resources=[]) as service:
        code, lines = await denied(service, f"{RESOURCES}/read", uri=uri)
        assert (code, lines) == ("RESOURCE_NOT_FOUND", [("proxy.resource.denied", HIDDEN)])
        code, lines = await denied(service, f"{RESOURCES}/read", uri="hidden://nosuch/7/8")
        assert (code, lines) == ("RESOURCE_NOT_FOUND", [("facade_to_llm.error", None)])


@pytest.mark.requirement("F-22")
@pytest.mark.parametrize("agents", [(), (make_agent("one"),)], ids=["no agent", "an agent"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("s1:either", HIDDEN),
        ("s1:nosuch", 'server "s1" does not offer this tool'),
        ("s1:research", f'the tool that server "s1" lists is not usable: {NEEDS_TASK}'),
        ("away:echo", HIDDEN),
        ("no:echo", 'server "no" is not in mcp.json'),
    ],
)
async def test_the_log_line_of_a_tool_says_whether_its_server_offers_it(
    name: str, reason: str, agents: tuple[Json, ...]
) -> None:
    named = {"agent": "one"} if agents else {}
    async with serving([("s1", "echo")], agents) as service:
        code, lines = await denied(service, EXECUTE, tool_name=name, **named)
    assert (code, lines) == ("TOOL_NOT_ALLOWED", [("proxy.tool.denied", reason)])


async def test_hidden_and_unknown_items_are_refused_alike() -> None:
    async with serving([("s1", "echo")], prompts=[]) as service:
        texts = []
        for name in ("hidden", "nosuch"):
            body = {"name": name, "user": USER, "trace_id": "t"}
            response = await service.http.post(f"{PROMPTS}/get", json=body)
            texts.append(response.text.replace(name, "NAME"))
        assert texts[0] == texts[1]
