from collections.abc import AsyncGenerator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import anyio
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.mcp_client.duplex import DuplexDispatcher
from mcp_tools_proxy.downstream.mcp_client.legacy_sse_transport import LegacySseTransport
from mcp_tools_proxy.downstream.mcp_client.websocket import WebSocket
from mcp_tools_proxy.system.websocket_client import FRAMES_PER_TURN, connect_websocket
from tests.unit.downstream.neighbour_task import neighbour_task

LIST_CHANGED = b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'


class Shouting:
    """A connection with thousands of messages available at once."""

    async def receive(self) -> AsyncGenerator[tuple[bytes, bool], None]:
        for _ in range(5000):
            yield LIST_CHANGED, False

    async def send(
        self, data: bytes, *, is_request: bool, headers: Mapping[str, str] | None = None
    ) -> None:
        return

    async def end_reason(self) -> str:
        return "it has said everything"


async def test_answers_that_an_sse_server_does_not_accept_are_bounded() -> None:
    on_their_way: list[object] = []
    tasks = SimpleNamespace(start_soon=lambda _, post: on_their_way.append(post))
    url = URL("http://127.0.0.1/sse")
    response = SimpleNamespace(url=url, headers={})
    stream = LegacySseTransport(cast("Any", None), {}, cast("Any", response), cast("Any", tasks))

    for _ in range(5000):
        await stream.send(b"{}", is_request=False)

    assert len(on_their_way) == 2000


async def test_a_flood_of_messages_does_not_block_other_tasks() -> None:
    async def decline(*_: object) -> dict[str, Any]:
        return {}

    async def ignore(*_: object) -> None:
        return

    wire = DuplexDispatcher(
        Shouting(),
        config=ServerConfig(server_id="notes", transport=Transport.STDIO),
        transport=Transport.STDIO,
        on_list_changed=lambda: None,
    )
    async with neighbour_task(steps=200) as neighbour, anyio.create_task_group() as tasks:
        await tasks.start(wire.run, decline, ignore)
        await wire.wait_lost()
        assert neighbour.done()
        tasks.cancel_scope.cancel()


async def test_a_flood_of_websocket_pings_does_not_block_other_tasks() -> None:
    pings = 5000

    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("mcp",), autoping=False)
        await socket.prepare(request)
        assert request.transport is not None
        request.transport.write(b"\x89\x00" * pings)
        await socket.send_str("{}")
        async for _ in socket:
            pass
        return socket

    app = web.Application()
    app.router.add_get("/", serve)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        socket = await connect_websocket(
            http, server.make_url("/"), {}, max_msg_size=1000, heartbeat_s=60
        )
        async with neighbour_task(steps=pings // FRAMES_PER_TURN // 2) as neighbour:
            messages = WebSocket(socket).receive()
            assert await anext(messages) == (b"{}", False)
            assert neighbour.done()
        await messages.aclose()
        await socket.close()
