"""The audit file of the program: after a kill, on a full disk, and with two programs."""

import json
import os
import resource
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from mcp_tools_proxy.telemetry.audit.verification import verify
from tests.support.bounds import BOUND_S
from tests.support.program import UNLIMITED, Program, started, wait_until
from tests.support.program_launch import run
from tests.support.service import EXECUTE, request_of

pytestmark = pytest.mark.e2e

KEY = "k" * 64


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    key_file = tmp_path / "audit.key"
    key_file.write_text(KEY)
    return {
        **UNLIMITED,
        "MCP_PROXY_AUDIT": "file:audit.jsonl",
        "MCP_PROXY_AUDIT_KEY_FILE": str(key_file),
    }


@pytest.fixture
def unread() -> Iterator[int]:
    """Open a descriptor for any amount of log: only the audit file is limited."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


def call(program: Program, trace_id: str = "t") -> int:
    body = {**request_of("read_doc_metadata", {"doc_id": "doc_1"}), "trace_id": trace_id}
    return program.http.post(EXECUTE, json=body).status_code


def run_with(environment: dict[str, str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the program to its end; return its exit code, stdout and stderr."""
    return run(folder, *arguments, fresh=False, **environment)


def limit_files(program: Program, max_bytes: int) -> None:
    """Limit the program's files to their current size, like a full disk."""
    limits = (max_bytes, resource.RLIM_INFINITY)
    resource.prlimit(program.process.pid, resource.RLIMIT_FSIZE, limits)


def traces(path: Path) -> list[object]:
    lines = (json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b"}"))
    return [line["trace_id"] for line in lines if line["event"] == "tool.call"]


def test_a_killed_gateway_leaves_a_chain_that_continues(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    path = tmp_path / "audit.jsonl"
    with started(tmp_path, environment) as program, ThreadPoolExecutor(4) as callers:
        assert call(program, "before") == 200
        wait_until(lambda: "before" in traces(path))
        futures = [callers.submit(_call_until_end, program) for _ in range(4)]
        wait_until(lambda: len(traces(path)) > 100)
        program.stop(signal.SIGKILL)
        for future in futures:
            future.result()
    with path.open("ab") as file:  # like after a power failure
        file.write(b'{"timestamp":"2026-')
    with started(tmp_path, environment) as program:
        assert call(program, "afterwards") == 200
        program.stop()
    found = verify(path, KEY.encode())
    assert found.problems == []
    assert len(found.notes) == 1
    assert "crash left a line incomplete" in found.notes[0]
    assert traces(path)[-1] == "afterwards"


def _call_until_end(program: Program) -> None:
    try:
        for _ in range(10_000):
            call(program)
    except httpx.TransportError:
        return


def test_on_a_full_disk_calls_with_required_records_are_refused(
    tmp_path: Path, environment: dict[str, str], unread: int
) -> None:
    path = tmp_path / "audit.jsonl"
    required = {**environment, "MCP_PROXY_AUDIT_REQUIRED": "true"}
    with started(tmp_path, required, output=unread) as program:
        assert call(program) == 200
        limit = path.stat().st_size + 4000
        resource.prlimit(
            program.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)
        )
        wait_until(lambda: call(program) == 503)
        ready = program.http.get("/health/ready").json()
        assert ready["checks"]["audit"]["status"] == "degraded"
        limit_files(program, resource.RLIM_INFINITY)
        wait_until(lambda: call(program) == 200)
        program.stop()
    found = verify(path, KEY.encode())
    assert found.problems == []
    assert b'"event":"audit.resumed"' in path.read_bytes()


