import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port
from tests.support.plain_http import NO_TLS
from tests.support.program_launch import Process, launch
from tests.support.service import SERVERS

UNLIMITED = {
    f"MCP_PROXY_RATE_LIMIT_{name}": "0"
    for name in ("CALLS", "TOKENS", "TENANT_CALLS", "TENANT_TOKENS")
} | {"MCP_PROXY_TOOL_NAME_STYLE": "server"}
"""Settings that turn the budgets off, and name tools ``server:tool`` at every entry."""


class Program:
    def __init__(self, process: Process, port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log
        kept = httpx.Limits(keepalive_expiry=None)  # after 5 s it would open another connection
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=BOUND_S, limits=kept, verify=NO_TLS
        )

    def stop(self, sig: int = signal.SIGTERM) -> int:
        self.process.send_signal(sig)
        return self.process.wait(BOUND_S)

    def wait_for_server(self) -> None:
        wait_until(lambda: self.http.get(SERVERS).json()["servers"][0]["state"] == "ready")

    def log_lines(self) -> list[dict[str, Any]]:
        """Read its log; every line must be JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def started(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    output: int | None = None,
    port: int | None = None,
    fresh: bool = False,
) -> Iterator[Program]:
    """Start the program in ``folder`` and wait until it answers; stop it after the block.

    ``output`` is a descriptor for its stdout and stderr, instead of a file for its log. By default
    ``port`` is a free one. ``fresh`` is as in ``launch``.
    """
    port = free_port() if port is None else port
    log = folder / "service.log"
    with log.open("wb") as out:
        streams = (subprocess.DEVNULL, out.fileno() if output is None else output, output)
        arguments = ["serve", "--port", str(port)]
        process = launch(arguments, folder, environment, streams=streams, fresh=fresh)
    program = Program(process, port, log)
    try:
        _wait_until_it_answers(program)
        yield program
    finally:
        program.http.close()
        if process.poll() is None:
            process.kill()
            process.wait(BOUND_S)


def _wait_until_it_answers(program: Program) -> None:
    deadline = time.monotonic() + BOUND_S
    while time.monotonic() < deadline:
        if program.process.poll() is not None:
            raise AssertionError(f"it ended with {program.process.returncode}")
        try:
            if program.http.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("it did not answer in time")


def wait_until(holds: Callable[[], bool], timeout_s: float = BOUND_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.02)
