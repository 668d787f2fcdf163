"""MCP over stdin and stdout: one client, for as long as its input is open (F-01)."""

import asyncio
import os
import sys
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import redirect_stdout, suppress
from typing import cast

import anyio
import structlog
from mcp.server.stdio import stdio_server

from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.mcp_server.pending_requests import PendingRequests
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.mcp_server.stdio_lines import StrictLines
from mcp_tools_proxy.web.body import BodyLimits

LAST_RESPONSES_GRACE_S = 1.0
"""Seconds for pending requests once the input has ended. Clients wait for 2 s before they kill the
process."""

log = structlog.get_logger()


async def serve_stdio(server: GatewayMcpServer, lifecycle: Lifecycle, limits: BodyLimits) -> None:
    """Serve until the input ends, or until the service stops and no call is in flight.

    Requests that are pending when the input ends are answered if that takes no longer than
    LAST_RESPONSES_GRACE_S: with a file or an ``echo`` as input they all are. Stray prints go to
    stderr meanwhile, since stdout carries the protocol only.
    """
    lines = await _Lines.open(limits.max_bytes)
    checked = StrictLines(lines or _lines_of_file(), max_items=limits.max_items)
    stdin = cast("anyio.AsyncFile[str]", checked)  # the SDK only iterates over it
    pending = PendingRequests()

    async def stop_reading() -> None:
        await lifecycle.stopping()
        server.listen_streams.close()
        await lifecycle.idle()
        await pending.wait_empty()
        if lines is not None:  # a file ends by itself
            lines.close()

    async def wait_last_responses() -> None:
        server.listen_streams.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_RESPONSES_GRACE_S):
                await pending.wait_empty()

    async with (
        asyncio.TaskGroup() as chores,
        stdio_server(stdin=stdin) as streams,
    ):
        checked.responses.set_result(streams[1])
        tasks = [chores.create_task(it) for it in (server.run_notifications(), stop_reading())]
        try:
            # stray prints must not break the protocol on stdout
            with redirect_stdout(sys.stderr):
                tracked = pending.track(streams[0], streams[1], on_input_end=wait_last_responses)
                async with tracked as (reader, writer):
                    await server.run(reader, writer, server.options)
        finally:
            for task in tasks:
                task.cancel()


class _Lines:
    """The lines of stdin, read without a thread: one that waits for input would block the exit.

    A line over the limit is replaced by an empty one, which the reader skips.
    """

    def __init__(
        self, reader: asyncio.StreamReader, pipe: asyncio.ReadTransport, max_bytes: int
    ) -> None:
        self._reader = reader
        self._pipe = pipe
        self._max_bytes = max_bytes

    @classmethod
    async def open(cls, max_bytes: int) -> "_Lines | None":
        """Open stdin as it is now; None for a file, which the event loop cannot watch."""
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        try:
            loop.add_reader(pipe, int)  # a callback without effect: a file raises here
        except PermissionError:
            pipe.close()
            return None
        loop.remove_reader(pipe)
        reader = asyncio.StreamReader(limit=max_bytes)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        return cls(reader, transport, max_bytes)

    def close(self) -> None:
        """Close at once: iteration ends."""
        self._pipe.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
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
                log.warning("facade.line_too_long", max_request_bytes=self._max_bytes)
                too_long, line = False, line and b"\n"
            if not line:
                return
            yield line


def _lines_of_file() -> AsyncIterable[bytes]:
    return anyio.wrap_file(os.fdopen(os.dup(sys.stdin.fileno()), "rb"))
