"""stdio: a server as a child process, under a guard that kills all of its processes at the end.

A start holds a place until the server's first byte: 30 cold ``npx`` starts at once on 2 cores
killed each other. The server's stderr is logged, with its lines cut and their rate limited.
"""

import asyncio
import json
import os
import re
import shlex
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from typing import Literal

import anyio
import structlog
from mcp.client.stdio import get_default_environment

from mcp_tools_proxy.domain.server import Sandbox, ServerConfig
from mcp_tools_proxy.downstream.connection import ConnectAttempt, ConnectionFailure, ServerOutput
from mcp_tools_proxy.downstream.mcp_client import process_guard as guard
from mcp_tools_proxy.downstream.mcp_client.error_mapping import CONNECTION_LOST
from mcp_tools_proxy.downstream.mcp_client.messages import MAX_MESSAGE_BYTES, Line, LineSplitter
from mcp_tools_proxy.wire.text import quote

log = structlog.get_logger()

_NO_START = "the server's process cannot be started with the command, args and cwd in mcp.json"
_GUARD = guard.__file__
_BUFFER_BYTES = 64 * 1024
_CHUNK_BYTES = 16 * 1024  # one-byte lines of 64 KiB at once took 56 ms
_EXIT_CODE_S = 2.0  # between the end of stdout and the exit, to report the exit code
_EXIT_S = 2.0  # for the server to exit after its stdin was closed
_TERM_S = 5.0  # after SIGTERM: an installer that is killed halfway leaves a broken cache
KILL_TIMEOUT_S = 1.0  # for the guard to kill the server and end
_STDERR_S = 0.2  # to log the last lines
_POLL_S = 0.01


PLACES_PER_CORE = 2


IDLE_S = 15.0


IDLE_CPU_S = 1.0
"""A start that used less CPU than this in IDLE_S is not limited by the cores."""


_SAMPLES = 5


