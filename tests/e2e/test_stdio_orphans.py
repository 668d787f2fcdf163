"""The program ends during a call: its stdio servers end too."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.downstream.faulty_servers import FaultyProcess
from tests.support import leak_checks
from tests.support.configuration import Config, make_preset
from tests.support.program import Program, started, wait_until
from tests.support.service import EXECUTE, request_of

pytestmark = pytest.mark.e2e


@contextmanager
def in_a_call(folder: Path, *, stubborn: bool) -> Iterator[tuple[Program, FaultyProcess]]:
    (folder / "alive").touch()
    server = FaultyProcess(folder, {"transport": "stdio", "stubborn": stubborn})
    preset = make_preset(tools=[("s1", "hang")])
    Config(servers={"s1": server.entry}, presets=[preset]).write(folder / "config")
    with (
        started(folder, {"MCP_PROXY_SHUTDOWN_GRACE_S": "1"}) as program,
        ThreadPoolExecutor() as pool,
    ):
        program.wait_for_server()
        pool.submit(call, program)
        wait_until(lambda: server.seen("hang") == 1)
        yield program, server


def call(program: Program) -> None:
    with suppress(httpx.HTTPError):
        program.http.post(EXECUTE, json=request_of("s1:hang"))


def test_no_server_outlives_a_program_killed_during_a_call(tmp_path: Path) -> None:
    with in_a_call(tmp_path, stubborn=True) as (program, server):
        program.stop(signal.SIGKILL)
        wait_until(lambda: not leak_checks.runs(server.pid))


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_program_that_is_stopped_during_a_call_ends_its_server_first(
    tmp_path: Path, stubborn: bool
) -> None:
    with in_a_call(tmp_path, stubborn=stubborn) as (program, server):
        program.stop(signal.SIGTERM)
        assert not leak_checks.runs(server.pid)
