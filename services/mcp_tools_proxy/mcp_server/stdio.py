"""MCP over stdin and stdout: one client, for as long as its input is open (F-01)."""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

from pydantic_core import from_json

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import InvalidRequest, ShuttingDown
from mcp_tools_proxy.domain.list_options import ALIASES
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.mcp_server.message_session import MessageSession
from mcp_tools_proxy.mcp_server.results import refused_request
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.mcp_server.stdio_lines import InputLines, OutputLines, stdout_for_protocol
from mcp_tools_proxy.web.body import PACED_BYTES, BodyLimits
from mcp_tools_proxy.wire.json_rpc import refusable_id
from mcp_tools_proxy.wire.request_json import parse_request

LAST_RESPONSES_GRACE_S = 1.0
"""Seconds for pending requests once the input has ended. Clients wait for 2 s before they kill the
process."""

LINE_REFUSED = "facade.line_refused"
LINE_TOO_LONG = "facade.line_too_long"
"""The events of lines that are no requests."""


async def serve_stdio(
    server: GatewayMcpServer, caller: Caller, lifecycle: Lifecycle, limits: BodyLimits
) -> None:
    """Serve until the input ends, or until the service stops and no call is in flight.

    Requests that are pending when the input ends are answered if that takes no longer than
    LAST_RESPONSES_GRACE_S: with a file or an ``echo`` as input they all are. Stray prints go to
    stderr meanwhile, since stdout carries the protocol only.
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
            # one client, which runs this process: what it asks at once is its own affair
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
    """Receive one line; one that is refused is recorded, and answered if it is a request."""
    if not line.strip():
        return
    is_large = len(line) > PACED_BYTES
    try:
        message = parse_request(line, max_items=max_items)
    except InvalidRequest as error:
        refuse(error)
        if is_large:
            await asyncio.sleep(0)  # it is parsed once more
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
    await lifecycle.stopping()
    server.listen_streams.close()
    await lifecycle.idle()
    await session.wait_until_answered()
    lines.close()


def _content_of(line: bytes) -> object:
    """Parse a refused line leniently, to find its id: None if it is no JSON at all."""
    try:
        return from_json(line)
    except ValueError:
        return None
