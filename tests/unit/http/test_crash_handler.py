from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.http.fast_routes import CrashHandler

START = {"type": "http.response.start", "status": 200, "headers": []}


class Sent:
    """Records sent messages; like a server, it accepts only one response."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self.messages:
            raise RuntimeError("the response has begun")
        self.messages.append(message)


async def nothing() -> Message:
    raise AssertionError("nothing is received")


async def crash(sent: Sent, kind: str, *before: Message) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in before:
            await send(message)
        raise LookupError("a defect")

    scope: dict[str, Any] = {"type": kind, "headers": []}
    with pytest.raises(LookupError):
        await CrashHandler(app)(scope, nothing, sent.send)


async def test_a_crash_is_answered_with_an_internal_error() -> None:
    sent = Sent()
    await crash(sent, "http")
    start, body = sent.messages
    assert (start["status"], b"INTERNAL_ERROR" in body["body"]) == (500, True)


async def test_a_started_response_is_not_changed() -> None:
    sent = Sent()
    await crash(sent, "http", START)
    assert sent.messages == [START]


async def test_a_crash_at_startup_is_not_answered() -> None:
    sent = Sent()
    await crash(sent, "lifespan")
    assert sent.messages == []
