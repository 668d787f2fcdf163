import asyncio
from collections.abc import Callable
from functools import partial

import uvicorn

from mcp_tools_proxy.server.http_protocol import (
    MAX_HEAD_BYTES,
    MAX_PENDING_REQUESTS,
    BoundedProtocol,
)
from tests.support.bounds import BOUND_S, until
from tests.support.captured_logs import capture_logs
from tests.support.tables import each_row
from tests.unit.server.http_connection import CHUNKED, GET, OK, ImpatientProtocol, connected


@each_row(
    "sent",
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
        CHUNKED + b"5\r\n12345\r\n0\r\nX: ",
    ],
    ids=["nothing", "half a line", "no body", "half a body", "half a trailer"],
)
async def test_a_request_that_does_not_arrive_in_time_ends_the_connection(sent: bytes) -> None:
    async with connected(ImpatientProtocol) as it:
        it.writer.write(sent)
        assert await it.reader.read() == b""


UPLOAD = b"PUT /upload?x=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n1"


class UploadingProtocol(ImpatientProtocol):
    """Has a longer timeout for one upload."""

    uploads = (("PUT", "/upload"),)
    upload_timeout_s = BOUND_S


async def test_an_upload_has_a_longer_timeout_than_other_requests() -> None:
    async with connected(UploadingProtocol) as it:
        it.writer.write(UPLOAD)
        await asyncio.sleep(5 * UploadingProtocol.arrival_timeout_s)
        it.writer.write(b"2")
        await it.answers(1)
        assert it.service.bodies == [b"12"]


@each_row(
    "sent", [UPLOAD.replace(b"PUT", b"POST"), UPLOAD.replace(b"upload", b"uploads"), UPLOAD[:20]]
)
async def test_other_requests_do_not_have_the_timeout_of_uploads(sent: bytes) -> None:
    async with connected(UploadingProtocol) as it:
        it.writer.write(sent)
        assert await it.reader.read() == b""


async def test_an_upload_that_never_completes_ends_the_connection() -> None:
    class Impatient(UploadingProtocol):
        upload_timeout_s = 0.2

    async with connected(Impatient) as it:
        it.writer.write(UPLOAD)
        assert await it.reader.read() == b""


@each_row("answered_after_s", [0, 0.3])
async def test_a_refused_upload_does_not_have_a_longer_timeout(
    answered_after_s: float,
) -> None:
    async with connected(UploadingProtocol) as it:
        it.service.reads_bodies = False
        it.service.gate.clear()
        it.writer.write(UPLOAD)
        await asyncio.sleep(answered_after_s)
        it.service.gate.set()
        await it.answers(1)
        assert await it.rest() == b""


async def test_line_breaks_after_an_answer_do_not_keep_a_connection_open() -> None:
    async with connected(ImpatientProtocol) as it:
        it.writer.write(GET)
        await it.answers(1)
        it.writer.write(b"\r\n")
        assert await it.rest() == b""


async def test_a_received_request_can_be_processed_slowly() -> None:
    async with connected(ImpatientProtocol) as it:
        it.service.gate.clear()
        it.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n12")
        asyncio.get_running_loop().call_later(0.3, it.service.gate.set)
        await it.answers(1)


async def test_pipelined_requests_up_to_the_limit_keep_the_connection_open() -> None:
    async with connected() as it:
        for _ in range(3):
            it.writer.write(GET * MAX_PENDING_REQUESTS)
            await it.answers(MAX_PENDING_REQUESTS)


async def test_one_pipelined_request_too_many_ends_the_connection_after_the_others() -> None:
    async with connected() as it:
        it.service.gate.clear()
        it.writer.write(GET * (MAX_PENDING_REQUESTS + 1))
        await until(lambda: it.service.bodies, "the first is being served")
        it.service.gate.set()
        answered = await it.rest()
    assert (answered.count(OK), answered.count(b"connection: close")) == (MAX_PENDING_REQUESTS, 1)


async def test_eight_of_endless_pipelined_requests_are_answered() -> None:
    async with connected() as it:
        it.service.gate.clear()
        it.writer.write(GET * 100_000)
        it.service.gate.set()
        assert 0 < (await it.rest()).count(OK) <= MAX_PENDING_REQUESTS
        assert len(it.service.bodies) <= MAX_PENDING_REQUESTS


async def test_a_malformed_request_does_not_lose_the_previous_answer() -> None:
    async with connected() as it:
        it.service.gate.clear()
        it.writer.write(GET + b"\x00\x01 what is that?\r\n\r\n")
        await until(lambda: it.service.bodies, "the first is being served")
        it.service.gate.set()
        answered = await it.rest()
    assert (answered.count(b"HTTP/1.1"), answered.count(OK)) == (1, 1)


async def test_a_malformed_request_is_answered_with_an_error() -> None:
    async with connected() as it:
        it.writer.write(b"what is that?\r\n\r\n")
        assert (await it.rest()).startswith(b"HTTP/1.1 400 ")


