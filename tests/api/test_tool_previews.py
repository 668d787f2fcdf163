"""Preview of a caller's tools with another preset, for operators only."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.mcp_servers.raw_web import RawServer
from tests.support.service import ACTIVE, CONFIG_DIR, TOOLS, Envelope, Service, eventually, running
from tests.support.tokens import bearer, file_token, token_settings

ADMIN = "correct-horse-battery"
PLAY: dict[str, Any] = {
    **make_preset("play", tools=[("s1", "whoami"), ("s2", "echo"), ("s1", "gone")]),
    "tools": [
        {"serverId": "s1", "toolName": "whoami", "overrides": {"name": "who"}},
        {"serverId": "s2", "toolName": "echo"},
        {"serverId": "s1", "toolName": "gone"},
    ],
}
WORK = make_preset("work", tools=[("s1", "echo")])


def config_of(server: RawServer, **more: Any) -> Config:
    return Config(
        servers={"s1": server.entry, "s2": server.entry},
        presets=[WORK, PLAY],
        agents=[make_agent("narrow", client_ids=["s1"]), make_agent("plain")],
        more={"defaultPresetId": "work"},
        **more,
    )


@asynccontextmanager
async def serving(server: RawServer, **settings: Any) -> AsyncIterator[Service]:
    defaults = {"admin_token": ADMIN, "require_agent": False}
    async with running(config=config_of(server), **{**defaults, **settings}) as service:
        yield service


async def preview_response(
    service: Service, preset_id: str = "play", token: str = ADMIN, **query: Any
) -> httpx.Response:
    params = {"preset_id": preset_id, **query}
    return await service.http.get(TOOLS, params=params, headers=bearer(token))


async def previewed(service: Service, preset_id: str = "play", **query: Any) -> Envelope:
    answer = await preview_response(service, preset_id, **query)
    assert answer.status_code == 200, answer.text
    found: Envelope = answer.json()
    return found


async def switch(service: Service, preset_id: str = "play") -> httpx.Response:
    return await service.http.put(ACTIVE, json={"preset_id": preset_id}, headers=bearer(ADMIN))


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"format": "openai"},
        {"format": "anthropic", "agent": "narrow"},
        {"name_style": "bare"},
        {"name_style": "alias", "documents": ["doc_1"]},
        {"names": "who,s1:echo,no_such"},
    ],
)
async def test_a_preview_equals_the_list_after_the_switch(
    server: RawServer, query: dict[str, Any]
) -> None:
    async with serving(server) as service:
        found = await previewed(service, **query)
        preview = found.pop("preview")
        switched = await switch(service)
        assert found == (await service.http.get(TOOLS, params=query)).json()
    kept = ("preset", "missing", "shadowed", "problems")
    assert {key: preview[key] for key in kept if key in preview} == switched.json()
    (missing,) = preview["missing"]
    assert (missing["name"], missing["reason"]) == ("gone", "not_offered")
    assert not preview["active"]


@pytest.mark.parametrize("tool_format", ["mcp", "openai", "anthropic", "gemini"])
async def test_each_tool_has_its_origin_and_cost(server: RawServer, tool_format: str) -> None:
    async with serving(server) as service:
        found = await previewed(service, format=tool_format)
    tools, preview = found["tools"], found["preview"]
    names = [tool["function"]["name"] if "function" in tool else tool["name"] for tool in tools]
    assert [it["name"] for it in preview["tools"]] == names
    sizes = [
        len(json.dumps(tool, separators=(",", ":"), ensure_ascii=False).encode()) for tool in tools
    ]
    assert [it["tokens"] for it in preview["tools"]] == [size // 4 for size in sizes]
    assert preview["tokens"] == sum(size // 4 for size in sizes)
    origins = {it["name"]: (it.get("server_id"), it.get("server_name")) for it in preview["tools"]}
    assert origins["who"] == ("s1", "whoami")
    assert origins["read_doc_pages"] == (None, None)


async def test_the_active_preset_shows_the_callers_current_view(server: RawServer) -> None:
    async with serving(server) as service:
        (CONFIG_DIR / "preset_work.json").write_text("{")  # the last valid one is active
        found = await previewed(service, "work", agent="narrow", tenant_id="t", user_id="u")
        now = await service.get(TOOLS, agent="narrow", tenant_id="t", user_id="u")
    assert (found["tools"], found["preview"]["active"]) == (now["tools"], True)
    assert found["preview"]["preset"] == {"id": "work", "name": "Preset work"}


async def test_shadowed_pending_and_invalid_items_are_shown(server: RawServer) -> None:
    (CONFIG_DIR).mkdir()
    async with serving(server) as service:
        before = await service.get(ACTIVE)
        (CONFIG_DIR / "limits.json").write_text("{")

        async def problem() -> bool:
            return "problems" in (await previewed(service))["preview"]

        await eventually(problem)
        preview = (await previewed(service))["preview"]
    assert "shadowed" not in before
    assert preview["shadowed"][0] == {
        "kind": "prompt", "server_id": "s2", "name": "greet", "winner": "s1",
    }  # fmt: skip
    assert [it["file"] for it in preview["problems"]] == ["limits.json"]


async def test_a_preview_only_records_the_use_of_the_right(
    server: RawServer,
) -> None:
    async with serving(server) as service:
        before = await service.get(TOOLS), (await service.http.get("/metrics")).text
        with capture_logs() as lines:
            await previewed(service, user_id="ann", agent="narrow")
            await previewed(service)
        assert (await service.get(TOOLS), (await service.get(ACTIVE))["preset"]["id"]) == (
            before[0],
            "work",
        )
        after = (await service.http.get("/metrics")).text
    assert [line["event"] for line in lines] == ["operator.right_used"] * 2
    wanted = {"right": "audit", "preset_id": "play", "user_id": "ann", "agent": "narrow"}
    assert wanted.items() <= lines[0].items()
    new = set(after.splitlines()) - set(before[1].splitlines())
    counted = [it for it in new if it.startswith("mcp_proxy_") and "listed" not in it]
    assert [it for it in counted if "event_loop_blocked" not in it] == []


@pytest.mark.parametrize("preset_id", ["nowhere", "../work", "bad"])
async def test_a_preset_that_cannot_be_activated_returns_the_same_error(
    server: RawServer, preset_id: str
) -> None:
    async with serving(server) as service:
        (CONFIG_DIR / "preset_bad.json").write_text('{"id": "bad", "tools": 1}')
        shown, switched = (
            await preview_response(service, preset_id),
            await switch(service, preset_id),
        )
    assert (shown.status_code, shown.json()["error"]["code"]) == (404, "PRESET_NOT_FOUND")
    assert shown.json()["error"] == switched.json()["error"]


async def test_a_pinned_preset_can_be_compared_with_another(server: RawServer) -> None:
    async with serving(server, preset="work") as service:
        assert "who" in [it["name"] for it in (await previewed(service))["tools"]]


async def test_callers_without_a_list_get_no_preview(server: RawServer) -> None:
    async with serving(server, require_agent=None) as service:
        codes = [
            (await previewed_or_error(service, agent))["error"]["code"] for agent in ("", "nobody")
        ]
    assert codes == ["AGENT_REQUIRED", "AGENT_NOT_FOUND"]


async def previewed_or_error(service: Service, agent: str) -> Envelope:
    found: Envelope = (
        await preview_response(service, **({"agent": agent} if agent else {}))
    ).json()
    return found


async def test_two_presets_or_no_preset_are_refused(server: RawServer) -> None:
    async with serving(server) as service:
        twice = await service.http.get(f"{TOOLS}?preset_id=play&preset_id=work")
        empty = await service.http.get(f"{TOOLS}?preset_id=")
    assert [it.json()["error"]["details"]["field"] for it in (twice, empty)] == ["preset_id"] * 2


@pytest.mark.parametrize("mode", ["pin", "warn"])
async def test_items_that_a_switch_would_quarantine_are_omitted(
    server: RawServer, mode: str
) -> None:
    async with serving(server, definitions=mode) as service:
        found = await previewed(service)
        names = [it["name"] for it in found["tools"]]
        (CONFIG_DIR / "definitions.lock.json").unlink(missing_ok=True)
        await switch(service)
        assert ("who" in names, found["tools"]) == (
            mode == "warn",
            (await service.get(TOOLS))["tools"],
        )


async def test_a_client_with_the_list_gets_304_until_a_change(
    server: RawServer,
) -> None:
    async with serving(server) as service:
        first = await preview_response(service, names="who,s2:echo")
        tag = first.headers["etag"]

        async def status() -> int:
            headers = {**bearer(ADMIN), "If-None-Match": tag}
            params = {"preset_id": "play", "names": "who,s2:echo"}
            return (await service.http.get(TOOLS, params=params, headers=headers)).status_code

        assert (await status(), first.headers["cache-control"]) == (304, "private, no-cache")
        server.script.swap("gone")

        async def changed() -> bool:
            return await status() == 200

        await eventually(changed)
        assert (await previewed(service))["preview"]["missing"] == []


async def test_a_preview_needs_the_right_audit_for_the_tenant(server: RawServer) -> None:
    settings = {**token_settings(), "admin_token": ADMIN, "require_agent": False}
    tokens = {
        "caller": file_token(),
        "others": file_token(tenant=None, may={*OperatorRight} - {OperatorRight.AUDIT}),
        "tenant": file_token(may={OperatorRight.AUDIT}),
        "all": file_token(tenant=None, may={OperatorRight.AUDIT}),
    }
    async with serving(server, **settings) as service:
        shown = {
            (name, tenant): (
                await preview_response(
                    service, token=token, **({"tenant_id": tenant} if tenant else {})
                )
            ).status_code
            for name, token in tokens.items()
            for tenant in ("", "tenant_1", "tenant_2")
        }
        no_token = await service.http.get(TOOLS, params={"preset_id": "play"})
    assert {key for key, status in shown.items() if status == 200} == {
        ("tenant", "tenant_1"), ("all", ""), ("all", "tenant_1"), ("all", "tenant_2"),
    }  # fmt: skip
    assert {status for status in shown.values() if status != 200} == {403}
    assert no_token.status_code == 401


async def test_an_operator_of_one_tenant_sees_no_problems_of_files(server: RawServer) -> None:
    settings = {**token_settings(), "admin_token": ADMIN, "require_agent": False}
    of_tenant = file_token(may={OperatorRight.AUDIT})
    async with serving(server, **settings) as service:
        (CONFIG_DIR / "limits.json").write_text("{")

        async def preview_for(token: str) -> Envelope:
            answer = await preview_response(service, token=token, tenant_id="tenant_1")
            found: Envelope = answer.json()["preview"]
            return found

        async def problem() -> bool:
            return "problems" in await preview_for(ADMIN)

        await eventually(problem)
        whole, shown = await preview_for(ADMIN), await preview_for(of_tenant)
    assert whole["agents"] == ["narrow", "plain"]
    assert shown == {key: it for key, it in whole.items() if key not in ("problems", "agents")}


async def test_without_tokens_a_preview_needs_the_admin_token(server: RawServer) -> None:
    async with serving(server, admin_token=None) as service:
        assert (await service.http.get(TOOLS, params={"preset_id": "play"})).status_code == 403
