"""The program stops immediately while its calls are watched by reading or stalled clients."""

import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import Program, started, wait_until
from tests.support.record_streams import STREAM
from tests.support.service import BATCH
from tests.support.tokens import bearer

ADMIN = "correct-horse-battery"
HEAD = f"GET {STREAM} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n\r\n"


def watched(program: Program) -> bool:
    return any(it["event"] == "operator.right_used" for it in program.log_lines())


def end_of_stream(program: Program) -> dict[str, Any]:
    (ended,) = (it for it in program.log_lines() if it["event"] == "audit.stream_ended")
    payload: dict[str, Any] = ended["payload"]
    return payload


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_reader_is_notified_that_the_program_stops(tmp_path: Path, sig: int) -> None:
    with (
        started(tmp_path, {"MCP_PROXY_ADMIN_TOKEN": ADMIN}) as program,
        program.http.stream("GET", STREAM, headers=bearer(ADMIN)) as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == ": ping"
        program.process.send_signal(sig)
        assert [*lines] == ["", "event: end", 'data: {"reason":"SHUTTING_DOWN"}', ""]
        program.process.wait()
        assert end_of_stream(program)["code"] == "SHUTTING_DOWN"


def test_a_stalled_reader_does_not_delay_the_stop(tmp_path: Path) -> None:
    with (
        started(tmp_path, {"MCP_PROXY_ADMIN_TOKEN": ADMIN}) as program,
        socket.socket() as stuck,
    ):
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", program.port))
        stuck.sendall(HEAD.encode())
        wait_until(lambda: watched(program))
        user = {"user_id": "u" * 128, "tenant_id": "tenant_1", "roles": ["r" * 100] * 20}
        batch = {"calls": [{"tool_name": "x" * 100}] * 32, "user": user}
        for _ in range(200):
            program.http.post(BATCH, json=batch)
        program.stop()
        ended = end_of_stream(program)
        assert ended["code"] == "SHUTTING_DOWN"
        assert ended["lost"] > 0
