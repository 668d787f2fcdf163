"""The original service's command: ``uvicorn mcp_tools_proxy.main:app``."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port
from tests.support.program import wait_until
from tests.support.program_launch import CLEAN
from tests.support.service import EXECUTE, request_of

pytestmark = pytest.mark.e2e

APPLICATION = "mcp_tools_proxy.main:app"
COMMAND = (str(Path(sys.executable).parent / "uvicorn"), APPLICATION)
ACTIVE = "/internal/mcp/presets/active"
TENANT = {"X-Tenant-Id": "tenant_1"}


class Running:
    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=BOUND_S)
        self._log = log

    def lines(self) -> list[dict[str, Any]]:
        """Read its log; every line must be JSON."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(BOUND_S)


@contextmanager
def started(
    folder: Path,
    *options: str,
    command: tuple[str, ...] = COMMAND,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    port = free_port()
    log = folder / "log.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [*command, "--port", str(port), *options],
            cwd=folder,
            env={**CLEAN, "MCP_PROXY_CACHE_DIR": str(folder / "cache"), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    running = Running(process, port, log)
    try:
        wait_until(lambda: answers(running))
        yield running
    finally:
        running.http.close()
        process.kill()
        process.wait(BOUND_S)


def answers(running: Running) -> bool:
    assert running.process.poll() is None, running.lines()
    try:
        return running.http.get("/health").text == '{"status":"ok"}'
    except httpx.TransportError:
        return False


MODULE = (sys.executable, "-m", "uvicorn", "mcp_tools_proxy.asgi:app")


@pytest.mark.parametrize("command", [COMMAND, MODULE], ids=["command", "module"])
def test_the_command_starts_the_service(tmp_path: Path, command: tuple[str, ...]) -> None:
    with started(tmp_path, command=command) as running:
        call = request_of("read_doc_metadata", {"doc_id": "doc_1"})
        answer = running.http.post(EXECUTE, json=call, params={"secret": "in the query"})
        assert answer.json()["status"] == "ok"
        assert running.stop() in (0, -signal.SIGTERM)
        events = [line["event"] for line in running.lines()]
    assert events.count("tool.call") == 1
    assert "in the query" not in repr(events)


def test_an_open_stream_does_not_prevent_stopping(tmp_path: Path) -> None:
    with (
        started(tmp_path) as running,
        running.http.stream("GET", "/mcp/sse", headers=TENANT) as stream,
    ):
        assert stream.status_code == 200
        assert running.stop() in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("options", "variables", "status"),
    [
        ([], {}, 404),
        (["--host", "0.0.0.0"], {}, 403),  # noqa: S104
        ([], {"UVICORN_HOST": "0.0.0.0"}, 403),  # noqa: S104
        (["--host", "0.0.0.0"], {"MCP_PROXY_HOST": "127.0.0.1"}, 403),  # noqa: S104
    ],
    ids=str,
)
def test_only_on_loopback_can_any_caller_switch_presets(
    tmp_path: Path, options: list[str], variables: dict[str, str], status: int
) -> None:
    with started(tmp_path, *options, environment=variables) as running:
        answer = running.http.put(ACTIVE, json={"preset_id": "none"})
        running.stop()  # the log is complete then
        warned = {line["event"] for line in running.lines()} & {"service.no_authentication"}
    assert (answer.status_code, bool(warned)) == (status, status == 403)


def test_a_server_with_an_unknown_address_counts_as_reachable_from_outside(tmp_path: Path) -> None:
    port = free_port()
    program = f"import uvicorn; uvicorn.run({APPLICATION!r}, port={port})"
    command = (sys.executable, "-c", f"import sys; sys.argv = ['own']; {program}")
    log = tmp_path / "log.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=tmp_path, env=CLEAN, stdout=out, stderr=out)  # noqa: S603
    running = Running(process, port, log)
    try:
        wait_until(lambda: answers(running))
        assert running.http.put(ACTIVE, json={"preset_id": "none"}).status_code == 403
    finally:
        running.http.close()
        process.kill()
        process.wait(BOUND_S)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MCP_PROXY_MAX_TEXT_BYTES", "many"),
        ("MCP_PROXY_AUDIT", "/dev/null"),
        ("MCP_PROXY_RATE_LIMIT_STORAGE_URL", "redis://127.0.0.1:1/x?nonsense=1"),
    ],
)
def test_conditions_that_stop_serve_stop_it_too(tmp_path: Path, variable: str, value: str) -> None:
    ended = subprocess.run(  # noqa: S603 - our own program
        [*COMMAND, "--port", str(free_port())],
        cwd=tmp_path,
        env={**CLEAN, variable: value},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    served = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "mcp_tools_proxy.cli.main", "serve", "--port", str(free_port())],
        cwd=tmp_path,
        env={**CLEAN, variable: value},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr.splitlines()) == (2, served.stderr.splitlines())
