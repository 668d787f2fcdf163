"""Server names that are invalid as ids, as in other programs' mcp.json, get derived ids."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest

from tests.api.definition_operator import accept
from tests.api.document_operator import ADMIN, outcome
from tests.support.configuration import Config, Json, make_agent, make_preset, make_rule
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import ACTIVE, CONFIG_DIR, READY, SERVERS, Service, eventually, running
from tests.support.tokens import bearer

NAME = "My Server"
ID = f"my-server-{sha256(NAME.encode()).hexdigest()[:6]}"


@asynccontextmanager
async def named(
    name: str = NAME,
    *agents: Json,
    entry: Json | None = None,
    preset: Json | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Service, RawServer]]:
    async with running_raw(only=("whoami", "echo")) as raw:
        config = Config(
            servers={name: raw.entry | (entry or {})},
            presets=[
                make_preset(tools=[(name, "whoami"), (name, "echo")], prompts=(), resources=())
                | (preset or {}),
                make_preset("other", tools=[(name, "whoami")]),
            ],
            agents=agents or None,
            more={"defaultPresetId": "work"},
            **{key: options.pop(key) for key in ("limits",) if key in options},
        )
        async with running(
            config=config, require_agent=False, admin_token=ADMIN, **options
        ) as service:
            yield service, raw


async def shown(service: Service) -> Json:
    (server,) = (await service.http.get(SERVERS, headers=bearer(ADMIN))).json()["servers"]
    return dict(server)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        (NAME, "my-server"),
        ("my server", "my-server"),
        ("  Notes (local) ", "notes-local"),
        ("@scope/notes", "scope-notes"),
        ("ключ", "server"),
        ("a_b c__", "a-b-c"),
        ("x" * 63 + " ", "x" * 48),
    ],
)
async def test_a_name_derives_an_id_which_prefixes_the_tools(name: str, slug: str) -> None:
    server_id = f"{slug}-{sha256(name.encode()).hexdigest()[:6]}"
    async with named(name) as (service, _):
        found = await shown(service)
        assert (found["server_id"], found["original_id"]) == (server_id, name)
        assert found["state"] == "ready"
        assert await service.listed() == [f"{server_id}:whoami", f"{server_id}:echo"]
        assert await service.code(f"{server_id}:whoami") == "OK"
        assert await service.code(f"{server_id}__whoami") == "OK"


async def test_an_id_keeps_its_name() -> None:
    async with named("plain.Id_1") as (service, _):
        found = await shown(service)
        assert found["server_id"] == "plain.Id_1"
        assert "original_id" not in found


async def test_ids_are_stable_next_to_others_and_never_collide() -> None:
    async with running_raw() as raw:
        names = ["my server", NAME, "my-server", "My  Server", "My-Server "]
        for written in (names[:2], names, names[::-1]):
            config = Config(servers=dict.fromkeys(written, raw.entry))
            async with running(config=config) as service:
                servers = (await service.get(SERVERS))["servers"]
                found = {it.get("original_id", it["server_id"]): it["server_id"] for it in servers}
                assert list(found) == written
                assert len({*found.values()}) == len(written)
                assert found[NAME] == ID


async def test_a_file_with_both_a_name_and_its_derived_id_is_refused() -> None:
    config = Config(servers={NAME: {"url": "http://h/"}, ID: {"url": "http://h/"}})
    async with running(config=config, discovered=False) as service:
        (problem,) = service.gateway.publisher.config.problems
        assert problem.path == f'$.mcpServers["{NAME}"]'
        assert ID in problem.message
        assert (await service.get(SERVERS))["servers"] == []


async def test_presets_accept_the_id_and_instructions_accept_both() -> None:
    own = {"instructions": {NAME: "Own."}}
    async with named(preset=own) as (service, _):
        listed = await service.get("/internal/mcp/tools")
        assert listed["instructions"] == f'<server id="{ID}">\nOwn.\n</server>'
    by_id = {"tools": [{"serverId": ID, "toolName": "echo"}], "instructions": {ID: "By id."}}
    async with named(preset=by_id) as (service, _):
        assert await service.listed() == [f"{ID}:echo"]
        assert "By id." in (await service.get("/internal/mcp/tools"))["instructions"]


@pytest.mark.parametrize("name", [NAME, ID])
async def test_agents_files_accept_both(name: str) -> None:
    agents = [
        make_agent("allowed", client_ids=[name]),
        make_agent("without", exclude=[f"{name}:echo"]),
        make_agent("without_kind", exclude=[f"tool:{name}:echo"]),
        make_agent("bound") | {"bind": {f"{name}:echo": {"text": "bound"}}},
    ]
    async with named(NAME, *agents) as (service, _):
        assert service.gateway.publisher.warnings[1:] == ()  # the first refers to the name

        async def listed_for(agent: str) -> list[str]:
            tools = (await service.get("/internal/mcp/tools", agent=agent))["tools"]
            return [it["name"] for it in tools if ":" in it["name"]]

        assert await listed_for("allowed") == [f"{ID}:whoami", f"{ID}:echo"]
        assert await listed_for("without") == [f"{ID}:whoami"]
        assert await listed_for("without_kind") == [f"{ID}:whoami"]
        bound = await service.execute(f"{ID}:echo", {}, agent="bound")
        assert "bound" in json.dumps(bound["result"])


async def test_an_unknown_name_in_an_agents_file_is_reported_unchanged() -> None:
    async with named(NAME, make_agent("a", client_ids=["My Servr"])) as (service, _):
        messages = [str(it) for it in service.gateway.publisher.warnings]
    assert any('"My Servr" is not a server in mcp.json' in it for it in messages)


async def test_the_rules_of_refusals_have_their_positions_in_the_file() -> None:
    entry = {"exclude": ["echo", "gone"], "guards": {"instructions": "refuse"}}
    async with named(entry=entry) as (service, _):
        body = {"tool_name": f"{ID}:echo", "user": {"user_id": "u", "tenant_id": "t"}}
        answer = await service.http.post("/internal/mcp/explain", json=body, headers=bearer(ADMIN))
        assert answer.json()["rule"]["path"] == f'$.mcpServers["{NAME}"].exclude[0]'
        problems = [str(it) for it in service.gateway.publisher.warnings]
        (unmatched,) = [it for it in problems if '"gone"' in it]
        assert unmatched.startswith(f'mcp.json: $.mcpServers["{NAME}"].exclude[1]: ')


@pytest.mark.parametrize("entry", ["echo", f"{NAME}:echo", f"{ID}:echo"])
async def test_exclusions_of_the_entry_accept_both(entry: str) -> None:
    async with named(entry={"exclude": [entry]}) as (service, _):
        assert await service.listed() == [f"{ID}:whoami"]


async def test_an_excluded_tool_with_a_colon_stays_excluded() -> None:
    tool = {"name": "do it:now", "inputSchema": {"type": "object"}}
    async with running_raw(only=(), extra={"tools": [tool]}) as raw:
        config = Config(
            servers={"s": raw.entry | {"exclude": ["do it:now"]}},
            presets=[make_preset(tools=[("s", "do it:now")])],
            more={"defaultPresetId": "work"},
        )
        async with running(config=config) as service:
            assert await service.listed() == []


async def test_limits_accept_both() -> None:
    rules = [make_rule("one", {"server": NAME}, calls=1)]
    async with named(limits=rules) as (service, _):
        assert service.gateway.publisher.config.limits.warnings == ()
        assert await service.code(f"{ID}:whoami") == "OK"
        assert await service.code(f"{ID}:whoami") == "RATE_LIMIT_EXCEEDED"


@pytest.mark.parametrize("name", [NAME, ID])
async def test_operator_routes_accept_both(name: str) -> None:
    async with named(definitions="pin") as (service, _):
        listed = await service.http.get(SERVERS, params={"offers": name}, headers=bearer(ADMIN))
        assert listed.json()["offers"]["server_id"] == ID
        path = f"{SERVERS}/{name}/reconnect"
        again = await service.http.post(path, headers=bearer(ADMIN))
        assert (again.status_code, again.json()["server_id"]) == (202, ID)
        definitions = await service.http.get("/internal/mcp/definitions", headers=bearer(ADMIN))
        found = next(it for it in definitions.json()["items"] if it["name"] == "echo")
        assert found["server_id"] == ID
        assert (await accept(service, found, server_id=name)).status_code == 200
        assert await service.listed() == [f"{ID}:echo"]


async def test_errors_and_problems_name_both() -> None:
    async with named(entry={"callTimeoutSeconds": 5}) as (service, raw):
        await raw.stop()

        async def is_away() -> bool:
            envelope = await service.execute(f"{ID}:whoami")
            return f'server {ID} ("{NAME}") is unavailable' in json.dumps(envelope).replace(
                '\\"', '"'
            )

        await eventually(is_away)
        found = await service.execute(f"{ID}:whoami")
        assert found["error"]["details"]["server_id"] == ID
    async with named(entry={"url": "ftp://h"}) as (service, _):
        (problem,) = (await shown(service))["problems"]
        assert problem.startswith(f'mcp.json: $.mcpServers["{NAME}"].url: ')
        assert f"(server {ID})" in problem
        missing = (await service.http.get(ACTIVE, headers=bearer(ADMIN))).json()["missing"]
        assert {it["server_id"] for it in missing} == {ID}
        assert f'{ID} (\\"{NAME}\\")' in json.dumps(missing)
        assert (await service.get(READY))["status"] == "degraded"


async def test_a_preset_switch_keeps_the_name_in_the_file() -> None:
    async with named() as (service, _):
        file = CONFIG_DIR / "mcp.json"
        before = "// of Claude Desktop\n" + file.read_text(encoding="utf-8")
        file.write_text(before, encoding="utf-8")
        await service.gateway.reloader.load()
        answer = await service.http.put(ACTIVE, json={"preset_id": "other"}, headers=bearer(ADMIN))
        assert outcome(answer)[0] == 200
        after = file.read_text(encoding="utf-8")
        assert after == before.replace('"work"', '"other"')
        assert await service.listed() == [f"{ID}:whoami"]


@pytest.mark.parametrize("name", ["a:b", " ", "", "\x1b[31m", "a\nb", "x" * 64 + " "])
async def test_a_name_with_a_colon_or_control_characters_is_invalid(name: str) -> None:
    config = Config(servers={name: {"url": "http://h/"}})
    async with running(config=config) as service:
        (server,) = (await service.get(SERVERS))["servers"]
        assert (server["state"], "original_id" in server) == ("invalid", False)
