"""An invalid entry of one server disables that server only."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.configuration import Config, Json, make_agent, make_preset, write_json
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import (
    ACTIVE,
    CONFIG_DIR,
    READY,
    SERVERS,
    TOOLS,
    Envelope,
    Service,
    eventually,
    running,
)

BOTH = make_preset(tools=[("good", "echo"), ("bad", "echo")])


@asynccontextmanager
async def with_valid_server(
    bad: object, server_id: str = "bad", **options: Any
) -> AsyncIterator[tuple[Service, RawServer]]:
    presets = options.pop("presets", [BOTH])
    agents = options.pop("agents", None)
    async with running_raw() as server:
        config = Config(
            servers={server_id: bad, "good": server.entry},  # type: ignore[dict-item] # it is wrong
            presets=presets,
            agents=agents,
        )
        async with running(config=config, **options) as service:
            yield service, server


async def server_of(service: Service, server_id: str = "bad") -> Envelope:
    found = (await service.get(SERVERS))["servers"]
    shown: Envelope = next(it for it in found if it["server_id"] == server_id)
    return shown


def rewrite(**servers: object) -> None:
    write_json(CONFIG_DIR / "mcp.json", {"mcpServers": servers})


WRONG: Mapping[str, tuple[object, str]] = {
    "no command": ({}, "$.mcpServers.bad.url"),
    "a wrong type": ({"command": 5}, "$.mcpServers.bad.command"),
    "no object": ("npx", "$.mcpServers.bad"),
    "null": (None, "$.mcpServers.bad"),
    "a variable": ({"command": "x", "env": {"A": "${NOT_SET}"}}, "$.mcpServers.bad.env.A"),
    "auth": ({"url": "http://h", "auth": {"type": "basic"}}, "$.mcpServers.bad.auth.type"),
    "a misspelt exclude": ({"command": "x", "exlude": ["y"]}, "$.mcpServers.bad.exlude"),
    "another spelling": ({"command": "x", "Exclude": ["y"]}, "$.mcpServers.bad.Exclude"),
    "a misspelt enabled": ({"command": "x", "enabeld": False}, "$.mcpServers.bad.enabeld"),
    "a misspelt disabled": ({"command": "x", "disable": True}, "$.mcpServers.bad.disable"),
    "another's exclude": (
        {"command": "x", "disabledTools": ["y"]},
        "$.mcpServers.bad.disabledTools",
    ),
}


@pytest.mark.parametrize(("entry", "path"), WRONG.values(), ids=WRONG)
async def test_an_invalid_entry_leaves_the_others_available(entry: object, path: str) -> None:
    async with with_valid_server(entry) as (service, _):
        assert await service.code("good:echo", {"text": "hi"}) == "OK"
        shown = await server_of(service)
        assert (shown["state"], shown["stale"], shown["counts"]) == ("invalid", False, {})
        assert shown["problems"][0].startswith(f"mcp.json: {path}: ")
        response = await service.http.get(READY)
        checks = response.json()["checks"]
        assert (response.status_code, response.json()["status"]) == (200, "degraded")
        assert checks["server:bad"] == {
            "status": "degraded",
            "state": "invalid",
            "stale": False,
            "reason": "server bad is unavailable: its entry in mcp.json is invalid",
            "problems": shown["problems"],
        }
        assert set(shown["problems"]) <= set(checks["config"]["problems"])
        assert await service.code("bad:echo") == "SERVER_UNAVAILABLE"
        assert "pending" not in await service.get(TOOLS)
        assert "\nmcp_proxy_config_problems 0.0" not in (await service.http.get("/metrics")).text


@pytest.mark.parametrize(
    "entry", [{"disabledTools": []}, {"autoApprove": ["y"]}, {"mystery": 1}, {"timeout": 5}]
)
async def test_an_exclude_without_effect_is_a_warning(entry: Json) -> None:
    async with running_raw() as server:
        config = Config(servers={"s1": {**server.entry, **entry}})
        async with running(config=config) as service:
            assert (await server_of(service, "s1"))["state"] == "ready"


@pytest.mark.parametrize("server_id", ["a:b", "", "x" * 65, "\x1b[31m", "a\nb"])
async def test_an_invalid_id_is_a_problem_of_that_server(server_id: str) -> None:
    async with with_valid_server({"command": "x"}, server_id) as (service, _):
        first, second = (await service.get(SERVERS))["servers"]
        assert (first["state"], second["state"]) == ("invalid", "ready")
        assert first["server_id"].isprintable()
        assert len(first["problems"]) == 1
        assert await service.code("good:echo", {"text": "hi"}) == "OK"


async def test_servers_are_listed_in_the_order_of_the_file() -> None:
    async with running_raw() as server:
        servers: dict[str, Any] = {"b": {}, "c": server.entry, "a": {}, "d": server.entry}
        async with running(config=Config(servers=servers)) as service:
            shown = (await service.get(SERVERS))["servers"]
            assert [(it["server_id"], it["state"]) for it in shown] == [
                ("b", "invalid"),
                ("c", "ready"),
                ("a", "invalid"),
                ("d", "ready"),
            ]


async def test_preset_items_of_an_invalid_server_are_missing() -> None:
    async with with_valid_server({}) as (service, _):
        missing = (await service.get(ACTIVE))["missing"]
        assert missing == [
            {
                "kind": "tool",
                "server_id": "bad",
                "name": "echo",
                "reason": "server_invalid",
                "message": "server bad is unavailable: its entry in mcp.json is invalid",
            }
        ]


async def test_other_servers_do_not_receive_its_calls() -> None:
    """Another server's tool named ``bad__echo`` receives none of its calls (A-19)."""
    extra = {"tools": [{"name": "bad__echo", "inputSchema": {"type": "object"}}]}
    preset = make_preset(tools=[("good", "bad__echo"), ("bad", "echo")])
    async with running_raw(extra=extra) as server:
        servers: dict[str, Any] = {"bad": {}, "good": server.entry}
        config = Config(servers=servers, presets=[preset], agents=[make_agent("a")])
        async with running(config=config) as service:
            assert await service.code("bad__echo", agent="a") != "OK"
            assert server.script.calls == {}


