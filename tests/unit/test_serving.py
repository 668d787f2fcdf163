"""When the server exits and hangs up; the started program is tested in e2e."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.serving import BoundedProtocol, GracefulServer


@pytest.mark.parametrize("phase", list(Phase))
async def test_a_server_whose_gateway_stopped_by_itself_exits(phase: Phase) -> None:
    lifecycle = Lifecycle()
    lifecycle.phase = phase
    server = GracefulServer(uvicorn.Config("unused:app", log_config=None), lifecycle, grace_s=10)
    assert await server.on_tick(1) is (phase is Phase.STOPPING)


class ImpatientProtocol(BoundedProtocol):
    arrival_timeout_s = 0.1


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body, take a while, answer."""
    while (await receive()).get("more_body", False):
        pass
    await asyncio.sleep(0.3)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    config = uvicorn.Config(answer, port=0, http=ImpatientProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        yield reader, writer
        writer.close()
        await writer.wait_closed()
        server.should_exit = True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
    ],
    ids=["nothing", "half a line", "no body", "half a body"],
)
async def test_a_request_that_does_not_arrive_in_time_ends_the_connection(sent: bytes) -> None:
    async with connected() as (reader, writer):
        writer.write(sent)
        assert await reader.read() == b""


async def test_a_request_that_is_there_may_take_its_time() -> None:
    async with connected() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n12")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