_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class StartPlaces:
    """Limit of concurrent starts: ``count``, 2 × cores by default.

    ``cpu_s`` returns the CPU time of a process.
    """

    def __init__(
        self,
        count: int | None = None,
        cpu_s: Callable[[int], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.count = count or PLACES_PER_CORE * _cores()
        self._free = asyncio.Semaphore(self.count)
        self._cpu_s = cpu_s or cpu_of_tree
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"<StartPlaces {self.count} full={self._free.locked()}>"

    async def acquire(self) -> Callable[[], None]:
        """Wait for a place; return the function that releases it, which can be called twice."""
        await self._free.acquire()
        is_held = True

        def release() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._free.release()

        return release

    async def wait_idle(self, pid: int) -> None:
        """Wait until the tree of a process used less than IDLE_CPU_S in the last IDLE_S."""
        used = deque([self._cpu_s(pid)], maxlen=_SAMPLES + 1)
        while True:
            await self._sleep(IDLE_S / _SAMPLES)
            used.append(self._cpu_s(pid))
            if len(used) > _SAMPLES and used[-1] - used[0] < IDLE_CPU_S:
                return


@asynccontextmanager
async def open_process(
    config: ServerConfig,
    output: ServerOutput,
    places: StartPlaces,
    attempt: ConnectAttempt | None = None,
) -> AsyncIterator["ServerProcess"]:
    """Start the server and yield its pipes; finally end all of its processes.

    The start takes one of ``places`` if ``attempt`` waits for one. Raises ConnectionFailure if the
    server cannot be started.
    """
    waits = attempt is not None and attempt.waits_for_place
    with ExitStack() as place:
        if attempt is not None:
            if waits:
                attempt.wait_for_place()
                place.callback(await places.acquire())
            attempt.process_started()
        process = await _spawn(config)
        server = ServerProcess(process, config.command, is_confined=config.sandbox is not None)
        if attempt is not None:
            server.on_first_byte = attempt.begin
        log.info(
            "server.spawned", server_id=config.server_id, command=config.command, pid=process.pid
        )
        try:
            async with anyio.create_task_group() as tasks:
                flush = anyio.Event()
                tasks.start_soon(log_stderr, process.stderr, config.server_id, output, flush.set)
                if waits:
                    tasks.start_soon(_hold_place, server, places, place.close)
                try:
                    yield server
                finally:
                    with anyio.CancelScope(shield=True):
                        tasks.start_soon(server.drain)
                        await server.stop()
                        with anyio.move_on_after(_STDERR_S):
                            await flush.wait()
                    tasks.cancel_scope.cancel()
        finally:
            server.kill()


async def _hold_place(
    server: "ServerProcess", places: StartPlaces, release: Callable[[], None]
) -> None:
    """Hold the place of a start until the first byte, the end, or IDLE_S with little CPU."""
    idle = asyncio.ensure_future(places.wait_idle(server.pid))
    spoken = asyncio.ensure_future(server.spoken.wait())
    try:
        await asyncio.wait({idle, spoken}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        idle.cancel()
        spoken.cancel()
        release()


def _nothing() -> None:
    """Do nothing."""


class ServerProcess:
    """A running server, as a DuplexTransport: messages are lines of its stdin and stdout.

    ``process`` is the guard, which ends together with the server, with the same exit code.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, command: str, *, is_confined: bool = False
    ) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process is started with pipes")
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._command = command
        self._is_confined = is_confined
        self._killed = False
        self.pid = process.pid
        self.spoken = asyncio.Event()
        """Set with the first byte on stdout, and at its end."""
        self.on_first_byte: Callable[[], None] = _nothing

    def __repr__(self) -> str:
        return f"<ServerProcess pid={self._process.pid} exit={self._process.returncode}>"

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.returncode

    async def receive(self) -> AsyncGenerator[tuple[bytes, bool], None]:
        """Yield the lines of stdout until the server closes it."""
        lines = LineSplitter(MAX_MESSAGE_BYTES)
        try:
            with suppress(OSError):
                while chunk := await self._stdout.read(_CHUNK_BYTES):
                    if not self.spoken.is_set():
                        self.spoken.set()
                        self.on_first_byte()
                    for line in lines.feed(chunk):
                        if line.data.strip():
                            yield line.data, line.cut
                    if len(chunk) == _CHUNK_BYTES:  # more is waiting: other tasks first
                        await asyncio.sleep(0)
        finally:
            self.spoken.set()

    async def send(
        self, data: bytes, *, is_request: bool, headers: Mapping[str, str] | None = None
    ) -> None:
        """Write one line to stdin, waiting while the server does not read.

        Raises ConnectionFailure.
        """
        try:
            await self._stdin.drain()
        except OSError:
            raise ConnectionFailure(CONNECTION_LOST, sent=False) from None
        if self._stdin.is_closing() or self._process.returncode is not None:
            raise ConnectionFailure(CONNECTION_LOST, sent=False)
        self._stdin.write(data + b"\n")

    async def end_reason(self) -> str:
        """Return how the server ended."""
        await self._exited_within(_EXIT_CODE_S)
        match self.exit_code:
            case None:
                return "the server closed its stdout"
            case guard.COMMAND_NOT_FOUND:
                return f"the command {quote(self._command)} was not found{_hint(self._command)}"
            case guard.CANNOT_START:
                return f"the command {quote(self._command)} cannot be started"
            case guard.CANNOT_CONFINE if self._is_confined:
                return (
                    "the sandbox in mcp.json cannot be set up, so the server was not started; its "
                    "log has the reason, such as a path that does not exist"
                )
            case code if code < 0:
                return f"the server's process was ended by signal {-code}"
            case code:
                return f"the server's process ended with exit code {code}"

    async def stop(self) -> None:
        """End the server: close stdin, then SIGTERM, then SIGKILL.

        Takes at most _EXIT_S + _TERM_S + KILL_TIMEOUT_S.
        """
        self._stdin.close()
        try:
            if not await self._exited_within(_EXIT_S):
                self._signal(signal.SIGTERM)
                await self._exited_within(_TERM_S)
        finally:
            self.kill()
        if not await self._exited_within(KILL_TIMEOUT_S) or self.exit_code == -signal.SIGKILL:
            self._signal_group(signal.SIGKILL)  # the guard itself may have been killed
        # close this side of the pipes: a surviving process may hold the other side open
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    async def drain(self) -> None:
        """Read and drop output, so that a server that is still writing can end."""
        with suppress(OSError):
            while await self._stdout.read(_BUFFER_BYTES):
                pass

    def kill(self) -> None:
        """Kill all remaining processes of the server."""
        if not self._killed:
            self._killed = True
            self._signal(guard.END_ALL if guard.STAYS else signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not guard.STAYS:
            self._signal_group(number)
        elif self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, number)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _exited_within(self, seconds: float) -> bool:
        """Wait for the exit itself; ``Process.wait`` waits for all holders of the pipes."""
        with anyio.move_on_after(seconds):
            while self._process.returncode is None:  # noqa: ASYNC110 - no event signals it
                await asyncio.sleep(_POLL_S)
        return self._process.returncode is not None


def _hint(command: str) -> str:
    try:
        program, *args = shlex.split(command)
    except ValueError:  # an unclosed quote, or no word
        program, args = command, []
    if args:
        return f"; put the arguments into args, and only {quote(program)} into command"
    if program != command:
        return f"; write it without quotes and spaces: {quote(program)}"
    if "/" not in command or command.startswith("/"):
        return ""
    return "; a relative path counts from cwd, or from the folder in which the gateway was started"


def _sandbox_argument(sandbox: Sandbox | None) -> str:
    return "" if sandbox is None else json.dumps(asdict(sandbox))


async def _spawn(config: ServerConfig) -> asyncio.subprocess.Process:
    if "\0" in "".join((config.command, *config.args)):  # uvloop would cut the argument there
        raise ConnectionFailure(_NO_START)
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", _GUARD, str(os.getpid()), _sandbox_argument(config.sandbox)),
            config.command,
            *config.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=get_default_environment() | dict(config.env),
            cwd=config.cwd,
            start_new_session=True,
            limit=_BUFFER_BYTES,
        )
    except OSError as error:
        raise ConnectionFailure(f"{_NO_START}: {error.strerror}") from None
    except ValueError:
        raise ConnectionFailure(_NO_START) from None


LINE_CHARS = 2000
LINES_PER_SECOND = 20

_STDERR_CHUNK_BYTES = 8 * 1024  # one-byte lines of 64 KiB at once took 65 ms

_PREFIX_CHARS = 200
"""A level after these characters is a word of the message."""

Level = Literal["debug", "info", "warning", "error"]

_LEVELS: dict[str, Level] = {
    **dict.fromkeys(("trace", "debug", "10", "20"), "debug"),
    **dict.fromkeys(("info", "notice", "30"), "info"),
    **dict.fromkeys(("warn", "warning", "40"), "warning"),
    **dict.fromkeys(("err", "error", "critical", "crit", "fatal", "panic", "50", "60"), "error"),
}
"""By the word in lower case; the numbers are those of pino."""

_WORDS = "trace|debug|info|notice|warning|warn|error|err|critical|crit|fatal|panic"
_LEVEL = re.compile(
    rf"""["']?\b(?i:level|lvl|levelname|severity)["']?\s*[=:]\s*["']?(?P<key>(?i:{_WORDS})\b|[1-6]0\b)
    |(?:^|\s)[\[(<](?P<brackets>(?i:{_WORDS}))[\])>]
    |^\W*(?P<first>(?i:{_WORDS}))\s*:
    |(?<![A-Za-z0-9_])(?P<capitals>{_WORDS.upper()})(?![A-Za-z0-9_])""",
    re.VERBOSE,
)
"""``level=warn``, ``"level":"warn"``, ``[warn]``, ``warn: …``, and WARN anywhere in the prefix."""


def level_of(line: str) -> Level:
    """Return the level in a server's line, or ``info`` without one."""
    found = _LEVEL.search(line[:_PREFIX_CHARS])
    word = None if found is None else found[found.lastgroup or 0]
    return _LEVELS.get((word or "").lower(), "info")


async def log_stderr(
    reader: asyncio.StreamReader | None,
    server_id: str,
    output: ServerOutput,
    on_end: Callable[[], None],
) -> None:
    """Log each line as ``server.stderr`` until the end, or the number of skipped lines in a flood.

    ``output`` gets every line.
    """
    lines = LineSplitter(LINE_CHARS * 4)
    limited_log = _RateLimitedLog(server_id, output)
    while reader is not None and (chunk := await reader.read(_STDERR_CHUNK_BYTES)):
        for line in lines.feed(chunk):
            limited_log.write(line)
        if len(chunk) == _STDERR_CHUNK_BYTES:  # more is waiting: other tasks first
            await asyncio.sleep(0)
    for line in lines.end():
        limited_log.write(line)
    on_end()


class _RateLimitedLog:
    """Log of at most LINES_PER_SECOND; the next line after a flood carries ``skipped_lines``."""

    def __init__(self, server_id: str, output: ServerOutput) -> None:
        self._server_id = server_id
        self._output = output
        self._clock = asyncio.get_running_loop().time
        self._second = self._clock()
        self._logged = 0
        self._skipped = 0

    def write(self, line: Line) -> None:
        text = line.data.decode(errors="replace")[:LINE_CHARS]
        if not text.strip():
            return
        self._output.add(text)
        if self._clock() - self._second >= 1.0:
            self._second, self._logged = self._clock(), 0
        if self._logged == LINES_PER_SECOND:
            self._skipped += 1
            return
        self._logged += 1
        more = {"skipped_lines": self._skipped} if self._skipped else {}
        self._skipped = 0
        write = getattr(log, level_of(text))
        write("server.stderr", server_id=self._server_id, line=text, **more)


def cpu_of_tree(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, including ended ones.

    0.0 without /proc.
    """
    seconds, found = 0.0, [pid]
    while found:
        process = found.pop()
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{process}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
            seconds += sum(map(int, fields[11:15])) / _TICKS_PER_S  # utime stime cutime cstime
            found += _children_of(process)
    return seconds


def _children_of(process: int) -> Sequence[int]:
    children: list[int] = []
    for thread in os.listdir(f"/proc/{process}/task"):
        with (
            suppress(OSError),
            open(f"/proc/{process}/task/{thread}/children") as listed,
        ):
            children += map(int, listed.read().split())
    return children


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
