"""CPU time and memory of measured processes."""

import re
import subprocess
import time
from pathlib import Path

STOP_LIMIT_S = 5.0

_KIB = 1024


def cpu_s(pid: int) -> float:
    """Return user and system time of a process from its CPU clock on Linux.

    The resolution is nanoseconds; /proc/<pid>/stat has 10 ms.
    """
    return time.clock_gettime((~pid << 3) | 2)


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process.

    Only root may read the exact smaps_rollup of a gateway, which is not dumpable; the counters
    in status lag behind by some pages.
    """
    try:
        memory = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except PermissionError:
        memory = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    match = re.search(r"^(?:Vm)?R(?:ss|SS):\s+(\d+) kB$", memory, re.MULTILINE)
    assert match is not None
    return int(match[1]) * _KIB


class Process:
    """One process started by a benchmark."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def cpu_s(self) -> float:
        """Return user and system time so far."""
        return cpu_s(self.process.pid)

    def rss_bytes(self) -> int:
        """Return the resident memory."""
        return rss_bytes(self.process.pid)

    def stop(self) -> None:
        """Terminate the process and wait for its end."""
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
