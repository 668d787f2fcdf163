"""stdio: a server that is a process of ours, under a guard that ends all it leaves behind."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import structlog
from mcp.client.stdio import get_default_environment

from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.error_mapping import CONNECTION_LOST
from mcp_tools_proxy.downstream.mcp_client.http.sse_parser import LineSplitter
from mcp_tools_proxy.downstream.mcp_client.messages import MAX_ANSWER_BYTES
from mcp_tools_proxy.downstream.mcp_client.streams import process_guard as guard
from mcp_tools_proxy.downstream.mcp_client.streams.stderr import log_stderr
from mcp_tools_proxy.wire.text import quote

log = structlog.get_logger()

_NO_START = "the server's process cannot be started; see its command, args and cwd in mcp.json"
_GUARD = guard.__file__
_CHUNK_BYTES = 64 * 1024
_EXIT_CODE_S = 0.2  # for a server that closed its stdout to end, so that its exit code can be told
_EXIT_S = 2.0  # for a server whose stdin is closed to go by itself
_TERM_S = 1.0  # after SIGTERM
_STDERR_S = 0.2  # to log what it wrote before its end
_POLL_S = 0.01


@asynccontextmanager
async def open_process(config: ServerConfig) -> AsyncIterator["ServerProcess"]:
    """Start the server and yield its pipes; at the end nothing that it started is left.

    Raises ConnectionFailure when it cannot be started.
    """
    process = await _spawn(config)
    server = ServerProcess(process, config.command)
    log.info("server.spawned", server_id=config.server_id, command=config.command, pid=process.pid)
    try:
        async with anyio.create_task_group() as tasks:
            flush = anyio.Event()
            tasks.start_soon(log_stderr, process.stderr, config.server_id, flush.set)
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


class ServerProcess:
    """A running server; messages are lines of its stdin and stdout.

    ``process`` is its guard, which ends when the server has, and as it did.
    """

    def __init__(self, process: asyncio.subprocess.Process, command: str) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process is started with pipes")
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._command = command
        self._killed = False

    def __repr__(self) -> str:
        return f"<ServerProcess pid={self._process.pid} exit={self._process.returncode}>"

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.returncode

    async def receive(self) -> AsyncGenerator[tuple[bytes, bool], None]:
        """Yield the lines of stdout, until the server closes it."""
        lines = LineSplitter(MAX_ANSWER_BYTES)
        with suppress(OSError):
            while chunk := await self._stdout.read(_CHUNK_BYTES):
                for line in lines.feed(chunk):
                    if line.data.strip():
                        yield line.data, line.cut
                if len(chunk) == _CHUNK_BYTES:  # there is more: let calls go on
                    await asyncio.sleep(0)

    async def send(self, data: bytes, *, is_request: bool) -> None:
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
        """Say how the server ended."""
        await self._exited_within(_EXIT_CODE_S)
        match self.exit_code:
            case None:
                return "the server closed its stdout"
            case guard.COMMAND_NOT_FOUND:
                return (
                    f"the command {quote(self._command)} was not found{_path_hint(self._command)}"
                )
            case guard.CANNOT_START:
                return f"the command {quote(self._command)} cannot be started"
            case code if code < 0:
                return f"the server's process was ended by signal {-code}"
            case code:
                return f"the server's process ended with exit code {code}"

    async def stop(self) -> None:
        """End the server: ask, wait, force. Takes at most _EXIT_S + 2 * _TERM_S."""
        self._stdin.close()
        try:
            if not await self._exited_within(_EXIT_S):
                self._signal(signal.SIGTERM)
                await self._exited_within(_TERM_S)
        finally:
            self.kill()
        if not await self._exited_within(_TERM_S) or self.exit_code == -signal.SIGKILL:
            self._signal_group(signal.SIGKILL)  # the guard itself may have been killed
        # closes our ends of the pipes, should a process that is left still hold theirs
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    async def drain(self) -> None:
        """Read what nobody wants any more, so that a server that still writes can end."""
        with suppress(OSError):
            while await self._stdout.read(_CHUNK_BYTES):
                pass

    def kill(self) -> None:
        """End all that is left of it."""
        if not self._killed:
            self._killed = True
            self._signal(guard.END_ALL if guard.STAYS else signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal that the guard acts on; where it does not stay, to the whole group."""
        if not guard.STAYS:
            self._signal_group(number)
        elif self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, number)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _exited_within(self, seconds: float) -> bool:
        """Wait for the exit itself: ``Process.wait`` also waits for whoever holds the pipes."""
        with anyio.move_on_after(seconds):
            while self._process.returncode is None:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(_POLL_S)
        return self._process.returncode is not None


def _path_hint(command: str) -> str:
    """Return from where a relative command was looked for: most often that is the mistake."""
    if "/" not in command or command.startswith("/"):
        return ""
    return "; a relative path counts from cwd, else from the folder the gateway was started in"


async def _spawn(config: ServerConfig) -> asyncio.subprocess.Process:
    if "\0" in "".join((config.command, *config.args)):  # uvloop would cut them there
        raise ConnectionFailure(_NO_START)
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", _GUARD, str(os.getpid())),
            config.command,
            *config.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=get_default_environment() | dict(config.env),
            cwd=config.cwd,
            start_new_session=True,
            limit=_CHUNK_BYTES,
        )
    except (OSError, ValueError):
        raise ConnectionFailure(_NO_START) from None
