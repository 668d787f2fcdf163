"""The servers as separate processes: mcp.json entries for stdio, otherwise started programs."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.raw_tools import Json

ROOT = Path(__file__).parents[3]


def stdio_entry(**options: object) -> Json:
    """Return the mcp.json entry of the SDK's server over stdio; options as ``era="legacy"``."""
    return _entry("tests.support.mcp_servers", ["--mode", "stdio", *words_of(options)])


def raw_entry(**options: object) -> Json:
    """Return the mcp.json entry of the raw server over stdio; options are those of its program."""
    return _entry("tests.support.mcp_servers.raw", words_of(options))


def conformance_entry(**options: object) -> Json:
    return _entry("tests.support.mcp_servers.conformance", ["--mode", "stdio", *words_of(options)])


def _entry(module: str, words: list[str]) -> Json:
    args = ["-m", module, *words]
    return {"command": sys.executable, "args": args, "env": {"PYTHONPATH": str(ROOT)}}


def words_of(options: dict[str, object]) -> list[str]:
    """Convert options to a command line: True is a flag, a list repeats its option."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words += [option] if value else []
        else:
            values: Iterable[object] = value if isinstance(value, list | tuple) else [value]
            words += [word for each in values for word in (option, str(each))]
    return words


class ServerProgram:
    """A server process that printed its address on stdout."""

    def __init__(self, command: list[str]) -> None:
        self.url = ""
        self._command = command
        self._process: Process | None = None

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].split("/")[0])

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    async def start(self) -> None:
        port = ["--port", str(self.port if self.url else 0)]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._command, *port, stdin=PIPE, stdout=PIPE, cwd=ROOT
        )
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), BOUND_S)
        assert line, "it ended at its start"
        self.url = line.decode().strip()

    async def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if process.returncode is None:
            process.send_signal(number)
        await asyncio.wait_for(process.communicate(), BOUND_S)

    async def restart(self) -> None:
        await self.kill()
        await self.start()


@asynccontextmanager
async def running_program(
    transport: str, *, module: str = "tests.support.mcp_servers.raw", **options: object
) -> AsyncIterator[ServerProgram]:
    """Run a server over http, sse or ws as a process, by default the raw one."""
    switch = "--transport" if module.endswith("raw") else "--mode"
    program = ServerProgram(["-m", module, switch, transport, *words_of(options)])
    await program.start()
    try:
        yield program
    finally:
        await program.kill()
