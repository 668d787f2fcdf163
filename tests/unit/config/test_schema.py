import json
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given

from mcp_tools_proxy.config.schema import PUBLISHED, publish, published
from mcp_tools_proxy.domain.configuration import InvalidConfig
from tests.support.configuration import make_rule
from tests.support.tables import each_row
from tests.unit.config.json_strategies import AGENTS, CONFIGURATIONS, PRESETS
from tests.unit.config.load_files import (
    load_as_agents,
    load_as_limits,
    load_as_preset,
    loads_whole,
    outcome_of,
)

SCHEMAS = Path(__file__).parents[3] / "schemas"
MCP = jsonschema_rs.validator_for(json.loads((SCHEMAS / "mcp.schema.json").read_bytes()))
AGENT = jsonschema_rs.validator_for(json.loads((SCHEMAS / "agents.schema.json").read_bytes()))
LIMITS = jsonschema_rs.validator_for(json.loads((SCHEMAS / "limits.schema.json").read_bytes()))
PRESET = jsonschema_rs.validator_for(json.loads((SCHEMAS / "preset.schema.json").read_bytes()))


@each_row("name", PUBLISHED)
def test_the_published_schema_equals_that_of_the_models(name: str) -> None:
    assert (SCHEMAS / name).read_text(encoding="utf-8") == published(PUBLISHED[name])


