from pathlib import Path

from mcp_tools_proxy.domain.configuration import InvalidConfig
from tests.support.tables import each_row
from tests.unit.config.load_files import (
    by_path,
    load,
    load_as_agents,
    load_as_preset,
    outcome_of,
    refused,
)

HERE = "$.mcpServers.notes"


def messages_of(folder: Path, entry: dict[str, object]) -> dict[str, str]:
    """Return the messages about an entry that is valid except for unknown keys."""
    loaded = load(folder, {"mcpServers": {"notes": {"url": "http://h", **entry}}})
    assert "notes" in loaded.servers, loaded.invalid
    return by_path(loaded.warnings)


@each_row(
    ("key", "ours"),
    [
        ("server_path", '"command"'),
        ("http_endpoint", '"url"'),
        ("transport_type", '"transport"'),
        ("serverUrl", '"url"'),
        ("timeout", '"requestTimeoutSeconds"'),
        ("registration_timeout", '"connectTimeoutSeconds"'),
        ("header", '"headers"'),
    ],
)
def test_a_server_key_of_another_program_is_answered_with_ours(
    tmp_path: Path, key: str, ours: str
) -> None:
    messages = messages_of(tmp_path, {key: "x"})
    assert list(messages) == [f"{HERE}.{key}"]
    assert ours in messages[f"{HERE}.{key}"]


@each_row(
    ("key", "way"),
    [
        ("fallbackPromptsAndResourcesToTools", "/internal/mcp/prompts"),
        ("inboundSsePort", "MCP_PROXY_PORT"),
        ("mcp_servers", '"mcpServers"'),
        ("agents", "agents.json"),
        ("defaultPreset", '"defaultPresetId"'),
    ],
)
def test_a_file_key_of_another_program_is_answered_with_a_hint(
    tmp_path: Path, key: str, way: str
) -> None:
    messages = by_path(load(tmp_path, {"mcpServers": {}, key: 1}).warnings)
    assert list(messages) == [f"$.{key}"]
    assert way in messages[f"$.{key}"]


def test_servers_under_another_key_are_mentioned_in_the_error(tmp_path: Path) -> None:
    problems = refused(tmp_path, {"mcp_servers": {}})
    assert problems["$.mcpServers"] == "is missing"
    assert '"mcpServers"' in problems["$.mcp_servers"]


def test_an_unknown_key_is_reported_with_the_resulting_error(tmp_path: Path) -> None:
    problems = refused(tmp_path, {"mcpServers": {"notes": {"comand": "npx"}}})
    assert problems[f"{HERE}.comand"] == '"comand" is not a known key; did you mean "command"?'
    assert "is missing" in problems[f"{HERE}.url"]


@each_row(
    "entry",
    [
        {"server_path": "weather.py", "transport_type": "stdio"},
        {"http_endpoint": "http://h/mcp", "transport_type": "http_stream"},
    ],
)
def test_an_entry_of_aurite_gets_each_hint_once(tmp_path: Path, entry: dict[str, object]) -> None:
    problems = refused(tmp_path, {"mcpServers": {"notes": entry}})
    assert set(problems) == {f"{HERE}.url", *(f"{HERE}.{key}" for key in entry)}


@each_row("key", ["exlude", "exclusions", "Excluding", "disabledTools"])
def test_a_misspelt_key_that_narrows_is_reported_once(tmp_path: Path, key: str) -> None:
    problems = refused(tmp_path, {"mcpServers": {"notes": {"command": "x", key: ["a"]}}})
    assert list(problems) == [f"{HERE}.{key}"]
    assert 'did you mean "exclude"?' in problems[f"{HERE}.{key}"]


@each_row("key", ["autoApprove", "env_file", "description", "icon", "roots", "node"])
def test_other_keys_are_warnings(tmp_path: Path, key: str) -> None:
    assert list(messages_of(tmp_path, {key: ["x"]})) == [f"{HERE}.{key}"]


def test_a_variable_in_plain_braces_is_reported_once_for_all_places(tmp_path: Path) -> None:
    entry = {"url": "https://h", "headers": {"A": "Bearer {NOTES_TOKEN}", "B": "{NOTES_TOKEN}"}}
    messages = by_path(load(tmp_path, {"mcpServers": {"a": entry, "b": entry}}).warnings)
    assert messages == {
        "$.mcpServers.a.headers.A": (
            "contains {NOTES_TOKEN}, which is not replaced; write ${NOTES_TOKEN} for the "
            "variable (also at $.mcpServers.a.headers.B, $.mcpServers.b.headers.A, "
            "$.mcpServers.b.headers.B)"
        )
    }


def test_five_agents_of_aurite_give_one_message(tmp_path: Path) -> None:
    of_the_model = ("system_prompt", "model", "temperature", "max_tokens", "max_iterations")
    agents = [
        {"name": f"a{number}", **dict.fromkeys(of_the_model, "x"), "include_history": True}
        for number in range(5)
    ]
    (warning,) = load_as_agents(tmp_path, {"agents": agents}).warnings
    assert warning.path == "$.agents[0].system_prompt"
    assert warning.message.endswith(
        "(also at 29 more places, such as $.agents[0].model, $.agents[0].temperature, "
        "$.agents[0].max_tokens)"
    )


def test_servers_of_an_agent_of_aurite_are_reported_once(tmp_path: Path) -> None:
    content = {"agents": [{"name": "a", "mcp_servers": ["notes"], "model": "x"}]}
    refusal = outcome_of(lambda: load_as_agents(tmp_path, content))
    assert isinstance(refusal, InvalidConfig)
    problems = by_path(refusal.problems)
    assert [path for path, it in problems.items() if "client_ids" in it] == ["$.agents[0]"]


def test_unknown_keys_of_a_preset_are_reported_with_its_errors(tmp_path: Path) -> None:
    content = {"id": "work", "name": "Work", "tools": [{"serverID": "a", "toolName": "b"}]}
    refusal = outcome_of(lambda: load_as_preset(tmp_path, content))
    assert isinstance(refusal, InvalidConfig)
    assert by_path(refusal.problems) == {
        "$.tools[0].serverId": "is missing",
        "$.tools[0].serverID": '"serverID" is not a known key; did you mean "serverId"?',
    }


KEYS_OF_OTHERS = (
    *("fallbackPromptsAndResourcesToTools", "connectionRetryCount", "{VAR}", "auth"),
    *("server_path", "http_endpoint", "transport_type", "mcp_servers", "registration_timeout"),
)


@each_row("key", KEYS_OF_OTHERS)
def test_the_documentation_covers_keys_of_other_programs(key: str) -> None:
    pages = (Path(__file__).parents[3] / "docs/migrating").glob("*.md")
    assert any(f"`{key}`" in page.read_text(encoding="utf-8") for page in pages)
