"""Load generator: an HTTP/1.1 client process that reads jobs from stdin as lines of JSON.

Each connection sends its next request after the response to the last. A job ends after its calls or
seconds. Responses must have status 200 and contain ``expected``.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, cast

import uvloop

JOB_LIMIT_S = 60.0
"""Longer jobs have failed, and missing calls count as errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: ``bodies`` are sent in turn to ``path``; responses must contain ``expected``.

    ``expected_each`` is empty or has additional text in the response to each body. ``headers`` are
    sent with each request.
    """

    port: int
    method: str = "POST"
    path: str
    bodies: list[str]
    headers: dict[str, str] = field(default_factory=dict)
    connections: int
    calls: int = 10**9
    seconds: float = JOB_LIMIT_S
    expected: str
    expected_each: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """Start times (monotonic) and durations of calls in seconds, and errors."""

    starts: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    errors: int = 0
    first_error: str = ""

    @property
    def wall_s(self) -> float:
        """Seconds from the first call's start to the last response."""
        calls = zip(self.starts, self.times, strict=True)
        return max(started + took for started, took in calls) - min(self.starts)


class _Exchange(NamedTuple):
    """A request and text in its response."""

    request: bytes
    expected: bytes


class _Run:
    """State shared by a job's connections: remaining requests and the outcome."""

    def __init__(self, job: Job) -> None:
        each = job.expected_each or [""] * len(job.bodies)
        self._exchanges = [
            _Exchange(_request(job, body), expected.encode())
            for body, expected in zip(job.bodies, each, strict=True)
        ]
        self._expected = job.expected.encode()
        self._sent = 0
        self._calls = job.calls
        self._stop_at = time.perf_counter() + job.seconds
        self.outcome = Outcome()

    def next_request(self) -> _Exchange | None:
        if self._sent >= self._calls or time.perf_counter() >= self._stop_at:
            return None
        self._sent += 1
        return self._exchanges[self._sent % len(self._exchanges)]

    def answered(self, exchange: _Exchange, started: float, answer: bytes) -> None:
        self.outcome.starts.append(started)
        self.outcome.times.append(time.perf_counter() - started)
        good = self._expected in answer and exchange.expected in answer
        if not good or not answer.startswith(b"HTTP/1.1 200 "):
            self.failed(answer[:500].decode(errors="replace"))

    def failed(self, why: str) -> None:
        self.outcome.errors += 1
        self.outcome.first_error = self.outcome.first_error or why


class _Connection(asyncio.Protocol):
    """A keep-alive connection; ``done`` is set after its last request."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._answer = b""
        self._started = 0.0
        self.done = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop has different classes
        self._send()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if _is_whole(self._answer):
            self._run.answered(self._exchange, self._started, self._answer)
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.is_set():
            self._run.failed(f"connection lost: {exc}")
            self.done.set()

    def _send(self) -> None:
        self._answer = b""
        exchange = self._run.next_request()
        if exchange is None:
            self.done.set()
            self._transport.close()
            return
        self._exchange, self._started = exchange, time.perf_counter()
        self._transport.write(exchange.request)


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    head = head.lower()
    if b"\r\ntransfer-encoding: chunked" in head:
        return body.endswith(b"\r\n0\r\n\r\n")
    _, _, length = head.partition(b"\r\ncontent-length:")
    return len(body) >= int(length.split(b"\r\n", 1)[0])


def _request(job: Job, body: str) -> bytes:
    content = body.encode()
    headers = "".join(f"{name}: {value}\r\n" for name, value in job.headers.items())
    head = (
        f"{job.method} {job.path} HTTP/1.1\r\nhost: 127.0.0.1:{job.port}\r\n{headers}"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def run_job(job: Job) -> Outcome:
    run = _Run(job)
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: _Connection(run), "127.0.0.1", job.port))[1]
        for _ in range(job.connections)
    ]
    try:
        async with asyncio.timeout(JOB_LIMIT_S):
            for connection in connections:
                await connection.done.wait()
    except TimeoutError:
        run.failed(f"not done after {JOB_LIMIT_S:.0f} s")
    return run.outcome


def main() -> None:
    """Run jobs from stdin, and write each outcome as a line."""
    for line in sys.stdin:
        outcome = uvloop.run(run_job(Job(**json.loads(line))))
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
