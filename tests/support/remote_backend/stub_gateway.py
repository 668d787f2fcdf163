"""A stub of a gateway: the SDK's server in each session of one WebSocket, or a mute one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import anyio
import mcp_types as t
from aiohttp import WSMsgType
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from tests.support.mcp_servers.sdk_server import Extras, build_server
from tests.support.mcp_servers.single_era import serve_streams
from tests.support.remote_backend.handshakes import TOKEN


class StandIn:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, server_identifier: str) -> None:
        self.socket = socket
        self.received: asyncio.Queue[aiohttp.WSMessage] = asyncio.Queue()
        """The frames without a server."""
        self.ended = asyncio.Event()
        """The link has ended."""
        self._server_identifier = server_identifier
        self._sessions: dict[str, Any] = {}

    async def run(self, server: Server[Any] | None, tasks: asyncio.TaskGroup) -> None:
        async for frame in self.socket:
            if frame.type == WSMsgType.ERROR:
                break
            if server is None:
                self.received.put_nowait(frame)
                continue
            envelope = json.loads(frame.data)
            identifier = envelope["session_identifier"]
            if identifier not in self._sessions:
                ends = anyio.create_memory_object_stream[SessionMessage | Exception](100)
                self._sessions[identifier], reads = ends
                tasks.create_task(self._converse(server, identifier, reads))
            message = t.jsonrpc_message_adapter.validate_python(envelope["message"], by_name=False)
            await self._sessions[identifier].send(SessionMessage(message))
        for session in self._sessions.values():
            session.close()
        self.ended.set()

    async def send(self, session_identifier: str, message: object) -> None:
        await self.socket.send_json(
            {
                "session_identifier": session_identifier,
                "target_server_identifier": self._server_identifier,
                "message": message,
            }
        )

    async def _converse(self, server: Server[Any], identifier: str, reads: Any) -> None:
        writes, answers = anyio.create_memory_object_stream[SessionMessage](100)

        async def send_all() -> None:
            async for item in answers:
                message = item.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                await self.send(identifier, message)

        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            for end in (reads, writes, answers):
                stack.callback(end.close)
            sending = tasks.create_task(send_all())
            await serve_streams(server, reads, writes, "both")
            sending.cancel()


@asynccontextmanager
async def standing_in(
    url: str,
    *,
    server_identifier: str = "gateway",
    token: str = TOKEN,
    is_mute: bool = False,
    **options: Any,
) -> AsyncIterator[StandIn]:
    """Dial the backend; ``options`` are ws_connect's. A mute stub does not answer."""
    url = url.format(server_identifier=server_identifier)
    options |= {"headers": {"Authorization": f"Bearer {token}"}, "max_msg_size": 0}
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(url, protocols=["mcp"], **options) as socket,
        asyncio.TaskGroup() as tasks,
    ):
        gateway = StandIn(socket, server_identifier)
        server = None if is_mute else build_server("ws", Extras())
        tasks.create_task(gateway.run(server, tasks))
        try:
            yield gateway
        finally:
            await socket.close()
