"""``mcp-tools-proxy check``: output and exit codes (contract §8)."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.check_command import DEAD, ECHO, check, write
from tests.support import leak_checks
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import wait_until
from tests.support.program_launch import launch

pytestmark = pytest.mark.e2e


def test_a_valid_configuration_is_shown_and_exits_0(tmp_path: Path) -> None:
    write(tmp_path / "config", ECHO, s1=raw_entry(only=["echo", "meta"]))
    code, out, err = check(fresh=True)
    servers, presets = out.split("Presets")
    assert (code, err) == (0, "")
    offers = "2 tools, 2 prompts, 1 resource, 1 resource template"
    assert f"s1      ready  stdio      2026-07-28  {offers}" in servers
    assert "*  echo" in presets


def test_the_folder_can_be_given(tmp_path: Path) -> None:
    write(tmp_path / "other", ECHO, s1=raw_entry(only=["echo"]))
    code, out, _ = check("--config-dir", "other")
    assert (code, "ready" in out) == (0, True)


def test_a_missing_configuration_is_a_warning(tmp_path: Path) -> None:
    code, out, _ = check()
    assert (code, "mcp.json: $: is missing" in out) == (0, True)


def test_a_setting_with_a_surprising_value_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path / "config", ECHO, s1=raw_entry(only=["echo"]))
    settings = {"MCP_PROXY_LOG_LEVEL": "critical", "MCP_PROXY_MAX_PAGES_PER_CALL": "0"}
    code, out, _ = check(environment=settings)
    warnings = out.split("Warnings")[1]
    assert (code, all(name in warnings for name in settings)) == (0, True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (None, "settings: MCP_PROXY_TOKENS_FILE: the file cannot be read: No such file"),
        ('{"id": "a1", "sha_256": "00"}', "tokens.jsonl: line 1: is not a valid token: "),
    ],
    ids=["missing", "invalid line"],
)
def test_an_unusable_tokens_file_exits_1(tmp_path: Path, line: str | None, words: str) -> None:
    if line is not None:
        (tmp_path / "tokens.jsonl").write_text(line)
    tokens = {"MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}
    code, out, _ = check(environment=tokens)
    assert (code, words in out) == (1, True)


def test_a_token_for_an_agent_without_a_profile_is_a_warning(tmp_path: Path) -> None:
    line = {"id": "a1", "sha256": "0" * 64, "tenant": "t", "agents": ["reader", "writer"]}
    (tmp_path / "tokens.jsonl").write_text(json.dumps(line))
    Config(agents=[make_agent("writer")]).write(tmp_path / "config")
    tokens = {"MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}
    code, out, _ = check(environment=tokens)
    words = 'tokens.jsonl: token a1: is for agent "reader", which is not in agents.json'
    assert (code, words in out, '"writer"' in out) == (0, True, False)


def test_an_unknown_key_is_a_warning(tmp_path: Path) -> None:
    Config(more={"mystery": 1}).write(tmp_path / "config")
    code, out, _ = check()
    assert (code, "$.mystery" in out) == (0, True)


def test_a_server_that_does_not_connect_exits_1_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path / "config", dead=DEAD)
    code, out, _ = check()
    assert (code, "/mcp: connection refused" in out) == (1, True)


def test_an_invalid_entry_exits_1_and_the_others_are_shown(tmp_path: Path) -> None:
    write(tmp_path / "config", ECHO, s1=raw_entry(only=["echo"]), bad={"comand": "npx"})
    code, out, _ = check()
    assert code == 1
    assert "s1      ready" in out
    assert "bad     invalid  -" in out
    assert 'mcp.json: $.mcpServers.bad.comand: "comand" is not a known key; did you mean "c' in out
    assert out.endswith("Failed: 1 server, 2 problems.\n")


def test_the_verdict_counts_the_problems(tmp_path: Path) -> None:
    preset = make_preset("work", tools=[("dead", "a"), ("dead", "b")])
    write(tmp_path / "config", preset, dead=DEAD)
    _, out, _ = check()
    assert out.endswith("Failed: 1 server, 2 missing items.\n")


@pytest.mark.parametrize(("options", "reported"), [([], False), (["--verbose"], True)])
def test_the_stderr_of_a_server_is_shown_on_request(
    tmp_path: Path, options: list[str], reported: bool
) -> None:
    script = "echo its last words >&2; exit 3"
    write(tmp_path / "config", mute={"command": "/bin/sh", "args": ["-c", script]})
    code, out, err = check(*options)
    reason = "mute: /bin/sh: the server's process ended with exit code 3; stderr: its last words"
    assert (code, reason in out) == (1, True)
    assert ("its last words" in err) == reported


@pytest.mark.parametrize(
    ("entry", "secret"),
    [
        ({"env": {"TOKEN": "s3cret-of-env"}}, "s3cret-of-env"),
        ({"args": ["-c", "echo with $0 >&2; exit 3", "${CHECK_SECRET}"]}, "s3cret-of-variable"),
    ],
    ids=["env", "variable"],
)
def test_a_secret_in_the_stderr_of_a_server_is_hidden(
    tmp_path: Path, entry: dict[str, object], secret: str
) -> None:
    args = ["-c", "echo with $TOKEN >&2; exit 3"]
    write(tmp_path / "config", mute={"command": "/bin/sh", "args": args, **entry})
    _, out, _ = check(environment={"CHECK_SECRET": "s3cret-of-variable"})
    assert ("stderr: with ***" in out, secret in out) == (True, False)


def test_a_disabled_server_is_ok(tmp_path: Path) -> None:
    write(tmp_path / "config", dead={**DEAD, "enabled": False})
    code, out, _ = check()
    assert (code, "disabled" in out) == (0, True)


@pytest.mark.parametrize(("options", "named"), [([], False), (["--offers"], True)])
def test_all_offers_of_a_server_are_listed_on_request(
    tmp_path: Path, options: list[str], named: bool
) -> None:
    write(tmp_path / "config", s1=raw_entry(only=["echo", "meta"]))
    _, out, _ = check(*options)
    assert ("s1      tool      echo" in out, "s1      resource  " in out) == (named, named)


@pytest.mark.requirement("P-07")
def test_a_missing_item_exits_1_and_is_named(tmp_path: Path) -> None:
    preset = make_preset("work", tools=[("s1", "gone")])
    write(tmp_path / "config", preset, s1=raw_entry(only=["echo"]))
    code, out, _ = check()
    assert (code, "work    tool  s1      gone" in out) == (1, True)


def test_a_dropped_tool_exits_1_with_the_reason(tmp_path: Path) -> None:
    broken = '{"tools": [{"name": "broken", "inputSchema": {"type": "nonsense"}}]}'
    write(tmp_path / "config", s1=raw_entry(only=["echo"], extra=broken))
    code, out, _ = check()
    assert (code, "s1      tool  broken" in out) == (1, True)


def test_an_excluded_item_is_missing_for_that_reason(tmp_path: Path) -> None:
    write(tmp_path / "config", ECHO, s1={**raw_entry(only=["echo"]), "exclude": ["echo"]})
    code, out, _ = check()
    assert (code, "echo    tool  s1      echo  mcp.json excludes it" in out) == (1, True)


def test_a_name_that_model_apis_refuse_is_shown_with_its_alias(tmp_path: Path) -> None:
    odd = '{"tools": [{"name": "odd name", "inputSchema": {"type": "object"}}]}'
    preset = make_preset("work", tools=[("s1", "odd name")])
    write(tmp_path / "config", preset, s1=raw_entry(only=["echo"], extra=odd))
    code, out, _ = check()
    assert (code, "s1:odd name  s1_odd_name_" in out) == (0, True)


@pytest.mark.parametrize("name", ["mcp.json", "preset_bad.json"])
def test_an_invalid_file_exits_1_and_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path / "config", ECHO, s1=raw_entry(only=["echo"]))
    (tmp_path / "config" / name).write_text("{")
    code, out, _ = check()
    assert (code, f"{name}: $: is not valid JSON" in out) == (1, True)


def test_a_missing_default_preset_exits_1(tmp_path: Path) -> None:
    Config(more={"defaultPresetId": "nowhere"}).write(tmp_path / "config")
    code, out, _ = check()
    assert (code, "preset_nowhere.json" in out) == (1, True)


def test_a_pinned_preset_is_the_active_one(tmp_path: Path) -> None:
    other = make_preset("other", tools=[("s1", "echo")])
    write(tmp_path / "config", ECHO, other, s1=raw_entry(only=["echo"]))
    code, out, _ = check(environment={"MCP_PROXY_PRESET": "other"})
    assert (code, "*  other" in out) == (0, True)


def test_no_secret_or_control_character_is_printed(tmp_path: Path) -> None:
    entry = {**DEAD, "headers": {"Authorization": "Bearer ${HUSH}"}}
    preset = {**make_preset("work"), "name": "\x1b[31mred\u202e"}
    write(tmp_path / "config", preset, dead=entry)
    _, out, err = check(environment={"HUSH": "tell-nobody"})
    assert "tell-nobody" not in out + err
    assert r"\x1b[31mred\u202e" in out
    assert all(char == "\n" or char.isprintable() for char in out)


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (["--nonsense"], {}),
        (["--config-dir", "nowhere"], {}),
        ([], {"MCP_PROXY_TOOL_TIMEOUT_S": "never"}),
        ([], {"MCP_PROXY_RETRIEVAL_TOKEN": "not ASCII: ключ"}),
    ],
)
def test_invalid_usage_and_invalid_settings_exit_2_with_one_line(
    options: list[str], environment: dict[str, str]
) -> None:
    code, out, err = check(*options, environment=environment)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_its_servers(tmp_path: Path, number: signal.Signals) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60"
    write(tmp_path / "config", mute={"command": "/bin/sh", "args": ["-c", script]})
    with (tmp_path / "stderr.txt").open("w+b") as err:
        streams = (None, subprocess.DEVNULL, err.fileno())
        process = launch(["check"], tmp_path, streams=streams)
        try:
            wait_until(pid_file.exists)
            process.send_signal(number)
            code = process.wait(BOUND_S)
        finally:
            process.kill()
        err.seek(0)
        assert (code, b"Traceback" in err.read()) == (128 + number, False)
    server = int(pid_file.read_text())
    wait_until(lambda: not leak_checks.runs(server))


def test_a_login_without_a_key_is_one_invalid_server_and_exits_1(tmp_path: Path) -> None:
    login = {"url": "http://127.0.0.1:9/mcp", "auth": {"type": "oauth"}}
    write(tmp_path / "config", ECHO, s1=raw_entry(only=["echo"]), login=login)
    code, out, _ = check()
    assert (code, "MCP_PROXY_CREDENTIALS_KEY" in out, "echo" in out) == (1, True, True)
    write(tmp_path / "config", ECHO, s1=raw_entry(only=["echo"]), login={**login, "enabled": False})
    assert check()[0] == 0


@pytest.mark.parametrize(("action", "state"), [("refuse", "hidden by a guard"), ("flag", "")])
async def test_guard_findings_in_definitions_are_shown(
    tmp_path: Path, action: str, state: str
) -> None:
    dirty = {"name": "dirty", "description": "Finds\u200b notes", "inputSchema": {"type": "object"}}
    async with running_raw(only=("echo",), extra={"tools": [dirty]}) as server:
        guarded = {**server.entry, "guards": {"hiddenCharacters": action}}
        write(tmp_path / "config", make_preset(tools=[("s1", "dirty")]), s1=guarded)
        _, out, _ = await asyncio.to_thread(check, environment={"COLUMNS": "200"})
    (row,) = [line for line in out.splitlines() if "hiddenCharacters: " in line]
    assert "dirty" in row
    assert f"({action})" in row
    assert state in row
    assert "echo" not in row


def test_tools_without_labels_get_suggestions(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    write(folder, ECHO, s1=raw_entry(only=["echo"]))
    code, out, _ = check("--labels")
    assert code == 0
    suggested = json.loads(out[out.index("{") : out.index("\n}\n") + 3])
    labels = suggested["tools"]["s1:echo"]["labels"]
    assert {"writes", "sends"} <= {*labels}
    (folder / "labels.json").write_text(json.dumps(suggested))
    _, out, _ = check("--labels")
    assert "every tool of the active preset has labels" in out


def test_labels_are_checked_with_the_tools_of_the_servers(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    write(folder, ECHO, s1=raw_entry(only=["echo", "meta"]), s2=DEAD)
    reads: dict[str, object] = {"labels": ["reads_private"]}
    labels = {
        "s1:echo": {**reads, "targets": ["text"]},
        "s1:ecko": reads,
        "s1:resources/read": reads,
        "s2:send": reads,
    }
    (folder / "labels.json").write_text(json.dumps({"tools": labels}))
    _, out, _ = check()
    assert 'the server "s1" has no tool "ecko"' in out
    assert 'did you mean "echo"?' in out
    assert out.count("labels.json:") == 1
    labels = {"s1:echo": {**reads, "targets": ["txt"]}}
    (folder / "labels.json").write_text(json.dumps({"tools": labels}))
    code, out, _ = check()
    wrong = '"txt" is not an argument of the tool, so all its arguments are targets'
    assert (code, f'{wrong}; did you mean "text"?' in out) == (1, True)


def test_policies_are_checked_with_the_tools_of_the_servers(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    write(folder, ECHO, s1=raw_entry(only=["echo"]), s2=DEAD)
    (folder / "policies").mkdir()
    file = folder / "policies" / "a.cedar"
    file.write_text('@id("a") forbid(principal, action == Action::"s1:ecko", resource);')
    code, out, _ = check()
    assert (code, '"s1:ecko" is not a tool' in out, 'did you mean "s1:echo"?' in out) == (
        1,
        True,
        True,
    )
    file.write_text('@id("a") forbid(principal, action == Action::"s2:send", resource);')
    _, out, _ = check()
    assert 'policy "a" waits for the tools of s2' in out


def test_policies_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    write(folder, ECHO, s1=raw_entry(only=["echo"]), s2=DEAD)
    (folder / "policies").mkdir()
    _, out, _ = check()
    assert "none, so no policy is active" in out
    assert "policies: $: has no policies" in out
    (folder / "policies" / "a.cedar").write_text(
        '@id("a") @mode("log_only") forbid(principal, action == Action::"s1:echo", resource);'
        '@id("b") forbid(principal, action == Action::"s2:send", resource);'
    )
    (folder / "policies" / "b.ceder").touch()
    _, out, _ = check()
    assert "Policies: 2 in 1 file" in out
    rows = [
        line.rstrip().split(maxsplit=3) for line in out.splitlines() if " policies/a.cedar " in line
    ]
    assert rows == [
        ["a", "log_only", "policies/a.cedar", "active"],
        ["b", "enforce", "policies/a.cedar", "waits for the tools of s2"],
    ]
    assert "policies/b.ceder: $: is not read" in out
    _, out, _ = check("--json")
    items = json.loads(out)["policies"]["items"]
    assert [(it["id"], it["waits_for"]) for it in items] == [("a", None), ("b", ["s2"])]
