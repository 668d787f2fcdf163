"""The command line: commands with options, help texts, and output."""

import json
import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup, TyperOption

from mcp_tools_proxy.cli.main import PROGRAM, build_program
from tests.support.goldens import Golden, flat, section
from tests.support.printed_examples import link_root
from tests.support.program import started
from tests.support.program_launch import PATH_WITH_PYTHON, run

Command = TyperCommand | TyperGroup
WIDTH = 100


@pytest.fixture(scope="module")
def commands() -> dict[str, Command]:
    """Return each command by its words."""
    return dict(commands_of(build_program(), PROGRAM))


def commands_of(command: Command, path: str) -> Iterator[tuple[str, Command]]:
    yield path, command
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            assert isinstance(below, Command)
            yield from commands_of(below, f"{path} {name}")


def test_commands_and_options_match_the_golden(
    commands: dict[str, Command], golden: Golden
) -> None:
    lines: list[str] = []
    for path, command in sorted(commands.items()):
        hidden = ["hidden"] if command.hidden else []
        lines += section(path, [*hidden, *map(parameter_line, command.params)])
    golden.check("cli_commands.txt", lines)


FLAGS = ("required", "multiple", "is_flag", "hidden")
VALUES = ("metavar", "default", "min", "max")


def parameter_line(parameter: object) -> str:
    kind = "option" if isinstance(parameter, TyperOption) else "argument"
    fields = vars(parameter)
    names = "/".join((*sorted(fields["opts"]), *sorted(fields["secondary_opts"])))
    values = (f"{it} {json.dumps(fields[it], default=str)}" for it in VALUES if fields.get(it))
    words = (*(it for it in FLAGS if fields.get(it)), *values)
    return f"{kind} {names}: {fields['type_descriptor'].annotation.__name__} {' '.join(words)}"


def test_help_texts_match_the_golden(commands: dict[str, Command], golden: Golden) -> None:
    """At a fixed width; ``--help`` uses the width of the terminal."""
    lines = []
    for path, command in commands.items():
        context = command.make_context(path, [], resilient_parsing=True, terminal_width=WIDTH)
        lines += [f"$ {path} --help", *command.get_help(context).splitlines(), ""]
    golden.check("cli_help.txt", (line.rstrip() for line in lines))


SESSION = (
    "version",
    "config init mine",
    "check --config-dir mine --offline",
    "check --config-dir mine --offline --json",
    "check --config-dir examples/config --offers",
    "check --config-dir nowhere",
    "serve --port 70000",
    "documents import examples/handbook.pdf --tenant acme --tag vpn",
    "documents import examples/handbook.pdf --tenant acme --tag vpn",
    "documents list",
    "documents list --json",
    "documents show handbook --tenant acme",
    "documents show handbook --tenant acme --json",
    "documents rights handbook --tenant acme --role support",
    "documents show missing --tenant acme",
    "documents remove handbook --tenant acme --yes",
    "tokens create --tenant acme --expires 90d --note chat",
    "tokens create --may audit --json",
    "tokens list",
    "tokens list --json",
    "tokens revoke 00000000",
    "audit verify",
    "logins",
    "console",
    "servers",
)
WITHOUT_GATEWAY = {
    "MCP_PROXY_AUTH_MODE": "token",
    "MCP_PROXY_TOKENS_FILE": "tokens.jsonl",
    "MCP_PROXY_AUDIT": "file:audit.jsonl",
}
SESSION_OF_A_GATEWAY = (
    "servers",
    "presets list",
    "presets use missing",
    "tools list --tenant acme",
    "call notes:search_notes --tenant acme --arg query=vpn --json",
    "call notes:search_notes --tenant acme --arg q=vpn",
    "call notes:delete_all_notes --tenant acme",
    "explain notes:delete_all_notes --tenant acme",
    "limits --tenant acme",
    "limits --tenant acme --json",
    "audit find --tenant acme --code OK",
    "audit verify",
)


@pytest.mark.e2e
def test_output_of_commands_matches_the_golden(golden: Golden, tmp_path: Path) -> None:
    """Run one after the other in one folder without a gateway."""
    link_root(tmp_path)
    (tmp_path / "tokens.jsonl").touch(0o600)
    with socket.socket() as held:  # so that nothing else can listen on its port
        held.bind(("127.0.0.1", 0))
        settings = {**WITHOUT_GATEWAY, "MCP_PROXY_PORT": str(held.getsockname()[1])}
        lines = list(printed(SESSION, tmp_path, settings))
    golden.check("cli_output.txt", lines)


@pytest.mark.e2e
def test_output_of_commands_with_a_running_gateway_matches_the_golden(
    golden: Golden, tmp_path: Path
) -> None:
    link_root(tmp_path)
    settings = {"MCP_PROXY_CONFIG_DIR": "examples/config", "MCP_PROXY_AUDIT": "file:audit.jsonl"}
    with started(tmp_path, settings) as program:
        program.wait_for_server()
        more = {"MCP_PROXY_CLIENT_URL": f"http://127.0.0.1:{program.port}"}
        lines = list(printed(SESSION_OF_A_GATEWAY, tmp_path, settings | more))
    golden.check("cli_output_of_a_gateway.txt", lines)


def printed(session: Iterable[str], folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield the output of commands, JSON with one value per line, with placeholders."""
    for command in session:
        environment = {"COLUMNS": str(WIDTH), "PATH": PATH_WITH_PYTHON, **settings}
        code, output, problems = run(folder, *shlex.split(command), fresh=False, **environment)
        yield f"$ {PROGRAM} {command}"
        lines = [line for part in parts_of(output) for line in part]
        yield from (without_varying(it, folder) for it in lines)
        yield from (f"stderr: {without_varying(it, folder)}" for it in problems.splitlines())
        yield from (f"exit code: {code}", "")


def parts_of(output: str) -> Iterator[Iterable[str]]:
    """Yield the lines of an output; JSON lines, or JSON as a whole, by their values."""
    if output.startswith("{\n"):
        yield flat(json.loads(output))
        return
    for line in output.splitlines():
        yield flat(json.loads(line)) if line.startswith("{") else [line]


VARYING = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "SHA256"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "TRACE_ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r"\b[\w-]{40,}\b"), "SECRET"),
    (re.compile(r"\b(?!00000000)(?=\d*[a-f])[0-9a-f]{8}\b|\b(?!00000000)\d{8}\b"), "ID"),
    (re.compile(r"((?:_ms|_s|generation|remaining(?:_calls)?|seq) = )[\d.]+"), r"\1N"),
    (re.compile(r"\d+( of \d+ calls\t)\d+ s$"), r"N\1N s"),
    (re.compile(r"\d+ records?, \d+ to \d+"), "N records, N to N"),
    (re.compile(r"(127\.0\.0\.1:)\d+"), r"\1PORT"),
    (re.compile(r"^( notes .*?) +\d+$"), r"\1 N"),
)


def without_varying(line: str, folder: Path) -> str:
    """Return a line with placeholders for varying values."""
    line = line.rstrip().replace(str(folder), "FOLDER").replace(version(PROGRAM), "VERSION")
    for pattern, name in VARYING:
        line = pattern.sub(name, line)
    return line
