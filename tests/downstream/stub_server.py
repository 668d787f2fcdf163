"""An HTTP server that negotiates correctly and answers calls as a test defines.

It implements only the handshake of each era.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.support.web_app import serving_app

Json = dict[str, Any]
Answer = Callable[[web.Request, Json], Awaitable[web.StreamResponse]]
"""Answers a ``tools/call``; receives the HTTP request and its message."""

MODERN = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
LEGACY = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "x", "version": "1"},
}


async def no_stream(_: web.Request) -> web.StreamResponse:
    return web.Response(status=405)


class AnsweringServer:
    """The received messages and the address of the server."""

    def __init__(
        self,
        answer: Answer,
        era: str,
        session_id: str | None,
        get: Any,
        on_discover: Answer | None,
    ) -> None:
        self.url = ""
        self.seen: list[tuple[web.Request, Json]] = []
        """Every POST with its message."""
        self.deletes: list[web.Request] = []
        self.listing: list[Any] = []
        """The tools that it lists."""
        self.on_delete: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self._answer = answer
        self._era = era
        self._headers = {} if session_id is None else {"Mcp-Session-Id": session_id}
        self._get = get
        self._on_discover = on_discover

    def messages(self, method: str) -> list[Json]:
        return [message for _, message in self.seen if message.get("method") == method]

    async def post(self, request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        self.seen.append((request, message))
        match message.get("method"):
            case "server/discover" if self._on_discover is not None:
                return await self._on_discover(request, message)
            case "server/discover" if self._era == "modern":
                return result_of(message, MODERN)
            case "server/discover":
                return web.Response(status=400, text="no session")
            case "initialize":
                return result_of(message, LEGACY, headers=self._headers)
            case "tools/list":
                return result_of(message, {"tools": self.listing})
            case "tools/call":
                return await self._answer(request, message)
        return web.Response(status=202)

    async def get(self, request: web.Request) -> web.StreamResponse:
        response: web.StreamResponse = await self._get(request)
        return response

    async def delete(self, request: web.Request) -> web.StreamResponse:
        self.deletes.append(request)
        return web.Response() if self.on_delete is None else await self.on_delete(request)


def result_of(message: Json, result: Json, *, headers: Any = None) -> web.Response:
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return web.json_response(answer, headers=headers)


async def fine(_: web.Request, message: Json) -> web.StreamResponse:
    return result_of(message, {"n": 1})


async def events(request: web.Request, *pieces: str) -> web.StreamResponse:
    """Answer with an event stream, each piece in a separate write."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece.encode())
    return response


@asynccontextmanager
async def answering(
    answer: Answer,
    *,
    era: str = "modern",
    session_id: str | None = None,
    get: Any = no_stream,
    on_discover: Answer | None = None,
) -> AsyncIterator[AnsweringServer]:
    """Serve on a free port."""
    server = AnsweringServer(answer, era, session_id, get, on_discover)
    app = web.Application()
    app.router.add_post("/mcp", server.post)
    app.router.add_get("/mcp", server.get)
    app.router.add_delete("/mcp", server.delete)
    async with serving_app(app, cancels=True) as url:
        server.url = f"{url}/mcp"
        yield server
