"""Starts the programs as separate processes: a fork, or a fresh interpreter.

A fork has its own arguments, environment, folder, streams and signals, like a process started by a
shell; but the imports, over a second of CPU each time, happen only once per test worker.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, NamedTuple

import mcp_tools_proxy
from tests.support import fork_server
from tests.support.bounds import BOUND_S
from tests.support.fork_server import PROGRAM

ROOT = Path(__file__).parents[2]
CLEAN = {
    "PATH": "/usr/bin:/bin",
    "PYTHONPATH": str(Path(mcp_tools_proxy.__file__).parents[1]),
    "MCP_PROXY_SHUTDOWN_DRAIN_S": "0",
}
"""The minimal environment: programs run the package that the tests import and stop immediately,
regardless of the test's open connections."""

PATH_WITH_PYTHON = f"{Path(sys.executable).parent}:{CLEAN['PATH']}"
"""Search path of programs for ``python3`` and packages installed for the tests."""

CACHES = ("MCP_PROXY_CACHE_DIR", "RETRIEVAL_CACHE_DIR")
"""Each program caches data of document files in its working directory."""

_STARTING = threading.Lock()


class Fork:
    """A forked program with part of the interface of ``subprocess.Popen``."""

    def __init__(self, keeper: socket.socket, pipes: Sequence[IO[bytes] | None]) -> None:
        self.stdin, self.stdout, self.stderr = pipes
        self.returncode: int | None = None
        self._keeper = keeper
        self._lines = keeper.makefile("rb")
        self.pid = int(self._lines.readline())

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float = BOUND_S) -> int:
        """Return the exit code. Raises TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(PROGRAM, timeout)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout_s: float) -> int | None:
        if self.returncode is None and select.select([self._keeper], [], [], timeout_s)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(self._lines.readline()))
            self._lines.close()
            self._keeper.close()
        return self.returncode


Process = Fork | subprocess.Popen[bytes]


def launch(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    streams: tuple[int | None, int | None, int | None] = (None, None, None),
    fresh: bool = False,
    module: str = PROGRAM,
) -> Process:
    """Start a program in ``folder``; its three ``streams`` are as ``subprocess.Popen``'s.

    With ``fresh`` a separate interpreter imports it, for tests that could break a fork.
    """
    environment = CLEAN | dict.fromkeys(CACHES, str(folder / ".cache")) | dict(environment or {})
    if fresh:
        stdin, stdout, stderr = streams
        return subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
    request = {
        "module": module,
        "arguments": [*arguments],
        "folder": str(folder),
        "environment": environment,
    }
    opened = [_open(number, chosen) for number, chosen in enumerate(streams)]
    ours, keeper = socket.socketpair()
    with keeper:
        socket.send_fds(
            _forking().channel,
            [json.dumps(request).encode()],
            [*(stream.descriptor for stream in opened), keeper.fileno()],
        )
    for stream in opened:
        if stream.is_new:
            os.close(stream.descriptor)
    return Fork(ours, [stream.pipe for stream in opened])


def run(
    folder: Path,
    *arguments: str,
    fresh: bool = False,
    module: str = PROGRAM,
    **environment: str,
) -> tuple[int, str, str]:
    """Run a program to its end; return its exit code, stdout and stderr."""
    files = folder / "stdout.txt", folder / "stderr.txt"
    with files[0].open("wb") as out, files[1].open("wb") as err:
        streams = (subprocess.DEVNULL, out.fileno(), err.fileno())
        process = launch(
            arguments, folder, environment, streams=streams, fresh=fresh, module=module
        )
    try:
        code = process.wait(BOUND_S)
    finally:
        process.kill()
    printed, complained = (file.read_text(encoding="utf-8") for file in files)
    return code, printed, complained


class _Stream(NamedTuple):
    descriptor: int
    is_new: bool = True
    pipe: IO[bytes] | None = None


def _open(number: int, chosen: int | None) -> _Stream:
    if chosen == subprocess.DEVNULL:
        return _Stream(os.open(os.devnull, os.O_RDWR))
    if chosen != subprocess.PIPE:
        return _Stream(number if chosen is None else chosen, is_new=False)
    reading, writing = os.pipe()
    if number == 0:
        return _Stream(reading, pipe=os.fdopen(writing, "wb"))
    return _Stream(writing, pipe=os.fdopen(reading, "rb"))


class _Forking(NamedTuple):
    process: subprocess.Popen[bytes]
    channel: socket.socket


def _forking() -> _Forking:
    """Return the interpreter that forks, started once; it ends with this process."""
    with _STARTING:  # two threads that started in parallel each started one
        return _start_forking()


@lru_cache(maxsize=1)
def _start_forking() -> _Forking:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", fork_server.__name__, str(theirs.fileno())],
            cwd=ROOT,
            env=CLEAN,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    return _Forking(process, ours)
