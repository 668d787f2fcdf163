"""Failing handshakes: pauses, redirects and slow answers."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.connector.backend_link import Linked, dialling
from tests.connector.link_checks import events, pauses, until_state, until_tried
from tests.connector.raw_frames import TEXT, enveloped, frame, request
from tests.connector.raw_listener import listening
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs
from tests.support.remote_backend.backend import running_backend
from tests.support.remote_backend.handshakes import Answer, Manner, Refusal
from tests.support.service import REMOTE, running

TOKEN = "secret-token"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@asynccontextmanager
async def answering(answer: Answer, **options: Any) -> AsyncIterator[Linked]:
    """Run both; the backend answers every handshake in this way."""
    async with running_backend() as backend:
        backend.manner = answer
        async with dialling(backend, **options) as service:
            yield Linked(service, backend)


async def test_pauses_before_dialling_a_refusing_backend_grow() -> None:
    with capture_logs() as lines:
        async with answering(Refusal(400)) as (service, _):
            await until_tried(service, 2)
            await until_state(service, "offline")
    first, second = pauses(lines)[:2]
    assert (0.5 <= first <= 1, 1 <= second <= 2) == (True, True)


@pytest.mark.parametrize(("retry_after", "pause_s"), [("7", 7), ("100000", 300), ("9" * 400, 300)])
async def test_the_gateway_waits_as_long_as_the_backend_requests(
    retry_after: str, pause_s: float
) -> None:
    with capture_logs() as lines:
        async with answering(Refusal(503, retry_after=retry_after)) as (service, _):
            await until_state(service, "offline")
    assert pauses(lines) == [pause_s]


async def test_a_backend_may_choose_no_subprotocol() -> None:
    with capture_logs() as lines:
        async with answering(Manner.NO_SUBPROTOCOL) as (_, backend):
            await backend.connected()
            assert (await backend.session().result("tools/list"))["tools"]
    assert events(lines, "remote.no_subprotocol")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_with_or_without_the_token(status: int) -> None:
    async with (
        listening(b"HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n") as elsewhere,
        listening(
            f"HTTP/1.1 {status} X\r\nLocation: {elsewhere.url('http')}\r\n"
            "Content-Length: 0\r\n\r\n".encode()
        ) as listener,
        running(remote_url=listener.url(), remote_token=TOKEN) as service,
    ):
        assert (await until_state(service, "offline"))["last_error"] == (
            f"the backend answered with HTTP status {status}, a redirect"
        )
        assert elsewhere.connections == 0


async def test_an_unanswered_handshake_times_out_and_is_retried() -> None:
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


async def test_a_slow_handshake_succeeds() -> None:
    async with answering(Manner.SILENT) as (service, backend):
        await backend.dialled()
        assert (await service.get(REMOTE))["state"] == "connecting"
        backend.manner = Manner.WELCOME
        await backend.connected()
        assert len(backend.handshakes) == 1


async def test_a_frame_that_arrives_with_the_handshake_is_answered() -> None:
    answered = asyncio.Event()

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
        answered.set()

    async with (
        listening(greet) as listener,
        running(remote_url=listener.url(), remote_token=TOKEN),
        asyncio.timeout(BOUND_S),
    ):
        await answered.wait()
