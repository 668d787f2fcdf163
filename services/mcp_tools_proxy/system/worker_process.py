"""Killable worker processes for work that can take too long or fail."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Self

_LINE_BYTES = 256 * 1024
"""Maximum line length of the output."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


class WorkerProcess:
    """A process with pipes for input and output, in a separate session."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, protocol: SubprocessStreamProtocol
    ) -> None:
        if protocol.stdin is None or protocol.stdout is None:
            raise RuntimeError("the process was started with pipes")
        self.stdin = protocol.stdin
        self.stdout = protocol.stdout
        self._transport = transport
        self._process = Process(transport, protocol, asyncio.get_running_loop())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        folder: str = "/",
        environment: Mapping[str, str] = _NOTHING,
        errors: int = DEVNULL,
    ) -> Self:
        """Start a process in a folder with only ``environment``.

        It writes its stderr to the descriptor ``errors``. Raises OSError.
        """
        loop = asyncio.get_running_loop()
        # create_subprocess_exec provides no way to close the pipes
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(_LINE_BYTES, loop),
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        return cls(transport, protocol)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    async def wait(self) -> int:
        """Wait for the process's end; return its exit code."""
        return await self._process.wait()

    async def end(self) -> None:
        """Kill the process, and wait for its end."""
        self.kill()
        await asyncio.shield(self._process.wait())

    def kill(self) -> None:
        """Kill the process group, and close the pipes.

        ``wait`` also waits for the pipes. A pipe with unread data, or held open by a process that
        left the group, blocked an import slot forever.
        """
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        sink = self.stdin.transport
        if sink.get_write_buffer_size() or not sink.is_closing():
            sink.abort()
        self._transport.close()
