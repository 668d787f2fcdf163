"""One MCP session of the backend: it survives links, and sends exactly the test's messages."""

import asyncio
import itertools
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.support.remote_backend.waits import bounded

Json = dict[str, Any]
Send = Callable[[str, object], Awaitable[None]]
"""Sends a message in the session of an identifier."""

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "backend", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""``_meta`` of every request of the newer era."""
KEPT = 10_000


class Session:
    """Created by ``Backend.session``; request ids count from 1 in each, so sessions share them."""

    def __init__(self, identifier: str | None, era: str, send: Send) -> None:
        self.identifier = identifier or str(uuid.uuid4())
        self.era = era
        self.messages: deque[Json] = deque(maxlen=KEPT)
        """All received messages, in order."""
        self._send = send
        self._ids = itertools.count(1)
        self._pending: dict[object, asyncio.Future[Json]] = {}
        self._others: asyncio.Queue[Json] = asyncio.Queue()

    async def send(self, message: object) -> None:
        """Send any JSON as ``message``, waiting for a link if necessary."""
        await self._send(self.identifier, message)

    async def receive(self) -> Json:
        """Wait for the next message that is not an answer to ``request``."""
        async with bounded(f"a message in session {self.identifier}"):
            return await self._others.get()

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, era: str | None = None
    ) -> Json:
        request_id = next(self._ids)
        params = dict(params or {})
        if (era or self.era) == MODERN:
            params["_meta"] = ENVELOPE | params.get("_meta", {})
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = answer
        try:
            async with bounded(f"an answer to {method} in session {self.identifier}"):
                await self.send(
                    {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
                )
                return await answer
        finally:
            del self._pending[request_id]

    async def result(self, method: str, params: Mapping[str, Any] | None = None) -> Json:
        message = await self.request(method, params)
        assert "result" in message, message
        result: Json = message["result"]
        return result

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, **params: Any
    ) -> Json:
        return await self.result(
            "tools/call", {"name": tool, "arguments": dict(arguments or {}), **params}
        )

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        note: Json = {"jsonrpc": "2.0", "method": method}
        await self.send(note if params is None else note | {"params": dict(params)})

    async def initialize(self, **capabilities: Any) -> Json:
        """Initialize like a client of the older eras, and return the server's result."""
        self.era = LEGACY
        client = {"name": "backend", "version": "1"}
        begun = await self.result(
            "initialize",
            {"protocolVersion": LEGACY, "capabilities": capabilities, "clientInfo": client},
        )
        await self.notify("notifications/initialized")
        return begun

    def on_message(self, message: Json) -> None:
        self.messages.append(message)
        answer = None if "method" in message else self._pending.get(message.get("id"))
        if answer is None:
            self._others.put_nowait(message)
        elif not answer.done():
            answer.set_result(message)
