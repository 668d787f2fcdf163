"""Load generator processes, which run jobs and return their outcomes."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from benchmarks.load import Job, Outcome
from benchmarks.process import STOP_LIMIT_S, cpu_s
from benchmarks.servers import ROOT


class Generator:
    """A process that reads jobs from stdin and writes outcomes to stdout as lines of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, job: Job) -> None:
        """Send a job; ``finish`` must follow."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()

    def finish(self) -> Outcome:
        """Wait for the job's outcome."""
        assert self._process.stdout is not None
        return Outcome(**json.loads(self._process.stdout.readline()))

    def cpu_s(self) -> float:
        """Return user and system time so far."""
        return cpu_s(self._process.pid)


@contextmanager
def generator(module: str, *arguments: str, descriptors: Sequence[int] = ()) -> Iterator[Generator]:
    """Run a load generator with open ``descriptors``."""
    process = subprocess.Popen(  # noqa: S603 - our programs
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=descriptors,
        text=True,
    )
    try:
        yield Generator(process)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
