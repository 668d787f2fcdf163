"""Frames that are too large, either way: refused in one step, and nobody else is harmed."""

import struct
from contextlib import suppress

import pytest

from tests.connector.backend_link import begun
from tests.connector.faults import (
    CONTINUATION,
    FINAL,
    TEXT,
    enveloped,
    frame,
    opened,
    recovered,
    request,
    unharmed,
    until_state,
)
from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.session import ENVELOPE, LEGACY, MODERN
from tests.support.service import REMOTE

LIMIT = 10_000
TOO_BIG = 1009
NOT_FINAL = 0
MEGABYTE = 1024 * 1024
GENEROUS = 64 * 1024
"""A limit that leaves room for all that a handshake says."""


def padded(size: int) -> str:
    """Write a request's frame that has so many bytes."""
    text = enveloped(request("ping", "padded"))
    return text + " " * (size - len(text))


async def send_all(backend: Backend, text: str) -> None:
    """Send a frame whose rest nobody may want."""
    with suppress(ConnectionError):
        await backend.link().send_raw(text)


async def test_a_frame_of_ten_megabytes_costs_the_link_and_no_session() -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        link = backend.link()
        await send_all(backend, "x" * 10 * MEGABYTE)
        await recovered(backend)
        assert link.close_code == TOO_BIG
        assert (await session.result("tools/list"))["tools"]


async def test_a_frame_of_the_default_limit_is_heard() -> None:
    async with unharmed() as (_, backend, _):
        session = await opened(backend)
        await backend.link().send_raw(padded(4 * MEGABYTE))
        assert (await session.receive())["id"] == "padded"
        assert len(backend.links) == 1


async def test_a_frame_of_one_byte_more_is_not() -> None:
    async with unharmed(remote_max_frame_bytes=LIMIT) as (service, backend, _):
        session = await opened(backend)
        await send_all(backend, padded(LIMIT))
        assert (await session.receive())["id"] == "padded"
        await send_all(backend, padded(LIMIT + 1))
        status = await until_state(service, "offline")
        assert status["last_error"] == f"a frame of the backend was over {LIMIT} bytes"
        assert len(session.messages) == 2


async def test_fragments_count_together() -> None:
    async with unharmed(remote_max_frame_bytes=LIMIT) as (_, backend, _):
        link = backend.link()
        link.write(frame(TEXT, "x", flags=NOT_FINAL))
        for _ in range(10):
            link.write(frame(CONTINUATION, "x" * (LIMIT // 10), flags=NOT_FINAL))
        await recovered(backend)
        assert link.close_code == TOO_BIG


async def test_a_frame_is_refused_by_its_announced_length_alone() -> None:
    async with unharmed() as (_, backend, _):
        link = backend.link()
        link.write(struct.pack("!BBQ", FINAL | TEXT, 127, 4 * MEGABYTE + 1))
        await recovered(backend)
        assert link.close_code == TOO_BIG


@pytest.mark.parametrize("id_", [7, "seven"])
async def test_an_answer_over_the_limit_is_an_error_in_its_session(id_: object) -> None:
    async with unharmed("big_image", remote_max_frame_bytes=GENEROUS) as (_, backend, _):
        session = await opened(backend)
        large = {"name": "s1:big_image", "arguments": {"bytes": GENEROUS}}
        await session.send(request("tools/call", id_, **large))
        answer = await session.receive()
        assert (answer["id"], answer["error"]["data"]["code"]) == (id_, "RESULT_TOO_LARGE")


async def test_an_answer_over_the_limit_costs_neither_the_link_nor_the_session() -> None:
    async with unharmed("big_image", "echo", remote_max_frame_bytes=GENEROUS) as (_, backend, _):
        session = await opened(backend)
        await session.request(
            "tools/call", {"name": "s1:big_image", "arguments": {"bytes": GENEROUS}}
        )
        assert await session.call("s1:echo", {"text": "x"})
        assert (len(backend.links), len(backend.strays)) == (1, 0)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_no_frame_of_ours_is_over_the_limit_whatever_id_it_has_to_bear(era: str) -> None:
    async with unharmed(remote_max_frame_bytes=LIMIT) as (service, backend, _):
        session = backend.session("x", era=era)
        meta = {"_meta": ENVELOPE} if era == MODERN else {}
        capacity = LIMIT - len(enveloped(request("tools/list", "", **meta), "x"))
        await session.send(request("tools/list", "i" * capacity, **meta))
        await session.request("tools/list")
        assert max(map(len, backend.frames)) <= LIMIT
        assert (await service.get(REMOTE))["open_requests"] == 0


async def test_a_question_over_the_limit_is_one_that_cannot_be_asked() -> None:
    """Who asks is told so at once: nobody would ever answer."""
    raw = {"era": "legacy", "sse": True}
    question = {"method": "elicitation/create", "bytes": GENEROUS}
    async with unharmed("ask", raw=raw, remote_max_frame_bytes=GENEROUS) as (_, backend, _):
        session = await begun(backend, LEGACY, elicitation={})
        result = await session.call("s1:ask", question)
        (answer,) = result["structuredContent"]["answers"]
        assert str(GENEROUS) in answer["error"]["message"]
        assert [it for it in session.messages if "method" in it] == []


async def test_a_frame_that_no_link_survives_is_given_up_and_holds_nobody_up() -> None:
    """The backend takes less than the gateway may send, and says so by closing the link."""
    smaller = {"max_frame_bytes": MEGABYTE}
    large = {"name": "s1:big_image", "arguments": {"bytes": 4_100_000}}
    async with unharmed("big_image", backend_options=smaller, max_result_bytes=8 * MEGABYTE) as (
        service,
        backend,
        _,
    ):
        session, other = await opened(backend), await opened(backend, "another")
        await session.send(request("tools/call", 9, **large))
        await backend.connected(count=2)
        assert (await other.result("tools/list"))["tools"]
        assert (await service.get(REMOTE))["waiting_bytes"] == 0
        assert len(backend.links) <= 4
