"""Checks the lines of stdin as strictly as HTTP bodies and connector frames are checked.

The SDK parses leniently: of a repeated key, for one, the last value would count.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from typing import Protocol

import anyio
import structlog
from mcp.shared.message import SessionMessage
from pydantic_core import from_json

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.mcp_server.results import refused_request
from mcp_tools_proxy.wire.request_json import parse_request

log = structlog.get_logger()


class ResponseStream(Protocol):
    """The stream to the client."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message."""
        ...


class StrictLines:
    """Yields those of ``lines`` that are strict JSON of at most ``max_items`` values.

    Any other line is logged and left out. If it is a request, INVALID_REQUEST is sent to
    ``responses``; whoever iterates has to set that future.
    """

    def __init__(self, lines: AsyncIterable[bytes], *, max_items: int) -> None:
        self._lines = lines
        self._max_items = max_items
        self.responses: asyncio.Future[ResponseStream] = asyncio.get_running_loop().create_future()

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines:
            if not line.strip():
                continue
            try:
                parse_request(line, max_items=self._max_items)
            except InvalidRequest as error:
                await self._refuse(line, error)
            else:
                yield line.decode()

    async def _refuse(self, line: bytes, error: InvalidRequest) -> None:
        log.warning("facade.line_refused", field=(error.details or {}).get("field"))
        match _content_of(line):
            case {"id": bool()}:
                return
            case {"method": str(), "id": int() | str() as id_}:
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await (await self.responses).send(SessionMessage(refused_request(id_, error)))


def _content_of(line: bytes) -> object:
    """Parse a refused line leniently, to find its id: None if it is no JSON at all."""
    try:
        return from_json(line)
    except ValueError:
        return None
