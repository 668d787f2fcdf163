"""Logging never blocks, even if the reader is slow or gone (contract §7)."""

import fcntl
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from mcp_tools_proxy.telemetry.logging import LogWriter
from tests.support.bounds import BOUND_S

MAX_BYTES = 10_000
PIPE_BYTES = 4096


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Build a pipe of the smallest size."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    yield reading, writing
    for end in (reading, writing):
        with suppress(OSError):
            os.close(end)


def line(number: int) -> bytes:
    return b'{"number":%d,"event":"x"}\n' % number


def fill(writer: LogWriter, lines: int = 2000) -> None:
    for number in range(lines):
        writer.write(line(number))


def read_until(reading: int, event: bytes) -> list[dict[str, Any]]:
    """Read until a line of ``event`` has arrived; return all lines."""
    read = b""
    while event not in read or not read.endswith(b"\n"):
        assert select.select([reading], [], [], BOUND_S)[0], "nothing more comes"
        read += os.read(reading, 65536)
    return [json.loads(it) for it in read.splitlines()]


def test_lines_arrive_complete_and_in_order(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing)
    fill(writer, 500)
    writer.write(b'{"event":"last"}\n')
    numbers = [it.get("number") for it in read_until(reading, b'"last"')]
    assert numbers == [*range(500), None]
    assert writer.begin_flush().wait(BOUND_S)


def test_a_failed_thread_start_is_retried_with_the_next_line(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = pipe
    writer = LogWriter(writing)

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        writer.write(b'{"event":"first"}\n')
    writer.write(b'{"event":"second"}\n')
    assert [it["event"] for it in read_until(reading, b'"second"')] == ["first", "second"]


def test_unread_lines_are_dropped_and_reported_once_at_each_end(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing, max_bytes=MAX_BYTES)
    fill(writer)
    assert not writer.begin_flush().is_set()
    lines = read_until(reading, b"log.resumed")
    kept = [it["number"] for it in lines if "number" in it]
    notices = [(it["event"], it["level"]) for it in lines if "number" not in it]
    (resumed,) = [it["payload"] for it in lines if it["event"] == "log.resumed"]
    assert notices == [("log.dropping", "warn"), ("log.resumed", "warn")]
    assert kept == list(range(len(kept)))
    assert resumed == {"dropped_lines": 2000 - len(kept)} == {"dropped_lines": writer.dropped}
    writer.write(b'{"event":"after"}\n')
    assert [it["event"] for it in read_until(reading, b'"after"')] == ["after"]


def test_a_line_longer_than_the_pipe_arrives_complete(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    writer = LogWriter(writing)
    writer.write(b'{"event":"%b"}\n' % (b"x" * 100_000))
    assert read_until(reading, b'"}')[0]["event"] == "x" * 100_000


def test_every_line_arrives_in_a_pipe_set_to_non_blocking(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    writer = LogWriter(writing)
    fill(writer)
    writer.write(b'{"event":"last"}\n')
    assert len(read_until(reading, b'"last"')) == 2001


def test_without_a_reader_lines_are_lost_and_counted(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(reading)
    writer = LogWriter(writing)
    fill(writer, 10)
    assert (writer.begin_flush().wait(BOUND_S), writer.dropped) == (True, 10)


PROGRAM = """
import logging, sys, warnings
from mcp_tools_proxy.telemetry.logging import configure_logging
configure_logging("info", sys.stdout)
for number in range({lines}):
    logging.getLogger("some.library").info("line %d", number)
warnings.warn("a warning")
{end}
"""


def run(end: str, *, lines: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    program = PROGRAM.format(lines=lines, end=end)
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, stdout=stdout, stderr=stderr)  # noqa: S603 - our own


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code"),
    [("", 0), ("raise RuntimeError('boom')", 1), ("sys.exit('bad')", 1)],
    ids=["end", "traceback", "message"],
)
def test_a_program_ends_even_if_its_output_is_not_read(
    pipe: tuple[int, int], end: str, code: int
) -> None:
    _, writing = pipe
    assert run(end, lines=500, stdout=writing, stderr=writing).wait(BOUND_S) == code


def test_all_lines_are_written_before_a_program_ends() -> None:
    process = run("raise RuntimeError('boom')", lines=5000, stdout=-1, stderr=-1)
    out, err = process.communicate(timeout=BOUND_S)
    assert out, err
    events = [json.loads(it)["event"] for it in out.splitlines()]
    assert events == [f"line {number}" for number in range(5000)]
    assert (b"a warning" in err, err.count(b"RuntimeError: boom\n")) == (True, 1)
