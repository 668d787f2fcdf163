"""``check --json``: the report as one object with the documented keys."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.check_command import DEAD, check
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.local_tools import LOCAL_TOOLS
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program_launch import ROOT

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
TOKEN = {"id": "a1", "sha256": "5" * 64, "tenant": "acme", "agents": ["reader"], "note": "x\x1b[2J"}
TOKENS = {"MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}


def report(*options: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Return the exit code, the object, and the stdout, which contains only that object."""
    code, out, err = check("--json", *options, environment=environment)
    assert (err, out.count("\n")) == ("", 1)
    return code, json.loads(out), out


def write_good(folder: Path) -> None:
    Config(
        servers={"s1": raw_entry(only=["echo", "meta"])},
        presets=[make_preset("work", tools=[("s1", "echo"), ("s1", "meta")])],
        agents=[make_agent("reader", exclude=["meta", *LOCAL_TOOLS])],
        more={"defaultPresetId": "work", "mystery": 1},
    ).write(folder / "config")
    (folder / "tokens.jsonl").write_text(json.dumps(TOKEN))


def test_a_valid_configuration_is_one_object(tmp_path: Path) -> None:
    write_good(tmp_path)
    code, found, out = report(**TOKENS)
    counts = {"tools": 2, "prompts": 2, "resources": 1, "resource_templates": 1}
    assert (code, found["good"], set(found["faults"].values())) == (0, True, {0})
    server = {key: found["servers"][0][key] for key in ("server_id", "state", "era", "counts")}
    assert server == {"server_id": "s1", "state": "ready", "era": "2026-07-28", "counts": counts}
    (preset,) = found["presets"]
    assert (preset["id"], preset["active"], preset["missing"]) == ("work", True, [])
    (agent,) = found["agents"]
    assert agent["sees"]["tools"] == ["s1:echo"]
    assert [len(agent["sees"][kind]) for kind in counts] == [1, 2, 1, 3]
    assert [it["path"] for it in found["warnings"]] == ["$.mystery"]
    assert [(it["id"], it["agents"], it["note"]) for it in found["tokens"]] == [
        ("a1", ["reader"], TOKEN["note"])
    ]
    assert ("5" * 16 in out, out.rstrip("\n").isprintable()) == (False, True)


def test_the_object_has_the_problems_and_the_exit_code_is_1(tmp_path: Path) -> None:
    preset = make_preset("work", tools=[("dead", "a"), ("s1", "gone")])
    servers = {"dead": DEAD, "s1": raw_entry(only=["echo"]), "bad": {"comand": "npx"}}
    Config(servers=servers, presets=[preset]).write(tmp_path / "config")
    code, found, _ = report()
    faults = {"servers": 2, "unusable_items": 0, "missing_items": 2, "problems": 2}
    faults |= {"quarantined_items": 0, "dependencies": 0}
    assert (code, found["good"], found["faults"]) == (1, False, faults)
    states = {it["server_id"]: it["state"] for it in found["servers"]}
    assert states == {"dead": "unreachable", "s1": "ready", "bad": "invalid"}
    errors = {it["server_id"]: bool(it["last_error"]) for it in found["servers"]}
    assert errors == {"dead": True, "s1": False, "bad": False}
    missing = [(it["server_id"], it["name"]) for it in found["presets"][0]["missing"]]
    assert missing == [("dead", "a"), ("s1", "gone")]
    assert {it["file"] for it in found["problems"]} == {"mcp.json"}


def test_one_agent_has_the_items_hidden_from_it(tmp_path: Path) -> None:
    write_good(tmp_path)
    _, found, _ = report("--agent", "reader", **TOKENS)
    hidden = {(it["server_id"], it["name"]): it["hidden_by"] for it in found["agents"][0]["hidden"]}
    assert hidden["s1", "meta"] == "exclude_components"


def test_upgrade_notes_need_no_option() -> None:
    assert report()[1]["upgrade_notes"] == []


def test_the_keys_match_the_reference_with_and_without_servers() -> None:
    _, _, section = PAGE.partition("### The report as JSON")
    listed = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert [[*report(*options)[1]] for options in ([], ["--offline"])] == [listed, listed]


def test_an_invalid_setting_leaves_stdout_empty() -> None:
    code, out, err = check("--json", environment={"MCP_PROXY_TOOL_TIMEOUT_S": "never"})
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_tools_that_common_clients_reject_are_listed_without_a_fault(tmp_path: Path) -> None:
    write_good(tmp_path)
    code, found, _ = report(**TOKENS, MCP_PROXY_TOOL_NAME_STYLE="server")
    problems = {it["tool"]: it for it in found["client_problems"]}
    assert (code, {"s1:echo", "s1:meta"} <= problems.keys()) == (0, True)
    assert '"s1:echo"' in problems["s1:echo"]["problem"]
    assert "name_style=alias" in problems["s1:echo"]["remedy"]
    _, out, _ = check(environment={**TOKENS, "MCP_PROXY_TOOL_NAME_STYLE": "server"})
    assert "Some MCP clients reject these tools" in out
    assert report(**TOKENS)[1]["client_problems"] == []
