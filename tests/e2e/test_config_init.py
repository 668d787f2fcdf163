"""``config init``: a folder that the program and editors accept unchanged."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.support.program import started
from tests.support.program_launch import ROOT, run
from tests.support.service import EXECUTE, SERVERS, request_of

pytestmark = pytest.mark.e2e

WRITTEN = [
    "agents.json",
    "mcp.json",
    "preset_work.json",
    "schemas/agents.schema.json",
    "schemas/definitions.lock.schema.json",
    "schemas/labels.schema.json",
    "schemas/limits.schema.json",
    "schemas/mcp.schema.json",
    "schemas/preset.schema.json",
]


def files_in(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_output_names_the_written_files_and_the_next_command(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "config", "init")
    *wrote, following = out.splitlines()
    assert (code, err) == (0, "")
    assert sorted(wrote) == [f"wrote config/{name}" for name in WRITTEN]
    assert sorted(files_in(tmp_path / "config")) == WRITTEN
    command = following.partition("mcp-tools-proxy ")[2].split()
    assert command == ["check", "--config-dir", "config"]
    assert run(tmp_path, *command)[0] == 0


def test_the_folder_has_no_problems_or_warnings(tmp_path: Path) -> None:
    run(tmp_path, "config", "init", "a folder")
    code, out, _ = run(tmp_path, "check", "--offline", "--json", "--config-dir", "a folder")
    found = json.loads(out)
    assert (code, found["problems"], found["warnings"]) == (0, [], [])


def test_each_file_follows_its_schema(tmp_path: Path) -> None:
    run(tmp_path, "config", "init")
    folder = tmp_path / "config"
    for name in ("mcp.json", "preset_work.json", "agents.json"):
        content: Any = json.loads((folder / name).read_text())
        schema = (folder / content["$schema"]).read_text()
        jsonschema_rs.validator_for(json.loads(schema)).validate(content)
        published = ROOT / "schemas" / Path(content["$schema"]).name
        assert schema == published.read_text(encoding="utf-8")


@pytest.mark.parametrize("taken", ["mcp.json", "schemas/preset.schema.json"])
def test_existing_files_are_not_overwritten_and_no_others_are_written(
    tmp_path: Path, taken: str
) -> None:
    file = tmp_path / "config" / taken
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    code, out, err = run(tmp_path, "config", "init")
    assert (code, out, err.count("\n"), taken in err) == (1, "", 1, True)
    assert files_in(tmp_path / "config") == {taken: "mine"}


def test_other_files_of_the_folder_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/preset_mine.json").write_text('{"id": "mine", "name": "Mine"}')
    assert run(tmp_path, "config", "init")[0] == 0
    assert run(tmp_path, "check", "--offline")[0] == 0


def test_the_folder_comes_from_the_settings_despite_other_errors(tmp_path: Path) -> None:
    settings = {"MCP_PROXY_CONFIG_DIR": "mine", "MCP_PROXY_PORT": "none"}
    assert run(tmp_path, "config", "init", fresh=False, **settings)[0] == 0
    assert sorted(files_in(tmp_path / "mine")) == WRITTEN


def test_an_unwritable_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = run(tmp_path, "config", "init", "file/config")
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_a_gateway_can_serve_the_folder(tmp_path: Path) -> None:
    run(tmp_path, "config", "init")
    with started(tmp_path) as program:
        (server,) = program.http.get(SERVERS).json()["servers"]
        ready = program.http.get("/health/ready").json()
        body = request_of("list_available_tools")
        answer = program.http.post(EXECUTE, json=body).json()
    assert (server["server_id"], server["state"]) == ("example", "disabled")
    assert (ready["status"], ready["checks"]["config"]["status"]) == ("ready", "ok")
    assert answer["status"] == "ok", "no agent has to be named"
