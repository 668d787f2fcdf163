import json
import sys
from pathlib import Path

import pytest

import mcp_tools_proxy
from mcp_tools_proxy.config.loader import load_configuration
from tests.downstream.caller_gateway import given, serving_entry, user
from tests.support.configuration import Json
from tests.support.mcp_servers.server_programs import ROOT
from tests.unit.config.load_files import write_json

TENANT, USER = "${caller.tenant_id}", "${caller.user_id}"

WRITER = """
import json, os, sys
words = dict(zip(("file", "tenant", "user", "beside"), sys.argv[1:]))
words["variable"], words["path"] = os.environ["TENANT"], os.environ["NOTES_PATH"]
with open(words["file"], "w") as file:
    json.dump(words, file)
os.execv(sys.executable, [sys.executable, "-m", "tests.support.mcp_servers.raw"])
"""


def writing(folder: Path) -> Json:
    """Return the entry of a server that writes a file named after the tenant."""
    return {
        "command": sys.executable,
        "args": ["-c", WRITER, f"{folder}/{TENANT}", TENANT, USER, f"--user={USER}"],
        "env": {
            "PYTHONPATH": f"{ROOT}:{Path(mcp_tools_proxy.__file__).parents[1]}",
            "TENANT": TENANT,
            "NOTES_PATH": f"/srv/{TENANT}/{USER}",
        },
        "isolation": "user",
        "discoveryCaller": {"tenant_id": "discovery", "user_id": "discovery"},
    }


async def test_no_id_escapes_the_folder_that_the_entry_names(tmp_path: Path) -> None:
    ids = {
        "acme_west": "acme_west",
        "../globex": "..%2Fglobex",
        "..": "%2E%2E",
        "a\\b": "a%5Cb",
        "..%2fglobex": "..%252fglobex",
        "\uff0e\uff0e\uff0fglobex": "\uff0e\uff0e\uff0fglobex",
    }
    folder = tmp_path / "tenants"
    folder.mkdir()
    async with serving_entry(writing(folder)) as service:
        for tenant in ids:
            await given(service, "meta", user(tenant, "../eve"))
    assert {it.name for it in folder.iterdir()} == {*ids.values(), "discovery"}
    assert not (tmp_path / "globex").exists()
    for tenant, name in ids.items():
        words = json.loads((folder / name).read_text())
        assert words["path"] == f"/srv/{name}/..%2Feve"
        assert words["beside"] == "--user=..%2Feve"
        # a whole value is unchanged except for % and options
        assert words["tenant"] == words["variable"] == tenant.replace("%", "%25")
        assert words["user"] == "../eve"


async def test_an_id_is_never_an_option(tmp_path: Path) -> None:
    async with serving_entry(writing(tmp_path)) as service:
        await given(service, "meta", user("--force", "@options"))
    words = json.loads((tmp_path / "%2D-force").read_text())
    assert (words["tenant"], words["user"]) == ("%2D-force", "%40options")
    assert (words["beside"], words["variable"]) == ("--user=%40options", "--force")


def warnings_of(folder: Path, **entry: object) -> dict[str, str]:
    server = {
        "command": "x",
        "isolation": "user",
        "discoveryCaller": {"tenant_id": "a", "user_id": "b"},
        **entry,
    }
    write_json(folder, "mcp.json", {"mcpServers": {"notes": server}})
    config = load_configuration(folder, {}, call_timeout_s=60, max_result_bytes=1000)
    assert config.invalid == {}
    return {it.path.removeprefix("$.mcpServers.notes"): it.message for it in config.warnings}


@pytest.mark.parametrize(
    ("entry", "path", "message"),
    [
        ({"env": {"NOTES_DIR": TENANT}}, ".env.NOTES_DIR", "unchanged"),
        ({"env": {"workspace_root": USER}}, ".env.workspace_root", "unchanged"),
        ({"args": ["--data-path", TENANT]}, ".args[1]", "unchanged"),
        ({"args": ["serve", TENANT]}, ".args[1]", "unchanged"),
        ({"args": [f"--root=/srv/{TENANT}{USER}"]}, ".args[0]", "two parts of the caller"),
        ({"env": {"X": f"/srv/{TENANT}-{USER}/x"}}, ".env.X", "two parts of the caller"),
    ],
)
def test_a_risky_template_causes_a_warning(
    tmp_path: Path, entry: Json, path: str, message: str
) -> None:
    found = warnings_of(tmp_path, **entry)
    assert list(found) == [path]
    assert message in found[path]


@pytest.mark.parametrize(
    "entry",
    [
        {"env": {"TENANT": TENANT, "NOTES_DIR": f"/srv/{TENANT}/{USER}"}},
        {"args": ["--tenant", TENANT, f"--root=/srv/{TENANT}", f"{TENANT}-{USER}"]},
        {"cwd": f"/srv/{TENANT}"},
    ],
)
def test_other_templates_cause_no_warning(tmp_path: Path, entry: Json) -> None:
    assert warnings_of(tmp_path, **entry) == {}
