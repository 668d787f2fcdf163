from pathlib import Path

import pytest
from hypothesis import given

from mcp_tools_proxy.config.loader import NO_FILE, load_configuration, process_environment
from mcp_tools_proxy.domain.configuration import Configuration, InvalidConfig
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from tests.support.tables import each_row
from tests.unit.config.json_strategies import CONFIGURATIONS
from tests.unit.config.load_files import by_path, load, load_server, outcome_of, refused


def test_a_missing_file_is_an_empty_configuration_without_warnings(tmp_path: Path) -> None:
    loaded = load_configuration(tmp_path / "x", {}, call_timeout_s=1, max_result_bytes=1)
    assert loaded is NO_FILE


def test_a_dangling_link_is_not_treated_as_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").symlink_to("..data/mcp.json")
    with pytest.raises(InvalidConfig, match="is a broken symbolic link"):
        load_configuration(tmp_path, {}, call_timeout_s=1, max_result_bytes=1)


def test_a_file_without_servers_differs_from_a_missing_file(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"mcpServers": {}})
    assert loaded is not NO_FILE


def test_a_stdio_entry_is_read(tmp_path: Path) -> None:
    entry = {
        "command": "npx",
        "args": ["-y", "${WHAT}"],
        "env": {"KEY": "${SECRET:-none}"},
        "cwd": "/srv",
        "name": "Notes",
    }
    assert load_server(tmp_path, entry, {"WHAT": "@a/b", "SECRET": "s"}) == ServerConfig(
        server_id="notes",
        transport=Transport.STDIO,
        name="Notes",
        command="npx",
        address="npx",
        secrets=frozenset({"@a/b", "s"}),
        args=("-y", "@a/b"),
        env={"KEY": "s"},
        cwd="/srv",
        max_result_bytes=1000,
    )


def test_a_remote_entry_is_read(tmp_path: Path) -> None:
    entry = {
        "type": "streamable-http",
        "url": "https://${HOST}/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
    }
    assert load_server(tmp_path, entry, {"HOST": "h:1", "TOKEN": "t"}) == ServerConfig(
        server_id="notes",
        transport=Transport.STREAMABLE_HTTP,
        name="notes",
        url="https://h:1/mcp",
        address="https://h:1/mcp",
        headers={"Authorization": "Bearer t"},
        max_result_bytes=1000,
    )


@each_row(
    ("url", "address"),
    [
        ("http://h:1/mcp", "http://h:1/mcp"),
        ("http://user:pw@h/mcp?key=v#f", "http://h/mcp"),
        ("http://h/t/${KEY}/mcp", "http://h/t/…/mcp"),
        ("http://h/t-${KEY}-x/mcp", "http://h/…/mcp"),
        ("http://h/mcp?key=${KEY}", "http://h/mcp"),
        ("http://${KEY}@${HOST}/mcp", "http://h:1/mcp"),
        ("${URL}", "http://h:1/…/…"),
        ("wss://${NONE:-d}/x", "wss://d/x"),
    ],
)
def test_operators_see_a_url_without_possible_secrets(
    tmp_path: Path, url: str, address: str
) -> None:
    values = {"KEY": "s3cret", "HOST": "h:1", "URL": "http://h:1/s3cret/mcp?x=y"}
    assert load_server(tmp_path, {"url": url}, values).address == address


@each_row(
    ("entry", "transport"),
    [
        ({"command": "x"}, Transport.STDIO),
        ({"command": "x", "url": "http://h"}, Transport.STDIO),
        ({"url": "http://h"}, Transport.HTTP),
        ({"url": "WSS://h"}, Transport.WEBSOCKET),
        ({"url": "http://h", "transport": None, "type": None}, Transport.HTTP),
        ({"url": "http://h", "transport": "http"}, Transport.HTTP),
        ({"url": "http://h", "type": "SSE"}, Transport.SSE),
        ({"url": "http://h", "transport": "Streamable-HTTP"}, Transport.STREAMABLE_HTTP),
        ({"url": "http://h", "transport": "streamHttp"}, Transport.STREAMABLE_HTTP),
        ({"url": "http://h", "transport": "streamable"}, Transport.STREAMABLE_HTTP),
        ({"url": "http://h", "transport": "streamable_http"}, Transport.STREAMABLE_HTTP),
        (
            {"url": "http://h", "transport": "streamable", "type": "streamable-http"},
            Transport.STREAMABLE_HTTP,
        ),
        ({"url": "ws://h", "transport": "ws"}, Transport.WEBSOCKET),
        ({"url": "ws://h", "transport": "WebSocket"}, Transport.WEBSOCKET),
    ],
)
def test_the_transport_is_stated_or_inferred(
    tmp_path: Path, entry: dict[str, object], transport: Transport
) -> None:
    assert load_server(tmp_path, entry).transport is transport


