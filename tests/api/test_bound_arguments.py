"""Bound arguments: hidden in lists, filled in for calls, and not selectable by callers."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any, NamedTuple

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_agent, make_preset, write_json
from tests.support.mcp_endpoint import Served, answer, serving
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import CONFIG_DIR, PROMPTS, TOOLS, Service, eventually

TEXT = {"type": "string"}
BIND: Json = {"tenant": "${caller.tenant_id}", "filter.by": "${caller.user_id}"}
FIND: Json = {
    "name": "find",
    "inputSchema": {
        "type": "object",
        "properties": {
            "text": TEXT,
            "tenant": {**TEXT, "maxLength": 20},
            "project": TEXT,
            "filter": {"type": "object", "properties": {"by": TEXT, "on": TEXT}},
        },
        "required": ["text", "tenant"],
        "additionalProperties": False,
    },
}
FIND_ALL: Json = {
    "name": "find_all",
    "inputSchema": {"type": "object", "properties": {"text": TEXT}},
}
UNCLEAR: Json = {
    "name": "unclear",
    "inputSchema": {**FIND["inputSchema"], "anyOf": [{"required": ["tenant"]}, {}]},
}
SUMMARY: Json = {
    "name": "summary",
    "arguments": [{"name": "topic", "required": True}, {"name": "name", "required": True}],
}
OFFER: Json = {"tools": [FIND, FIND_ALL, UNCLEAR], "prompts": [SUMMARY]}
SHOWN = {"text", "project", "filter"}


class Bound(NamedTuple):
    served: Served
    server: RawServer

    @property
    def service(self) -> Service:
        return self.served.service

    async def tools(self, **query: str) -> Mapping[str, Json]:
        tools = (await self.service.get(TOOLS, **query))["tools"]
        return {it["name"]: it["inputSchema"] for it in tools if it["name"].startswith("s:")}

    async def find(self, arguments: Json | None = None, **more: Any) -> Json:
        envelope = await self.service.execute("s:find", {"text": "x", **(arguments or {})}, **more)
        if envelope["status"] != "ok":
            return dict(envelope["error"])
        return dict(envelope["result"]["structured_content"]["arguments"])


@asynccontextmanager
async def bound_server(
    *agents: Json, offer: Json = OFFER, bind: Json = BIND, **entry: Any
) -> AsyncIterator[Bound]:
    async with running_raw(only=(), extra=deepcopy(offer)) as server:
        tools = [("s", it["name"]) for it in offer["tools"]]
        config = Config(
            servers={"s": {**server.entry, "bind": bind, **entry}},
            presets=[make_preset(tools=tools)],
            agents=agents or None,
            more={"defaultPresetId": "work"},
        )
        async with serving(config=config, log_level="debug", tool_name_style="server") as served:
            yield Bound(served, server)


async def test_lists_hide_bound_arguments_and_calls_include_them() -> None:
    async with bound_server() as bound:
        schemas = await bound.tools()
        assert schemas["s:find"]["properties"].keys() == SHOWN
        assert schemas["s:find"]["required"] == ["text"]
        assert schemas["s:find"]["properties"]["filter"]["properties"].keys() == {"on"}
        over_mcp = answer(await bound.served.request("tools/list"))["result"]["tools"]
        assert {it["name"]: it["inputSchema"] for it in over_mcp}.items() >= schemas.items()
        for tenant_id in ("acme", "globex"):
            assert await bound.find(tenant_id=tenant_id) == {
                "text": "x",
                "tenant": tenant_id,
                "filter": {"by": "user_1"},
            }
        assert (await bound.find({"filter": {"on": "today"}}))["filter"] == {
            "on": "today",
            "by": "user_1",
        }


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"tenant": "acme"}, None),
        ({"filter": {"by": "user_1"}}, None),
        ({"tenant": "globex"}, "INVALID_ARGUMENTS"),
        ({"tenant": None}, "INVALID_ARGUMENTS"),
        ({"filter": {"by": ""}}, "INVALID_ARGUMENTS"),
        ({"filter": "user_1"}, "INVALID_ARGUMENTS"),
    ],
)
async def test_a_bound_argument_accepts_only_the_equal_value(
    arguments: Json, code: str | None
) -> None:
    async with bound_server() as bound:
        found = await bound.find(arguments, tenant_id="acme")
        assert found.get("code") == code
        assert bound.server.script.calls["find"] == (code is None)
        if code is not None:
            assert "acme" not in found["message"]


async def test_a_caller_without_the_bound_field_is_refused_before_anything_is_sent() -> None:
    async with bound_server(bind={"tenant": "${caller.agent}"}) as bound:
        found = await bound.find()
        assert found["code"] == "IDENTITY_REQUIRED"
        assert found["details"] == {"part": "agent"}
        assert not bound.server.script.calls


async def test_the_schema_checks_all_arguments_and_no_message_has_a_bound_value() -> None:
    async with bound_server() as bound:
        found = await bound.find(tenant_id="a-tenant-of-over-20-letters")
        assert found["code"] == "INVALID_ARGUMENTS"
        assert "a-tenant" not in found["message"]


async def test_no_record_or_log_line_has_a_bound_argument() -> None:
    async with bound_server(bind={"tenant": "bound-secret"}) as bound:
        with capture_logs() as lines:
            await bound.find()
            await bound.find({"tenant": "other"})
        assert "bound-secret" not in json.dumps(lines, default=str)
        assert [it["arguments"] for it in lines if "arguments" in it]
        assert not any("tenant" in it["arguments"] for it in lines if "arguments" in it)


async def test_a_tool_that_cannot_be_bound_is_hidden_and_reported() -> None:
    async with bound_server() as bound:
        assert (await bound.tools()).keys() == {"s:find", "s:find_all"}
        code = await bound.service.execute("s:unclear", {"text": "x"})
        assert code["error"]["code"] == "TOOL_NOT_ALLOWED"
        [warning] = [it for it in bound.service.gateway.publisher.warnings if "unclear" in str(it)]
        assert "outside properties" in warning.message


async def test_bind_required_hides_tools_without_the_bound_argument() -> None:
    async with bound_server(bind={"tenant": "t"}, bindRequired=True) as bound:
        assert (await bound.tools()).keys() == {"s:find"}
        found = await bound.service.execute("s:find_all", {"text": "x"})
        assert found["error"]["code"] == "TOOL_NOT_ALLOWED"
        del bound.server.script.tools["find"]["inputSchema"]["properties"]["tenant"]
        bound.server.script.tools["find"]["inputSchema"]["required"] = ["text"]
        bound.server.script.swap("find_all")

        async def is_hidden() -> bool:
            return not await bound.tools()

        await eventually(is_hidden)


async def test_a_path_without_a_match_is_a_warning() -> None:
    async with bound_server(bind={"ten_ant": "t"}) as bound:
        [warning] = bound.service.gateway.publisher.warnings
        assert warning.path == "$.mcpServers.s.bind.ten_ant"


async def test_arguments_of_prompts_are_bound_too() -> None:
    async with bound_server(bind={"name": "${caller.tenant_id}"}) as bound:
        prompts = (await bound.service.get(PROMPTS))["prompts"]
        [shown] = [it["arguments"] for it in prompts if it["name"] == "summary"]
        assert [it["name"] for it in shown] == ["topic"]
        headers = {"X-Tenant-Id": "acme", "X-User-Id": "u"}
        for arguments in ({"topic": "t"}, {"topic": "t", "name": "acme"}):
            params = {"name": "summary", "arguments": arguments}
            got = answer(await bound.served.request("prompts/get", params, headers=headers))
            [message] = got["result"]["messages"]
            assert message["content"]["text"] == "summary of raw for acme"
        params = {"name": "summary", "arguments": {"topic": "t", "name": "globex"}}
        got = answer(await bound.served.request("prompts/get", params, headers=headers))
        assert got["error"]["data"]["code"] == "INVALID_ARGUMENTS"
        complete = {
            "ref": {"type": "ref/prompt", "name": "summary"},
            "argument": {"name": "name", "value": ""},
        }
        got = answer(await bound.served.request("completion/complete", complete, headers=headers))
        assert got["error"]["data"]["code"] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize("agent_value", ["DOCS", ["DOCS"], True])
async def test_a_profile_binds_constants_for_its_agent_only(agent_value: object) -> None:
    agents = [
        {**make_agent("writer"), "bind": {"s:find": {"project": agent_value}}},
        make_agent("reader"),
    ]
    offer = deepcopy(OFFER)
    del offer["tools"][0]["inputSchema"]["properties"]["project"]["type"]
    async with bound_server(*agents, offer=offer) as bound:
        assert "project" not in (await bound.tools(agent="writer"))["s:find"]["properties"]
        assert "project" in (await bound.tools(agent="reader"))["s:find"]["properties"]
        assert (await bound.find(agent="writer"))["project"] == agent_value
        assert "project" not in await bound.find(agent="reader")
        assert (await bound.find({"project": "X"}, agent="writer"))["code"] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize(
    "values", [{"tenant": "another"}, {"missing": 1}, {"filter.by": "x"}, {"filter": {}}]
)
async def test_a_tool_that_a_profile_cannot_bind_is_hidden_from_its_agent(values: Json) -> None:
    agents = [{**make_agent("writer"), "bind": {"s:find": values}}, make_agent("reader")]
    async with bound_server(*agents, bind={"tenant": "t", "filter.by": "y"}) as bound:
        assert "s:find" not in await bound.tools(agent="writer")
        assert (await bound.find(agent="writer"))["code"] == "TOOL_NOT_ALLOWED"
        assert "s:find" in await bound.tools(agent="reader")
        assert any(
            it.path.startswith("$.agents[0].bind")
            for it in bound.service.gateway.publisher.warnings
        )


async def test_a_header_with_a_bound_argument_is_sent_but_not_required_of_callers() -> None:
    tenant = {**TEXT, "x-mcp-header": "Tenant"}
    schema = {"type": "object", "properties": {"tenant": tenant}, "required": ["tenant"]}
    offer: Json = {"tools": [{"name": "headers", "inputSchema": schema}]}
    async with bound_server(offer=offer, bind={"tenant": "${caller.tenant_id}"}) as bound:
        called = {"name": "s:headers", "arguments": {}}
        headers = {"X-Tenant-Id": "acme", "X-User-Id": "u"}
        got = answer(await bound.served.request("tools/call", called, headers=headers))
        assert got["result"]["structuredContent"]["mcp-param-tenant"] == "acme"


async def test_a_changed_bind_keeps_the_session() -> None:
    async with bound_server(bind={"tenant": "one"}) as bound:
        opened = bound.server.script.requests["server/discover"]
        entry = {**bound.server.entry, "bind": {"tenant": "two"}}
        write_json(CONFIG_DIR / "mcp.json", {"mcpServers": {"s": entry}, "defaultPresetId": "work"})

        async def is_rebound() -> bool:
            return bool((await bound.find())["tenant"] == "two")

        await eventually(is_rebound)
        assert bound.server.script.requests["server/discover"] == opened


@pytest.mark.parametrize(
    "entry",
    [
        {"bind": {"a..b": 1}},
        {"bind": {"a": None}},
        {"bind": {"a": {}, "a.b": 1}},
        {"bind": {"a": "${caller.name}"}},
        {"bind": {"a": "${secret:x}"}},
        {"bind": {"a": "${NOT_SET_ANYWHERE}"}},
        {"bind": {"filter": {"by": "${caller.user_id}"}}},
        {"bind": {"filter": [{"${caller.user_id}": 1}]}},
        {"bindRequired": True},
        {"binds": {"a": 1}},
        {"bound": {"a": 1}},
        {"bindrequired": True},
        {"bind_required": True},
    ],
)
async def test_an_invalid_bind_makes_the_entry_invalid(entry: Json) -> None:
    async with bound_server(**{"bind": {}, **entry}) as bound:
        assert not await bound.tools()
        [status] = (await bound.service.get("/internal/mcp/servers"))["servers"]
        assert status["state"] == "invalid"


@pytest.mark.parametrize(
    "profile",
    [
        {"bind": {"find": {"a": 1}}},
        {"bind": {"s:find": {"a..b": 1}}},
        {"bind": {"s:find": {"a": "${caller.tenant_id}"}}},
        {"bind": {"s:find": {"a": ["${caller.tenant_id}"]}}},
        {"binds": {"s:find": {"a": 1}}},
    ],
)
async def test_a_profile_with_an_invalid_bind_is_refused(profile: Json) -> None:
    async with bound_server({**make_agent(), **profile}) as bound:
        assert (await bound.find(agent="reader"))["code"] == "AGENT_NOT_FOUND"
        assert any(
            it.file == "agents.json" for it in bound.service.gateway.publisher.config.problems
        )


@pytest.mark.parametrize(
    ("file", "key"),
    [("mcp.json", "isolation"), ("mcp.json", "bind"), ("agents.json", "documents")],
)
async def test_keys_of_an_entry_are_refused_at_the_root_of_the_file(file: str, key: str) -> None:
    async with bound_server(make_agent()) as bound:
        path = CONFIG_DIR / file
        write_json(path, {**json.loads(path.read_text(encoding="utf-8")), key: "tenant"})

        async def is_refused() -> bool:
            return any(key in it.message for it in bound.service.gateway.publisher.config.problems)

        await eventually(is_refused)
