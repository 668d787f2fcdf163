"""Opening all available connections does not affect other functions."""

import contextlib
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tools_proxy.documents.document_file import document_path, dump_document
from tests.support.bounds import BOUND_S
from tests.support.fork_server import PROGRAM, RETRIEVAL_SERVICE
from tests.support.program import UNLIMITED, Program, started
from tests.support.program_launch import CLEAN
from tests.support.service import EXECUTE, request_of
from tests.unit.documents.documents_folder import document

pytestmark = pytest.mark.e2e

DESCRIPTORS = 160
CALLERS = DESCRIPTORS * 3 // 4


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with started(tmp_path, UNLIMITED) as running:
        limits = (DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, limits)
        yield running


def is_open(connection: socket.socket) -> bool:
    """Return whether the other side has kept the connection open, without sending anything."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def status_of(program: Program) -> str:
    body = request_of("read_doc_metadata", {"doc_id": "d"})
    body["user"] = {"user_id": "u", "tenant_id": "t"}
    status: str = program.http.post(EXECUTE, json=body).json()["status"]
    return status


def test_many_connections_leave_file_descriptors_for_files(
    tmp_path: Path, program: Program
) -> None:
    assert status_of(program) == "error"  # on a connection that stays open
    with contextlib.ExitStack() as opened:
        callers = []
        for _ in range(DESCRIPTORS + 40):
            caller = socket.create_connection(("127.0.0.1", program.port), timeout=BOUND_S)
            callers.append(opened.enter_context(caller))
        while sum(map(is_open, callers)) > CALLERS - 1:
            time.sleep(0.05)
        path = document_path(tmp_path / "documents", "t", "d")
        path.parent.mkdir(parents=True)
        path.write_bytes(dump_document(document()))
        deadline = time.monotonic() + BOUND_S
        while status_of(program) != "ok":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert sum(map(is_open, callers)) == CALLERS - 1
    with socket.create_connection(("127.0.0.1", program.port), timeout=BOUND_S) as caller:
        caller.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert caller.recv(100).startswith(b"HTTP/1.1 200")
    program.stop()
    refusals = [line for line in program.log_lines() if line["event"] == "connections.refused"]
    assert json.dumps(refusals).count(f'"limit": {CALLERS}') == len(refusals) > 0


@pytest.mark.parametrize("module", [PROGRAM, RETRIEVAL_SERVICE])
@pytest.mark.parametrize(("soft", "hard"), [(200, 700), (256, 256)])
def test_the_soft_limit_is_raised_to_the_hard_limit(
    tmp_path: Path, module: str, soft: int, hard: int
) -> None:
    (tmp_path / "documents").mkdir()
    limited = f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"'
    words = ["sh", "-c", limited, "sh", sys.executable, "-m", module, "serve", "--port", "0"]
    environment = CLEAN | {"RETRIEVAL_DOCUMENTS_DIR": "documents"}
    if module == RETRIEVAL_SERVICE:
        words.remove("serve")
    with subprocess.Popen(  # noqa: S603 - our own program
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            lines = map(json.loads, process.stdout)
            line = next(it for it in lines if it["event"] == "service.descriptors")
            assert (line["payload"]["limit"], line["payload"]["connections"]) == (
                hard,
                hard * 3 // 4,
            )
            allowed = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        finally:
            process.kill()
    assert allowed == (hard, hard)
