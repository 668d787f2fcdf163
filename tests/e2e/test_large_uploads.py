"""Large uploads to the program: their combined memory."""

import json
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.bounds import BOUND_S
from tests.support.program import Program, started
from tests.support.tokens import bearer

pytestmark = [pytest.mark.e2e]

ADMIN = "an-admin-token-of-16"
PAGE = 'Шлюз посылает сертификат: "клиент" его проверяет.\n' * 60
PAGES = 4_000
UPLOADS = 4


def peak_bytes(program: Program) -> int:
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def put(program: Program, doc_id: str) -> tuple[int, int]:
    document = {"tenant_id": "acme", "doc_id": doc_id, "title": "Large", "pages": [PAGE] * PAGES}
    content = json.dumps(document, ensure_ascii=False).encode()
    answer = program.http.put(
        "/internal/documents/content",
        params={"tenant_id": "acme", "doc_id": doc_id},
        content=content,
        headers={"Content-Type": "application/json", "If-None-Match": "*"} | bearer(ADMIN),
    )
    return len(content), answer.status_code


def test_parallel_large_uploads_use_the_memory_of_one(tmp_path: Path) -> None:
    environment = {"MCP_PROXY_ADMIN_TOKEN": ADMIN, "TMPDIR": str(tmp_path)}
    with started(tmp_path, environment) as program, ThreadPoolExecutor(UPLOADS) as threads:
        before = peak_bytes(program)
        results = list(threads.map(lambda n: put(program, f"d{n}"), range(UPLOADS)))
        grown = peak_bytes(program) - before
    size = results[0][0]
    assert results == [(size, 201)] * UPLOADS
    assert size > 20_000_000
    assert grown < 4 * size  # four at once took 28 times as much


def test_an_upload_that_a_stopping_replica_cannot_finish_gets_an_error(tmp_path: Path) -> None:
    """It was cut off after a second with status 500."""
    environment = {"MCP_PROXY_ADMIN_TOKEN": ADMIN, "MCP_PROXY_SHUTDOWN_GRACE_S": "0.5"}
    head = (
        "PUT /internal/documents/content?tenant_id=acme&doc_id=d HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {ADMIN}\r\nContent-Type: text/plain\r\nIf-None-Match: *\r\n"
        "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
    )
    with (
        started(tmp_path, environment) as program,
        socket.create_connection(("127.0.0.1", program.port), BOUND_S) as client,
        client.makefile("rb") as answers,
    ):
        client.sendall(head.encode())
        assert answers.readline() == b"HTTP/1.1 100 Continue\r\n"
        program.process.send_signal(signal.SIGTERM)
        answered = answers.read()
        assert program.process.wait(BOUND_S) == -signal.SIGTERM
    assert b"HTTP/1.1 503" in answered
    assert b"SHUTTING_DOWN" in answered
