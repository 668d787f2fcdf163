"""``check`` starts a server twice if a definition differs from the lock, to find unstable ones."""

import json
from pathlib import Path

import pytest

from tests.e2e import check_command
from tests.support.configuration import Json, make_preset
from tests.support.program_launch import PATH_WITH_PYTHON

pytestmark = pytest.mark.e2e

PROGRAM = """
import json, os, pathlib, sys
count = pathlib.Path("starts")
starts = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(starts))
CHANGING = {CHANGING}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method = request["method"]
    if method == "initialize":
        result = dict(protocolVersion="2025-11-25", capabilities=dict(tools=dict()),
                      serverInfo=dict(name="s", version="1"))
    elif method == "tools/list":
        schema = dict(type="object")
        tools = [("fixed", pathlib.Path("text").read_text()), ("counting", "Find.")]
        result = dict(tools=[dict(name=n, description=d, inputSchema=schema) for n, d in tools])
        if CHANGING == "description":
            result["tools"][1]["description"] = f"Find in session {starts}."
        if CHANGING == "schema":
            folder = dict(type="string", default=f"/tmp/run-{starts}")
            result["tools"][1]["inputSchema"] = dict(type="object", properties=dict(folder=folder))
    else:
        error = dict(code=-32601, message="Method not found")
        print(json.dumps(dict(jsonrpc="2.0", id=request["id"], error=error)), flush=True)
        continue
    if method == "initialize" and CHANGING == "instructions":
        result["instructions"] = f"Session {starts}."
    print(json.dumps(dict(jsonrpc="2.0", id=request["id"], result=result)), flush=True)
"""


def prepare(changing: str) -> None:
    folder = Path.cwd()
    (folder / "server.py").write_text(PROGRAM.replace("{CHANGING}", repr(changing)))
    (folder / "text").write_text("Find.")
    entry: Json = {"command": "python3", "args": ["server.py"]}
    preset = make_preset(tools=[("s", "fixed"), ("s", "counting")])
    check_command.write(folder / "config", preset, s=entry)


def check(*options: str, mode: str = "pin") -> tuple[int, Json, int]:
    """Return the exit code, the report, and the number of server starts."""
    before = starts()
    environment = {"PATH": PATH_WITH_PYTHON, "MCP_PROXY_DEFINITIONS": mode}
    code, output, _ = check_command.check(*options, "--json", environment=environment)
    return code, json.loads(output), starts() - before


def starts() -> int:
    return int(Path("starts").read_text()) if Path("starts").exists() else 0


@pytest.mark.parametrize(
    ("mode", "changing", "kind", "name", "field"),
    [
        ("pin", "description", "tool", "counting", "description"),
        ("warn", "description", "tool", "counting", "description"),
        ("pin", "schema", "tool", "counting", "inputSchema.properties.folder.default"),
        ("pin", "instructions", "instructions", "", "instructions"),
    ],
)
def test_unstable_definitions_are_named_with_the_difference(
    mode: str, changing: str, kind: str, name: str, field: str
) -> None:
    prepare(changing)
    code, _, started = check("--lock", mode=mode)
    assert (code, started) == (0, 1)
    code, report, started = check(mode=mode)
    assert (code, started) == (int(mode == "pin"), 2)
    (item,) = report["definitions"]["items"]
    assert (item["kind"], item["name"], item["status"]) == (kind, name, "changed")
    (varying,) = item["unstable"]
    assert varying["field"] == field
    texts = {it["edit"]: it["text"] for it in varying["words"]}
    assert ("2" in texts["removed"], "3" in texts["added"]) == (True, True)
    (warning,) = [it for it in report["warnings"] if "unstable" in it["message"]]
    assert warning["file"] == "definitions.lock.json"
    code, report, started = check("--lock", mode=mode)
    assert (code, started) == (0, 2)
    assert [it["message"] for it in report["warnings"] if "unstable" in it["message"]]


def test_a_lasting_change_is_not_unstable() -> None:
    prepare("nothing")
    check("--lock")
    assert check()[2] == 1
    Path("text").write_text("Find another thing.")
    code, report, started = check()
    assert (code, started) == (1, 2)
    (item,) = report["definitions"]["items"]
    assert (item["name"], item["status"], "unstable" in item) == ("fixed", "changed", False)
