"""Callers that go away: the service called as an HTTP server calls it."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from tests.support.service import EXECUTE, Service, request_of

Message = dict[str, Any]

SCOPE = {
    "type": "http",
    "method": "POST",
    "path": EXECUTE,
    "raw_path": EXECUTE.encode(),
    "query_string": b"",
    "headers": [(b"host", b"localhost")],
    "http_version": "1.1",
    "scheme": "http",
    "server": ("gateway", 80),
}


async def call_until(
    leaves: asyncio.Event, service: Service, tool: str, arguments: Mapping[str, object] = {}
) -> list[Message]:
    """Call a tool as a caller that disconnects when ``leaves`` is set; give what it was sent."""
    sent: list[Message] = []
    body = json.dumps(request_of(tool, arguments)).encode()
    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await service.app(dict(SCOPE), receive, send)  # type: ignore[arg-type]
    return sent
