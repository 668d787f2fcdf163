"""The program with a stdio server: it works and leaves no process behind."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.stdio_servers import writing_its_pid
from tests.support import leak_checks
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.program import started, wait_until
from tests.support.service import EXECUTE, request_of

pytestmark = pytest.mark.e2e


def write_config(folder: Path) -> Path:
    pid_file = folder / "server.pid"
    entry = writing_its_pid(raw_entry(only=["echo", "hang"]), pid_file)
    preset = make_preset(tools=[("s1", "echo"), ("s1", "hang")])
    Config(servers={"s1": entry}, presets=[preset]).write(folder / "config")
    return pid_file


def test_a_tool_of_a_stdio_server_can_be_called(tmp_path: Path) -> None:
    write_config(tmp_path)
    with started(tmp_path) as program:
        program.wait_for_server()
        answer = program.http.post(EXECUTE, json=request_of("s1:echo", {"text": "hi"}))
        assert answer.json()["result"]["structured_content"] == {"text": "hi"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_server_outlives_the_program(tmp_path: Path, number: signal.Signals) -> None:
    pid_file = write_config(tmp_path)
    with started(tmp_path) as program:
        program.wait_for_server()
        pid = int(pid_file.read_text())
        program.stop(number)
        wait_until(lambda: not leak_checks.runs(pid))


@pytest.mark.requirement("F-20", "F-23")
def test_a_call_logs_one_line_without_its_values(tmp_path: Path) -> None:
    write_config(tmp_path)
    with started(tmp_path) as program:
        program.wait_for_server()
        program.http.post(EXECUTE, json=request_of("s1:echo", {"text": "hush-hush"}))
        program.stop()
        lines = program.log_lines()
    (line,) = [line for line in lines if line["event"] == "facade_to_llm.response"]
    assert (line["payload"]["toolName"], "hush-hush" in json.dumps(lines)) == ("s1:echo", False)
