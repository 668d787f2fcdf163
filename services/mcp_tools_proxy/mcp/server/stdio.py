"""MCP over stdin and stdout: one client, while its input is open (F-01).

Lines are read and written without a thread, as a waiting thread would block the exit.
"""

import asyncio
import math
import os
import sys
from asyncio.streams import FlowControlMixin
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from typing import IO, Self

import anyio
from pydantic_core import from_json

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import InvalidRequest, ShuttingDown
from mcp_tools_proxy.domain.list_options import ALIASES
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.http.body import PACED_BYTES, BodyLimits
from mcp_tools_proxy.mcp.server.message_session import MessageSession
from mcp_tools_proxy.mcp.server.results import refused_request
from mcp_tools_proxy.mcp.server.server import GatewayMcpServer
from mcp_tools_proxy.wire.encoding import encode_message
from mcp_tools_proxy.wire.json_rpc import refusable_id
from mcp_tools_proxy.wire.strict_json import parse_request

LAST_RESPONSES_GRACE_S = 1.0
"""Seconds for pending requests after the input has ended; clients kill the process after 2 s."""

LINE_REFUSED = "facade.line_refused"
LINE_TOO_LONG = "facade.line_too_long"
"""Events of lines that are not requests."""


class InputLines:
    """Lines of stdin. A line of a pipe over ``max_bytes`` is skipped and reported."""

    def __init__(self, pipe: IO[bytes], max_bytes: int, on_too_long: Callable[[], None]) -> None:
        self._pipe = pipe
        self._on_too_long = on_too_long
        self._transport: asyncio.ReadTransport | None = None
        self._reader = asyncio.StreamReader(limit=max_bytes)

    @classmethod
    async def open(cls, max_bytes: int, on_too_long: Callable[[], None]) -> Self:
        """Open the current stdin."""
        loop = asyncio.get_running_loop()
        pipe = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        lines = cls(pipe, max_bytes, on_too_long)
        try:
            loop.add_reader(lines._pipe, int)  # a callback without effect; raises for a file
        except PermissionError:
            return lines
        loop.remove_reader(lines._pipe)
        lines._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines._reader), lines._pipe
        )
        return lines

    def close(self) -> None:
        """Close at once, which ends the iteration; a file is read to its end."""
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
            if too_long:
                self._on_too_long()
                too_long, line = False, line and b"\n"
            if not line:
                return
            yield line


class OutputLines:
    """Writes messages to stdout, one per line; messages after its reader has left are dropped."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._writer: asyncio.StreamWriter | None = None
        self._writing = asyncio.Lock()

    @classmethod
    async def open(cls, out: IO[bytes]) -> Self:
        """Open the original stdout, see ``stdout_for_protocol``."""
        lines, loop = cls(out), asyncio.get_running_loop()
        with suppress(ValueError):  # a file
            transport, protocol = await loop.connect_write_pipe(FlowControlMixin, out)
            transport.set_write_buffer_limits(high=0)  # so that drain waits until all is written
            lines._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        return lines

    async def send(self, message: Mapping[str, object]) -> None:
        """Write a message; return when the pipe has accepted it."""
        line = encode_message(message) + b"\n"
        async with self._writing:
            if self._writer is None:
                await asyncio.to_thread(self._out.write, line)
                return
            with suppress(ConnectionError):  # the client has left
                self._writer.write(line)
                await self._writer.drain()

    def close(self) -> None:
        """Close after everything sent is written."""
        if self._writer is not None:
            self._writer.close()
        else:
            self._out.close()


async def serve_stdio(
    server: GatewayMcpServer, caller: Caller, lifecycle: Lifecycle, limits: BodyLimits
) -> None:
    """Serve until the input ends, or until the service stops and no call is in flight.

    Requests that are pending when the input ends are answered within LAST_RESPONSES_GRACE_S, then
    refused. Prints go to stderr, since stdout is for the protocol only.
    """
    with stdout_for_protocol() as out:

        def refuse_long_line() -> None:
            server.record_unread(LINE_TOO_LONG, caller, "PAYLOAD_TOO_LARGE")

        def refuse_line(error: InvalidRequest) -> None:
            field = (error.details or {}).get("field")
            server.record_unread(LINE_REFUSED, caller, error.code, field=field)

        lines = await InputLines.open(limits.max_bytes, refuse_long_line)
        output = await OutputLines.open(out)
        async with asyncio.TaskGroup() as tasks:
            # the only client runs this process, so its concurrent requests are not limited
            session = MessageSession(
                server,
                caller,
                output.send,
                tasks,
                max_open_requests=math.inf,
                options=ALIASES,
            )
            chores = [
                tasks.create_task(server.run_notifications()),
                tasks.create_task(_stop_reading(server, lifecycle, session, lines)),
            ]
            async for line in lines:
                await _receive(session, line, output, refuse_line, max_items=limits.max_items)
            server.listen_streams.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_RESPONSES_GRACE_S):
                    await session.wait_until_answered()
            await session.refuse_pending(
                ShuttingDown(
                    "standard input ended before the answer was ready; keep it open until the "
                    "answer arrives"
                )
            )
            session.close()
            for chore in chores:
                chore.cancel()
        output.close()


async def _receive(
    session: MessageSession,
    line: bytes,
    output: OutputLines,
    refuse: Callable[[InvalidRequest], None],
    *,
    max_items: int,
) -> None:
    if not line.strip():
        return
    is_large = len(line) > PACED_BYTES
    try:
        message = parse_request(line, max_items=max_items)
    except InvalidRequest as error:
        refuse(error)
        if is_large:
            await asyncio.sleep(0)
        id_ = refusable_id(_content_of(line))
        if id_ is not None:
            await output.send(refused_request(id_, error))
        return
    if is_large:
        await asyncio.sleep(0)
    try:
        await session.receive(message)
    except InvalidRequest as error:
        refuse(error)


async def _stop_reading(
    server: GatewayMcpServer, lifecycle: Lifecycle, session: MessageSession, lines: InputLines
) -> None:
    await lifecycle.draining()
    server.listen_streams.close()
    await lifecycle.idle()
    await session.wait_until_answered()
    lines.close()


def _content_of(line: bytes) -> object:
    """Parse a refused line leniently, to find its id; None if it is not JSON."""
    try:
        return from_json(line)
    except ValueError:
        return None


@contextmanager
def stdout_for_protocol() -> Iterator[IO[bytes]]:
    """Yield the original stdout, while everything printed goes to stderr.

    Prints of child processes and of C code are included, as they would break the protocol.
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