def test_limits_come_from_the_entry_then_the_file_then_the_defaults(tmp_path: Path) -> None:
    own = {
        "command": "x",
        "requestTimeoutSeconds": 1.5,
        "connectTimeoutSeconds": 2,
        "maxCallsInFlight": 3,
        "maxCallsInFlightPerTenant": 2,
        "maxResultBytes": 4.0,
    }
    root = {"requestTimeoutSeconds": 7, "capabilitiesTimeoutSeconds": 8}
    servers = [
        load_server(tmp_path, own, root=root),
        load_server(tmp_path, {"command": "x"}, root=root),
        load_server(tmp_path, {"command": "x"}),
    ]
    assert [
        (s.call_timeout_s, s.connect_timeout_s, s.max_calls_in_flight, s.max_result_bytes)
        for s in servers
    ] == [(1.5, 2, 3, 4), (7, 8, 100, 1000), (60, 30, 100, 1000)]
    assert [s.max_calls_in_flight_per_tenant for s in servers] == [2, None, None]


@pytest.mark.parametrize(
    ("given_s", "taken_s"),
    [(None, 300), (0, 0), (-5, 0), (1, 30), (29.5, 30), (30, 30), (600, 600)],
)
def test_the_refresh_interval_is_off_or_at_least_30_s(
    tmp_path: Path, given_s: float | None, taken_s: float
) -> None:
    root = {} if given_s is None else {"capabilitiesRefreshIntervalSeconds": given_s}
    assert load_server(tmp_path, {"command": "x"}, root=root).refresh_interval_s == taken_s


@each_row("entry", [{"enabled": False}, {"disabled": True}])
def test_a_server_is_disabled_in_either_spelling(tmp_path: Path, entry: dict[str, object]) -> None:
    assert not load_server(tmp_path, {"command": "x", **entry}).enabled


@pytest.mark.parametrize(
    ("given", "taken"), [("work", "work"), ("", None), (" ", None), (None, None)]
)
def test_a_blank_default_preset_is_ignored(
    tmp_path: Path, given: str | None, taken: str | None
) -> None:
    loaded = load(tmp_path, {"mcpServers": {}, "defaultPresetId": given})
    assert loaded.default_preset_id == taken


def test_all_problems_of_a_file_are_reported_together(tmp_path: Path) -> None:
    content = {
        "mcpServers": {
            "a:b": {"command": "x"},
            "notes": {
                "url": "ftp://h",
                "args": 3,
                "headers": {"X-Token": "${UNSET} ${UNSET} ${OTHER}", "Bad name": "x"},
                "auth": {"type": "basic"},
            },
            "shell": {"transport": "stdio", "name": " "},
            "nothing": {},
            "torn": {"transport": "ws", "type": "sse", "url": "ws://h"},
            "odd": {"transport": "carrier pigeon"},
            "text": "npx",
            "plain": {"command": "x", "env": {"A": "${", "B=": "1"}, "maxCallsInFlight": 0},
        },
        "requestTimeoutSeconds": 0,
    }
    problems = refused(tmp_path, content)
    assert problems.keys() == {
        '$.mcpServers["a:b"]',
        "$.mcpServers.notes.url",
        "$.mcpServers.notes.args",
        '$.mcpServers.notes.headers["Bad name"]',
        "$.mcpServers.notes.headers.X-Token",
        "$.mcpServers.notes.auth.type",
        "$.mcpServers.shell.command",
        "$.mcpServers.shell.name",
        "$.mcpServers.nothing.url",
        "$.mcpServers.torn.type",
        "$.mcpServers.odd.transport",
        "$.mcpServers.text",
        "$.mcpServers.plain.env.A",
        '$.mcpServers.plain.env["B="]',
        "$.mcpServers.plain.maxCallsInFlight",
        "$.requestTimeoutSeconds",
    }
    assert problems["$.mcpServers.notes.headers.X-Token"].startswith("needs UNSET, OTHER from")
    assert "oauth" in problems["$.mcpServers.notes.auth.type"]
    assert "without a colon" in problems['$.mcpServers["a:b"]']


