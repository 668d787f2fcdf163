"""The facade over stdin and stdout: one client, for as long as its input is open (F-01)."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

from mcp.server.stdio import stdio_server

from mcp_tools_proxy.facade.server import FacadeServer

if TYPE_CHECKING:
    import anyio


async def serve_stdio(server: FacadeServer, *, max_request_bytes: int) -> None:
    """Serve until the input ends or the task is cancelled.

    Meanwhile what is printed by mistake goes to stderr: stdout carries the protocol only.
    """
    lines = await _Lines.open(max_request_bytes)
    stdin = cast("anyio.AsyncFile[str] | None", lines)  # the SDK only iterates over it
    async with (
        asyncio.TaskGroup() as chores,
        stdio_server(stdin=stdin) as (reader, writer),
    ):
        watching = chores.create_task(server.tell_changes())
        try:
            await server.run(reader, writer, server.options)
        finally:
            watching.cancel()


class _Lines:
    """The lines of stdin, read without a thread, so that nothing waits for the next at the end.

    A line over the limit counts as an empty one, which is no message.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    @classmethod
    async def open(cls, max_bytes: int) -> "_Lines | None":
        """Read what stdin is now; None for a file, where the SDK's own way has to do."""
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        try:
            loop.add_reader(pipe, int)
        except PermissionError:
            pipe.close()
            return None
        loop.remove_reader(pipe)
        reader = asyncio.StreamReader(limit=max_bytes)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return cls(reader)

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                yield "\n"
                continue
            if not line:
                return
            yield line.decode(errors="replace")
