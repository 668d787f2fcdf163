"""The requests that sessions of the older eras wait for: at most one under each id.

The SDK keeps the way back to a client by the request's id alone: a second one under the same id
would take the first one's answer away, and the first would wait for ever.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mcp.types import (
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mcp_tools_proxy.domain.errors import InvalidRequest

SETTLE_S = 0.1
"""How long a request waits for its id: a client may read an answer before its sender is done."""


class IdsInUse:
    """The ids in use, by session."""

    def __init__(self) -> None:
        self._ids: dict[tuple[bytes, str], asyncio.Event] = {}
        """Each with what is set when it is free again."""

    @asynccontextmanager
    async def taking(self, session_id: bytes | None, content: object) -> AsyncIterator[None]:
        """Have a request's id in use meanwhile. Raises InvalidRequest, also for what is no message.

        ``session_id`` is None for the request that begins a session.
        """
        message = message_of(content)
        if session_id is None or not isinstance(message, JSONRPCRequest):
            yield
            return
        key = (session_id, str(message.id))  # as the SDK spells it
        if key in self._ids:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self._ids[key].wait()
        if key in self._ids:
            raise InvalidRequest("a request with this id is not answered yet; take another id")
        self._ids[key] = asyncio.Event()
        try:
            yield
        finally:
            self._ids.pop(key).set()


def message_of(content: object) -> JSONRPCMessage:
    """Take parsed JSON as one message of JSON-RPC. Raises InvalidRequest."""
    try:
        message = jsonrpc_message_adapter.validate_python(content, by_name=False)
    except ValidationError:
        raise InvalidRequest("this should be one message of JSON-RPC 2.0") from None
    if isinstance(message, JSONRPCNotification) and isinstance(content, dict) and "id" in content:
        raise InvalidRequest("the id of a request should be a text or a whole number")
    return message
