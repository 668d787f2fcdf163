import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_tools_proxy.domain.errors import InvalidArguments, ServerBusy
from mcp_tools_proxy.gateway.check_processes import (
    MOST_WAITING,
    MOST_WAITING_IN_ALL,
    WORKER,
    CheckProcesses,
)
from mcp_tools_proxy.wire.json_schema.validator import CostlyCheck
from tests.support.kernel import needs_confinement

DENIED = "PermissionError"

AFTERWARDS = """
import json, os, socket, subprocess, sys
from mcp_tools_proxy.gateway.check_worker import main
def of(attempt):
    try:
        return str(attempt())
    except OSError as error:
        return type(error).__name__
def text(path):
    with open(path) as file:
        return file.read()
def put(path):
    with open(path, "w") as file:
        file.write("x")
main()
path = sys.argv[1]
print(json.dumps({
    "read": of(lambda: text(path)),
    "written": of(lambda: put(path)),
    "environment": of(lambda: text(f"/proc/{os.getppid()}/environ")),
    "passwd": of(lambda: text("/etc/passwd")),
    "socket": of(socket.socket),
    "unix-socket": of(lambda: socket.socket(socket.AF_UNIX)),
    "forked": of(os.fork),
    "run": of(lambda: subprocess.run(["/bin/true"])),
}))
"""
"""Validates until its stdin ends, then tries the actions of a hijacked process."""


def request_of(schema: object, arguments: object) -> bytes:
    parts = [json.dumps(part).encode() for part in (schema, arguments, [])]
    return b"%d %d %d\n" % tuple(map(len, parts)) + b"".join(parts)


@needs_confinement
def test_a_validation_process_cannot_access_the_network_or_the_gateways_files(
    tmp_path: Path,
) -> None:
    secret = tmp_path / ".env"
    secret.write_text("MCP_PROXY_ADMIN_TOKEN=secret")
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", AFTERWARDS, str(secret)],
        input=request_of({"properties": {"a": {"pattern": "(?=x)"}}}, {"a": "x"}),
        capture_output=True,
        check=True,
    )
    answer, found = map(json.loads, ended.stdout.splitlines())
    assert answer is None
    assert set(found.values()) == {DENIED}, found
    assert secret.read_text() == "MCP_PROXY_ADMIN_TOKEN=secret"


@needs_confinement
async def test_the_processes_of_the_gateway_are_confined() -> None:
    schema = b'{"properties":{"a":{"pattern":"^(?!b)","format":"email"}}}'
    processes = CheckProcesses()
    try:
        await processes.check(CostlyCheck(schema, {"a": "a@example.com"}, []), "tenant_1")
        with pytest.raises(InvalidArguments):
            await processes.check(CostlyCheck(schema, {"a": "b@example.com"}, []), "tenant_1")
        (status,) = filter(None, map(_status_of_worker, _children()))
    finally:
        await processes.aclose()
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")


SLOW = CostlyCheck(b"{}", {}, [])


async def test_waiting_validations_are_bounded_and_fair_between_tenants() -> None:
    """The process never answers, so all validations wait."""
    processes = CheckProcesses(worker=("/bin/sleep", "60"))
    waiting: list[asyncio.Task[None]] = []

    async def begin(tenant: str) -> bool:
        """Start a validation; return whether it waits."""
        task = asyncio.ensure_future(processes.check(SLOW, tenant))
        waiting.append(task)
        done, _ = await asyncio.wait([task], timeout=0.01)
        if not done:
            return True
        with pytest.raises(ServerBusy, match="try again later"):
            task.result()
        return False

    try:
        begun = [await begin(f"flood-{n % 8}") for n in range(8 * MOST_WAITING)]
        assert sum(begun) == MOST_WAITING_IN_ALL * 3 // 4
        others = [await begin(f"other-{n}") for n in range(MOST_WAITING_IN_ALL)]
        assert sum(others) == MOST_WAITING_IN_ALL // 4
        assert others[0]
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await processes.aclose()


def _children() -> list[Path]:
    tasks = Path("/proc/self/task").iterdir()
    pids = [pid for task in tasks for pid in (task / "children").read_text().split()]
    return [Path("/proc", pid) for pid in pids]


def _status_of_worker(process: Path) -> dict[str, str]:
    """Read a process's status from /proc; return "" if it is not a validation process."""
    if WORKER[-1].encode() not in (process / "cmdline").read_bytes():
        return {}
    lines = (process / "status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
