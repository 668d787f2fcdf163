import asyncio
import contextlib
import json
import math
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.stdio_process import LINES_PER_SECOND
from tests.downstream.connections import DIALING_PROGRAM, dialled
from tests.downstream.stub_server import Json
from tests.support.bounds import BOUND_S, until
from tests.support.captured_logs import capture_logs
from tests.support.leak_checks import runs
from tests.support.mcp_servers.server_programs import ROOT, raw_entry

WITH_A_CHILD = """
import os, subprocess, sys
child = subprocess.Popen(["sleep", "300"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
os.execv(sys.executable, [sys.executable, "-m", "tests.support.mcp_servers.raw", *sys.argv[2:]])
"""
DISCOVERED = (
    '{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],'
    '"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}'
)


def shell(script: str) -> Json:
    return {"command": "sh", "args": ["-c", script]}


async def fault_of(entry: Json) -> str:
    with pytest.raises(ConnectionFailure) as caught:
        async with asyncio.timeout(BOUND_S), dialled(entry):
            pass
    return caught.value.reason


def words_in(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


async def pids_in(file: Path) -> list[int]:
    await until(lambda: len(words_in(file)) == 2, "it has started")
    return [int(word) for word in words_in(file)]


def with_a_child(file: Path, *options: str) -> Json:
    """Return the entry of a server with a child; both write their ids to a file."""
    args = ["-c", WITH_A_CHILD, str(file), *options]
    return {"command": sys.executable, "args": args, "env": {"PYTHONPATH": str(ROOT)}}


async def test_a_server_gets_only_the_allowed_environment_and_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MCP_PROXY_RETRIEVAL_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    entry = raw_entry()
    entry["env"] = entry["env"] | {"MINE": "1"}
    async with dialled(entry) as line:
        names = set((await line.call("env"))["structuredContent"]["names"])
    allowed = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "MINE", "PYTHONPATH"}
    assert names - {"LC_CTYPE"} <= allowed  # Python sets that one itself
    assert {"MINE", "PATH"} <= names


async def test_the_command_is_not_interpreted_by_a_shell(tmp_path: Path) -> None:
    await fault_of({"command": f"touch {tmp_path}/made; true"})
    await fault_of({"command": "true", "args": [f"; touch {tmp_path}/made"]})
    assert not (tmp_path / "made").exists()


async def test_a_server_runs_in_its_own_directory(tmp_path: Path) -> None:
    reason = await fault_of(shell("pwd > here; exit 3") | {"cwd": str(tmp_path)})
    assert "exit code 3" in reason
    assert (tmp_path / "here").read_text().strip() == str(tmp_path)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "no-such-command"}, 'the command "no-such-command" was not found'),
        (
            {"command": "bin/no-such"},
            '"bin/no-such" was not found; a relative path counts from cwd',
        ),
        (
            {"command": "heroku mcp:start"},
            '"heroku mcp:start" was not found; put the arguments into args, and only "heroku" into',
        ),
        ({"command": "no/such run --x"}, 'args, and only "no/such" into command'),
        ({"command": '"npx" -y "a b"'}, 'args, and only "npx" into command'),
        ({"command": "'no-such'"}, 'write it without quotes and spaces: "no-such"'),
        ({"command": "no-such "}, 'write it without quotes and spaces: "no-such"'),
        ({"command": "'no-such"}, '"\'no-such" was not found'),
        ({"command": "/etc/passwd"}, 'the command "/etc/passwd" cannot be started'),
        ({"command": "true", "cwd": "/no/such/place"}, "with the command, args and cwd"),
        ({"command": "nul\0"}, "with the command, args and cwd"),
        (shell("exit 7"), "exit code 7"),
        (shell("kill -9 $$"), "ended by signal 9"),
    ],
    ids=[
        *("missing", "relative", "arguments", "path", "quoted", "quotes", "space", "open quote"),
        *("no-program", "no-directory", "nul", "exit", "signal"),
    ],
)
async def test_a_failed_start_is_reported_with_its_reason(entry: Json, words: str) -> None:
    reason = await fault_of(entry)
    assert words in reason


