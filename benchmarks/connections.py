"""Hostile connections: what one of them costs in memory, and in the time of all others."""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.load import Job
from benchmarks.memory import call_without_document
from benchmarks.messages import EXECUTE, OK, call
from benchmarks.report import Result, Target
from benchmarks.servers import Server, gateway

HEALTH = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
CHUNKED = f"POST {EXECUTE} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
AHEAD_BYTES = 3_300_000
TRAILERS_BYTES = 4_000_000
CONNECTIONS = 10
VALUES = 99_900
"""With the rest of the request just below ``max_json_items``."""

IDLE_S = 5.0
"""As long as uvicorn keeps an idle connection by itself."""

IDLE_CONNECTIONS = 200
WATCH_S = 3.0
SEND_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Seen:
    grown_mb: float
    slowest_ms: float


def measure_connections(bench: Bench) -> Result:
    """Attack a service in each way, and watch its memory and its /health meanwhile."""
    ahead = (HEALTH * (AHEAD_BYTES // len(HEALTH))).encode()
    trailers = (CHUNKED + "2\r\n{}\r\n0\r\n" + "x-t: 1\r\n" * (TRAILERS_BYTES // 8)).encode()
    attacks: Mapping[str, Callable[[Server], contextlib.AbstractContextManager[object]]] = {
        "nothing": lambda server: unread(server, b"", 0),
        f"{AHEAD_BYTES / 1e6} MB of requests ahead": lambda server: unread(server, ahead, 1),
        f"ten times {AHEAD_BYTES / 1e6} MB": lambda server: unread(server, ahead, CONNECTIONS),
        f"{TRAILERS_BYTES / 1e6:.0f} MB of trailers": lambda server: unread(server, trailers, 1),
        **{name: _sent(body) for name, body in _large_bodies().items()},
    }
    result = Result(
        "Hostile connections, each kind at a fresh service",
        ("what is sent", "RSS grown by MB", "slowest /health ms"),
    )
    seen: dict[str, _Seen] = {}
    for name, attack in attacks.items():
        bench.show_progress(f"  connections: {name}")
        seen[name] = _watched(bench, attack)
        result.rows.append((name, f"{seen[name].grown_mb:+.1f}", f"{seen[name].slowest_ms:.0f}"))
    bench.show_progress(f"  connections: {IDLE_CONNECTIONS} connections, idle for {IDLE_S:.0f} s")
    lost = _lost_after_idling(bench)
    _, one, ten, trailing, *bodies = seen
    result.targets = [
        _memory(seen[one], one),
        _memory(seen[trailing], trailing),
        _wait(seen[ten], f"/health beside {ten}", 500),
        _wait(max((seen[name] for name in bodies), key=lambda s: s.slowest_ms), "/health beside "
              f"any body of {VALUES:,} values", 50),
        Target(name=f"POSTs lost of {IDLE_CONNECTIONS}, sent after {IDLE_S:.0f} s without any",
               limit=0, measured=lost, unit="lost"),
    ]  # fmt: skip
    return result


def _memory(seen: _Seen, name: str) -> Target:
    return Target(name=f"growth with {name}", limit=20, measured=seen.grown_mb, unit="MB")


def _wait(seen: _Seen, name: str, limit_ms: float) -> Target:
    return Target(name=f"slowest {name}", limit=limit_ms, measured=seen.slowest_ms, unit="ms")


def _large_bodies() -> Mapping[str, str]:
    arguments: Mapping[str, object] = {
        "numbers": [0] * VALUES,
        "lists": [[]] * VALUES,
        "keys": {f"k{number}": 1 for number in range(80_000)},
        "lists 60 levels deep": [json.loads("[" * 60 + "]" * 60)] * (VALUES // 60),
        "texts": ["ab"] * VALUES,
    }
    return {
        f"a body of {kind}": call("list_available_tools", more=value)
        for kind, value in arguments.items()
    } | {"a body of 300,000 numbers": call("list_available_tools", more=[0] * 300_000)}


def _watched(
    bench: Bench, attack: Callable[[Server], contextlib.AbstractContextManager[object]]
) -> _Seen:
    """Attack a fresh service while somebody else asks for its health, one request after another."""
    with gateway(bench.workdir, bench.workdir / "no-documents") as server:
        server.wait_for(call_without_document())
        job = Job(
            port=server.port,
            method="GET",
            path="/health",
            bodies=[""],
            connections=1,
            seconds=WATCH_S,
            expected=OK,
        )
        before = server.rss_bytes()
        bench.begin(job)
        time.sleep(WATCH_S / 3)
        with attack(server):
            outcome = bench.finish()
            grown = server.rss_bytes() - before
    return _Seen(grown / 1e6, max(outcome.times) * 1000)


@contextmanager
def unread(server: Server, data: bytes, connections: int) -> Iterator[None]:
    """Send ``data`` on each connection, as much as is taken, and read no answer."""
    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            opened = socket.create_connection(("127.0.0.1", server.port), timeout=SEND_LIMIT_S)
            stack.enter_context(opened)
            with contextlib.suppress(ConnectionError, TimeoutError):
                opened.sendall(data)
        yield


def post(path: str, body: str) -> bytes:
    """Build a request."""
    content = body.encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def _sent(body: str) -> Callable[[Server], contextlib.AbstractContextManager[None]]:
    """Build a function that sends a request, whatever the response is."""

    @contextmanager
    def sent(server: Server) -> Iterator[None]:
        for _ in range(5):
            with contextlib.suppress(AssertionError):  # a refusal is an answer as well
                server.request(EXECUTE, body)
        yield

    return sent


def _lost_after_idling(bench: Bench) -> int:
    """Count the POSTs that are lost on connections that idled just as long as uvicorn allows."""
    body = call_without_document()
    request = post(EXECUTE, body)
    with (
        gateway(bench.workdir, bench.workdir / "no-documents") as server,
        contextlib.ExitStack() as stack,
    ):
        server.wait_for(call_without_document())
        idle: list[tuple[socket.socket, float]] = []
        for _ in range(IDLE_CONNECTIONS):
            opened = socket.create_connection(("127.0.0.1", server.port), timeout=SEND_LIMIT_S)
            stack.enter_context(opened)
            _answer_to(opened, HEALTH.encode())
            idle.append((opened, time.perf_counter()))
        lost = 0
        for opened, since in idle:
            time.sleep(max(0.0, since + IDLE_S - time.perf_counter()))
            lost += not _answer_to(opened, request).startswith(b"HTTP/1.1 200 ")
    return lost


def _answer_to(connection: socket.socket, request: bytes) -> bytes:
    """Send a request and give its answer, which is JSON; nothing where the connection is gone."""
    answer = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        connection.sendall(request)
        while not answer.endswith(b"}"):
            piece = connection.recv(65536)
            if not piece:
                return b""
            answer += piece
    return answer
