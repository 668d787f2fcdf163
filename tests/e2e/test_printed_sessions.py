"""Printed commands of the README and tutorials return the printed output."""

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml  # type: ignore[import-untyped]
from fastapi.testclient import TestClient
from typer.core import TyperGroup

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.cli.main import build_program
from mcp_tools_proxy.settings.settings import Settings
from tests.support.bounds import BOUND_S
from tests.support.pages import blocks_of
from tests.support.printed_examples import calls_of, check_answer, example_gateway, link_root
from tests.support.program_launch import PATH_WITH_PYTHON, run
from tests.support.tables import named_row

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SESSIONS = [
    ROOT / "README.md",
    DOCS / "tutorials/documents.md",
    DOCS / "tutorials/downstream-server.md",
    DOCS / "how-to/citations.md",
]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "contributing"),
]


def output_of(command: str, folder: Path) -> str:
    code, output, problem = run(folder, *shlex.split(command)[1:], PATH=PATH_WITH_PYTHON)
    assert code == 0, problem
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that has the same role as a reader's project root."""
    folder = tmp_path_factory.mktemp("root")
    link_root(folder)
    return folder


def printed(page: Path, command: str) -> tuple[str, str]:
    text = next(text for kind, text in blocks_of(page) if kind == "console" and command in text)
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if command in line)
    output = "\n".join(line for line in lines[at + 1 :] if not line.startswith("$ "))
    return lines[at].removeprefix("$ "), output.strip()


@pytest.fixture(scope="module")
def imported(folder: Path) -> str:
    command, _ = printed(SESSIONS[1], "documents import")
    return output_of(command, folder)


@pytest.mark.parametrize("page", SESSIONS[:2], ids=lambda page: page.stem)
def test_the_import_prints_the_documented_output(imported: str, page: Path) -> None:
    assert imported.strip() == printed(page, "documents import")[1]


def lines_of(table: str) -> list[str]:
    """Return the lines with N for milliseconds at their ends."""
    return [re.sub(r"^( notes .*?) +\d+$", r"\1 N", line.rstrip()) for line in table.splitlines()]


@pytest.mark.parametrize("page", [SESSIONS[0], SESSIONS[2]], ids=lambda page: page.stem)
def test_check_prints_the_documented_output_except_for_times(folder: Path, page: Path) -> None:
    command, shown = printed(page, "mcp-tools-proxy check")
    found = output_of(f"{command} --config-dir examples/config", folder)
    assert lines_of(found.strip()) == lines_of(shown)


def test_check_of_agents_prints_the_output_in_the_reference(folder: Path) -> None:
    """Between the lines with ``…``, in any column widths."""
    page = DOCS / "reference/cli.md"
    block = next(text for _, text in blocks_of(page) if "\n librarian " in text)
    sessions = [it.partition("\n") for it in block.removeprefix("$ ").split("\n$ ")]
    assert len(sessions) == 2
    for command, _, shown in sessions:
        found = " ".join(output_of(command, folder).split())
        for part in shown.split("…"):
            assert " ".join(part.split()) in found


SETTINGS: dict[int, dict[str, Any]] = {
    8082: {"retrieval_window_url": "local"},
    8092: {"config_dir": Path("examples/config")},
}
"""Settings of the sessions for the services on these ports."""


def test_each_session_prints_calls() -> None:
    assert [len(list(calls_of(page))) for page in SESSIONS] == [3, 4, 2, 1]


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.stem)
def test_the_calls_of_a_session_return_the_printed_answers(
    folder: Path, imported: str, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, because each answer shows a remaining budget."""
    assert imported
    monkeypatch.chdir(folder)
    with ExitStack() as stack:
        clients = {
            port: stack.enter_context(example_gateway(**SETTINGS[port]))
            for port in sorted({call.port for call in calls_of(page)})
        }
        for call in calls_of(page):
            check_answer(clients[call.port], call)


def texts(kind: str) -> list[tuple[str, str]]:
    found = [
        (f"{page.relative_to(ROOT)} {number}", text)
        for page in PAGES
        for number, (found, text) in enumerate(blocks_of(page), start=1)
        if found == kind
    ]
    assert found
    return found


SCHEMA_OF = {
    ("mcpServers", dict): "mcp",
    ("tools", list): "preset",
    ("tools", dict): "labels",
    ("agents", list): "agents",
}
"""The schema of a configuration file, by a key at its root and the type of its value."""


def test_printed_json_is_valid_and_fits_the_schema_of_its_file() -> None:
    schemas = {
        key: json.loads((ROOT / f"schemas/{name}.schema.json").read_text(encoding="utf-8"))
        for key, name in SCHEMA_OF.items()
    }
    for place, text in texts("json"):
        with named_row(place):
            value = json.loads(text)
            for (key, kind), schema in schemas.items():
                if isinstance(value.get(key), kind):
                    jsonschema_rs.validate(schema, value)


def test_printed_python_is_valid() -> None:
    for place, text in texts("python"):
        with named_row(place):
            assert ast.parse(text).body


def test_printed_yaml_is_valid() -> None:
    for place, text in texts("yaml"):
        with named_row(place):
            documents = list(yaml.safe_load_all(text))
            assert documents
            assert all(documents)


def test_the_trial_of_jwts_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = blocks_of(DOCS / "how-to/jwt.md")
    program = tmp_path / "issuer.py"
    program.write_text(next(text for kind, text in blocks if kind == "python"), encoding="utf-8")
    consoles = [text for kind, text in blocks if kind == "console"]
    first = next(number for number, text in enumerate(consoles) if "issuer.py" in text)
    commands = "".join(consoles[first : first + 2])  # one for each terminal
    words = [word for word in shlex.split(commands) if word not in ("$", "\n")]
    for name, _, value in (word.partition("=") for word in words if word.startswith("MCP_PROXY_")):
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, program, "tenant_1", "jo"],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=True,
    )
    headers = {"Authorization": f"Bearer {done.stdout.strip()}"}
    with TestClient(create_app(Settings()), "http://localhost") as gateway:
        answers = [
            gateway.post("/internal/mcp/execute", content=words[words.index("-d") + 1], headers=it)
            for it in (headers, {})
        ]
    assert [answer.status_code for answer in answers] == [200, 401]
    assert answers[0].json()["result"]["section_id"] == "sec_intro"


_COMMAND = re.compile(r"mcp-tools-proxy ([^|#;&`)]*)")


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of the program in each printed command of a page."""
    for kind, text in blocks_of(page):
        for line in text.replace("\\\n", " ").splitlines() if kind == "console" else ():
            # a Helm release also has the program's name
            for words in () if "helm " in line else _COMMAND.findall(line):
                yield words.replace("[", " ").replace("]", " ").split()


def test_printed_commands_and_options_exist() -> None:
    unknown: list[str] = []
    printed_commands = [(page, words) for page in PAGES for words in commands_of(page)]
    assert len(printed_commands) > 20
    for page, words in printed_commands:
        command: Any = build_program()
        while words and isinstance(command, TyperGroup) and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        params = command.params
        known = {"--help", *(opt for it in params for opt in (*it.opts, *it.secondary_opts))}
        options = {word.rstrip("…").partition("=")[0] for word in words if word[:2] == "--"}
        unknown += [f"{page.name}: {command.name} {it}" for it in sorted(options - known)]
    assert unknown == []
