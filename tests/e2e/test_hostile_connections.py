"""Raw sockets to the program: effects of one connection on others."""

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program import UNLIMITED, Program, started
from tests.support.service import EXECUTE, request_of

pytestmark = [pytest.mark.e2e]

HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CLOSE = b"\r\nConnection: close\r\n\r\n"
FLOOD_BYTES = 3_300_000
CHUNKED = "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
SECTION = request_of("read_doc_section", {"doc_id": "doc_1", "section_id": "sec_intro"})
PINGED = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with started(tmp_path_factory.mktemp("hostile"), UNLIMITED) as running:
        yield running


def rss_bytes(program: Program) -> int:
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def connect(program: Program) -> socket.socket:
    return socket.create_connection(("127.0.0.1", program.port), timeout=60)


def send_all_that_is_taken(connection: socket.socket, data: bytes) -> None:
    """Send everything, or until the other side stops reading."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        connection.sendall(data)


def answered(connection: socket.socket) -> bytes:
    data = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            data += piece
    return bytes(data)


@pytest.mark.parametrize("connections", [1, 10])
def test_endless_pipelined_requests_use_no_memory(program: Program, connections: int) -> None:
    before = rss_bytes(program)
    opened = [connect(program) for _ in range(connections)]
    for connection in opened:
        send_all_that_is_taken(connection, HEALTH * (FLOOD_BYTES // len(HEALTH)))
    assert program.http.get("/health").status_code == 200
    grown = rss_bytes(program) - before
    answers = [answered(connection).count(b"HTTP/1.1 200") for connection in opened]
    for connection in opened:
        connection.close()
    assert grown < 20_000_000
    assert max(answers) <= 8


def trailers_to(method: str, path: str, body: object) -> bytes:
    """Build a request that names a tenant only in its trailers."""
    content = json.dumps(body).encode()
    head = CHUNKED.format(method=method, path=path).encode()
    trailers = b"X-Tenant-Id: tenant_1\r\nX-User-Id: u\r\n\r\n"
    return b"%b%x\r\n%b\r\n0\r\n%b" % (head, len(content), content, trailers)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", EXECUTE, {**SECTION, "user": None}),
        ("POST", "/internal/mcp/execute/batch", {"calls": [{"tool_name": "x"}]}),
        ("GET", "/internal/mcp/tools", {}),
        ("POST", "/mcp", PINGED),
        ("POST", "/mcp/sse?sessionId=x", PINGED),
    ],
)
def test_trailers_cannot_name_a_tenant(
    program: Program, method: str, path: str, body: object
) -> None:
    with connect(program) as connection:
        connection.sendall(trailers_to(method, path, body) + HEALTH.replace(
            b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"
        ))  # fmt: skip
        first, _, second = answered(connection).rpartition(b"HTTP/1.1 ")
    assert second.startswith(b"200 ")
    assert b"sec_intro" not in first
    if path.startswith("/internal") and method == "POST":
        assert first.startswith(b"HTTP/1.1 422 ")


def test_endless_trailers_close_the_connection_and_use_no_memory(program: Program) -> None:
    before = rss_bytes(program)
    head = CHUNKED.format(method="POST", path=EXECUTE).encode()
    with connect(program) as connection:
        connection.sendall(head + b"2\r\n{}\r\n0\r\n")
        for _ in range(500):
            send_all_that_is_taken(connection, b"X-T: 1\r\n" * 10_000)
        assert b" 200 " not in answered(connection)
    assert rss_bytes(program) - before < 20_000_000


def test_the_body_of_an_http2_upgrade_request_is_not_parsed_as_a_request(
    program: Program,
) -> None:
    body = json.dumps({**SECTION, "trace_id": "asked"}).encode()
    head = (
        f"POST {EXECUTE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n"
    ).encode()
    with connect(program) as connection:
        connection.sendall(head + body + HEALTH.replace(b"\r\n\r\n", CLOSE))
        answers = answered(connection)
    assert answers.count(b"HTTP/1.1 200") == 2
    assert b'"status":"ok","result":' in answers
    assert b"x-trace-id: asked" in answers


def test_an_idle_connection_is_closed_after_its_timeout(tmp_path: Path) -> None:
    with (
        started(tmp_path, {"MCP_PROXY_KEEP_ALIVE_S": "0.2"}) as program,
        connect(program) as connection,
    ):
        connection.sendall(HEALTH)
        assert answered(connection).startswith(b"HTTP/1.1 200")


EVIL, GOOD = b"evil.example", b"127.0.0.1"
PRESETS = b"/internal/mcp/presets"


@pytest.mark.parametrize(
    ("line", "host", "status"),
    [
        (b"GET http://%b%b HTTP/1.1" % (EVIL, PRESETS), GOOD, b"403"),
        (b"GET HTTPS://%b:443%b?x=1 HTTP/1.1" % (EVIL, PRESETS), GOOD, b"403"),
        (b"GET http://%b@%b%b HTTP/1.1" % (GOOD, EVIL, PRESETS), GOOD, b"403"),
        (b"GET http://%b@%b%b HTTP/1.1" % (EVIL, GOOD, PRESETS), GOOD, b"403"),
        (b"GET http://%b%b HTTP/1.1\r\nUpgrade: h2c" % (EVIL, PRESETS), GOOD, b"403"),
        (b"GET http://%b%b HTTP/1.1\r\nHost: %b" % (GOOD, PRESETS, EVIL), GOOD, b"403"),
        (b"GET http://%b%b HTTP/1.1" % (GOOD, PRESETS), EVIL, b"200"),
        (b"GET /internal/mcp/presets?next=http://%b/ HTTP/1.1" % EVIL, GOOD, b"200"),
    ],
)
def test_the_host_of_an_absolute_target_is_checked(
    program: Program, line: bytes, host: bytes, status: bytes
) -> None:
    with connect(program) as connection:
        connection.sendall(b"%b\r\nHost: %b%b" % (line, host, CLOSE))
        assert answered(connection).split()[1] == status
