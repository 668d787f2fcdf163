"""A gateway with its helper processes, without the echo server behind it."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.process import cpu_s
from benchmarks.servers import ROOT, Server, start_process

ECHO_MODULE = "benchmarks.responder_stdio"
ECHO_COMMAND = (sys.executable, "-m", ECHO_MODULE)


class ProcessTree(Server):
    """A server whose CPU time includes its descendants, but for the echo server."""

    def cpu_s(self) -> float:
        """Return user and system time of the live processes so far, the echo server left out."""
        return sum(cpu_s(pid) for pid in self.pids() if not _is_echo(pid))

    def pids(self) -> list[int]:
        """Return the process and its descendants."""
        children: dict[int, list[int]] = {}
        for pid, parent in _parents().items():
            children.setdefault(parent, []).append(pid)
        found = [self.process.pid]
        for pid in found:  # grows as descendants are found
            found += children.get(pid, [])
        return found

    def stop(self) -> None:
        """End the process, and what it leaves behind."""
        descendants = self.pids()[1:]
        super().stop()
        for pid in _parents().keys() & set(descendants):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def as_tree(server: Server) -> ProcessTree:
    """Measure a running server together with its descendants."""
    return ProcessTree(server.process, server.port)


@contextlib.contextmanager
def running_tree(
    command: list[str], port: int, workdir: Path, environment: Mapping[str, str]
) -> Iterator[ProcessTree]:
    """Run a program that listens on ``port``, and end all of its processes when left."""
    tree = ProcessTree(start_process(command, ROOT, workdir, environment), port)
    try:
        yield tree
    finally:
        tree.stop()


def _is_echo(pid: int) -> bool:
    """Return whether a process is the echo server: gateways have its command in theirs."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return True  # it ended meanwhile
    return command.rstrip("\0").split("\0") == list(ECHO_COMMAND)


def _parents() -> Mapping[int, int]:
    """Map each process of the machine to its parent."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            after_name = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
            found[int(stat.parent.name)] = int(after_name.split()[1])
    return found
