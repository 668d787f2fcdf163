"""Measured server processes on free ports."""

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.messages import EXECUTE, JSON_RPC, OK, PING
from benchmarks.process import Process
from benchmarks.responder import MODERN_PATH

ROOT = Path(__file__).resolve().parent.parent
GATEWAY = str(Path(sys.executable).with_name("mcp-tools-proxy"))
START_LIMIT_S = 60.0
REQUEST_LIMIT_S = 60.0

NO_CALL_REFUSED = {
    "MCP_PROXY_RATE_LIMIT_CALLS": "1000000000",
    "MCP_PROXY_RATE_LIMIT_TOKENS": "1000000000000",
    "MCP_PROXY_RATE_LIMIT_TENANT_CALLS": "1000000000",
    "MCP_PROXY_RATE_LIMIT_TENANT_TOKENS": "1000000000000",
    "MCP_PROXY_RATE_LIMIT_WINDOW_S": "3600",
}
"""Budgets that count every call and are never used up, with windows longer than the run."""


class NotStarted(Exception):
    """A server ended or did not respond in time."""


class Server(Process):
    """A server process that listens on ``port``."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        super().__init__(process)
        self.port = port

    def request(
        self, path: str, body: str = "", *, method: str = "POST", expected: str = OK
    ) -> bytes:
        """Send one request and return the response body. Raises OSError; errors fail an
        assertion.
        """
        content = body.encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        with socket.create_connection(
            ("127.0.0.1", self.port), timeout=REQUEST_LIMIT_S
        ) as connection:
            connection.sendall(head.encode() + content)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        good = answer.startswith(b"HTTP/1.1 200 ") and expected.encode() in answer
        assert good, answer[:500]
        return answer.partition(b"\r\n\r\n")[2]

    def metric(self, name: str) -> float:
        """Return the sum of a gateway's metric over its labels."""
        text = self.request("/metrics", method="GET", expected=name).decode()
        values = re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, values))

    def wait_for(
        self, body: str, path: str = EXECUTE, *, method: str = "POST", expected: str = OK
    ) -> None:
        """Repeat a request until it succeeds. Raises NotStarted."""
        give_up = time.perf_counter() + START_LIMIT_S
        while time.perf_counter() < give_up and self.process.poll() is None:
            with contextlib.suppress(ConnectionRefusedError):
                self.request(path, body, method=method, expected=expected)
                return
            time.sleep(0.002)
        raise NotStarted(f"{self.process.args!r} does not answer")


@contextlib.contextmanager
def gateway(
    workdir: Path,
    documents: Path,
    settings: Mapping[str, str] = NO_CALL_REFUSED,
    *,
    output: int | None = None,
    program: str = GATEWAY,
) -> Iterator[Server]:
    """Run the service with limits, metrics and info log, written to a file or ``output``."""
    command = [program, "serve", "--port"]
    environment = {**settings, "MCP_PROXY_DOCUMENTS_PATH": str(documents)}
    with _running(command, workdir, workdir, environment, output) as server:
        yield server


@contextlib.contextmanager
def bare(kind: str, workdir: Path, answer: bytes = b"") -> Iterator[Server]:
    """Run a bare server of ``benchmarks.bare`` that returns ``answer``."""
    file = workdir / f"answer-{time.perf_counter_ns()}.json"
    file.write_bytes(answer)
    command = [sys.executable, "-m", "benchmarks.bare", kind, str(file)]
    with _running(command, ROOT, workdir, {}) as server:
        yield server


@contextlib.contextmanager
def forwarder(workdir: Path, url: str) -> Iterator[Server]:
    """Run the forwarder to the MCP server at ``url``."""
    with _running([sys.executable, "-m", "benchmarks.forwarder", url], ROOT, workdir, {}) as server:
        yield server


@contextlib.contextmanager
def sdk_server(workdir: Path, tools: object, sections: object) -> Iterator[Server]:
    """Run the MCP SDK's server: it lists ``tools``, one of which returns ``sections``."""
    file = workdir / f"sdk-{time.perf_counter_ns()}.json"
    file.write_text(json.dumps({"tools": tools, "sections": sections}), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.facade_sdk", str(file)]
    with _running(command, ROOT, workdir, {}) as server:
        yield server


@contextlib.contextmanager
def fleet(workdir: Path, servers: int = 1, *, tools: int = 0) -> Iterator[Sequence[Server]]:
    """Run bare MCP servers on a port each, in one process and event loop."""
    command = [sys.executable, "-m", "benchmarks.responder", "--tools", str(tools)]
    ports = free_ports(servers)
    process = start_process([*command, *map(str, ports)], ROOT, workdir, {})
    running = [Server(process, port) for port in ports]
    try:
        running[0].wait_for(PING, MODERN_PATH, expected=JSON_RPC)
        yield running
    finally:
        running[0].stop()


@contextlib.contextmanager
def _running(
    command: list[str],
    cwd: Path,
    workdir: Path,
    environment: Mapping[str, str],
    output: int | None = None,
) -> Iterator[Server]:
    (port,) = free_ports(1)
    server = Server(start_process([*command, str(port)], cwd, workdir, environment, output), port)
    try:
        yield server
    finally:
        server.stop()


def start_process(
    command: list[str],
    cwd: Path,
    workdir: Path,
    environment: Mapping[str, str],
    output: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program with its output in a file of ``workdir``, or in ``output``."""
    log = workdir / f"server-{time.perf_counter_ns()}.log"
    with log.open("wb") as file:
        written = file.fileno() if output is None else output
        return subprocess.Popen(  # noqa: S603 - our programs
            command, cwd=cwd, env=dict(environment), stdout=written, stderr=written
        )


def free_ports(count: int) -> list[int]:
    """Return unused ports."""
    with contextlib.ExitStack() as probes:
        bound = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in bound]
