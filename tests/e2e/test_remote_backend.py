"""The test backend as a program, run by hand."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.support.bounds import BOUND_S
from tests.support.fork_server import REMOTE_BACKEND
from tests.support.program_launch import Process, launch
from tests.support.remote_backend.stub_gateway import standing_in
from tests.support.remote_backend.waits import bounded

pytestmark = pytest.mark.e2e


class TypedBackend:
    """The program; gateways dial ``url``."""

    def __init__(self, process: Process, stdout: Path) -> None:
        self.process = process
        self.url = ""
        self._stdout = stdout

    async def listens(self) -> None:
        async with bounded("it listens"):
            self.url = await asyncio.to_thread(self._read_url)

    async def ended(self, typed: str = "") -> tuple[int, list[str], str]:
        """Type lines and the end of input; return the exit code, the answers, and the rest."""
        async with bounded("it ends"):
            return await asyncio.to_thread(self._type_to_the_end, typed)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(BOUND_S)
        for pipe in (self.process.stdin, self.process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def _read_url(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            _, found, url = line.decode().strip().partition("MCP_PROXY_REMOTE_URL=")
            if found:
                return url
        raise AssertionError("it ended at once")

    def _type_to_the_end(self, typed: str) -> tuple[int, list[str], str]:
        stdin, stderr = self.process.stdin, self.process.stderr
        assert stdin is not None
        assert stderr is not None
        with suppress(BrokenPipeError):
            stdin.write(typed.encode())
            stdin.close()
        rest = stderr.read().decode()
        return self.process.wait(BOUND_S), self._stdout.read_text().splitlines(), rest


@asynccontextmanager
async def started(*words: str) -> AsyncIterator[TypedBackend]:
    program = _launch(words, Path("stdout.txt"))
    try:
        await program.listens()
        yield program
    finally:
        program.close()


def _launch(words: Sequence[str], stdout: Path) -> TypedBackend:
    with stdout.open("wb") as out:
        streams = (subprocess.PIPE, out.fileno(), subprocess.PIPE)
        arguments = ["--port", "0", *words]
        process = launch(arguments, Path.cwd(), streams=streams, module=REMOTE_BACKEND)
    return TypedBackend(process, stdout)


async def test_it_runs_commands_and_ends() -> None:
    commands = ["tools", 'call divide_ws {"a": 8, "b": 2}', "sessions 20"]
    words = [word for command in commands for word in ("--run", command)]
    async with started(*words) as program, standing_in(program.url, token="demo"):
        code, lines, _ = await program.ended()
    assert code == 0
    assert json.loads(lines[0])["name"] == "divide_ws"
    assert json.loads("".join(lines[1:-1]))["structuredContent"]["result"] == 4.0
    assert json.loads(lines[-1])["sessions"] == {"tools: 1": 20}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("call nope", "Unknown tool: nope"),
        ("call divide_ws {", "Invalid JSON"),
        ("sessions many", "Usage: sessions N"),
    ],
)
async def test_it_fails_when_a_command_has_no_result(command: str, words: str) -> None:
    async with started("--run", command) as program, standing_in(program.url, token="demo"):
        code, lines, stderr = await program.ended()
    assert (code, lines) == (1, [])
    assert words in stderr


async def test_it_runs_typed_commands_until_the_input_ends() -> None:
    raw = {"jsonrpc": "2.0", "id": "own", "method": "ping", "params": {}}
    typed = f"read test://resource/ws\nraw {json.dumps(raw)}\nprompts\nquit\ntools\n"
    async with started() as program, standing_in(program.url, token="demo"):
        code, lines, stderr = await program.ended(typed)
    assert code == 0
    assert "WebSocket resource content" in "".join(lines)
    assert json.loads(lines[-1])["name"] == "hello_ws_plain"
    assert "connected: gateway" in stderr


async def test_an_unknown_command_does_not_wait_for_a_gateway() -> None:
    async with started("--run", "bogus") as program:
        code, _, stderr = await program.ended()
    assert code == 1
    assert "Unknown command 'bogus'. Type help for the list." in stderr


async def test_without_a_gateway_it_reports_that() -> None:
    async with started("--run", "tools", "--wait", "0.01") as program:
        code, _, stderr = await program.ended()
    assert code == 1
    assert "No gateway connected within 0.01 s." in stderr


async def test_an_interrupt_ends_it_without_a_traceback() -> None:
    async with started() as program:
        program.process.send_signal(signal.SIGINT)
        code, _, stderr = await program.ended()
    assert code == 130
    assert "Traceback" not in stderr