@each_row(
    "entry",
    [
        {"url": "http://h/", "headers": {"X": "${SECRET}"}},
        {"url": "${SECRET}"},
        {"url": "http://h:${SECRET}/"},
        {"command": "x", "args": ["${SECRET}${UNSET}"]},
        {"url": "http://h/s3cret\n", "headers": {"X": "s3cret\n"}, "env": {"A": "s3cret${"}},
        {"command": "s3cret\0", "transport": "s3cret", "auth": "s3cret", "enabled": "s3cret"},
    ],
)
def test_problems_do_not_contain_values(tmp_path: Path, entry: dict[str, object]) -> None:
    problems = refused(tmp_path, {"mcpServers": {"notes": entry}}, {"SECRET": "s3cret\n"})
    assert "s3cret" not in str(problems)


def test_a_value_is_checked_after_its_variables_are_replaced(tmp_path: Path) -> None:
    servers = {"a": {"type": "ws", "url": "${A}"}, "b": {"url": "${B}"}, "c": {"url": "$${B}"}}
    problems = refused(tmp_path, {"mcpServers": servers}, {"A": "http://h", "B": "h"})
    assert list(problems) == [f"$.mcpServers.{server_id}.url" for server_id in "abc"]


def test_an_invalid_port_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, {"mcpServers": {"a": {"url": "http://h:70000/"}}})


def test_a_nul_from_a_variable_is_refused(tmp_path: Path) -> None:
    problems = refused(
        tmp_path, {"mcpServers": {"a": {"command": "x", "args": ["${A}"]}}}, {"A": "\0"}
    )
    assert problems == {"$.mcpServers.a.args[0]": "contains a NUL character"}


def test_a_variable_that_is_not_valid_text_is_refused(tmp_path: Path) -> None:
    entry = {"url": "http://h/${RAW}", "headers": {"X": "${RAW}"}}
    problems = refused(tmp_path, {"mcpServers": {"a": entry}}, {"RAW": "\udcff"})
    assert list(problems) == ["$.mcpServers.a.url", "$.mcpServers.a.headers.X"]


def test_a_disabled_server_can_lack_its_variables(tmp_path: Path) -> None:
    entry = {"disabled": True, "url": "${WHERE}/mcp", "headers": {"X": "${TOKEN}"}}
    loaded = load(tmp_path, {"mcpServers": {"notes": entry}}, {"TOKEN": "t"})
    assert list(by_path(loaded.warnings)) == ["$.mcpServers.notes.url"]


def test_unusual_values_are_reported_and_ignored(tmp_path: Path) -> None:
    content = {
        "$schema": "./mcp.schema.json",
        "showTrayIcon": True,
        "inputs": [],
        "capabilitiesRefreshIntervalSeconds": 5,
        "mcpServers": {
            "shell": {
                "command": "${HOME}/run",
                "args": ["{HOME}", "{x}"],
                "env": {"JSON": '{"USER": 1}'},
                "url": "http://h",
                "autoApprove": [],
            },
            "web": {"url": "http://h", "env": {"A": "b"}, "command": None},
        },
    }
    loaded = load(tmp_path, content, {"HOME": "/root", "USER": "ann"})
    assert by_path(loaded.warnings) == {
        "$.showTrayIcon": "is ignored: the gateway has a console, not a tray icon",
        "$.inputs": '"inputs" is not a known key, so it is ignored',
        "$.capabilitiesRefreshIntervalSeconds": "is read as 30, the minimum; 0 turns it off",
        "$.mcpServers.shell.autoApprove": '"autoApprove" is not a known key, so it is ignored',
        "$.mcpServers.shell.url": "is ignored with the transport stdio",
        "$.mcpServers.shell.command": (
            "contains ${, which is not replaced here; variables work in args, env, headers and url"
        ),
        "$.mcpServers.shell.args[0]": (
            "contains {HOME}, which is not replaced; write ${HOME} for the variable"
        ),
        "$.mcpServers.web.env": "is ignored with the transport http",
    }


def test_the_repr_of_a_server_does_not_contain_secrets(tmp_path: Path) -> None:
    entry = {
        "command": "x",
        "args": ["${S}"],
        "env": {"A": "${S}"},
        "url": "${S}",
        "headers": {"X": "${S}"},
    }
    assert "s3cret" not in repr(load_server(tmp_path, entry, {"S": "s3cret"}))


def test_the_process_environment_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THIS_TEST", "one")
    taken = process_environment()
    monkeypatch.setenv("OF_THIS_TEST", "two")
    assert taken["OF_THIS_TEST"] == "one"


@given(content=CONFIGURATIONS)
def test_any_json_is_loaded_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    folder = tmp_path_factory.mktemp("config")
    loaded = outcome_of(lambda: load(folder, content, {"A": "1"}))
    assert isinstance(loaded, Configuration | InvalidConfig)
