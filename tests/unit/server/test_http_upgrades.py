import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp_tools_proxy.server.http_protocol import MAX_HEADERS, BoundedProtocol
from tests.support.bounds import BOUND_S, until
from tests.support.tables import each_row
from tests.unit.server.http_connection import CHUNKED, GET, OK, Connected, connected

UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n"


class PatientProtocol(BoundedProtocol):
    """Without a timeout for incomplete requests."""

    arrival_timeout_s = 2 * BOUND_S


def upgrading(head: bytes, protocol: bytes = UPGRADE) -> bytes:
    """Add an upgrade to another protocol to a request."""
    line, rest = head.split(b"\r\n", 1)
    return b"%b\r\n%b%b" % (line, protocol, rest)


def post(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@each_row("step", [1, 7, 100_000])
@each_row(
    "wanted", [UPGRADE, b"Connection: upgrade\r\nUpgrade: websocket\r\n"], ids=["h2c", "websocket"]
)
async def test_an_upgrade_request_is_served_as_http(step: int, wanted: bytes) -> None:
    bodies = [b"1234", b"", b"x" * 100, GET]
    sent = b"".join(upgrading(request, wanted) for request in (post(b"1234"), GET))
    sent += upgrading(CHUNKED, wanted) + b"64\r\n" + b"x" * 100 + b"\r\n0\r\nX: y\r\n\r\n"
    sent += upgrading(post(GET), wanted)
    async with connected() as it:
        for at in range(0, len(sent), step):
            it.writer.write(sent[at : at + step])
            await it.writer.drain()
            await asyncio.sleep(0)
        await it.answers(len(bodies))
        it.writer.write(GET)
        await it.answers(1)
    assert it.service.bodies == [*bodies, b""]


async def test_the_body_of_an_upgrade_is_not_read_as_a_request() -> None:
    async with connected() as it:
        head, body = upgrading(post(GET)).split(b"\r\n\r\n", 1)
        it.writer.write(head + b"\r\n\r\n")
        await until(lambda: it.server.server_state.tasks, "it is served, and waits")
        it.writer.write(body)
        await it.answers(1)
    assert it.service.bodies == [GET]


async def test_the_limits_also_apply_after_an_upgrade() -> None:
    async with connected() as it:
        it.writer.write(upgrading(CHUNKED) + b"0\r\nX: " + b"a" * 70_000)
        assert OK not in await it.rest()


async def test_connection_close_is_respected_with_and_without_an_upgrade() -> None:
    async with connected() as it:
        it.writer.write(upgrading(GET, b"Connection: close, Upgrade\r\nUpgrade: h2c\r\n"))
        assert (await it.rest()).count(OK) == 1


@each_row("step", [1000, 100_000])
async def test_headers_are_counted(step: int) -> None:
    async with connected() as it:
        for number in (MAX_HEADERS, MAX_HEADERS + 1):
            sent = b"GET / HTTP/1.1\r\n" + b"a:\r\n" * number + b"\r\n"
            for at in range(0, len(sent), step):
                it.writer.write(sent[at : at + step])
                await it.writer.drain()
                await asyncio.sleep(0)
            if number == MAX_HEADERS:
                await it.answers(1)
        assert OK not in await it.rest()


async def test_headers_are_counted_before_their_end() -> None:
    async with connected(PatientProtocol) as it:
        # the parser reports a header when the next one begins
        it.writer.write(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (MAX_HEADERS + 1) + b"a")
        assert await it.rest() == b""


@asynccontextmanager
async def request_in_progress(behind: bytes) -> AsyncIterator[Connected]:
    """Send an endless request and then ``behind``; wait until the first one is being served."""

    class AttentiveProtocol(BoundedProtocol):
        poll_s = 0.05

    async with connected(AttentiveProtocol) as it:
        it.service.waits_for_disconnect = True
        it.writer.write(GET + behind)
        async with asyncio.timeout(BOUND_S):
            await it.service.waiting.wait()
        yield it


@each_row(
    "behind",
    [
        b"",
        GET,
        GET * 7,
        b"GET / HTTP/1.1\r\n" * 9,
        post(b"x" * 80_000),
        b"what is that?\r\n\r\n",
    ],
    ids=["nothing", "one", "all that may wait", "too much", "a large body", "no HTTP"],
)
@each_row("how", ["close", "abort"])
async def test_a_disconnected_client_is_noticed_despite_pipelined_data(
    behind: bytes, how: str
) -> None:
    async with request_in_progress(behind) as it:
        getattr(it.writer.transport, how)()
        async with asyncio.timeout(BOUND_S):
            await it.service.disconnected.wait()
        await until(lambda: not it.server.server_state.connections)
    assert it.service.disconnects == 1


async def test_a_client_that_pipelines_and_stays_connected_is_answered() -> None:
    async with request_in_progress(GET * 3) as it:
        await asyncio.sleep(0.2)  # some polls
        it.service.stop_waiting.set()
        await it.answers(4)
    assert it.service.disconnects == 0
