"""The started program's worker processes, which import files and draw pages."""

import os
import signal
from pathlib import Path

from tests.support.program import Program, wait_until


def workers(program: Program) -> set[int]:
    return {
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if _is_worker(path, program.process.pid)
    }


def stop_new_worker(program: Program, before: set[int]) -> int:
    """Wait for a process that is not in ``before``, and pause it, so that it never ends itself."""
    wait_until(lambda: bool(workers(program) - before))
    (pid,) = workers(program) - before
    os.kill(pid, signal.SIGSTOP)
    return pid


def _is_worker(process: Path, parent: int) -> bool:
    try:
        status = (process / "stat").read_text().rpartition(")")[2].split()
        command = (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return False
    return int(status[1]) == parent and b"_worker" in command
