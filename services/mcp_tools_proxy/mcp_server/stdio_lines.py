"""The lines of stdin as strict JSON: what every other way in refuses is refused here, too."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from typing import Protocol

import anyio
import structlog
from mcp.shared.message import SessionMessage
from pydantic_core import from_json

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.mcp_server.results import unsupported_reason
from mcp_tools_proxy.wire.request_json import parse_request

log = structlog.get_logger()


class ResponseStream(Protocol):
    """Where answers go."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one."""
        ...


class StrictLines:
    """Those of ``lines`` that are strict JSON of at most ``max_items`` values.

    A request that is not is answered at ``responses``, which has to be set, with INVALID_REQUEST;
    anything else is left out, with a log line.
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
                    await (await self.responses).send(
                        SessionMessage(unsupported_reason(id_, error))
                    )


def _content_of(line: bytes) -> object:
    """Give what a line says, as far as that can be read: one client alone waits for this."""
    try:
        return from_json(line)
    except ValueError:
        return None