async def test_an_agent_that_names_an_invalid_server_causes_no_warning() -> None:
    agents = [make_agent("a", client_ids=["bad"], exclude=["bad:echo"])]
    async with with_valid_server({}, agents=agents) as (service, _):
        assert [it for it in service.gateway.publisher.warnings if "bad" in it.message] == []


# At runtime


async def problems_of(service: Service, server_id: str) -> list[str]:
    found: list[str] = (await server_of(service, server_id)).get("problems", [])
    return found


async def test_the_last_valid_entry_stays_active_until_the_entry_is_fixed() -> None:
    preset = make_preset(tools=[("good", "echo"), ("good", "meta")])
    async with running_raw() as server, running_raw() as other:
        entry = {**server.entry, "exclude": ["meta"]}
        config = Config(servers={"good": entry}, presets=[preset])
        async with running(config=config) as service:
            rewrite(good={**entry, "url": "${NOT_SET}"}, more=other.entry)

            async def is_reported() -> bool:
                return bool(await problems_of(service, "good"))

            async def is_fixed() -> bool:
                return not await is_reported()

            await eventually(is_reported)
            shown = await server_of(service, "good")
            assert (shown["state"], shown["reconnects"]) == ("ready", 0)
            assert await service.listed() == ["good:echo"]
            assert await service.code("good:echo", {"text": "hi"}) == "OK"
            assert (await server_of(service, "more"))["state"] in ("connecting", "ready")
            line = (await service.get(READY))["checks"]["server:good"]
            assert (line["status"], line["state"]) == ("degraded", "ready")
            rewrite(good=server.entry)
            await eventually(is_fixed)
            assert await service.listed() == ["good:echo", "good:meta"]