def test_all_schemas_are_written(tmp_path: Path) -> None:
    publish(tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == PUBLISHED.keys()


@each_row("name", PUBLISHED)
def test_every_key_is_described_and_titled(name: str) -> None:
    schema = PUBLISHED[name].model_json_schema()
    undescribed = [
        key
        for part in (schema, *schema["$defs"].values())
        for key, value in part["properties"].items()
        if not {"description", "title"} <= value.keys()
        or not {"examples", "default", "type"} & value.keys()
    ]
    assert undescribed == []


MACHINE = {
    "type": "oauth",
    "grant": "client_credentials",
    "clientId": "a",
    "clientSecret": "b",
    "authorizationServer": "https://issuer.example",
}


ENTRIES: list[tuple[object, bool]] = [
    ({"command": "x"}, True),
    ({"command": "x", "unknown": {}}, True),
    ({"command": "x", "args": ["a", "$a", "$${a}", "${A}", "${B:-c d}"]}, True),
    ({"command": "x", "env": {"K": "v"}, "cwd": "/srv", "name": "n"}, True),
    ({"command": "x", "cwd": None, "name": None, "url": None, "auth": None}, True),
    ({"command": "x", "url": "nonsense"}, True),
    ({"command": "x", "maxCallsInFlight": 5.0, "requestTimeoutSeconds": 0.5}, True),
    ({"transport": "STDIO", "command": "x"}, True),
    ({"type": "Http", "url": "http://h"}, True),
    ({"transport": "sse", "type": "SSE", "url": "https://u:p@h:80/x?y#z"}, True),
    ({"transport": "streamable", "type": "streamable_http", "url": "http://[::1]:80"}, True),
    ({"url": "wss://h/"}, True),
    ({"url": "HTTP://h", "headers": {"X-A": "b\tc"}}, True),
    ({"url": "${A}://h", "enabled": True, "disabled": False}, True),
    ({"url": "http://${A}/${B:-b}", "transport": "http"}, True),
    ({"disabled": True, "url": "${MISSING}", "type": "ws"}, True),
    ({"command": "x", "exclude": ["a", "tool:b", "{C}", "${D}"]}, True),
    ({"command": "x", "exclude": []}, True),
    ({"command": "x", "exclude": None}, True),
    ({}, False),
    ("npx", False),
    (None, False),
    ({"command": ""}, False),
    ({"command": " \t"}, False),
    ({"command": "a\0"}, False),
    ({"command": 5}, False),
    ({"command": None}, False),
    ({"transport": "stdio"}, False),
    ({"transport": "stdio", "url": "http://h"}, False),
    ({"type": "stdio", "command": None}, False),
    ({"type": "http"}, False),
    ({"type": "http", "command": "x"}, False),
    ({"type": "ws", "url": "http://h"}, False),
    ({"type": "sse", "url": "ws://h"}, False),
    ({"type": "sse", "transport": "http", "url": "http://h"}, False),
    ({"type": "ftp", "url": "ftp://h"}, False),
    ({"transport": 5, "command": "x"}, False),
    ({"transport": "", "command": "x"}, False),
    ({"url": "h"}, False),
    ({"url": "http://"}, False),
    ({"url": "http:///path"}, False),
    ({"url": "http://h h"}, False),
    ({"url": "http://h/a b"}, False),
    ({"url": "http://h/\n"}, False),
    ({"url": " http://h"}, False),
    ({"url": "http://h:port"}, False),
    ({"url": 5}, False),
    ({"url": "http://h/${"}, False),
    ({"url": "http://h", "headers": {"": "x"}}, False),
    ({"url": "http://h", "headers": {"A B": "x"}}, False),
    ({"url": "http://h", "headers": {"A": "x\r\nB: y"}}, False),
    ({"url": "http://h", "headers": {"A": 5}}, False),
    ({"url": "http://h", "headers": None}, False),
    ({"url": "http://h", "auth": MACHINE}, True),
    ({"url": "http://h", "auth": {"type": "basic"}}, False),
    ({"url": "http://h", "auth": {}}, False),
    ({"url": "http://h", "auth": {"type": "oauth", "scope": ["a"]}}, False),
    ({"url": "http://h", "auth": {"type": "oauth", "scopes": ["a b"]}}, False),
    ({"command": "x", "args": "a"}, False),
    ({"command": "x", "args": ["a", 1]}, False),
    ({"command": "x", "args": ["${}"]}, False),
    ({"command": "x", "args": ["\0"]}, False),
    ({"command": "x", "env": {"A": "${1}"}}, False),
    ({"command": "x", "env": {"A=B": "c"}}, False),
    ({"command": "x", "env": {"": "c"}}, False),
    ({"command": "x", "env": []}, False),
    ({"command": "x", "name": " "}, False),
    ({"command": "x", "cwd": ""}, False),
    ({"command": "x", "enabled": "true"}, False),
    ({"command": "x", "enabled": None}, False),
    ({"command": "x", "requestTimeoutSeconds": 0}, False),
    ({"command": "x", "connectTimeoutSeconds": -1}, False),
    ({"command": "x", "connectTimeoutSeconds": True}, False),
    ({"command": "x", "connectTimeoutSeconds": "30"}, False),
    ({"command": "x", "maxCallsInFlight": 0}, False),
    ({"command": "x", "maxCallsInFlight": 1.5}, False),
    ({"command": "x", "maxResultBytes": 0}, False),
    ({"command": "x", "exclude": "a"}, False),
    ({"command": "x", "exclude": [""]}, False),
    ({"command": "x", "exclude": [None]}, False),
    ({"command": "x", "exclude": {"a": True}}, False),
    ({"command": "x", "excludes": []}, False),
    ({"command": "x", "disable": True}, False),
]


@each_row(("entry", "good"), ENTRIES)
def test_loader_and_schema_agree_on_an_entry(tmp_path: Path, entry: object, good: bool) -> None:
    content = {"mcpServers": {"a": entry}}
    loads = loads_whole(tmp_path, content, {"A": "http"})
    assert (loads, MCP.is_valid(content)) == (good, good)


ROOTS: list[tuple[object, bool]] = [
    ({"mcpServers": {}}, True),
    ({"mcpServers": {}, "unknown": 1, "$schema": "x", "showTrayIcon": 7}, True),
    ({"mcpServers": {"a" * 64: {"command": "x"}, "A.b_c-1": {"command": "x"}}}, True),
    ({"mcpServers": {}, "defaultPresetId": None, "requestTimeoutSeconds": None}, True),
    ({"mcpServers": {}, "defaultPresetId": "  "}, True),
    ({"mcpServers": {}, "capabilitiesRefreshIntervalSeconds": -1}, True),
    ({}, False),
    ([], False),
    ({"servers": {}}, False),
    ({"mcpServers": None}, False),
    ({"mcpServers": []}, False),
    ({"mcpServers": {"": {"command": "x"}}}, False),
    ({"mcpServers": {" ": {"command": "x"}}}, False),
    ({"mcpServers": {"a:b": {"command": "x"}}}, False),
    ({"mcpServers": {"a" * 65: {"command": "x"}}}, False),
    ({"mcpServers": {"ä": {"command": "x"}}}, True),
    ({"mcpServers": {"My Server": {"command": "x"}}}, True),
    ({"mcpServers": {"a\n": {"command": "x"}}}, False),
    ({"mcpServers": {}, "defaultPresetId": 5}, False),
    ({"mcpServers": {}, "requestTimeoutSeconds": 0}, False),
    ({"mcpServers": {}, "capabilitiesTimeoutSeconds": 0}, False),
    ({"mcpServers": {}, "capabilitiesTimeoutSeconds": None}, False),
    ({"mcpServers": {}, "capabilitiesRefreshIntervalSeconds": "300"}, False),
]


@each_row(("content", "good"), ROOTS)
def test_loader_and_schema_agree_on_a_configuration(
    tmp_path: Path, content: object, good: bool
) -> None:
    loads = loads_whole(tmp_path, content, {})
    assert (loads, MCP.is_valid(content)) == (good, good)


AGENT_ENTRIES: list[tuple[object, bool]] = [
    ({"name": "a"}, True),
    ({"name": " "}, True),
    ({"name": "Ünï code: ok"}, True),
    ({"name": "x" * 256, "unknown": 1}, True),
    ({"name": "a", "client_ids": None, "exclude_components": None, "preset": None}, True),
    ({"name": "a", "client_ids": [], "exclude_components": []}, True),
    ({"name": "a", "client_ids": ["b:c"], "exclude_components": ["d", "d"]}, True),
    ({"name": "a", "preset": "work"}, True),
    ({"name": "a", "preset": "__empty__"}, True),
    ({}, False),
    ("a", False),
    (None, False),
    ({"name": ""}, False),
    ({"name": None}, False),
    ({"name": 5}, False),
    ({"name": "x" * 257}, False),
    ({"name": "a\n"}, False),
    ({"name": "a\u0085b"}, False),
    ({"name": "a\0"}, False),
    ({"name": "a", "client_ids": "notes"}, False),
    ({"name": "a", "client_ids": [""]}, False),
    ({"name": "a", "client_ids": [1]}, False),
    ({"name": "a", "client_ids": {"notes": True}}, False),
    ({"name": "a", "exclude_components": "search"}, False),
    ({"name": "a", "exclude_components": [""]}, False),
    ({"name": "a", "exclude_components": [None]}, False),
    ({"name": "a", "exclude_components": False}, False),
    ({"name": "a", "preset": ""}, False),
    ({"name": "a", "preset": "../work"}, False),
    ({"name": "a", "preset": 5}, False),
    ({"name": "a", "preset": ["work"]}, False),
    ({"name": "a", "clientIds": None}, False),
    ({"name": "a", "exclude": []}, False),
]


@pytest.mark.requirement("A-07")
@each_row(("entry", "good"), AGENT_ENTRIES)
def test_loader_and_schema_agree_on_an_agent(tmp_path: Path, entry: object, good: bool) -> None:
    content = {"agents": [{"name": "first"}, entry]}
    loads = not isinstance(outcome_of(lambda: load_as_agents(tmp_path, content)), InvalidConfig)
    assert (loads, AGENT.is_valid(content)) == (good, good)


@pytest.mark.requirement("A-07")
@each_row(
    ("content", "good"),
    [
        ({"agents": []}, True),
        ({"agents": [], "unknown": 1, "$schema": "x"}, True),
        ({}, False),
        ([], False),
        ({"agents": None}, False),
        ({"agents": {}}, False),
        ({"agents": {"a": {}}}, False),
    ],
)
def test_loader_and_schema_agree_on_the_agents(tmp_path: Path, content: object, good: bool) -> None:
    loads = not isinstance(outcome_of(lambda: load_as_agents(tmp_path, content)), InvalidConfig)
    assert (loads, AGENT.is_valid(content)) == (good, good)


RULES: list[tuple[object, bool]] = [
    (make_rule(calls=1), True),
    (make_rule(tokens=999_999_999_999_999), True),
    (make_rule(calls=5.0, tokens=7, each=["user", "tool"]), True),
    (make_rule(match={"tenant": "a", "user": ["b", "c"], "agent": "d"}, calls=1), True),
    (make_rule(match={"server": "s", "tool": "s:t", "document": ["d"]}, calls=1), True),
    (make_rule(), False),
    (make_rule(calls=0), False),
    (make_rule(calls=None), False),
    (make_rule(calls=None, tokens=1), False),
    (make_rule(calls=1.5), False),
    (make_rule(calls="5"), False),
    (make_rule(calls=True), False),
    (make_rule(calls=10**15), False),
    (make_rule(calls=1, tokens=0), False),
    (make_rule(calls=1, window_s=0), False),
    (make_rule(calls=1, window_s=31_622_401), False),
    (make_rule(calls=1, unknown=1), False),
    (make_rule(calls=1, Match={}), False),
    (make_rule("tenant_calls", calls=1), False),
    (make_rule("", calls=1), False),
    (make_rule("a.b", calls=1), False),
    (make_rule("a" * 65, calls=1), False),
    (make_rule("ж", calls=1), False),
    (make_rule("a\n", calls=1), False),
    (make_rule(calls=1, each=[]), False),
    (make_rule(calls=1, each=["user", "user"]), False),
    (make_rule(calls=1, each=["users"]), False),
    (make_rule(calls=1, each="user"), False),
    (make_rule(match={"tenants": "a"}, calls=1), False),
    (make_rule(match={"tenant": None}, calls=1), False),
    (make_rule(match={"tenant": ""}, calls=1), False),
    (make_rule(match={"tenant": []}, calls=1), False),
    (make_rule(match={"tenant": ["a", ""]}, calls=1), False),
    (make_rule(match={"tenant": 5}, calls=1), False),
    ({"name": "a", "calls": 1, "window_s": 60}, False),
    ({"name": "a", "match": None, "calls": 1, "window_s": 60}, False),
    ({"name": "a", "match": {}, "calls": 1}, False),
    ({"match": {}, "calls": 1, "window_s": 60}, False),
]


@each_row(("rule", "good"), RULES)
def test_loader_and_schema_agree_on_a_rule(tmp_path: Path, rule: object, good: bool) -> None:
    content = {"rules": [make_rule("first", calls=1), rule]}
    loads = not isinstance(outcome_of(lambda: load_as_limits(tmp_path, content)), InvalidConfig)
    assert (loads, LIMITS.is_valid(content)) == (good, good)


@each_row(
    ("content", "good"),
    [
        ({"rules": []}, True),
        ({"rules": [], "$schema": "x"}, True),
        ({"rules": [make_rule(f"r{number}", calls=1) for number in range(1000)]}, True),
        ({"rules": [make_rule(f"r{number}", calls=1) for number in range(1001)]}, False),
        ({"rules": [], "unknown": 1}, False),
        ({}, False),
        ([], False),
        ({"rules": None}, False),
        ({"rules": {}}, False),
    ],
)
def test_loader_and_schema_agree_on_the_rules(tmp_path: Path, content: object, good: bool) -> None:
    loads = not isinstance(outcome_of(lambda: load_as_limits(tmp_path, content)), InvalidConfig)
    assert (loads, LIMITS.is_valid(content)) == (good, good)


def preset(**more: object) -> dict[str, object]:
    return {"id": "work", "name": "Work", **more}


PRESET_FILES: list[tuple[object, bool]] = [
    (preset(), True),
    (preset(description="d", unknown=1, createdAtEpochMillis=1e12), True),
    (preset(prompts=None, resources=[], createdAtEpochMillis=None), True),
    (preset(tools=[{"serverId": "a", "toolName": "t", "enabled": False, "x": 1}]), True),
    (preset(prompts=[{"serverId": "a", "promptName": "p"}]), True),
    (preset(resources=[{"serverId": "a", "resourceKey": "r"}]), True),
    ({"id": "work"}, False),
    ({"name": "Work"}, False),
    ([], False),
    (preset(id="a b"), False),
    (preset(id="__empty__"), False),
    (preset(id=5), False),
    (preset(name=""), False),
    (preset(name=" \ufeff "), False),
    (preset(tools=None), False),
    (preset(tools={}), False),
    (preset(tools=[{"serverId": "a", "promptName": "t"}]), False),
    (preset(tools=[{"toolName": "t"}]), False),
    (preset(tools=[{"serverId": "a", "toolName": ""}]), False),
    (preset(tools=[{"serverId": "a", "toolName": "t", "enabled": None}]), False),
    (preset(prompts=[{"serverId": "a", "toolName": "t"}]), False),
    (preset(resources=["r"]), False),
    (preset(createdAtEpochMillis=1.5), False),
    (preset(description=5), False),
]


@each_row(("content", "good"), PRESET_FILES)
def test_loader_and_schema_agree_on_a_preset(tmp_path: Path, content: object, good: bool) -> None:
    loads = not isinstance(outcome_of(lambda: load_as_preset(tmp_path, content)), InvalidConfig)
    assert (loads, PRESET.is_valid(content)) == (good, good)


@given(content=CONFIGURATIONS)
def test_every_loaded_configuration_is_valid_in_the_schema(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    folder = tmp_path_factory.mktemp("config")
    assert MCP.is_valid(content) or not loads_whole(folder, content, {"A": "http://h"})


@given(content=PRESETS)
def test_every_loaded_preset_is_valid_in_the_schema(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    folder = tmp_path_factory.mktemp("config")
    loaded = outcome_of(lambda: load_as_preset(folder, content))
    assert isinstance(loaded, InvalidConfig) or PRESET.is_valid(content)


@given(content=AGENTS)
def test_all_loaded_agents_are_valid_in_the_schema(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    folder = tmp_path_factory.mktemp("config")
    loaded = outcome_of(lambda: load_as_agents(folder, content))
    assert isinstance(loaded, InvalidConfig) or AGENT.is_valid(content)