def test_a_second_gateway_with_the_same_file_does_not_start(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with started(tmp_path, environment):
        code, _, complaint = run_with(environment, tmp_path, "serve", "--port", "0")
    assert code == 2
    assert complaint.strip() == (
        "mcp-tools-proxy: MCP_PROXY_AUDIT: another process writes this file; each replica needs "
        "its own: put {host} into its name"
    )


def test_the_commands_find_follow_and_verify_the_audit_file(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with started(tmp_path, environment) as program:
        for number in range(3):
            call(program, f"t-{number}")
        program.stop()
        heads = [line for line in program.log_lines() if line["event"] == "audit.head"]
        (head,) = [line for line in heads if line["payload"]["file"] == "audit.jsonl"]

    def audit(*arguments: str) -> tuple[int, str]:
        code, printed, _ = run_with(environment, tmp_path, "audit", *arguments)
        return code, printed

    _, found = audit("find", "--document", "doc_1", "--code", "OK")
    traced = [json.loads(line)["trace_id"] for line in found.splitlines()]
    assert traced == ["t-0", "t-1", "t-2"]
    _, newest = audit("tail", "-n", "1")
    assert json.loads(newest)["trace_id"] == "t-2"
    assert audit("find", "--tenant", "other") == (1, "")
    payload = head["payload"]
    named = f"{payload['seq']}:{payload['mac']}"
    code, report = audit("verify", "--head", named)
    assert (code, f"head: {named}" in report) == (0, True)
    path = tmp_path / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"t-1"', b'"t-9"'))
    code, report = audit("verify")
    assert code == 1
    assert "changed: record 3 does not match its signature" in report


def test_verify_includes_the_audit_of_unauthenticated_requests(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    settings = {
        **environment,
        "MCP_PROXY_AUTH_MODE": "token",
        "MCP_PROXY_TOKENS_FILE": "tokens.jsonl",
    }
    with started(tmp_path, settings) as program:
        assert [call(program) for _ in range(3_000)] == [401] * 3_000
        program.stop()

    def verified() -> tuple[int, str]:
        code, printed, _ = run_with(settings, tmp_path, "audit", "verify")
        return code, printed

    companion = tmp_path / "audit.jsonl.unauthenticated"
    code, report = verified()
    assert (code, report.count("are intact")) == (0, 2)
    command = ("audit", "find", companion.name, "--event", "request.refused_summary")
    _, found, _ = run_with(settings, tmp_path, *command)
    summed_up = [json.loads(line)["payload"]["requests"] for line in found.splitlines()]
    assert 2_900 < sum(summed_up) <= 2_980  # 20 of each minute have individual records
    written = companion.read_bytes()
    before = f'"requests":{summed_up[0]},'.encode()
    companion.write_bytes(written.replace(before, f'"requests":{summed_up[0] + 1},'.encode()))
    code, report = verified()
    assert (code, "does not match its signature" in report) == (1, True)
    companion.unlink()
    code, report = verified()
    assert (code, "is missing" in report) == (1, True)


def test_an_invalid_token_is_refused_before_its_body_is_sent(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    settings = {**environment, "MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": "none"}
    with started(tmp_path, settings) as program:
        for path in (EXECUTE, "/mcp", "/mcp/sse"):
            head = (
                f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n"
                "Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"
            )
            with socket.create_connection(("127.0.0.1", program.port), BOUND_S) as connection:
                connection.sendall(head.encode())
                assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"MCP_PROXY_AUDIT": "syslog"}, "MCP_PROXY_AUDIT: should be log, or start with file:"),
        ({"MCP_PROXY_AUDIT": "file:"}, "MCP_PROXY_AUDIT: should be log, or file: and a path"),
        (
            {"MCP_PROXY_AUDIT_REQUIRED": "true"},
            "MCP_PROXY_AUDIT_REQUIRED: needs an audit file; set MCP_PROXY_AUDIT to file:PATH",
        ),
        (
            {"MCP_PROXY_AUDIT": "file:a", "MCP_PROXY_AUDIT_KEY_FILE": "missing"},
            "MCP_PROXY_AUDIT_KEY_FILE: the file cannot be read: No such file or directory",
        ),
        (
            {"MCP_PROXY_AUDIT": "file:pipe"},
            "MCP_PROXY_AUDIT: the file cannot be written: pipe is not a regular file; move it out "
            "of the way",
        ),
    ],
)
def test_an_unusable_audit_file_stops_the_start_with_one_line(
    tmp_path: Path, settings: dict[str, str], problem: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, _, complaint = run_with(settings, tmp_path, "serve", "--port", "0")
    assert (code, complaint.strip()) == (2, f"mcp-tools-proxy: {problem}")
