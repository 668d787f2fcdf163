"""What hostile surroundings cost good callers: a log that nobody reads, a flood of bad tokens."""

import contextlib
import fcntl
import os
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection

from benchmarks.bench import Bench, Measured, medians
from benchmarks.identity import Mode, jwt_mode, token_mode
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, OK, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import NO_CALL_REFUSED, Server, gateway

PIPE_BYTES = 4096
LOG_LIMIT = 1.05
"""What a call may cost while nobody reads the log, against one whose log goes to a file."""

STOP_LIMIT_S = 3.0
"""For SIGTERM while nobody reads the log: a second of it is the wait for the reader."""

BAD_A_SECOND = 1_000
BAD_CONNECTIONS = 4
SLOWER_LIMIT_MS = 50.0

_WARM_UP_CALLS = 100


def measure_unread_log(bench: Bench) -> Result:
    """Compare read_doc_section with a log that goes to a file, is read, and is not read."""
    rounds: dict[str, list[Measured]] = {"file": [], "pipe, read": [], "pipe, unread": []}
    documents = bench.folder("unread-log", "big-0")
    with contextlib.ExitStack() as stack:
        pipes = {
            "file": None,
            "pipe, read": stack.enter_context(_pipe(read=True)),
            "pipe, unread": stack.enter_context(_pipe(read=False)),
        }
        services = {
            name: stack.enter_context(gateway(bench.workdir, documents, output=pipe))
            for name, pipe in pipes.items()
        }
        for service in services.values():
            service.wait_for("", "/health", method="GET", expected=OK)
            bench.measure(service, _job(service, {}, _WARM_UP_CALLS))
        for number in range(bench.sizes.relay_rounds):
            bench.show_progress(f"  unread-log: round {number + 1} of {bench.sizes.relay_rounds}")
            for name, service in services.items():
                job = _job(service, {}, bench.sizes.section_calls)
                rounds[name].append(bench.measure(service, job))
        began = time.perf_counter()
        services["pipe, unread"].stop()
        stopped_s = time.perf_counter() - began
    result = Result(
        "read_doc_section by where its log line goes",
        ("log", "CPU ms/call", "p50 ms", "p99 ms", "CPU / file"),
    )
    for name, found in rounds.items():
        ratio = _ratio(found, rounds["file"])
        result.rows.append((name, *_shown(medians(found)), f"{ratio:.3f}"))
        limit = Target(name=f"CPU, {name} / file", limit=LOG_LIMIT, measured=ratio, unit="x")
        result.targets.extend([limit] * (name != "file"))
    result.targets.append(
        Target(name="SIGTERM to the end, unread", limit=STOP_LIMIT_S, measured=stopped_s, unit="s")
    )
    return result


def measure_bad_tokens(bench: Bench) -> Result:
    """Compare good callers alone and beside a flood of bad tokens from their own address."""
    modes = {"token": token_mode(bench.workdir), "jwt": jwt_mode(bench.workdir)}
    documents = bench.folder("bad-tokens", "big-0")
    result = Result(
        f"read_doc_section beside {BAD_A_SECOND} bad tokens a second",
        ("auth_mode", "beside", "p50 ms", "p99 ms", "refused a second"),
    )
    for name, mode in modes.items():
        settings = {**NO_CALL_REFUSED, **mode.settings}
        with gateway(bench.workdir, documents, settings) as service:
            service.wait_for("", "/health", method="GET", expected=OK)
            job = _job(service, mode.headers, bench.sizes.section_calls)
            bench.measure(service, _job(service, mode.headers, _WARM_UP_CALLS))
            alone = bench.measure(service, job)
            with _flooded(service, _bad(mode)) as flood:
                flooded = bench.measure(service, job)
        result.rows.append((name, "nobody", *_shown(alone)[1:], "0"))
        result.rows.append((name, "bad tokens", *_shown(flooded)[1:], f"{flood.rate:.0f}"))
        slower = flooded.p99_ms - alone.p99_ms
        result.targets += [
            Target(name=f"p99 slower, {name}", limit=SLOWER_LIMIT_MS, measured=slower, unit="ms"),
            Target(name=f"good calls lost, {name}", limit=0, measured=flooded.errors, unit="calls"),
        ]
    return result


@dataclass
class _Flood:
    """Bad requests that were refused so far."""

    began: float = field(default_factory=time.perf_counter)
    ended: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * BAD_CONNECTIONS)

    @property
    def rate(self) -> float:
        return sum(self.counts) / ((self.ended or time.perf_counter()) - self.began)


@contextlib.contextmanager
def _flooded(service: Server, headers: Mapping[str, str]) -> Iterator[_Flood]:
    """Send bad tokens over some connections, BAD_A_SECOND in all, until left."""
    flood, over = _Flood(), threading.Event()
    body = section_calls("big-0")[0]

    def send(number: int) -> None:
        pause_s = BAD_CONNECTIONS / BAD_A_SECOND
        due = time.perf_counter()
        with contextlib.closing(HTTPConnection("127.0.0.1", service.port)) as connection:
            while not over.wait(max(0.0, due - time.perf_counter())):
                connection.request("POST", EXECUTE, body, dict(headers))
                answer = connection.getresponse()
                answer.read()
                flood.counts[number] += answer.status == 401
                due += pause_s

    senders = [threading.Thread(target=send, args=(it,)) for it in range(BAD_CONNECTIONS)]
    for sender in senders:
        sender.start()
    try:
        yield flood
    finally:
        flood.ended = time.perf_counter()
        over.set()
        for sender in senders:
            sender.join()


@contextlib.contextmanager
def _pipe(*, read: bool) -> Iterator[int]:
    """Yield the end of a small pipe to write to; somebody reads the other, or nobody."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    reader = threading.Thread(target=_drain, args=(reading,), daemon=True)
    if read:
        reader.start()
    try:
        yield writing
    finally:
        os.close(writing)
        if read:
            reader.join()
        os.close(reading)


def _drain(descriptor: int) -> None:
    while os.read(descriptor, 65536):
        pass


def _job(service: Server, headers: dict[str, str], calls: int) -> Job:
    return Job(
        port=service.port,
        path=EXECUTE,
        bodies=section_calls("big-0"),
        headers=headers,
        connections=1,
        calls=calls,
        expected=OK,
    )


def _bad(mode: Mode) -> Mapping[str, str]:
    """Return a token that looks like a good one up to its last characters."""
    good = mode.headers["authorization"]
    return {"authorization": good[:-8] + good[-8:].swapcase()[::-1]}


def _ratio(found: list[Measured], base: list[Measured]) -> float:
    pairs = zip(found, base, strict=True)
    return statistics.median(own.cpu_ms / file.cpu_ms for own, file in pairs)


def _shown(measured: Measured) -> tuple[str, str, str]:
    return f"{measured.cpu_ms:.3f}", f"{measured.p50_ms:.2f}", f"{measured.p99_ms:.2f}"
