"""All items that a server offers, with the reasons why callers do not see some, for operators."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import SERVERS, Envelope, Service, eventually, running
from tests.support.tokens import bearer, file_token, token_settings

ADMIN = "correct-horse-battery"
OBJECT: Json = {"type": "object"}
TASK: Json = {"name": "task", "inputSchema": OBJECT, "execution": {"taskSupport": "required"}}
INVALID: Json = {"name": "bad", "inputSchema": {"type": 5}}
NOTED: Json = {"name": "noted", "inputSchema": OBJECT, "annotations": {"title": "A"}}


async def page(
    service: Service, server_id: str = "s1", token: str = ADMIN, **query: str
) -> httpx.Response:
    params = {"offers": server_id, **query}
    return await service.http.get(SERVERS, params=params, headers=bearer(token))


async def offers(service: Service, server_id: str = "s1", **query: str) -> Envelope:
    answer = await page(service, server_id, **query)
    assert answer.status_code == 200, answer.text
    found: Envelope = answer.json()["offers"]
    return found


@asynccontextmanager
async def serving(server: RawServer, **settings: Any) -> AsyncIterator[Service]:
    config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "echo")])])
    async with running(config=config, admin_token=ADMIN, **settings) as service:
        yield service


async def test_each_item_has_its_visibility_in_the_preset_and_the_reason() -> None:
    only = ("echo", "meta", "whoami")
    extra = {"tools": [TASK, INVALID, NOTED]}
    async with (
        running_raw(only=only, extra=extra) as server,
        running_raw(only=("echo",)) as first,
    ):
        names = ("echo", "whoami", "task", "noted", "bad")
        tools = [("s0", "echo"), *(("s1", name) for name in names)]
        preset = make_preset(tools=tools, resources=[("s1", "raw://text")])
        preset["tools"][1]["overrides"] = {"description": "another one"}
        entry = {**server.entry, "exclude": ["whoami"]}
        config = Config(servers={"s0": first.entry, "s1": entry}, presets=[preset])
        async with running(config=config, admin_token=ADMIN) as service:
            answer = (await page(service)).json()
            plain = await service.get(SERVERS)
    found = answer["offers"]
    assert answer["servers"] == plain["servers"]
    assert (found["server_id"], found["total"], "next_cursor" in found) == ("s1", 10, False)
    hidden = {(it["kind"], it["name"]): it.get("hidden_for") for it in found["items"]}
    assert hidden == {
        ("tool", "echo"): None,
        ("tool", "meta"): "not_in_preset",
        ("tool", "whoami"): "excluded",
        ("tool", "noted"): None,
        ("prompt", "greet"): "shadowed",
        ("prompt", "plain"): "shadowed",
        ("resource", "raw://text"): None,
        ("resource_template", "raw://item/{id}"): "not_in_preset",
        ("tool", "task"): "needs_task",
        ("tool", "bad"): "invalid",
    }
    assert all(it["shown"] is ("hidden_for" not in it) for it in found["items"])
    by_name = {it["name"]: it for it in found["items"]}
    assert by_name["noted"]["definition"] == NOTED
    assert "another one" not in str(by_name["echo"])
    assert by_name["raw://text"]["definition"]["mimeType"] == "text/plain"
    assert ("definition" in by_name["bad"], bool(by_name["bad"]["problem"])) == (False, True)


async def test_unbindable_and_changed_items_have_a_reason() -> None:
    async with running_raw(only=("echo", "meta")) as server:
        entry = {**server.entry, "bind": {"text": "x"}, "bindRequired": True}
        preset = make_preset(tools=[("s1", "echo"), ("s1", "meta")], prompts=[], resources=[])
        config = Config(servers={"s1": entry}, presets=[preset])
        async with running(config=config, admin_token=ADMIN, definitions="pin") as service:
            items = (await offers(service))["items"]
    hidden = {it["name"]: it["hidden_for"] for it in items if it["kind"] == "tool"}
    assert hidden == {"echo": "quarantined", "meta": "cannot_bind"}


async def test_pages_have_each_item_once_and_are_limited_in_items_and_bytes() -> None:
    long = {"name": "long", "inputSchema": OBJECT, "description": "x" * 1_500_000}
    wide = [
        {"name": f"wide{number}", "inputSchema": OBJECT, "description": "y" * 20_000}
        for number in range(120)
    ]
    names: list[str] = []
    sizes: list[tuple[int, int]] = []
    extra = {"tools": [long, *wide]}
    async with running_raw(only=(), tools=250, extra=extra) as server, serving(server) as service:
        found = await offers(service)
        while True:
            names += [it["name"] for it in found["items"]]
            sizes.append((len(found["items"]), len(json.dumps(found["items"]))))
            if "next_cursor" not in found:
                break
            found = await offers(service, cursor=found["next_cursor"])
    assert (len(names), len(set(names)), found["total"]) == (375, 375, 375)
    assert max(count for count, _ in sizes) == 100
    assert all(size <= 1_100_000 or count == 1 for count, size in sizes)


async def test_a_cursor_of_another_offer_is_refused() -> None:
    async with running_raw(only=("echo",), tools=150) as server, serving(server) as service:
        cursor = (await offers(service))["next_cursor"]
        server.script.swap("tool_007")

        async def is_removed() -> bool:
            return bool((await offers(service))["total"] == 154)

        await eventually(is_removed)
        for tried in (cursor, "0-0123456789abcdef", "9999-0123456789abcdef", "x", "", "1" * 65):
            refused = await page(service, cursor=tried)
            assert (refused.status_code, refused.json()["error"]["details"]) == (
                422,
                {"field": "cursor"},
            ), tried


async def test_an_unknown_server_and_one_that_has_not_offered_anything_yet(
    server: RawServer,
) -> None:
    async with serving(server) as service:
        unknown = await page(service, "s2")
        refused = await service.http.get(f"{SERVERS}?offers=s1&offers=s1", headers=bearer(ADMIN))
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert refused.status_code == 422
    config = Config(servers={"s1": {**server.entry, "enabled": False}})
    async with running(config=config, admin_token=ADMIN) as service:
        assert (await offers(service))["items"] == []


async def test_offers_need_the_right_audit_for_all_tenants(server: RawServer) -> None:
    tokens = {
        "caller": file_token(),
        "others": file_token(tenant=None, may={*OperatorRight} - {OperatorRight.AUDIT}),
        "tenant": file_token(may={*OperatorRight}),
        "all": file_token(tenant=None, may={OperatorRight.AUDIT}),
    }
    async with serving(server, **token_settings()) as service:
        with capture_logs() as lines:
            statuses = {
                name: (await page(service, token=token)).status_code
                for name, token in tokens.items()
            }
        no_token = (await service.http.get(SERVERS, params={"offers": "s1"})).status_code
    assert statuses == {"caller": 403, "others": 403, "tenant": 403, "all": 200}
    used = [line for line in lines if line["event"] == "operator.right_used"]
    assert [(it["right"], it["server_id"], it["code"]) for it in used] == [("audit", "s1", "OK")]
    assert no_token == 401


@pytest.mark.parametrize("query", ["", "?cursor=x", "?other=1&other=2"])
async def test_without_offers_the_answer_is_unchanged(server: RawServer, query: str) -> None:
    async with serving(server) as service:
        answer = (await service.http.get(SERVERS + query)).json()
    assert list(answer) == ["servers"]
