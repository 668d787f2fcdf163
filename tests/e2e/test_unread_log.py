"""Unread log pipes: the service and the local server still work and end."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.stdio_program import stdio_program
from tests.e2e.unread_pipe import unread_pipe
from tests.support.program import UNLIMITED, started

pytestmark = pytest.mark.e2e

EXECUTE = "/internal/mcp/execute"
METADATA = {
    "tool_name": "read_doc_metadata",
    "arguments": {"doc_id": "doc_1"},
    "user": {"user_id": "u1", "tenant_id": "tenant_1"},
}
CALLS = 300


def test_the_service_answers_and_stops_while_its_log_is_unread(tmp_path: Path) -> None:
    with unread_pipe() as pipe, started(tmp_path, UNLIMITED, output=pipe) as program:
        answers = [program.http.post(EXECUTE, json=METADATA).json() for _ in range(CALLS)]
        metrics = program.http.get("/metrics").text
        assert {it["status"] for it in answers} == {"ok"}
        assert "mcp_proxy_log_lines_dropped_total 0.0" in metrics
        assert program.stop() == -signal.SIGTERM


def test_dropped_lines_are_counted(tmp_path: Path) -> None:
    """A full file system: every write fails."""
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        with started(tmp_path, UNLIMITED, output=full) as program:
            program.http.post(EXECUTE, json=METADATA)
            program.http.post(EXECUTE, json=METADATA)
            dropped = 0.0
            while not dropped:
                lines = program.http.get("/metrics").text.splitlines()
                (line,) = [it for it in lines if it.startswith("mcp_proxy_log_lines_dropped_total")]
                dropped = float(line.split()[1])
    finally:
        os.close(full)


def test_the_last_lines_are_written_after_a_signal(tmp_path: Path) -> None:
    with started(tmp_path) as program:
        program.http.post(EXECUTE, json=METADATA | {"trace_id": "t-last"})
        program.stop()
        lines = program.log_lines()
    assert "t-last" in [line["trace_id"] for line in lines]
    assert "Finished server process" in lines[-1]["event"]


@pytest.mark.parametrize("end", ["input", "signal"])
def test_a_desktop_client_that_never_reads_stderr_is_served(tmp_path: Path, end: str) -> None:
    with unread_pipe() as pipe, stdio_program(tmp_path, stderr=pipe) as program:
        for number in range(CALLS):
            program.call(number, "read_doc_metadata", doc_id="doc_1")
            assert "doc_1" in json.dumps(program.answer(number)["result"])
        code = program.close_stdin() if end == "input" else program.stop()
        assert code == 0