async def test_a_disabled_server_whose_entry_becomes_invalid_stays_disabled() -> None:
    async with running_raw() as server:
        config = Config(servers={"s1": {**server.entry, "enabled": False}})
        async with running(config=config) as service:
            rewrite(s1={**server.entry, "enabeld": True})

            async def is_reported() -> bool:
                return bool(await problems_of(service, "s1"))

            await eventually(is_reported)
            assert (await server_of(service, "s1"))["state"] == "disabled"


async def test_a_renamed_invalid_entry_has_no_previous_valid_one() -> None:
    async with running_raw() as server:
        config = Config(
            servers={"old": server.entry}, presets=[make_preset(tools=[("old", "echo")])]
        )
        async with running(config=config) as service:
            rewrite(new={**server.entry, "url": 5})

            async def renamed() -> bool:
                shown = (await service.get(SERVERS))["servers"]
                return [(it["server_id"], it["state"]) for it in shown] == [("new", "invalid")]

            await eventually(renamed)
            assert await service.code("old:echo") == "TOOL_NOT_ALLOWED"


async def test_an_invalid_file_leaves_the_configuration_unchanged() -> None:
    async with with_valid_server({}) as (service, server):
        (CONFIG_DIR / "mcp.json").write_text("{")

        async def is_reported() -> bool:
            problems = (await service.get(READY))["checks"]["config"]["problems"]
            return any("is not valid JSON" in it for it in problems)

        await eventually(is_reported)
        assert await service.code("good:echo", {"text": "hi"}) == "OK"
        rewrite(bad=server.entry, good=server.entry)

        async def served() -> bool:
            return await service.code("bad:echo", {"text": "hi"}) == "OK"

        await eventually(served)


async def test_a_mistake_at_the_root_refuses_the_whole_file() -> None:
    async with running_raw() as server:
        config = Config(servers={"s1": server.entry}, more={"requestTimeoutSeconds": "60"})
        async with running(config=config) as service:
            assert (await service.get(SERVERS))["servers"] == []


async def test_a_preset_can_be_switched_while_an_entry_is_invalid() -> None:
    other = make_preset("other", tools=[("good", "meta")])
    async with with_valid_server({}, presets=[BOTH, other], preset=None) as (service, _):
        chosen = await service.http.put(ACTIVE, json={"preset_id": "other"})
        assert (chosen.status_code, await service.listed()) == (200, ["good:meta"])


async def test_no_problem_contains_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSH", "tell\nnobody")
    entry = {"url": "http://h", "headers": {"Authorization": "Bearer ${HUSH}", "X": 5}}
    async with with_valid_server(entry) as (service, _):
        everything = str([await service.get(path) for path in (SERVERS, READY, ACTIVE)])
        assert ("nobody" in everything, "headers.X" in everything) == (False, True)


# Entries that the settings do not allow

LOGIN: Json = {"url": "http://127.0.0.1:9/mcp", "auth": {"type": "oauth"}}


async def test_an_entry_that_needs_a_credentials_key_leaves_the_others_available() -> None:
    async with with_valid_server(LOGIN) as (service, _):
        assert await service.code("good:echo", {"text": "hi"}) == "OK"
        shown = await server_of(service)
        assert shown["state"] == "invalid"
        (problem,) = shown["problems"]
        assert ("MCP_PROXY_CREDENTIALS_KEY" in problem, "restart" in problem) == (True, True)


@pytest.mark.parametrize(
    "entry",
    [
        LOGIN,
        {"url": "http://h", "headers": {"X": "${secret:none}"}},
        {"url": "http://h", "assertion": {"audience": "a"}},
        {"url": "http://169.254.169.254/mcp"},
    ],
    ids=["login", "secret", "assertion", "network"],
)
async def test_a_disabled_entry_is_not_checked_against_the_settings(entry: Json) -> None:
    async with with_valid_server({**entry, "enabled": False}) as (service, _):
        shown = await server_of(service)
        assert (shown["state"], shown.get("problems")) == ("disabled", None)
