"""``serve --pretty`` on a terminal; otherwise each line is a JSON object."""

import json
import os
import pty
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.held_port import free_port
from tests.support.program_launch import ROOT, launch

pytestmark = pytest.mark.e2e


def shown_until(terminal: int, text: str) -> list[str]:
    shown = ""
    while text not in shown or not shown.partition(text)[2].endswith("\n"):
        shown += os.read(terminal, 4096).decode()
    return shown.splitlines()


@pytest.mark.parametrize("console", ["true", "false"])
def test_a_terminal_shows_readable_lines_the_addresses_and_a_working_command(
    tmp_path: Path, console: str
) -> None:
    ours, its = pty.openpty()
    port = free_port()
    environment = {"MCP_PROXY_CONSOLE": console}
    arguments = ["serve", "--pretty", "--port", str(port)]
    process = launch(arguments, tmp_path, environment, streams=(its, its, its))
    os.close(its)
    try:
        lines = shown_until(ours, "  Try: ")
        command = next(it for it in lines if it.startswith("  Try: ")).removeprefix("  Try: ")
        done = subprocess.run(  # noqa: S603 - what the gateway printed
            shlex.split(command), capture_output=True, check=True
        )
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert [it for it in lines if it.startswith("{")] == []
    assert any(" info  service.started host=127.0.0.1" in it for it in lines)
    url = f"http://127.0.0.1:{port}"
    assert f"  Ready on {url}" in lines
    assert (f"  Console: {url}/console" in lines) is (console == "true")
    assert json.loads(done.stdout)["status"] == "ok"


@pytest.mark.parametrize("options", [[], ["--pretty"]])
def test_a_pipe_gets_a_json_object_per_line(tmp_path: Path, options: list[str]) -> None:
    log = tmp_path / "log"
    with log.open("wb") as out:
        arguments = ["serve", *options, "--port", str(free_port())]
        process = launch(arguments, tmp_path, {}, streams=(None, out.fileno(), out.fileno()))
        try:
            while b"service.started" not in log.read_bytes():
                assert process.poll() is None
        finally:
            process.kill()
            process.wait()
    events = [json.loads(line)["event"] for line in log.read_bytes().splitlines()]
    assert "service.started" in events


def test_make_run_uses_pretty() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "run"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "mcp-tools-proxy serve --pretty" in done.stdout
