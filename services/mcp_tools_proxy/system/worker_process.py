"""A process of our own, for work that may take too long or go wrong: it can be killed."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Self

_LINE_BYTES = 256 * 1024
"""Longest line of its output."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


class WorkerProcess:
    """A process with pipes for its input and output, in a session of its own."""

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
    ) -> Self:
        """Start a process in a folder, with nothing of this one's environment. Raises OSError."""
        loop = asyncio.get_running_loop()
        # not create_subprocess_exec, which hands out no way to close the pipes
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(_LINE_BYTES, loop),
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        return cls(transport, protocol)

    @property
    def has_ended(self) -> bool:
        """Whether it ended, so that it can do no more work."""
        return self._process.returncode is not None

    async def wait(self) -> int:
        """Wait until it has ended; return its exit code."""
        return await self._process.wait()

    async def end(self) -> None:
        """Kill it, and wait until it has ended."""
        self.kill()
        await asyncio.shield(self._process.wait())

    def kill(self) -> None:
        """Kill it, and what it started, and close its pipes.

        ``wait`` waits for the pipes, too: one full of what nobody reads, or held open by what left
        the group, kept the place of an import for ever.
        """
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        sink = self.stdin.transport
        if sink.get_write_buffer_size() or not sink.is_closing():
            sink.abort()
        self._transport.close()