async def test_trailers_are_not_treated_as_headers() -> None:
    async with connected() as it:
        it.writer.write(CHUNKED + b"2\r\n12\r\n0\r\nX-Tenant-Id: tenant_1\r\n\r\n" + GET)
        await it.answers(2)
        first, second = it.service.headers
    assert it.service.bodies[0] == b"12"
    assert [set(dict(headers)) for headers in (first, second)] == [
        {b"host", b"transfer-encoding"},
        {b"host"},
    ]


def close_after_responses(server: uvicorn.Server) -> None:
    """Close connections as a stop signal does."""
    for connection in server.server_state.connections:
        assert isinstance(connection, BoundedProtocol)
        connection.close_after_response()


async def test_a_signal_in_the_middle_of_a_response_leaves_its_connection_open() -> None:
    async with connected() as it:
        it.service.behind_head = partial(close_after_responses, it.server)
        for _ in range(2):
            it.writer.write(GET)
            head = await it.reader.readuntil(b"\r\n\r\n")
            assert b"connection: close" not in head.lower()


async def test_a_request_answered_before_its_body_leaves_an_idle_connection() -> None:
    async with connected(idle_s=0.1) as it:
        it.service.reads_bodies = False
        it.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
        await it.answers(1)
        it.writer.write(b"12")
        assert await it.rest() == b""


def padded_head(size: int) -> bytes:
    """Build a request without body whose head has that many bytes."""
    return b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (
        b"a" * (size - len(GET) - len(b"X: \r\n"))
    )


def padded_trailers(size: int) -> bytes:
    """Build a request whose trailers and final blank line have that many bytes."""
    return CHUNKED + b"2\r\n12\r\n0\r\nX: %b\r\n\r\n" % (b"a" * (size - len(b"X: \r\n\r\n")))


def padded_chunk_line(size: int) -> bytes:
    """Build a request with a chunk line of that many bytes."""
    return CHUNKED + b"2;x=%b\r\n12\r\n0\r\n\r\n" % (b"a" * (size - len(b"2;x=\r\n")))


BEFORE = {
    "nothing before": b"",
    "a request before": GET,
    "a body before": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
    "a chunked body before": CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n",
    "trailers before": CHUNKED + b"0\r\nX: 1\r\nY: 2\r\n\r\n",
    "line ends before": b"\r\n\r\n\r\n",
}


@each_row("padded", [padded_head, padded_trailers, padded_chunk_line])
@each_row("before", BEFORE)
async def test_head_trailers_and_chunk_lines_are_limited_exactly(
    padded: Callable[[int], bytes], before: str
) -> None:
    is_one = int(BEFORE[before].strip() != b"")
    async with connected() as it:
        it.writer.write(BEFORE[before] + padded(MAX_HEAD_BYTES))
        await it.answers(is_one + 1)
        it.writer.write(BEFORE[before] + padded(MAX_HEAD_BYTES + 1))
        answered = await it.rest()
    assert answered.count(OK) <= is_one
    assert len(it.service.bodies) <= is_one + 1 + is_one


@each_row("padded", [padded_head, padded_trailers, padded_chunk_line])
@each_row("step", [1000, 65_535])
async def test_the_limit_is_the_same_for_any_segmentation(
    padded: Callable[[int], bytes], step: int
) -> None:
    async with connected() as it:
        for size, number in ((MAX_HEAD_BYTES, 1), (MAX_HEAD_BYTES + 1, 0)):
            sent = padded(size)
            for at in range(0, len(sent), step):
                it.writer.write(sent[at : at + step])
                await it.writer.drain()
                await asyncio.sleep(0)
            if number:
                await it.answers(number)
        assert OK not in await it.rest()


@each_row(
    "begun",
    [b"GET / HTTP/1.1\r\nHost: x\r\nX: ", CHUNKED + b"5;x=", CHUNKED + b"0\r\nX: "],
    ids=["head", "chunk line", "trailers"],
)
async def test_exceeding_the_limit_is_refused_before_the_end(begun: bytes) -> None:
    with capture_logs() as lines:
        async with connected() as it:
            it.writer.write(begun + b"a" * (MAX_HEAD_BYTES + 1))
            assert await it.reader.read() == b""
    assert ["too large" in line["reason"] for line in lines] == [True]


async def test_a_body_of_small_chunks_is_assembled() -> None:
    async with connected() as it:
        it.writer.write(CHUNKED + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n" + GET)
        await it.answers(2)
        assert it.service.bodies == [b"x" * 100_000, b""]


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    async with connected(ImpatientProtocol) as it:
        it.service.size = 50_000_000
        it.writer.write(GET)
        await until(lambda: it.service.bodies)
        await until(lambda: not it.server.server_state.connections)


async def test_a_client_that_reads_slowly_is_not_disconnected() -> None:
    class PatientProtocol(BoundedProtocol):
        stall_timeout_s = 2.0

    async with connected(PatientProtocol) as it:
        it.service.size = 20_000_000
        it.writer.write(GET)
        await it.reader.readuntil(b"\r\n\r\n")
        read = 0
        while read < it.service.size:
            read += len(await it.reader.read(1_000_000))
        assert read == it.service.size
