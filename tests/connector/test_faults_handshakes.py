"""Handshakes that go wrong: each is told as what it is, tried again in time, and never hotly."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.connector.backend_link import Linked, dialling
from tests.connector.faults import (
    TEXT,
    enveloped,
    frame,
    pauses,
    recovered,
    request,
    until_state,
    until_tried,
)
from tests.connector.raw_listener import listening
from tests.support.bounds import BOUND_S
from tests.support.remote_backend.backend import running_backend
from tests.support.remote_backend.handshakes import Manner, Refusal
from tests.support.service import REMOTE, running

TOKEN = "secret-token"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HTTP = "could not be reached: ClientResponseError"
UNAVAILABLE_STATUSES = (502, 503, 504)
ANSWERS = {
    "another protocol": (b"SSH-2.0-x\r\n\r\n", HTTP),
    "half a status line": (b"HTTP/1.1 10", "could not be reached: "),
    "a header without an end": (b"HTTP/1.1 101 X\r\nX: " + b"x" * 100_000, HTTP),
    "nothing": (b"", "could not be reached: "),
    "a page": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "the backend answered with HTTP status 200, and no WebSocket",
    ),
    "a body without an end": (
        b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        "the backend answered with HTTP status 500, and no WebSocket",
    ),
    "the answer to another key": (
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
        "the backend answered with HTTP status 101, and no WebSocket",
    ),
}
named_answers = pytest.mark.parametrize(("said", "told"), ANSWERS.values(), ids=ANSWERS.keys())


@asynccontextmanager
async def received(manner: Manner | Refusal, **options: Any) -> AsyncIterator[Linked]:
    """Run both; every handshake is answered in that manner."""
    async with running_backend() as backend:
        backend.manner = manner
        async with dialling(backend, **options) as service:
            yield Linked(service, backend)


@named_answers
async def test_what_is_no_handshake_is_told_and_tried_again(said: bytes, told: str) -> None:
    async with (
        listening(said) as listener,
        running(remote_url=listener.url(), remote_token=TOKEN) as service,
    ):
        await until_tried(service, 2)
        status = await service.get(REMOTE)
        assert status["last_error"].startswith(told)
        assert (await service.http.get("/health/ready")).status_code == 200


@pytest.mark.parametrize("status", UNAVAILABLE_STATUSES)
async def test_a_backend_that_is_not_there_yet_is_found_in_time(status: int) -> None:
    async with received(Refusal(status)) as (service, backend):
        await until_tried(service, 4)
        backend.manner = Manner.WELCOME
        await recovered(backend, 1)


async def test_a_listener_that_is_no_backend_yet_is_found_in_time() -> None:
    async with received(Manner.GARBAGE) as (service, backend):
        await until_tried(service, 4)
        backend.manner = Manner.WELCOME
        await recovered(backend, 1)


@pytest.mark.parametrize("status", [400, 404, 426, 429, 500])
async def test_a_backend_that_refuses_is_left_alone_for_longer_and_longer(status: int) -> None:
    with capture_logs() as lines:
        async with received(Refusal(status)) as (service, _):
            await until_tried(service, 2)
            await until_state(service, "offline")
    first, second = pauses(lines)
    assert (0.5 <= first <= 1, 1 <= second <= 2) == (True, True)


@pytest.mark.parametrize(("asked", "least"), [("7", 7), ("100000", 300), ("9" * 400, 300)])
async def test_a_backend_is_left_alone_for_as_long_as_it_asks(asked: str, least: float) -> None:
    with capture_logs() as lines:
        async with received(Refusal(503, retry_after=asked)) as (service, _):
            await until_state(service, "offline")
    assert pauses(lines) == [least]


@pytest.mark.parametrize("asked", ["0", "-1", "soon", "", "0.001", "Wed, 21 Oct 2015 07:28:00 GMT"])
@pytest.mark.parametrize("status", [429, 503])
async def test_no_backend_is_dialled_hotly_however_it_asks(status: int, asked: str) -> None:
    with capture_logs() as lines:
        async with received(Refusal(status, retry_after=asked)) as (service, _):
            await until_tried(service, 2)
            await until_state(service, "offline")
    assert all(pause > 0.12 for pause in pauses(lines))


async def test_a_backend_may_choose_no_subprotocol() -> None:
    with capture_logs() as lines:
        async with received(Manner.NO_SUBPROTOCOL) as (_, backend):
            await backend.connected()
            assert (await backend.session().result("tools/list"))["tools"]
    assert "remote.no_subprotocol" in [line["event"] for line in lines]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_with_the_token_or_without(status: int) -> None:
    async with (
        listening(b"HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n") as elsewhere,
        listening(
            f"HTTP/1.1 {status} X\r\nLocation: {elsewhere.url('http')}\r\n"
            "Content-Length: 0\r\n\r\n".encode()
        ) as listener,
        running(remote_url=listener.url(), remote_token=TOKEN) as service,
    ):
        await until_tried(service, 2)
        await until_state(service, "offline")
        assert (await service.get(REMOTE))["last_error"] == (
            f"the backend answered with HTTP status {status}, a redirect"
        )
        assert (listener.connections, elsewhere.connections) == (2, 0)


async def test_a_handshake_without_an_answer_is_given_up_and_tried_again() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with (
        listening(drip) as listener,
        running(remote_url=listener.url(), remote_token=TOKEN) as service,
    ):
        await listener.dialled(2)
        assert (await service.get(REMOTE))["last_error"] == "no answer within 5 s"


async def test_a_slow_handshake_is_waited_for() -> None:
    async with received(Manner.SILENT) as (service, backend):
        await backend.dialled()
        assert (await service.get(REMOTE))["state"] == "connecting"
        backend.manner = Manner.WELCOME
        await recovered(backend, 1)
        assert len(backend.handshakes) == 1


async def test_a_frame_that_comes_together_with_the_handshake_is_heard() -> None:
    heard = asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        (key,) = [
            line.partition(b": ")[2]
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"sec-websocket-key")
        ]
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())  # noqa: S324 - as RFC 6455 has it
        writer.write(
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        writer.write(frame(TEXT, enveloped(request("no/such"))))
        await reader.readexactly(100)
        heard.set()

    async with (
        listening(greet) as listener,
        running(remote_url=listener.url(), remote_token=TOKEN),
        asyncio.timeout(BOUND_S),
    ):
        await heard.wait()
