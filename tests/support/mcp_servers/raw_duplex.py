"""One duplex stream of messages (stdio, SSE, WebSocket) and its running requests."""

import asyncio
import json

from tests.support.mcp_servers.raw_script import Script, Seen
from tests.support.mcp_servers.raw_tools import Json, Send


class Conversation:
    """Passes one client's messages to the script; ``tasks`` owns the running requests."""

    def __init__(
        self, script: Script, tasks: asyncio.TaskGroup, send: Send, headers: Json | None = None
    ) -> None:
        self._script = script
        self._tasks = tasks
        self._seen = Seen(send=send, headers=headers or {})
        self._running: dict[object, asyncio.Task[None]] = {}

    def take(self, text: str | bytes, headers: Json | None = None) -> None:
        message = json.loads(text)
        if "method" not in message:
            self._script.on_response(message)
            return
        if "id" in message:
            task = self._tasks.create_task(self._answer(message, headers or {}))
            self._running[message["id"]] = task
            task.add_done_callback(lambda _: self._running.pop(message["id"], None))
        else:
            self._note(message["method"], message.get("params") or {})

    def close(self) -> None:
        self._script.listeners.pop(self, None)
        for task in self._running.values():
            task.cancel()

    async def _answer(self, request: Json, headers: Json) -> None:
        seen = Seen(send=self._seen.send, headers=self._seen.headers | headers)
        seen.send(await self._script.answer(request, seen))

    def _note(self, method: str, params: Json) -> None:
        if method == "notifications/initialized" and self._script.options.list_changed:
            self._script.listeners[self] = (self._seen.send, {})
        elif method == "notifications/cancelled":
            task = self._running.get(params.get("requestId"))
            if task is not None:
                task.cancel()
