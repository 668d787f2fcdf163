"""Processes started by the program cannot read its environment and memory."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.app.start_checks import AS_ROOT, process_warnings
from tests.support.configuration import Config, make_preset
from tests.support.kernel import needs_confinement
from tests.support.mcp_servers.server_programs import ROOT
from tests.support.program import Program, started, wait_until
from tests.support.program_launch import CLEAN, run

pytestmark = [pytest.mark.e2e, needs_confinement]

READER = """
import json, os, sys
from mcp_tools_proxy.system.system_calls import drop_capabilities
drop_capabilities()  # what any process of root could read, is not what this is about
def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])
gateway = parent_of(os.getppid())
found = {}
for name in ("environ", "mem", "maps", "auxv", "fd/0", "cwd", "statm"):
    try:
        with open(f"/proc/{gateway}/{name}", "rb") as file:
            found[name] = len(file.read(1)) if name != "mem" else "opened"
    except OSError as error:
        found[name] = type(error).__name__
with open(sys.argv[1] + ".new", "w") as file:
    json.dump([gateway, found], file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
os.execv(sys.executable, [sys.executable, "-m", "tests.support.mcp_servers.raw", *sys.argv[2:]])
"""
WITHOUT_LANDLOCK = "tests.support.kernel_without_landlock"
ON_OLD_KERNEL = {"PYTHONPATH": f"{CLEAN['PYTHONPATH']}:{ROOT}"}


def test_a_server_cannot_read_the_environment_or_memory_of_the_gateway(tmp_path: Path) -> None:
    found = tmp_path / "found"
    paths = f"{ROOT}:{CLEAN['PYTHONPATH']}"
    entry = {
        "command": sys.executable,
        "args": ["-c", READER, str(found)],
        "env": {"PYTHONPATH": paths},
    }
    Config(servers={"s1": entry}, presets=[make_preset(tools=[("s1", "echo")])]).write(
        tmp_path / "config"
    )
    with started(tmp_path, {"MCP_PROXY_ADMIN_TOKEN": "secret" * 6}) as program:
        wait_until(found.exists)
        gateway, read = json.loads(found.read_text())
        assert gateway == program.process.pid
    # monitoring reads the size of the gateway's memory
    assert read.pop("statm") == 1
    assert read == dict.fromkeys(
        ("environ", "mem", "maps", "auxv", "fd/0", "cwd"), "PermissionError"
    )


def warnings_of(program: Program) -> list[str]:
    lines = program.log_lines()
    return [it["payload"]["reason"] for it in lines if it["event"] == "process.warning"]


def test_a_start_as_root_in_a_container_warns(tmp_path: Path) -> None:
    expected = [AS_ROOT] if os.geteuid() == 0 else []
    with started(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) as program:
        wait_until(lambda: any(it["event"] == "service.started" for it in program.log_lines()))
        assert warnings_of(program) == expected


@pytest.mark.parametrize(
    ("user", "environment", "warned"),
    [
        (0, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
        (10001, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
    ],
)
def test_the_warning_is_only_for_root(
    monkeypatch: pytest.MonkeyPatch, user: int, environment: Mapping[str, str], warned: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert (AS_ROOT in process_warnings(environment)) is warned


def test_check_warns_of_a_kernel_without_landlock(tmp_path: Path) -> None:
    report = checked(tmp_path, module=WITHOUT_LANDLOCK)
    (warning,) = [it for it in report["warnings"] if "Landlock" in it["message"]]
    assert "not fully confined" in warning["message"]
    assert not [it for it in checked(tmp_path)["warnings"] if "Landlock" in it["message"]]


def test_a_kernel_that_cannot_confine_a_server_does_not_start_it(tmp_path: Path) -> None:
    entry = {"command": "touch", "args": [str(tmp_path / "started")]}
    servers = {
        "read": {**entry, "sandbox": {"read": ["/usr"]}},
        "write": {**entry, "sandbox": {"network": True, "write": ["/usr"]}},
    }
    Config(servers=servers).write(tmp_path / "config")
    report = checked(tmp_path, expected=1, module=WITHOUT_LANDLOCK)
    assert {it["server_id"]: it["state"] for it in report["servers"]} == dict.fromkeys(
        servers, "invalid"
    )
    assert [it["path"] for it in report["problems"]] == [
        f"$.mcpServers.{name}.sandbox" for name in servers
    ]
    assert not (tmp_path / "started").exists()


def checked(folder: Path, *, expected: int = 0, **options: Any) -> dict[str, Any]:
    (folder / "config").mkdir(exist_ok=True)
    code, out, _ = run(folder, "check", "--json", fresh=True, **ON_OLD_KERNEL, **options)
    assert code == expected
    report: dict[str, Any] = json.loads(out)
    return report
