"""A defect of ours is answered, unless the response has begun."""

from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.http.fast_routes import CrashHandler

START = {"type": "http.response.start", "status": 200, "headers": []}


class Sent:
    """What was sent; as a server does, it takes one response only."""

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


async def test_a_crash_is_an_internal_error() -> None:
    sent = Sent()
    await crash(sent, "http")
    start, body = sent.messages
    assert (start["status"], b"INTERNAL_ERROR" in body["body"]) == (500, True)


async def test_a_response_that_has_begun_is_left_as_it_is() -> None:
    sent = Sent()
    await crash(sent, "http", START)
    assert sent.messages == [START]


async def test_a_crash_at_the_start_of_the_service_is_no_request() -> None:
    sent = Sent()
    await crash(sent, "lifespan")
    assert sent.messages == []
