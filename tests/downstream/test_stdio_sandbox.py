import json
import os
import shlex
import sys
from pathlib import Path

import pytest

import mcp_tools_proxy
from mcp_tools_proxy.domain.server import Sandbox
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from tests.downstream.caller_gateway import given, serving_entry, user
from tests.downstream.connections import dialled
from tests.support.bounds import until
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Json
from tests.support.kernel import needs_confinement
from tests.support.mcp_servers.server_programs import ROOT

pytestmark = needs_confinement

PACKAGES = str(Path(mcp_tools_proxy.__file__).parents[1])
PYTHON = (sys.prefix, sys.base_prefix, str(ROOT), PACKAGES)
"""Paths that Python and the server need to read."""

PROBE = """
import json, os, socket, sys
def of(attempt):
    try:
        return attempt()
    except (OSError, MemoryError) as error:
        return type(error).__name__
def text(path):
    with open(path) as file:
        return file.read()
def put(path):
    with open(path, "w") as file:
        return file.write("x")
folder, out = sys.argv[1:3]
found = {
    "read": of(lambda: text(folder + "/in/file")),
    "dotenv": of(lambda: text(folder + "/.env")),
    "written": of(lambda: put(folder + "/new")),
    "guard": of(lambda: text(f"/proc/{os.getppid()}/environ") and "read"),
    "socket": of(lambda: socket.socket().close()),
    "cores": len(os.sched_getaffinity(0)),
    "memory": of(lambda: len(bytearray(2**29))),
    "killed": of(lambda: os.kill(os.getppid(), 0)),
}
with open(out, "w") as file:
    json.dump(found, file)
os.execv(sys.executable, [sys.executable, "-m", "tests.support.mcp_servers.raw", *sys.argv[3:]])
"""
DENIED = "PermissionError"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "file").write_text("text")
    (tmp_path / ".env").write_text("OTHER_KEY=secret")
    return tmp_path


def probing(tree: Path, *options: str) -> Json:
    """Return the entry of a server that first writes its abilities to ``out/found``."""
    args = ["-c", PROBE, str(tree), str(tree / "out" / "found"), *options]
    path = f"{ROOT}:{PACKAGES}"
    return {"command": sys.executable, "args": args, "env": {"PYTHONPATH": path}}


async def found_by(tree: Path, sandbox: Sandbox | None) -> Json:
    async with dialled(probing(tree), sandbox=sandbox) as line:
        await line.call("echo", 60.0, text="it serves as well")
    found: Json = json.loads((tree / "out" / "found").read_text())
    return found


async def test_a_server_has_only_the_access_of_its_sandbox(tree: Path) -> None:
    sandbox = Sandbox(
        network=False,
        read=(*PYTHON, str(tree / "in")),
        write=(str(tree / "out"),),
        memory=2**28,
        cpu=1,
    )
    assert await found_by(tree, sandbox) == {
        "read": "text",
        **dict.fromkeys(("dotenv", "written", "guard", "socket", "killed"), DENIED),
        "cores": 1,
        "memory": "MemoryError",
    }


async def test_a_server_without_a_sandbox_has_full_access(tree: Path) -> None:
    found = await found_by(tree, None)
    assert (found["dotenv"], found["written"], found["socket"], found["memory"]) == (
        "OTHER_KEY=secret", 1, None, 2**29,
    )  # fmt: skip
    assert found["cores"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("sandbox", "denied"),
    [
        (Sandbox(network=False), {"socket", "guard", "killed"}),
        (Sandbox(read=PYTHON), {"read", "dotenv", "guard", "killed"}),
        (Sandbox(cpu=1), set()),
    ],
)
async def test_a_key_restricts_only_its_own_resource(
    tree: Path, sandbox: Sandbox, denied: set[str]
) -> None:
    found = await found_by(tree, sandbox)
    if sandbox.cpu is not None:
        found.pop("guard")  # only root can drop capabilities
    assert {key for key, value in found.items() if value == DENIED} == denied


@pytest.mark.parametrize("key", ["read", "write"])
async def test_a_missing_path_prevents_the_start(tree: Path, key: str) -> None:
    sandbox = Sandbox(**{key: (str(tree / "missing"),)})  # type: ignore[arg-type]
    with capture_logs() as logs, pytest.raises(ConnectionFailure) as failed:
        async with dialled(probing(tree), sandbox=sandbox):
            pass
    assert "the sandbox in mcp.json cannot be set up" in failed.value.reason
    assert str(tree) not in failed.value.reason
    assert any("the sandbox cannot be set up" in str(line) for line in logs)
    assert not (tree / "out" / "found").exists()


async def test_processes_left_behind_are_confined_and_ended_as_well(tree: Path) -> None:
    script = (
        f"(while ! cat {tree}/.env; do echo denied >> {tree}/out/log; sleep 0.01; done) &\n"
        f"exec {shlex.quote(sys.executable)} -m tests.support.mcp_servers.raw"
    )
    entry = {"command": "sh", "args": ["-c", script], "env": {"PYTHONPATH": f"{ROOT}:{PACKAGES}"}}
    sandbox = Sandbox(read=PYTHON, write=(str(tree / "out"),))
    log = tree / "out" / "log"
    async with dialled(entry, sandbox=sandbox) as line:
        await line.call("echo", 60.0, text="x")
        await until(lambda: log.exists() and len(log.read_text()) > 100)
    before = log.read_text()
    assert set(before.split()) == {"denied"}
    assert log.read_text() == before


async def test_each_tenants_folder_is_unreachable_for_the_other(tree: Path) -> None:
    tenant = "${caller.tenant_id}"
    script = PROBE.replace("folder, out = sys.argv[1:3]", "folder, out = sys.argv[1], 'found'")
    entry: Json = {
        **probing(tree),
        "args": ["-c", script, str(tree), "-"],
        "cwd": f"{tree}/{tenant}",
        "isolation": "tenant",
        "discoveryCaller": {"tenant_id": "out"},
        "sandbox": {"read": [*PYTHON, f"{tree}/{tenant}"], "write": [f"{tree}/{tenant}"]},
    }
    async with serving_entry(entry) as service:
        await given(service, "meta", user("in"))
        refused = await service.execute("s:meta", {}, **user(".."))  # has no folder
    assert refused["error"]["code"] == "SERVER_UNAVAILABLE"
    assert found_in(tree) == {
        "in": {"read": "text", "dotenv": DENIED, "written": DENIED},
        "out": {"read": DENIED, "dotenv": DENIED, "written": DENIED},
    }


def found_in(tree: Path) -> Json:
    """Return each tenant's result, by the folder it was written to."""
    files = tree.rglob("found")
    found = {it.parent.name: json.loads(it.read_text()) for it in files}
    keys = ("read", "dotenv", "written")
    return {name: {key: tried[key] for key in keys} for name, tried in found.items()}
