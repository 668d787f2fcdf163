"""A process that is measured: its CPU time and its memory."""

import re
import subprocess
import time
from pathlib import Path

STOP_LIMIT_S = 5.0

_KIB = 1024


def cpu_s(pid: int) -> float:
    """Return user and system time of a whole process so far: Linux's CPU clock of it.

    What /proc/<pid>/stat counts in steps of 10 ms, in nanoseconds.
    """
    return time.clock_gettime((~pid << 3) | 2)


class Process:
    """One process of ours."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def cpu_s(self) -> float:
        """User and system time of the whole process so far."""
        return cpu_s(self.process.pid)

    def rss_bytes(self) -> int:
        """Resident memory of the process.

        Only root may read the exact smaps_rollup of a gateway, which is not dumpable; the counters
        in status lag behind by some pages.
        """
        try:
            memory = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="ascii")
        except PermissionError:
            memory = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        match = re.search(r"^(?:Vm)?R(?:ss|SS):\s+(\d+) kB$", memory, re.MULTILINE)
        assert match is not None
        return int(match[1]) * _KIB

    def stop(self) -> None:
        """End the process and wait until it has ended."""
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
