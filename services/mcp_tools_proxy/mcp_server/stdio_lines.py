"""The lines of stdin and stdout, without a thread: one that waits would block the exit."""

import asyncio
import os
import sys
from asyncio.streams import FlowControlMixin
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from typing import IO, Self

import anyio

from mcp_tools_proxy.wire.encoded_list import encode_message


class InputLines:
    """The lines of stdin. Of a pipe, one that is over ``max_bytes`` is told and left out."""

    def __init__(self, pipe: IO[bytes], max_bytes: int, on_too_long: Callable[[], None]) -> None:
        self._pipe = pipe
        self._on_too_long = on_too_long
        self._transport: asyncio.ReadTransport | None = None
        self._reader = asyncio.StreamReader(limit=max_bytes)

    @classmethod
    async def open(cls, max_bytes: int, on_too_long: Callable[[], None]) -> Self:
        """Open stdin as it is now."""
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        lines = cls(pipe, max_bytes, on_too_long)
        try:
            loop.add_reader(lines._pipe, int)  # a callback without effect: a file raises here
        except PermissionError:
            return lines
        loop.remove_reader(lines._pipe)
        lines._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines._reader), lines._pipe
        )
        return lines

    def close(self) -> None:
        """Close at once: iteration ends. A file ends by itself."""
        if self._transport is not None:
            self._transport.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._transport is None:  # the event loop cannot watch files
            async for line in anyio.wrap_file(os.fdopen(self._pipe.fileno(), "rb", closefd=False)):
                yield line
            return
        too_long = False
        while True:
            try:
                line = await self._reader.readuntil()
            except asyncio.LimitOverrunError as overrun:
                await self._reader.readexactly(overrun.consumed)
                too_long = True
                continue
            except asyncio.IncompleteReadError as end:
                line = end.partial
            if too_long:  # the end of that line
                self._on_too_long()
                too_long, line = False, line and b"\n"
            if not line:
                return
            yield line


class OutputLines:
    """Writes messages to stdout, one in each line; what its reader has left is dropped."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._writer: asyncio.StreamWriter | None = None
        self._writing = asyncio.Lock()

    @classmethod
    async def open(cls, out: IO[bytes]) -> Self:
        """Open what stdout was, see ``stdout_for_protocol``."""
        lines, loop = cls(out), asyncio.get_running_loop()
        with suppress(ValueError):  # a file
            transport, protocol = await loop.connect_write_pipe(FlowControlMixin, out)
            transport.set_write_buffer_limits(high=0)  # so that drain waits for all
            lines._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        return lines

    async def send(self, message: Mapping[str, object]) -> None:
        """Write a message; returns when the pipe has taken it."""
        line = encode_message(message) + b"\n"
        async with self._writing:
            if self._writer is None:
                await asyncio.to_thread(self._out.write, line)
                return
            with suppress(ConnectionError):  # the client has left
                self._writer.write(line)
                await self._writer.drain()

    def close(self) -> None:
        """Close it; all that was sent is written."""
        if self._writer is not None:
            self._writer.close()
        else:
            self._out.close()


@contextmanager
def stdout_for_protocol() -> Iterator[IO[bytes]]:
    """Yield what stdout was, while all that is printed goes to stderr.

    Prints of programs that we start and of C code as well: they would break the protocol.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield os.fdopen(os.dup(kept), "wb", buffering=0)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
