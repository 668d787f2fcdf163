"""Effect of different floods on the latency of a well-behaved caller."""

import base64
import contextlib
import hashlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench import Bench, Measured, percentile
from benchmarks.configuration import over_stdio, write_configuration
from benchmarks.corpus import TENANT
from benchmarks.facade_messages import SECTION_TOOL, Way
from benchmarks.load import Job
from benchmarks.messages import EXECUTE, OK, SERVERS, call, http_post, section_calls
from benchmarks.report import Result, Target
from benchmarks.servers import NO_CALL_REFUSED, Server, gateway
from mcp_tools_proxy.auth.token_store import add_token
from mcp_tools_proxy.domain.identity import Principal

DISTURBED = 5
"""Maximum p99 of a call relative to its undisturbed p99, or LIMIT_MS if this is higher."""
LIMIT_MS = 50.0

_DOC_ID = "big-0"
_WARM_UP_CALLS = 200
_BEGUN_S = 0.5
_SOCKET_S = 2.0
_BODY_BYTES = 900_000
_SLOW_CONNECTIONS, _SLOW_BYTES, _SLOW_PAUSE_S = 64, 16_000, 0.05
_UNREAD_CONNECTIONS, _UNREAD_S = 32, 1.0
_PIPELINED = 8
_SESSIONS = 64
_FRAMES = 6_400
_WEBSOCKET_KEY = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

_Sender = Callable[[Server, threading.Event], None]


@dataclass(frozen=True, slots=True)
class _Mode:
    """Settings of an ``auth_mode``, and the headers of an authenticated caller."""

    settings: Mapping[str, str]
    headers: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flood:
    """A flood by ``threads`` that run ``sender``, with additional gateway ``settings``."""

    sender: _Sender | None
    threads: int = 4
    settings: Mapping[str, str] = field(default_factory=dict)


def measure_floods(bench: Bench) -> Result:
    """Measure document calls of one connection alone, then during each flood of a new gateway."""
    mode = _token_mode(bench.workdir)
    documents = bench.folder("floods", _DOC_ID)
    result = Result(
        "read_doc_section beside a flood", ("flood", "calls/s", "p50 ms", "p99 ms", "slowest ms")
    )
    alone: Measured | None = None
    lost = 0
    with socket.create_server(("127.0.0.1", 0)) as backend:
        for name, flood in _floods(bench, mode, backend).items():
            bench.show_progress(f"  floods: {name}")
            settings = {**NO_CALL_REFUSED, **flood.settings, **mode.settings}
            with gateway(bench.workdir, documents, settings) as service:
                service.wait_for("", "/health", method="GET", expected=OK)
                bench.run(_job(service, mode, calls=_WARM_UP_CALLS))
                with _running(flood, service):
                    measured, slowest_ms = _measured(bench, service, mode)
            alone = alone or measured
            lost += measured.errors
            times = (f"{measured.p50_ms:.2f}", f"{measured.p99_ms:.2f}", f"{slowest_ms:.1f}")
            result.rows.append((name, f"{measured.calls_per_s:.0f}", *times))
            if measured is not alone:
                limit_ms = max(DISTURBED * alone.p99_ms, LIMIT_MS)
                result.targets.append(
                    Target(name=f"p99, {name}", limit=limit_ms, measured=measured.p99_ms, unit="ms")
                )
    result.targets.append(
        Target(name="calls of the victim that failed", limit=0, measured=lost, unit="calls")
    )
    return result


def _token_mode(workdir: Path) -> _Mode:
    file = workdir / "tokens.jsonl"
    token, _ = add_token(file, Principal(tenant_id=TENANT))
    settings = {"MCP_PROXY_AUTH_MODE": "token", "MCP_PROXY_TOKENS_FILE": str(file)}
    return _Mode(settings, {"authorization": f"Bearer {token}"})


def _floods(bench: Bench, mode: _Mode, backend: socket.socket) -> Mapping[str, _Flood]:
    body = call("list_available_tools", more="x" * 100_000)
    proof = mode.headers["authorization"]
    bad_token = {"authorization": proof[:-8] + proof[-8:].swapcase()[::-1]}
    short = section_calls(_DOC_ID)[0]
    pipelined = _with_headers(http_post(EXECUTE, short), mode.headers)
    listed = f"GET {SERVERS} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    return {
        "none": _Flood(sender=None),
        "connector backend": _Flood(
            sender=_backend_flood(backend), threads=1, settings=_remote_settings(backend)
        ),
        "bodies without a token": _Flood(sender=_repeated(http_post(EXECUTE, body))),
        "invalid tokens": _Flood(
            sender=_repeated(_with_headers(http_post(EXECUTE, short), bad_token))
        ),
        "large bodies sent slowly": _Flood(sender=_slow_bodies(mode), threads=1),
        "new connections": _Flood(
            sender=_repeated(
                b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            )
        ),
        "pipelined requests": _Flood(sender=_repeated(pipelined, _PIPELINED)),
        "clients that do not read": _Flood(
            sender=_unread(_with_headers(listed, mode.headers)), threads=1
        ),
        "notifications of a server": _Flood(
            sender=None,
            settings=write_configuration(
                bench.workdir / "floods-config",
                {"flooding": over_stdio("benchmarks.flooding_stdio")},
                {"all": []},
            ),
        ),
    }


