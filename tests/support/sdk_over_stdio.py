"""``mcp-tools-proxy stdio`` as a process, with the SDK's client at its pipes."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from mcp import Client
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from tests.support.bounds import BOUND_S
from tests.support.program_launch import Process, launch

MAX_LINE_BYTES = 2**26


@asynccontextmanager
async def sdk_client_of_program(
    arguments: Sequence[str], environment: Mapping[str, str], mode: str
) -> AsyncIterator[Client]:
    """Start the program in this folder, and connect the SDK's client to it.

    The SDK's ``stdio_client`` would start a fresh interpreter, 2 s of CPU each time.
    """
    process = _launch(arguments, environment)
    try:
        async with Client(_streams_of(process), mode=mode, cache=None) as client:
            yield client
    finally:
        await asyncio.to_thread(process.wait, BOUND_S)


def _launch(arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
    with Path("stdio.log").open("ab") as log:
        streams = (subprocess.PIPE, subprocess.PIPE, log.fileno())
        return launch(["stdio", *arguments], Path.cwd(), environment, streams=streams)


@asynccontextmanager
async def _streams_of(process: Process) -> AsyncIterator[TransportStreams]:
    """Transfer the client's messages over the program's pipes; at the end its input is closed."""
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    to_client, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writes, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        protocol = asyncio.StreamReaderProtocol(lines)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, stdout)
        async with to_client:
            async for line in lines:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                with suppress(anyio.BrokenResourceError):  # the client has exited
                    await to_client.send(SessionMessage(message))

    async def send() -> None:
        async with from_client:
            async for item in from_client:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                stdin.flush()

    with stdin:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(receive())
            tasks.create_task(send())
            try:
                yield reads, writes
            finally:
                await reads.aclose()
                await writes.aclose()
                stdin.close()
