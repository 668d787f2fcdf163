"""``@modelcontextprotocol/server-everything``: a third-party server in TypeScript."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port

PACKAGE = Path(__file__).parent / "node_modules/@modelcontextprotocol/server-everything"
PROGRAM = PACKAGE / "dist/index.js"
WORDS = {"http": "streamableHttp", "sse": "sse"}
PATHS = {"http": "/mcp", "sse": "/sse"}
TRANSPORTS = {"http": "streamable-http", "sse": "sse"}


def node() -> str:
    found = shutil.which("node")
    assert found is not None, "Node is needed; see make test-interop"
    return found


def stdio_entry(**env: str) -> dict[str, Any]:
    """Return its mcp.json entry over stdio."""
    return {"command": node(), "args": [str(PROGRAM), "stdio"], "env": env}


class WebProgram:
    """A server over http or sse as a process; it keeps its port when restarted.

    ``command`` has ``PORT`` in place of the port.
    """

    def __init__(self, command: Sequence[str], transport: str = "http") -> None:
        self._transport = transport
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        self._command = [word.replace("PORT", str(self._port)) for word in command]

    @property
    def entry(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._port}{PATHS[self._transport]}"
        return {"transport": TRANSPORTS[self._transport], "url": url}

    def start(self) -> None:
        """Start it and return once it accepts connections."""
        self._process = subprocess.Popen(  # noqa: S603 - the pinned packages
            self._command,
            env={"PATH": os.defpath, "PORT": str(self._port)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ends = time.monotonic() + BOUND_S
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > ends:
                raise AssertionError(f"{self._command} did not start")
            time.sleep(0.02)

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        """Kill it, simulating a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(BOUND_S)
            self._process = None

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True


@contextmanager
def running_web_program(command: Sequence[str], transport: str = "http") -> Iterator[WebProgram]:
    server = WebProgram(command, transport)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def running_everything(transport: str) -> AbstractContextManager[WebProgram]:
    """Run server-everything over http or sse."""
    return running_web_program([node(), str(PROGRAM), WORDS[transport]], transport)


TOOLS = [
    "echo",
    "get-annotated-message",
    "get-env",
    "get-resource-links",
    "get-resource-reference",
    "get-structured-content",
    "get-sum",
    "get-tiny-image",
    "gzip-file-as-resource",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    "trigger-long-running-operation",
]
TASK_ONLY = "simulate-research-query"
"""It can only run as a task, which the gateway does not support, and so is not listed."""
