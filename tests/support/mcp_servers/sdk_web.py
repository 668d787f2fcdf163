"""The SDK's server as ASGI applications: streamable HTTP, legacy SSE, WebSocket."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as t
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope
from starlette.types import Send as AsgiSend
from starlette.websockets import WebSocket

from tests.support.mcp_servers.single_era import refused_over_http, serve_streams

ANY_HOST = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def build_app(
    mode: str, server: Server[Any], *, path: str, era: str, json_response: bool
) -> Starlette:
    match mode:
        case "http":
            return _streamable_http(server, path, era, json_response=json_response)
        case "sse":
            return _sse(server, path, era)
    return Starlette(routes=[WebSocketRoute(path, Socket(server, era).serve)])


def _streamable_http(server: Server[Any], path: str, era: str, *, json_response: bool) -> Starlette:
    manager = StreamableHTTPSessionManager(
        server, json_response=json_response, security_settings=ANY_HOST
    )

    class Endpoint:
        async def __call__(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
            version = Request(scope).headers.get("mcp-protocol-version")
            error = refused_over_http(era, version)
            if error is None:
                await manager.handle_request(scope, receive, send)
            else:
                refusal = {"jsonrpc": "2.0", "id": None, "error": error.model_dump(mode="json")}
                await JSONResponse(refusal, 400)(scope, receive, send)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Route(path, Endpoint())], lifespan=lifespan)


def _sse(server: Server[Any], path: str, era: str) -> Starlette:
    """Serve as in A.9: a session's id is ``sessionId``, an unknown one gets 400."""
    transport = SseServerTransport(f"{path}/message", ANY_HOST)

    class Stream:
        async def __call__(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
            async def renamed(message: Message) -> None:
                if message.get("body", b"").startswith(b"event: endpoint"):
                    body = message["body"].replace(b"?session_id=", b"?sessionId=")
                    message = {**message, "body": body}
                await send(message)

            async with transport.connect_sse(scope, receive, renamed) as (reads, writes):
                await serve_streams(server, reads, writes, era)

    class Messages:
        async def __call__(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
            async def never_404(message: Message) -> None:
                await send({**message, "status": 400} if message.get("status") == 404 else message)

            query = re.sub(b"^sessionId=", b"session_id=", scope["query_string"])
            renamed = {**scope, "query_string": query}
            await transport.handle_post_message(renamed, receive, never_404)

    stream: ASGIApp = Stream()
    messages: ASGIApp = Messages()
    return Starlette(
        routes=[
            Route(path, stream, methods=["GET"]),
            Route(f"{path}/message", messages, methods=["POST"]),
        ]
    )


class Socket:
    """The WebSocket transport, which the SDK no longer has: one message in each text frame."""

    def __init__(self, server: Server[Any], era: str) -> None:
        self._server = server
        self._era = era

    async def serve(self, socket: WebSocket) -> None:
        await socket.accept("mcp" if "mcp" in socket.scope["subprotocols"] else None)
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)

        async def receive() -> None:
            async for text in socket.iter_text():
                message = t.jsonrpc_message_adapter.validate_json(text, by_name=False)
                await to_server.send(SessionMessage(message))
            await to_server.aclose()

        async def send() -> None:
            async for item in from_server:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await socket.send_text(text)

        ends = (to_server, from_client, to_client, from_server)
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            for end in ends:
                stack.push_async_callback(end.aclose)
            tasks.start_soon(receive)
            tasks.start_soon(send)
            await serve_streams(self._server, from_client, to_client, self._era)
            tasks.cancel_scope.cancel()


def url_of(mode: str, host: str, port: int, path: str) -> str:
    return f"{'ws' if mode == 'ws' else 'http'}://{host}:{port}{path}"


def configured(app: ASGIApp) -> uvicorn.Server:
    """Build a uvicorn that logs nothing and waits at most 2 s for streams when stopping."""
    return uvicorn.Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, ws_max_size=2**26, timeout_graceful_shutdown=2
        )
    )
