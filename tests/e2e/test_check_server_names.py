"""``check`` shows a server's name in the file and its derived id."""

import json
from pathlib import Path

import pytest

from mcp_tools_proxy.wire.identifiers import server_id_of
from tests.e2e.check_command import DEAD, check, write
from tests.support.configuration import make_preset

pytestmark = pytest.mark.e2e

NAME = "My Server"
ID = server_id_of(NAME)


def test_check_shows_both_names_of_a_server() -> None:
    write(Path.cwd() / "config", make_preset(tools=[(NAME, "search")]), **{NAME: DEAD})
    code, out, _ = check()
    assert code == 1
    table, failing, warning = (
        next(line for line in out.splitlines() if line.startswith(start))
        for start in (f' {ID} ("{NAME}")', f'  {ID} ("{NAME}"): ', "  mcp.json: ")
    )
    assert (" unreachable " in table, "refused" in failing) == (True, True)
    assert warning.startswith(f'  mcp.json: $.mcpServers["{NAME}"]: has the id {ID} here')
    found = json.loads(check("--json")[1])
    (server,) = found["servers"]
    assert (server["server_id"], server["original_id"]) == (ID, NAME)
    (preset,) = found["presets"]
    assert [it["server_id"] for it in preset["missing"]] == [ID]