@contextmanager
def _running(flood: _Flood, service: Server) -> Iterator[None]:
    over = threading.Event()
    threads = []
    if flood.sender is not None:
        for _ in range(flood.threads):
            threads.append(threading.Thread(target=flood.sender, args=(service, over)))
            threads[-1].start()
    time.sleep(_BEGUN_S)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _measured(bench: Bench, service: Server, mode: _Mode) -> tuple[Measured, float]:
    before = service.cpu_s()
    outcome = bench.run(_job(service, mode, seconds=bench.sizes.steady_s))
    times_ms = [1000 * seconds for seconds in outcome.times]
    measured = Measured(
        cpu_ms=(service.cpu_s() - before) * 1000 / len(times_ms),
        p50_ms=percentile(times_ms, 50),
        p99_ms=percentile(times_ms, 99),
        calls_per_s=len(times_ms) / outcome.wall_s,
        errors=outcome.errors,
    )
    return measured, max(times_ms)


def _job(service: Server, mode: _Mode, *, calls: int = 10**9, seconds: float = 60.0) -> Job:
    return Job(
        port=service.port,
        path=EXECUTE,
        bodies=section_calls(_DOC_ID),
        headers=mode.headers,
        connections=1,
        calls=calls,
        seconds=seconds,
        expected=OK,
    )


def _with_headers(request: bytes, headers: Mapping[str, str]) -> bytes:
    line, rest = request.split(b"\r\n", 1)
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return line + b"\r\n" + more.encode() + rest


def _connected(service: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=_SOCKET_S)


def _repeated(request: bytes, at_once: int = 1) -> _Sender:
    """Send requests as fast as responses arrive, and reconnect when closed."""

    def send(service: Server, over: threading.Event) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), _connected(service) as connection:
                while not over.is_set() and _answered(connection, request, at_once):
                    pass

    return send


def _answered(connection: socket.socket, request: bytes, count: int) -> bool:
    """Return whether ``count`` responses arrived and the connection is still open."""
    connection.sendall(request * count)
    answers = 0
    while answers < count:
        piece = connection.recv(65536)
        if not piece:
            return False
        answers += piece.count(b"HTTP/1.1 ")
    return True


def _slow_bodies(mode: _Mode) -> _Sender:
    head = f"POST {EXECUTE} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {_BODY_BYTES}\r\n\r\n"
    start = _with_headers(head.encode(), mode.headers)

    def send(service: Server, over: threading.Event) -> None:
        opened: dict[socket.socket, int] = {}
        while not over.wait(_SLOW_PAUSE_S):
            while len(opened) < _SLOW_CONNECTIONS:
                connection = _connected(service)
                connection.sendall(start)
                opened[connection] = 0
            for connection, sent in list(opened.items()):
                try:
                    connection.sendall(b" " * min(_SLOW_BYTES, _BODY_BYTES - sent))
                    opened[connection] += _SLOW_BYTES
                except OSError:
                    opened[connection] = _BODY_BYTES
                if opened[connection] >= _BODY_BYTES:
                    connection.close()
                    del opened[connection]
        for connection in opened:
            connection.close()

    return send


def _unread(request: bytes) -> _Sender:
    """Pipeline requests on many connections without reading, and repeat."""

    def send(service: Server, over: threading.Event) -> None:
        while not over.is_set():
            with contextlib.ExitStack() as stack:
                for _ in range(_UNREAD_CONNECTIONS):
                    connection = stack.enter_context(_connected(service))
                    with contextlib.suppress(OSError):
                        connection.sendall(request * _PIPELINED)
                over.wait(_UNREAD_S)

    return send


def _remote_settings(backend: socket.socket) -> Mapping[str, str]:
    return {
        "MCP_PROXY_REMOTE_URL": f"ws://127.0.0.1:{backend.getsockname()[1]}/ws",
        "MCP_PROXY_REMOTE_SERVER_IDENTIFIER": "flooded",
        "MCP_PROXY_REMOTE_TOKEN": "bench",
        "MCP_PROXY_REMOTE_TENANT_ID": TENANT,
    }


def _backend_flood(backend: socket.socket) -> _Sender:
    """Send calls of many sessions over the gateway's link without waiting for responses."""
    backend.settimeout(_SOCKET_S)

    def send(service: Server, over: threading.Event) -> None:
        frames = _frames(service)
        blocks = [b"".join(frames[n : n + 100]) for n in range(0, len(frames), 100)]
        while not over.is_set():
            with contextlib.suppress(OSError), backend.accept()[0] as link:
                _shake_hands(link)
                link.settimeout(_SOCKET_S)
                reader = threading.Thread(target=_drop_all, args=(link,))
                reader.start()
                for block in itertools.cycle(blocks):
                    if over.is_set():
                        break
                    with contextlib.suppress(TimeoutError):
                        link.sendall(block)
                link.shutdown(socket.SHUT_RDWR)
                reader.join()

    return send


def _frames(service: Server) -> list[bytes]:
    way, frames = Way(server=service), []
    arguments = {"doc_id": _DOC_ID, "section_id": "s1"}
    for number in range(_FRAMES):
        call_ = way.message("tools/call", {"name": SECTION_TOOL, "arguments": arguments}, number)
        session = json.dumps(f"session {number % _SESSIONS}")
        payload = f'{{"session_identifier":{session},"message":{call_}}}'.encode()
        frames.append(b"\x81\x7e" + len(payload).to_bytes(2, "big") + payload)
    return frames


def _shake_hands(link: socket.socket) -> None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += link.recv(65536)
    key = head.lower().split(b"sec-websocket-key: ")[1].split(b"\r\n")[0]
    key = head[head.lower().index(key) :][: len(key)]
    digest = hashlib.sha1(key + _WEBSOCKET_KEY.encode(), usedforsecurity=False).digest()
    link.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Accept: " + base64.b64encode(digest)
        + b"\r\n\r\n"
    )  # fmt: skip


def _drop_all(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            with contextlib.suppress(TimeoutError):
                if not link.recv(65536):
                    return
