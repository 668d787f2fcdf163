import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client import stdio_process as stdio
from tests.downstream.connections import DIALING_PROGRAM, dialled
from tests.downstream.stub_server import Json
from tests.support.bounds import BOUND_S, until
from tests.support.captured_logs import capture_logs
from tests.support.leak_checks import runs
from tests.support.mcp_servers.server_programs import ROOT, raw_entry

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

OPEN_DESCRIPTORS = """
import os, sys
found = []
for name in os.listdir("/proc/self/fd"):
    try:
        os.fstat(int(name))
    except OSError:
        continue  # the folder's own
    found.append(name)
open(sys.argv[1], "w").write(" ".join(sorted(found)))
"""

WITH_A_DAEMON = """
import os, signal, sys, time
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(f"{os.getppid()} {os.getpid()}")
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
open(sys.argv[1] + ".server", "w").write(str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "tests.support.mcp_servers.raw", *sys.argv[2:]])
"""

WITH_ORPHANS = """
import os, subprocess, sys
for _ in range(20):
    subprocess.run(["sh", "-c", "sleep 0.05 &"])
os.execv(sys.executable, [sys.executable, "-m", "tests.support.mcp_servers.raw", *sys.argv[2:]])
"""

TERMINATED = """
import os, signal, sys, time
if sys.argv[2] == "session":
    os.setsid()
def end(*_):
    open(sys.argv[1], "w").write("asked")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1], "w").write("ready")
while True:
    time.sleep(600)
"""


def program(script: str, *args: object) -> Json:
    """Return the entry of a server that begins with a script."""
    words = ["-c", script, *map(str, args)]
    return {"command": sys.executable, "args": words, "env": {"PYTHONPATH": str(ROOT)}}


async def daemon_of(file: Path) -> tuple[int, int]:
    """Return the server's process and that of the daemon that it left, once both run."""
    server = file.with_name(f"{file.name}.server")
    await until(lambda: text_of(server))
    return int(text_of(server)), int(text_of(file).split()[1])


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


def children_of(parent: int) -> list[int]:
    pids = [int(found.name) for found in Path("/proc").iterdir() if found.name.isdigit()]
    return [pid for pid in pids if parent_of(pid) == parent]


def zombies_of(parent: int) -> list[int]:
    return [pid for pid in children_of(parent) if not runs(pid)]


@pytest.fixture
def bystander() -> Iterator[int]:
    """A child of the gateway's process that is not a server's."""
    with subprocess.Popen(["sleep", "600"]) as process:  # noqa: S607 - part of every system
        yield process.pid
        process.kill()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_server_inherits_only_its_pipes(
    run: Callable[[Coroutine[Any, Any, None]], None], tmp_path: Path
) -> None:
    async def spawn() -> None:
        with contextlib.suppress(ConnectionFailure):
            async with dialled(program(OPEN_DESCRIPTORS, tmp_path / "found")):
                pass

    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)  # like those that a supervisor passes to the gateway
    try:
        run(spawn())
    finally:
        os.close(leaked)
    assert (tmp_path / "found").read_text() == "0 1 2"


async def test_a_process_in_another_session_ends_with_its_server(
    tmp_path: Path, bystander: int
) -> None:
    async with dialled(program(WITH_A_DAEMON, tmp_path / "pids")) as line:
        server, daemon = await daemon_of(tmp_path / "pids")
        await line.call("echo", 60.0, text="x")
        assert runs(daemon)
        assert os.getsid(daemon) != os.getsid(server)
    await until(lambda: not runs(daemon) and not runs(server))
    assert runs(bystander)


async def test_a_daemon_ends_with_a_server_that_ignores_termination(tmp_path: Path) -> None:
    async with dialled(program(WITH_A_DAEMON, tmp_path / "pids", "--stubborn")):
        server, daemon = await daemon_of(tmp_path / "pids")
    await until(lambda: not runs(daemon) and not runs(server))


async def test_a_daemon_ends_with_a_killed_server(tmp_path: Path, bystander: int) -> None:
    async with dialled(program(WITH_A_DAEMON, tmp_path / "pids")) as line:
        server, daemon = await daemon_of(tmp_path / "pids")
        os.kill(server, signal.SIGKILL)
        async with asyncio.timeout(BOUND_S):
            assert await line.link.wait_lost() == "the server's process was ended by signal 9"
        await until(lambda: not runs(daemon))
    assert runs(bystander)


async def test_a_daemon_ends_with_a_killed_gateway(tmp_path: Path) -> None:
    entry = program(WITH_A_DAEMON, tmp_path / "pids", "--stubborn") | {"transport": "stdio"}
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DIALING_PROGRAM, json.dumps(entry)),
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    server, daemon = await daemon_of(tmp_path / "pids")
    gateway.kill()
    await gateway.communicate()
    await until(lambda: not runs(daemon) and not runs(server))


async def test_a_server_ends_with_its_guard() -> None:
    with capture_logs() as logs:
        async with dialled(raw_entry(stubborn=True)) as line:
            (spawned,) = [log for log in logs if log["event"] == "server.spawned"]
            (server,) = children_of(spawned["pid"])
            os.kill(spawned["pid"], signal.SIGKILL)
            async with asyncio.timeout(BOUND_S):
                await line.link.wait_lost()
            await until(lambda: not runs(server))


async def test_orphans_of_a_server_are_reaped() -> None:
    with capture_logs() as logs:
        async with dialled(program(WITH_ORPHANS, "-")) as line:
            await line.call("echo", 60.0, text="x")
            (spawned,) = [log for log in logs if log["event"] == "server.spawned"]
            guard = spawned["pid"]
            assert parent_of(guard) == os.getpid()
            await until(lambda: not zombies_of(guard))
        assert guard not in zombies_of(os.getpid())


@pytest.mark.parametrize("where", ["group", "session"])
async def test_a_server_is_asked_to_terminate_before_it_is_killed(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "_TERM_S", BOUND_S)  # a busy machine may need more than a second
    file = tmp_path / "end"

    async def own() -> None:
        async with dialled(program(TERMINATED, file, where)):
            raise AssertionError("it never answers")

    with capture_logs() as logs:
        owner = asyncio.ensure_future(own())
        # a cancelled start kills: the server may be ready before its start returned here
        await until(lambda: text_of(file) == "ready" and "server.spawned" in str(logs))
    owner.cancel()
    await asyncio.wait([owner])
    assert text_of(file) == "asked"


async def test_many_parallel_servers_leave_nothing(bystander: int) -> None:
    with capture_logs() as logs:

        async def live() -> None:
            async with dialled(raw_entry(), connect_timeout_s=60) as line:
                await line.call("echo", 60.0, text="x")

        await asyncio.gather(*(live() for _ in range(10)))
    guards = [log["pid"] for log in logs if log["event"] == "server.spawned"]
    await until(lambda: not any(map(runs, guards)))
    assert (len(guards), runs(bystander)) == (10, True)
