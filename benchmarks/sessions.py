"""CPU to open a session with a stream, while thousands are open."""

import http.client
import json
import resource
import socket
from contextlib import ExitStack, closing

from benchmarks.bench import Bench
from benchmarks.echo import LEGACY
from benchmarks.report import Result, Target
from benchmarks.servers import NO_CALL_REFUSED, Server, gateway

SESSIONS = 10_000
BLOCK = 1_000
"""Sessions that are opened between two readings of the CPU time."""

LIMIT = 1.3
_SPARE_DESCRIPTORS = 200
_TENANTS = 10

_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def measure_sessions(bench: Bench) -> Result:
    """Open up to 10,000 streaming sessions, fewer with few descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    blocks = min(SESSIONS, most - _SPARE_DESCRIPTORS) // BLOCK
    settings = {**NO_CALL_REFUSED, "MCP_PROXY_MAX_SESSIONS": str(2 * SESSIONS)}
    costs_ms: list[float] = []
    with (
        gateway(bench.workdir, bench.folder("sessions", "big-0"), settings) as server,
        ExitStack() as streams,
    ):
        server.wait_for("", "/health", method="GET")
        for block in range(blocks):
            bench.show_progress(f"  sessions: {block * BLOCK}")
            began = server.cpu_s()
            with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
                for number in range(BLOCK):
                    _open_session(server, connection, f"tenant-{number % _TENANTS}", streams)
            costs_ms.append((server.cpu_s() - began) * 1000 / BLOCK)
    result = Result(
        f"Opening {blocks * BLOCK} sessions with a stream each",
        ("sessions open before", "CPU ms for one more"),
        [(str(block * BLOCK), f"{cost:.3f}") for block, cost in enumerate(costs_ms)],
    )
    result.targets.append(
        Target(
            name="the last 1,000 sessions / the first 1,000",
            limit=LIMIT,
            measured=costs_ms[-1] / costs_ms[0],
            unit="x",
        )
    )
    return result


def _open_session(
    server: Server, connection: http.client.HTTPConnection, tenant: str, streams: ExitStack
) -> None:
    """Open a session, and a stream that stays open."""
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "x-tenant-id": tenant,
    }
    connection.request("POST", "/mcp", json.dumps(_INITIALIZE), headers)
    response = connection.getresponse()
    response.read()
    session = response.headers["mcp-session-id"]
    stream = streams.enter_context(socket.create_connection(("127.0.0.1", server.port)))
    head = {"host": "localhost", **headers, "mcp-session-id": session}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    stream.sendall(f"GET /mcp HTTP/1.1\r\n{lines}mcp-protocol-version: {LEGACY}\r\n\r\n".encode())
    assert stream.recv(4096).startswith(b"HTTP/1.1 200 ")
