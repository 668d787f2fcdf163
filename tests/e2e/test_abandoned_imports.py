"""An import ends when its client disconnects or the service is killed."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.support.bounds import BOUND_S
from tests.support.program import Program, started, wait_until
from tests.support.raw_pdfs import raw_pdf
from tests.support.tokens import bearer
from tests.support.worker_processes import stop_new_worker, workers

pytestmark = [pytest.mark.e2e]

ADMIN = "an-admin-token-of-16"
CONTENT = "/internal/documents/content"
NOTE = b"# A note\n\nText.\n"
LONG_NOTE = NOTE * 50_000
"""Takes seconds, so that it can be stopped before it ends."""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with started(tmp_path, {"MCP_PROXY_ADMIN_TOKEN": ADMIN}) as made:
        yield made


def send(program: Program, tenant_id: str, content: bytes = NOTE) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", program.port), BOUND_S)
    head = (
        f"PUT {CONTENT}?tenant_id={tenant_id}&doc_id=d HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {ADMIN}\r\nContent-Type: text/markdown\r\nIf-None-Match: *\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    client.sendall(head.encode() + content)
    return client


def hold(program: Program, tenant_id: str) -> tuple[socket.socket, int]:
    """Send an upload whose import never ends; return its connection and process."""
    before = workers(program)
    client = send(program, tenant_id, LONG_NOTE)
    return client, stop_new_worker(program, before)


def put(program: Program, tenant_id: str) -> httpx.Response:
    return program.http.put(
        CONTENT,
        params={"tenant_id": tenant_id, "doc_id": "d"},
        content=NOTE,
        headers={"Content-Type": "text/markdown", "If-None-Match": "*"} | bearer(ADMIN),
        timeout=BOUND_S,
    )


def test_the_import_of_a_disconnected_client_frees_its_slot(program: Program) -> None:
    with ExitStack() as stack:
        held = [hold(program, tenant_id) for tenant_id in ("acme", "globex")]
        for client, _ in held:
            stack.enter_context(client)
        (leaving, first), (_, second) = held
        leaving.close()
        assert put(program, "initech").status_code == 201
        assert workers(program) == {second}
    assert not Path(f"/proc/{first}").exists()
    query = {"tenant_id": "acme", "doc_id": "d"}
    shown = program.http.get(CONTENT, params=query, headers=bearer(ADMIN))
    assert shown.status_code == 404
    assert put(program, "acme").status_code == 201


def test_a_client_that_disconnects_while_waiting_leaves_no_import(program: Program) -> None:
    with ExitStack() as stack:
        held = [hold(program, tenant_id) for tenant_id in ("acme", "globex")]
        for client, _ in held:
            stack.enter_context(client)
        send(program, "initech").close()
        assert workers(program) == {pid for _, pid in held}
        held[0][0].close()
        wait_until(lambda: put(program, "initech").status_code == 201)
        assert workers(program) == {held[1][1]}


def test_disconnected_clients_are_recorded(program: Program) -> None:
    client, pid = hold(program, "acme")
    client.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())

    def is_recorded() -> bool:
        return any(
            line.get("payload", {}).get("code") == "CANCELLED" for line in program.log_lines()
        )

    wait_until(is_recorded)


def test_a_killed_service_leaves_no_import_and_its_uploads_are_lost(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    settings = {"MCP_PROXY_ADMIN_TOKEN": ADMIN, "TMPDIR": str(scratch)}
    slow = raw_pdf("BT /F1 9 Tf 50 700 Td (slow) Tj ET\n" * 300_000)
    query = {"tenant_id": "acme", "doc_id": "d"}
    with started(tmp_path, settings) as program:
        later = {"Prefer": "respond-async", "Content-Type": "application/pdf", "If-None-Match": "*"}
        accepted = program.http.put(
            CONTENT, params=query, content=slow, headers=later | bearer(ADMIN)
        )
        assert accepted.status_code == 202
        wait_until(lambda: bool(workers(program)))
        (importing,) = workers(program)
        # it has its limits; paused, it could not end itself
        wait_until(lambda: Path(f"/proc/{importing}/oom_score_adj").read_text() == "1000\n")
        os.kill(importing, signal.SIGSTOP)
        program.stop(signal.SIGKILL)
    try:
        wait_until(lambda: not Path(f"/proc/{importing}").exists())
    finally:
        with suppress(ProcessLookupError):
            os.kill(importing, signal.SIGKILL)
    assert list(scratch.iterdir()) == []
    assert not list((tmp_path / "documents").rglob("*.json"))
    with started(tmp_path, settings) as program:
        status = program.http.get(accepted.headers["location"], headers=bearer(ADMIN)).json()
        assert (status["state"], status["status_code"]) == ("failed", 503)
        shown = program.http.get(CONTENT, params=query, headers=bearer(ADMIN))
        assert shown.status_code == 404
        assert put(program, "acme").status_code == 201
