"""Reads a stream of server-sent events of the console, like a browser."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from tests.support.bounds import BOUND_S
from tests.support.console_browser import ConsoleBrowser
from tests.support.service import Service

Message = MutableMapping[str, Any]


class LiveView:
    """One open stream; ``status`` and ``headers`` are set once it has started."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.text = ""
        self.is_over = False
        self._left = asyncio.Event()
        self._changed = asyncio.Condition()

    @property
    def events(self) -> list[tuple[str, str]]:
        found = []
        text = self.text.replace("\r\n", "\n").replace("\r", "\n")  # each ends a line
        for frame in text.split("\n\n")[:-1]:
            lines = [line.partition(": ")[::2] for line in frame.split("\n")]
            names = [value for key, value in lines if key == "event"]
            if names:
                found.append((names[-1], "\n".join(value for key, value in lines if key == "data")))
        return found

    def of(self, event: str) -> list[str]:
        return [data for name, data in self.events if name == event]

    def leave(self) -> None:
        self._left.set()

    async def until(self, event: str, count: int = 1) -> list[str]:
        """Wait for ``count`` events with this name, and return the data of all of them."""
        async with asyncio.timeout(BOUND_S), self._changed:
            await self._changed.wait_for(lambda: len(self.of(event)) >= count)
        return self.of(event)

    async def until_over(self) -> None:
        async with asyncio.timeout(BOUND_S), self._changed:
            await self._changed.wait_for(lambda: self.is_over)

    async def receive(self) -> Message:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        async with self._changed:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): it.decode() for name, it in message["headers"]}
            else:
                self.text += message.get("body", b"").decode()
                self.is_over = not message.get("more_body", False)
            self._changed.notify_all()


@asynccontextmanager
async def live_view(
    service: Service, browser: ConsoleBrowser, path: str, query: str = ""
) -> AsyncIterator[LiveView]:
    """Open a stream with the cookies of a browser, and close it after the block."""
    view = LiveView()
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), (b"cookie", cookies.encode())],
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    async with asyncio.TaskGroup() as group:
        group.create_task(service.app(scope, view.receive, view.send))
        try:
            yield view
        finally:
            view.leave()
