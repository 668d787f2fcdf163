import asyncio
from collections.abc import Mapping

import pytest
from starlette.types import Message

from mcp_tools_proxy.mcp.server.http.event_streams import EventStream
from tests.support.configuration import Json
from tests.support.tables import each_row
from tests.support.virtual_time import BACKEND

RESULT: Json = {"jsonrpc": "2.0", "id": 1, "result": {"text": "\u2028é"}}
NOT_FOUND: Json = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}
NOTE: Json = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
NOTE_FRAME = (
    b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{}}'
    b"\r\n\r\n"
)
PING_FRAME = b": ping\r\n\r\n"
RESULT_FRAME = (
    b'event: message\r\ndata: {"jsonrpc":"2.0","id":1,"result":{"text":"\\u2028\\u00e9"}}\r\n\r\n'
)


class Sent(list[Message]):
    """An ASGI ``send`` that records messages."""

    async def __call__(self, message: Message) -> None:
        self.append(message)

    @property
    def status(self) -> int:
        status: int = self[0]["status"]
        return status

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self[1:]]

    @property
    def is_whole(self) -> bool:
        return not self[-1].get("more_body", False)


@pytest.fixture
def anyio_backend() -> tuple[str, Mapping[str, object]]:
    return BACKEND


async def test_an_error_before_other_messages_keeps_its_status() -> None:
    sent = Sent()
    await EventStream(sent).complete(NOT_FOUND)
    assert (sent.status, len(sent.bodies), sent.is_whole) == (404, 1, True)


async def test_a_message_before_the_result_starts_a_stream_in_ascii() -> None:
    sent = Sent()
    stream = EventStream(sent)
    await stream.notify(NOTE)
    await stream.complete(RESULT)
    assert (sent.status, sent.bodies, sent.is_whole) == (200, [NOTE_FRAME, RESULT_FRAME], True)


async def test_messages_after_the_result_are_dropped() -> None:
    sent = Sent()
    stream = EventStream(sent)
    await stream.complete(RESULT)
    await stream.notify(NOTE)
    assert len(sent) == 2


@each_row(
    ("pauses", "frames"),
    [
        ([14], [NOTE_FRAME]),
        ([16], [PING_FRAME, NOTE_FRAME]),
        ([31], [PING_FRAME, PING_FRAME, NOTE_FRAME]),
        ([10, 10, 16], [NOTE_FRAME, NOTE_FRAME, PING_FRAME, NOTE_FRAME]),
    ],
)
async def test_a_silent_stream_is_pinged_every_15_seconds(
    pauses: list[int], frames: list[bytes]
) -> None:
    sent = Sent()
    stream = EventStream(sent)
    with stream.pings():
        for pause_s in pauses:
            await asyncio.sleep(pause_s)
            await stream.notify(NOTE)
    await stream.complete(RESULT)
    assert sent.bodies == [*frames, RESULT_FRAME]


async def test_concurrent_messages_open_the_stream_once() -> None:
    class Slow(Sent):
        async def __call__(self, message: Message) -> None:
            await asyncio.sleep(1)
            self.append(message)

    sent = Slow()
    stream = EventStream(sent)
    await asyncio.gather(stream.notify(NOTE), stream.notify(NOTE), stream.complete(RESULT))
    assert [message["type"] for message in sent].count("http.response.start") == 1
    assert sent.is_whole