async def test_a_killed_server_fails_its_calls_and_the_link_immediately() -> None:
    with capture_logs() as logs:
        async with dialled(raw_entry()) as line:
            call = asyncio.ensure_future(line.call("hang"))
            await asyncio.sleep(0.05)
            (spawned,) = [log for log in logs if log["event"] == "server.spawned"]
            os.kill(spawned["pid"], signal.SIGKILL)
            async with asyncio.timeout(BOUND_S):  # the call's own timeout is longer
                with pytest.raises(ConnectionFailure):
                    await call
                assert await line.link.wait_lost() == "the server's process was ended by signal 9"


async def test_the_whole_process_group_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with dialled(with_a_child(file)):
        pids = await pids_in(file)
        assert all(runs(pid) for pid in pids)
    await until(lambda: not any(runs(pid) for pid in pids), "all have ended")


async def test_a_server_that_ignores_termination_is_ended_completely(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with dialled(with_a_child(file, "--stubborn")):
        pids = await pids_in(file)
    await until(lambda: not any(runs(pid) for pid in pids), "all have ended")


async def test_cancelling_the_owner_ends_everything(tmp_path: Path) -> None:
    file = tmp_path / "pids"

    async def own() -> None:
        async with dialled(with_a_child(file, "--mute", "*")):
            raise AssertionError("it never answers")

    owner = asyncio.ensure_future(own())
    pids = await pids_in(file)
    owner.cancel()
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
    await until(lambda: not any(runs(pid) for pid in pids), "all have ended")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of the dead")
async def test_a_server_does_not_outlive_a_killed_gateway(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    entry = with_a_child(file, "--stubborn") | {"transport": "stdio"}
    gateway = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DIALING_PROGRAM, json.dumps(entry)),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    server, child = await pids_in(file)
    assert runs(server)
    gateway.kill()
    await gateway.communicate()
    await until(lambda: not runs(server), "the server is gone")
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # Linux kills direct children only


async def test_the_servers_stderr_is_logged_in_truncated_lines() -> None:
    entry = shell("printf 'one\\n' >&2; head -c 100000 /dev/zero | tr '\\0' x >&2; echo >&2")
    with capture_logs() as logs:
        await fault_of(entry)
    lines = [log for log in logs if log["event"] == "server.stderr"]
    assert {log["server_id"] for log in lines} == {"notes"}
    assert [len(log["line"]) for log in lines[:2]] == [3, 2000]


async def test_the_last_output_of_a_server_is_logged() -> None:
    with capture_logs() as logs:
        await fault_of(shell("printf 'no config file' >&2; exit 1"))
    assert "no config file" in [log.get("line") for log in logs]


async def test_a_flood_on_stderr_is_counted_not_logged() -> None:
    began = time.monotonic()
    with capture_logs() as logs:
        await fault_of(shell("yes spam | head -n 100000 >&2; sleep 1.1; echo last >&2"))
    seconds = math.ceil(time.monotonic() - began)
    lines = [log for log in logs if log["event"] == "server.stderr"]
    assert len(lines) <= (seconds + 1) * (LINES_PER_SECOND + 1)
    assert any(log.get("skipped_lines", 0) > 10_000 for log in lines)


async def test_garbage_on_stdout_is_logged_once_without_its_content() -> None:
    with capture_logs() as logs:
        async with dialled(raw_entry(banner="hello secret")) as line:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await line.call("garbage", 0.05)
            await line.call("echo", text="x")
    garbage = [log for log in logs if log["event"] == "server.garbage"]
    assert len(garbage) == 1
    assert "secret" not in str(garbage)


async def test_arguments_are_not_logged_at_the_start() -> None:
    with capture_logs() as logs:
        await fault_of(shell("exit 1 # s3cr3t"))
    assert "s3cr3t" not in str(logs)
    assert {log["command"] for log in logs if log["event"] == "server.spawned"} == {"sh"}


async def test_a_call_to_a_server_that_does_not_read_times_out() -> None:
    script = "read x; printf '%s\\n' '" + DISCOVERED + "'; sleep 60"
    async with dialled(shell(script)) as line:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await line.call("any", 0.1, text="x" * 500_000)
