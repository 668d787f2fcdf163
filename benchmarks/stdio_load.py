"""Load generator for ``mcp-tools-proxy stdio``, which writes to its stdin and reads its stdout.

Jobs have the format of ``load``; ``connections`` is the number of calls in flight on the pipe. Each
response must have the id of a pending request and contain its expected text.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import cycle
from typing import BinaryIO, NamedTuple

from benchmarks.load import JOB_LIMIT_S, Job, Outcome


class _Exchange(NamedTuple):
    """A request, its id, and text in its response."""

    request: bytes
    id: int
    expected: bytes


class _Pipes:
    """Both pipes of one gateway; ``requests`` is a descriptor."""

    def __init__(self, requests: int, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers

    def send(self, line: bytes) -> None:
        """Write a complete line."""
        while line:
            line = line[os.write(self._requests, line) :]

    def receive(self) -> bytes:
        """Return the next response, skipping notifications. Raises ConnectionError."""
        for line in self._answers:
            if b'"method":' not in line:
                return line
        raise ConnectionError("the gateway has ended")


class _Run:
    """One job: pending requests and the outcome."""

    def __init__(self, job: Job, pipes: _Pipes) -> None:
        self._pipes = pipes
        self._expected = job.expected.encode()
        self._unsent = _exchanges(job)
        self._left = job.calls
        self._waiting: dict[int, tuple[_Exchange, float]] = {}
        self.outcome = Outcome()

    def run(self, at_once: int) -> None:
        """Send all requests, ``at_once`` concurrently. Raises ConnectionError."""
        for _ in range(at_once):
            self._send_next()
        while self._waiting:
            self._receive(self._pipes.receive())
            self._send_next()

    def failed(self, why: str) -> None:
        self.outcome.errors += 1
        self.outcome.first_error = self.outcome.first_error or why

    def _send_next(self) -> None:
        if self._left > 0:
            self._left -= 1
            exchange = next(self._unsent)
            self._waiting[exchange.id] = exchange, time.perf_counter()
            self._pipes.send(exchange.request)

    def _receive(self, line: bytes) -> None:
        received = time.perf_counter()
        waiting = self._waiting.pop(json.loads(line).get("id"), None)
        if waiting is None:
            self.failed(f"no request waits for {line[:500]!r}")
            return
        exchange, started = waiting
        self.outcome.starts.append(started)
        self.outcome.times.append(received - started)
        if self._expected not in line or exchange.expected not in line:
            self.failed(f"{exchange.id}: {line[:500]!r}")


def _exchanges(job: Job) -> Iterator[_Exchange]:
    each = job.expected_each or [""] * len(job.bodies)
    return cycle(
        _Exchange(body.encode() + b"\n", json.loads(body)["id"], expected.encode())
        for body, expected in zip(job.bodies, each, strict=True)
    )


def run_job(job: Job, pipes: _Pipes) -> Outcome:
    run = _Run(job, pipes)
    signal.alarm(int(JOB_LIMIT_S))
    try:
        run.run(job.connections)
    except (ConnectionError, TimeoutError) as error:
        run.failed(str(error))
    signal.alarm(0)
    return run.outcome


def _interrupt(*_: object) -> None:
    raise TimeoutError(f"not done after {JOB_LIMIT_S:.0f} s")


def main() -> None:
    """Run jobs from stdin over two open descriptors; write each outcome as a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", type=int)
    parser.add_argument("answers", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _interrupt)
    with os.fdopen(options.answers, "rb") as answers:
        pipes = _Pipes(options.requests, answers)
        for line in sys.stdin:
            sys.stdout.write(json.dumps(asdict(run_job(Job(**json.loads(line)), pipes))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
