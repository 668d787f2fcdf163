import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.support.bounds import BOUND_S
from tests.support.tokens import bearer

STREAM = "/internal/mcp/calls/stream"

Event = tuple[str, Any]
"""The name of an event, and its data; the name of a comment is empty."""


class RecordReader:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> Event:
        async with asyncio.timeout(BOUND_S):
            head = await anext(self._lines)
            if head.startswith(":"):
                await anext(self._lines)
                return "", head
            data = await anext(self._lines)
            await anext(self._lines)
        return head.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    async def rest(self) -> list[Event]:
        found: list[Event] = []
        try:
            while True:
                found.append(await self.next())
        except StopAsyncIteration:
            return found


@asynccontextmanager
async def watching(
    http: httpx.AsyncClient, token: str | None = None, **query: str
) -> AsyncIterator[RecordReader]:
    """Open a stream, which must be admitted, and wait until it has started."""
    headers = {} if token is None else bearer(token)
    async with http.stream("GET", STREAM, params=query, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        reader = RecordReader(response)
        assert await reader.next() == ("", ": ping")
        yield reader
