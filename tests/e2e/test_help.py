"""The help of all commands: consistent value names, valid examples, -h and version."""

import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from mcp_tools_proxy.cli.main import EXAMPLES, PROGRAM, build_program
from tests.support.program_launch import run
from tests.support.tables import named_row

ROOT = build_program()

VALUE = re.compile(r"^  (?:-\w, )?--[\w-]+ (?P<value>\S+)(?:  |$)", re.MULTILINE)
ARGUMENTS = re.compile(r"^Arguments:\n((?:  .+\n)+)", re.MULTILINE)
STYLE = re.compile(r"[A-Z][A-Z_]*(?:[=:][A-Z]+)?")


def commands(command: object, path: str = "") -> Iterator[str]:
    yield path
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from commands(below, f"{path} {name}".strip())


PATHS = [*commands(ROOT)]


def help_of(path: str) -> str:
    command: Any = ROOT
    context = ROOT.make_context(PROGRAM, [], resilient_parsing=True)
    for name in path.split():
        assert isinstance(command, TyperGroup)
        command = command.commands[name]
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    return str(command.get_help(context))


def test_value_names_have_one_style() -> None:
    for path in PATHS:
        with named_row(path):
            text = help_of(path)
            names = [found["value"] for found in VALUE.finditer(text)]
            for block in ARGUMENTS.findall(text):
                names += [line.split()[0] for line in block.splitlines() if line[2:3].strip()]
            assert [name for name in names if not STYLE.fullmatch(name)] == []
            assert re.findall(r"<\w+", text) == []


def test_each_help_has_valid_examples() -> None:
    for path in PATHS:
        with named_row(path):
            examples = help_of(path).partition("Examples:\n")[2].split("\n")
            lines = [line.strip() for line in examples if line.strip()]
            assert lines
            for line in lines:
                program, *words = shlex.split(line)
                assert program == PROGRAM
                assert len(f"  {line}") <= 80
                assert " ".join(words).startswith(path)
                command: Any = ROOT
                context = ROOT.make_context(PROGRAM, [], resilient_parsing=True)
                while isinstance(command, TyperGroup):
                    command, words = command.commands[words[0]], words[1:]
                if words and any("--config-dir" in word for word in words):
                    continue  # the folder has to exist
                command.make_context(command.name, words, parent=context)


def test_every_example_uses_a_known_command() -> None:
    assert EXAMPLES.keys() == set(PATHS)


@pytest.mark.e2e
@pytest.mark.parametrize("words", ["-h", "tokens -h", "tokens create -h", "serve -h"])
def test_h_is_an_alias_of_help(tmp_path: Path, words: str) -> None:
    code, output, errors = run(tmp_path, *words.split(), MCP_PROXY_PORT="http")
    assert (code, output.startswith("Usage: "), errors) == (0, True, "")


@pytest.mark.e2e
@pytest.mark.parametrize("word", ["version", "--version"])
def test_version_reads_no_setting(tmp_path: Path, word: str) -> None:
    code, output, _ = run(tmp_path, word, MCP_PROXY_PORT="http")
    assert (code, output) == (0, f"{PROGRAM} {version('mcp-tools-proxy')}\n")
