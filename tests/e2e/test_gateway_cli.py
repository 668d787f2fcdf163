"""The commands that show a running gateway, and ``settings``."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_tools_proxy.wire.text import HIDDEN
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import UNLIMITED, Program, started
from tests.support.program_launch import run as run_program
from tests.support.service import EXECUTE

pytestmark = pytest.mark.e2e

ADMIN = "admin-token-of-the-command-line"
TENANT = ("--tenant", "tenant_1")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("gateway")
    Config(
        servers={
            "notes": raw_entry(only=["echo", "meta"]),
            "dead": {"command": "no-such-program"},
        },
        presets=[
            make_preset("work", tools=[("notes", "echo"), ("notes", "gone")]),
            make_preset("less", tools=[("notes", "meta")]),
        ],
        more={"defaultPresetId": "work"},
    ).write(folder / "config")
    environment = {
        **UNLIMITED,
        "MCP_PROXY_ADMIN_TOKEN": ADMIN,
        "MCP_PROXY_RATE_LIMIT_CALLS": "9",
        "MCP_PROXY_AUDIT": f"file:{folder / 'audit.jsonl'}",
    }
    with started(folder, environment) as program:
        program.wait_for_server()
        yield program


@pytest.fixture
def run(program: Program, tmp_path: Path) -> Run:
    """Run a command with the gateway in MCP_PROXY_PORT."""

    def run_command(*words: str, **environment: str) -> tuple[int, str, str]:
        settings = {"MCP_PROXY_PORT": str(program.port), "MCP_PROXY_CLIENT_TOKEN": ADMIN}
        return run_program(tmp_path, *words, fresh=False, **(settings | environment))

    return run_command


def rows_of(output: str) -> list[list[str]]:
    return [line.split("\t") for line in output.splitlines()]


def test_tools_list_shows_the_callers_tools(run: Run) -> None:
    code, output, errors = run("tools", "list", *TENANT)
    names = [row[0] for row in rows_of(output)]
    assert (code, errors) == (0, "")
    assert {"notes:echo", "read_doc_pages"} <= set(names)
    assert "notes:meta" not in names
    assert all(row[1] for row in rows_of(output))


def test_servers_shows_the_states(run: Run) -> None:
    code, output, _ = run("servers")
    rows = {row[0]: row[1:] for row in rows_of(output)}
    state, transport, offers, attempts, error = rows["notes"]
    assert (code, state, transport, attempts, error) == (0, "ready", "stdio", "-", "-")
    assert offers.startswith("2 tools")
    while True:
        state, _, offers, attempts, error = rows["dead"]
        assert (state, offers) == ("unreachable", "-")
        assert "no-such-program" in error
        if re.match(r"[1-9]\d*, next at 2\d{3}-", attempts):
            break
        assert re.fullmatch(r"\d+", attempts)  # the next attempt runs at this moment
        rows = {row[0]: row[1:] for row in rows_of(run("servers")[1])}


def test_presets_can_be_listed_and_switched(run: Run) -> None:
    listed = run("presets", "list")[1].splitlines()
    # the order is that of the files' modification times
    assert sorted(listed) == ["\tless\tPreset less", "*\twork\tPreset work"]
    code, output, errors = run("presets", "use", "less", "--no-persist")
    assert (code, output, errors) == (0, "preset less is active\n", "")
    code, output, errors = run("presets", "use", "work", "--no-persist")
    assert (code, output) == (0, "preset work is active\n")
    assert errors == "missing: tool notes:gone\n"


def test_a_missing_preset_is_one_line(run: Run) -> None:
    code, output, errors = run("presets", "use", "nowhere")
    assert (code, output, errors.count("\n")) == (1, "", 1)
    assert errors.startswith("mcp-tools-proxy: PRESET_NOT_FOUND: ")


def test_limits_shows_the_remaining_budgets(run: Run) -> None:
    of_document = ("--tool", "read_doc_metadata", "--document", "doc_1")
    code, output, _ = run("limits", *TENANT, *of_document)
    assert (code, [row[1] for row in rows_of(output)]) == (0, ["9 of 9 calls"])


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("tools", "list", *TENANT), "tools"),
        (("servers",), "servers"),
        (("presets", "list"), "presets"),
        (("limits", *TENANT), "limits"),
    ],
)
def test_each_command_can_print_its_answer_as_json(
    run: Run, words: tuple[str, ...], key: str
) -> None:
    code, output, _ = run(*words, "--json")
    assert (code, key in json.loads(output), output.count("\n")) == (0, True, 1)


COMMANDS = [
    ("tools", "list"),
    ("servers",),
    ("presets", "list"),
    ("presets", "use", "work"),
    ("limits",),
    ("call", "read_doc_metadata"),
    ("explain", "read_doc_metadata"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_without_a_gateway_the_systems_reason_is_shown(run: Run, words: tuple[str, ...]) -> None:
    code, output, errors = run(*words, MCP_PROXY_PORT="1")
    assert (code, output, errors.count("\n"), "Errno" in errors) == (2, "", 1, False)
    assert "no gateway answers at http://127.0.0.1:1: connection refused" in errors


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_unknown_host_is_reported_as_such(run: Run, words: tuple[str, ...]) -> None:
    code, _, errors = run(*words, "--url", "http://nowhere.invalid")
    assert (code, errors.count("\n"), "Errno" in errors) == (2, 1, False)


def test_a_refusal_is_one_line(run: Run) -> None:
    code, output, errors = run("presets", "use", "less", MCP_PROXY_CLIENT_TOKEN="another")
    assert (code, output, errors.count("\n")) == (1, "", 1)
    assert "UNAUTHENTICATED" in errors
    assert "the token of MCP_PROXY_CLIENT_TOKEN" in errors


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("notes:ecko", "notes:echo"), ("note:echo", "notes:echo"), ("notes:Echo", "notes:echo")],
)
def test_a_misspelt_tool_of_a_server_gets_a_suggestion(run: Run, misspelt: str, meant: str) -> None:
    for command in ("call", "explain"):
        code, output, errors = run(command, misspelt, *TENANT)
        assert code == 1
        assert f'did you mean "{meant}"?' in output + errors


@pytest.mark.parametrize("name", ["notes:metb", "notes:meta", "notes:other"])
def test_a_hidden_tool_is_never_suggested(run: Run, name: str) -> None:
    _, _, errors = run("call", name, *TENANT)
    assert errors.startswith("mcp-tools-proxy: TOOL_NOT_ALLOWED: ")
    assert "did you mean" not in errors


PLANTED = "x\x1b]0;title\x07\x9b31m\u202eevil\u200b\r\x7f\u2028\x85y"


@pytest.mark.parametrize(
    "words",
    [
        ("call", "notes:echo", *TENANT, "--arg", f"text={PLANTED}"),
        ("call", "notes:echo", *TENANT, "--arg", f"{PLANTED}=1"),
        ("call", f"notes:{PLANTED}", *TENANT),
        ("explain", "notes:echo", *TENANT, "--arg", f"{PLANTED}=1"),
        ("documents", "show", PLANTED, *TENANT),
        ("documents", "remove", PLANTED, *TENANT),
        ("presets", "use", PLANTED),
        ("servers", "--url", f"http://{PLANTED}"),
        ("audit", "find"),
        ("audit", "tail"),
    ],
    ids=range(10),
)
def test_no_terminal_control_sequence_is_printed(
    program: Program, run: Run, words: tuple[str, ...], tmp_path: Path
) -> None:
    user = {"tenant_id": "tenant_1", "user_id": "u\u202eu"}
    body = {"tool_name": "notes:echo", "arguments": {"text": PLANTED}, "user": user}
    program.http.post(EXECUTE, json=body, headers={"Authorization": f"Bearer {ADMIN}"})
    (tmp_path / "documents").mkdir()
    own = {
        "MCP_PROXY_AUDIT": f"file:{program.log.parent / 'audit.jsonl'}",
        "MCP_PROXY_DOCUMENTS_PATH": "documents",
    }
    _, output, errors = run(*words, **own)
    assert output + errors
    assert (output + errors).replace("\n", "").replace("\t", "").isprintable()
    assert HIDDEN.search(output + errors) is None


def test_an_escaped_result_is_the_same_json(run: Run) -> None:
    _, output, _ = run("call", "notes:echo", *TENANT, "--arg", f"text={PLANTED}")
    assert json.loads(output)["structured_content"] == {"text": PLANTED}
    assert output.count("\n") > 5


def settings_of(output: str) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in rows_of(output)}


SECRETS = {
    "MCP_PROXY_ADMIN_TOKEN": "hush-hush-admin-token",
    "MCP_PROXY_STATE_KEY": "hush-hush-key-of-at-least-32-characters",
    "MCP_PROXY_RATE_LIMIT_STORAGE_URL": "redis://:hush-hush@127.0.0.1:1/0",
    "MCP_PROXY_RETRIEVAL_WINDOW_URL": "http://jo:hush-hush@127.0.0.1:1/window",
}


def test_settings_shows_effective_values_and_their_sources(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MCP_PROXY_MAX_TEXT_BYTES=5000\nMCP_PROXY_LOG_LEVEL=debug\n")
    code, output, _ = run("settings", MCP_PROXY_LOG_LEVEL="critical", RAG_WINDOW_RADIUS="3")
    shown = settings_of(output)
    assert code == 0
    assert shown["MCP_PROXY_MAX_TEXT_BYTES"] == ["5000", ".env"]
    assert shown["MCP_PROXY_LOG_LEVEL"] == ["error", "environment"]
    assert shown["RAG_WINDOW_RADIUS"] == ["3", "environment"]
    assert shown["MCP_PROXY_HOST"] == ["127.0.0.1", "default"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_settings_shows_no_secret(run: Run, options: tuple[str, ...]) -> None:
    code, output, errors = run("settings", *options, **SECRETS)
    assert (code, "hush-hush" in output + errors) == (0, False)
    assert all(name in output for name in SECRETS)


def test_an_invalid_setting_is_one_line(run: Run) -> None:
    code, output, errors = run("settings", MCP_PROXY_MAX_TEXT_BYTES="many")
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith("mcp-tools-proxy: MCP_PROXY_MAX_TEXT_BYTES: ")
