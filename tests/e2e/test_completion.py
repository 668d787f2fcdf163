"""Shell completion of commands, options, and values read from files."""

import json
import subprocess
from pathlib import Path

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_agent
from tests.support.program_launch import CLEAN, PATH_WITH_PYTHON, run

pytestmark = pytest.mark.e2e

COMPLETE = "_MCP_TOOLS_PROXY_COMPLETE"


def completed(folder: Path, line: str, **environment: str) -> list[str]:
    """Return bash's completions of the last word of a command line, which can be empty."""
    words = f"mcp-tools-proxy {line}"
    variables = {
        COMPLETE: "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    code, out, err = run(folder, fresh=False, **variables, **environment)
    assert (code, err) == (0, "")
    return out.split("\n")[:-1] if out.strip() else []


def write_agents(folder: Path) -> None:
    agents = [make_agent(it) for it in ("reader", "writer", "$(touch owned)", "two words")]
    Config(agents=agents).write(folder)


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "ch") == ["check"]
    assert completed(tmp_path, "tokens ") == ["create", "list", "revoke"]
    assert completed(tmp_path, "check --of") == ["--offers", "--offline"]


@pytest.mark.parametrize("command", ["check", "stdio", "tokens create"])
def test_agents_of_the_folder_are_completed_if_they_need_no_quotes(
    tmp_path: Path, command: str
) -> None:
    write_agents(tmp_path / "config")
    assert completed(tmp_path, f"{command} --agent ") == ["reader", "writer"]
    assert completed(tmp_path, f"{command} --agent w") == ["writer"]


def test_the_folder_in_the_command_is_used(tmp_path: Path) -> None:
    write_agents(tmp_path / "other")
    assert completed(tmp_path, "check --config-dir other --agent r") == ["reader"]
    assert completed(tmp_path, "check --agent r", MCP_PROXY_CONFIG_DIR="other") == ["reader"]


def test_tokens_are_completed_by_id(tmp_path: Path) -> None:
    lines = [{"id": it, "sha256": it * 64, "tenant": "t"} for it in "ab"]
    (tmp_path / "tokens.jsonl").write_text("\n".join(map(json.dumps, lines)))
    tokens = {"MCP_PROXY_TOKENS_FILE": "tokens.jsonl"}
    assert completed(tmp_path, "tokens revoke ", **tokens) == ["a", "b"]
    assert completed(tmp_path, "tokens revoke --tokens-file tokens.jsonl b") == ["b"]


def test_rights_are_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "tokens create --may ") == [*OperatorRight]


def test_files_are_completed_to_folders_and_importable_files(tmp_path: Path) -> None:
    (tmp_path / "in/folder").mkdir(parents=True)
    for name in ("a.md", "b.PDF", "c.docx", "d.txt", "e.exe", "two words.md"):
        (tmp_path / "in" / name).touch()
    found = completed(tmp_path, "documents import in/")
    assert found == ["in/a.md", "in/b.PDF", "in/c.docx", "in/d.txt", "in/folder/"]
    assert completed(tmp_path, "documents import i") == ["in/"]


@pytest.mark.parametrize("text", [None, "{", '{"agents": 1}'])
def test_unusable_files_complete_nothing_without_a_message(
    tmp_path: Path, text: str | None
) -> None:
    (tmp_path / "config").mkdir()
    if text is not None:
        (tmp_path / "config/agents.json").write_text(text)
    assert completed(tmp_path, "check --agent ") == []
    assert completed(tmp_path, "tokens revoke ", MCP_PROXY_TOKENS_FILE="nowhere") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(tmp_path: Path, shell: str) -> None:
    code, out, err = run(tmp_path, fresh=False, **{COMPLETE: f"source_{shell}"})
    assert (code, err, f"{COMPLETE}=complete_{shell}" in out) == (0, "", True)


def test_bash_completes_with_its_script(tmp_path: Path) -> None:
    write_agents(tmp_path / "config")
    script = f"""
        eval "$({COMPLETE}=source_bash mcp-tools-proxy)"
        COMP_WORDS=(mcp-tools-proxy check --agent "") COMP_CWORD=3
        _mcp_tools_proxy_completion mcp-tools-proxy
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(  # noqa: S603 - our own script
        ["/bin/bash", "-c", script], cwd=tmp_path, env={**CLEAN, "PATH": PATH_WITH_PYTHON},
        capture_output=True, text=True, timeout=BOUND_S, check=True,
    )  # fmt: skip
    assert (done.stdout.split("\n"), done.stderr) == (["reader", "writer", ""], "")
