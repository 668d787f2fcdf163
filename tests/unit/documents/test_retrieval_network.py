"""The Retrieval client with real sockets: the deadline ends every call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import islice

import pytest

from mcp_tools_proxy.documents.retrieval_client import RetrievalClient
from mcp_tools_proxy.domain.errors import RetrievalUnavailable
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.bounds import BOUND_S
from tests.support.tables import each_row
from tests.unit.documents.retrieval_answers import fetch_window

pytestmark = pytest.mark.requirement("T-03")

BODY = b'{"chunks":[{"chunk_id":"c1","page":1,"chunk_index":1,"text":"x"}]}'
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A listening socket; ``serve`` handles each connection, which is then closed."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.url = ""
        self.connections = 0
        self._open: set[asyncio.Future[None]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        closed = asyncio.get_running_loop().create_future()
        self._open.add(closed)
        try:
            await self.serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client disconnected
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            closed.set_result(None)

    async def wait_closed(self, *, but: int = 0) -> None:
        """Wait, at most 5 s, until at most ``but`` connections are open."""
        ends = asyncio.as_completed(self._open, timeout=BOUND_S)
        for end in islice(ends, max(len(self._open) - but, 0)):
            await end


@asynccontextmanager
async def running(serve: Serve) -> AsyncIterator[Server]:
    handler = Server(serve)
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    handler.url = f"http://127.0.0.1:{port}/window"
    async with server:
        yield handler
        server.close()
        for _ in range(
            10
        ):  # a connection being accepted has a handler after a few turns of the loop
            await asyncio.sleep(0)
        await handler.wait_closed()


@asynccontextmanager
async def client_of_url(url: str, *, timeout_s: float = 0.3) -> AsyncIterator[RetrievalClient]:
    client = RetrievalClient(url=url, token=None, timeout_s=timeout_s, metrics=Metrics())
    try:
        yield client
    finally:
        await client.aclose()


async def read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
    await reader.readexactly(int(length.split(b":")[1]))


async def hung_up(reader: asyncio.StreamReader, *, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await reader.read(1) == b""
    except TimeoutError:
        return False


def sending(*parts: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for part in parts:
            writer.write(part)
            await writer.drain()

    return serve


def dripping(content: bytes) -> Serve:
    """Read a request, then send ``content`` byte by byte until the client disconnects."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for place in range(len(content)):
            writer.write(content[place : place + 1])
            if await hung_up(reader, within_s=0.05):
                return

    return serve


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def keep_alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await read_request(reader)
        writer.write(GOOD)
        await writer.drain()


BAD_SERVERS = {
    "hangs": hang,
    "drips its head": dripping(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000),
    "drips its body": dripping(GOOD.replace(b"\r\n\r\n", b"\r\n\r\n" + b" " * 1000)),
    "closes at once": sending(),
    "closes within the head": sending(b"HTTP/1.1 200 OK\r\nContent-"),
    "closes within the body": sending(GOOD[:-10]),
    "sends garbage": sending(b"\x00\x01garbage\xff\r\n\r\n"),
    "sends 10 MB": sending(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n", *[b" " * 100_000] * 100
    ),
    "sends a broken chunk": sending(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    "sends an endless head": sending(
        b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"x" * 9999 + b"\r\n"] * 99
    ),
}


@pytest.mark.parametrize("serve", BAD_SERVERS.values(), ids=BAD_SERVERS.keys())
async def test_a_misbehaving_server_is_unavailable(serve: Serve) -> None:
    async with running(serve) as server, client_of_url(server.url) as client:
        with pytest.raises(RetrievalUnavailable):
            await fetch_window(client)


@each_row("name", ["hangs", "drips its head", "drips its body"])
async def test_a_call_to_a_slow_server_ends_at_the_deadline(name: str) -> None:
    serve = BAD_SERVERS[name]
    clock = asyncio.get_running_loop().time
    async with running(serve) as server, client_of_url(server.url) as client:
        begun = clock()
        with pytest.raises(RetrievalUnavailable):
            await fetch_window(client)
        assert 0.29 <= clock() - begun < 4


async def test_a_closed_port_is_unavailable() -> None:
    async with running(hang) as server:
        url = server.url
    async with client_of_url(url) as client:
        with pytest.raises(RetrievalUnavailable):
            await fetch_window(client)


async def test_an_unresolvable_host_is_unavailable() -> None:
    async with client_of_url("http://nobody.invalid/") as client:
        with pytest.raises(RetrievalUnavailable):
            await fetch_window(client)


async def test_a_server_without_tls_is_unavailable_over_https() -> None:
    async with (
        running(sending(GOOD)) as server,
        client_of_url(server.url.replace("http:", "https:")) as client,
    ):
        with pytest.raises(RetrievalUnavailable):
            await fetch_window(client)


async def test_cancelling_a_call_in_the_tls_handshake_closes_the_socket() -> None:
    greeted = asyncio.Event()

    async def never_greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        greeted.set()
        await reader.read()  # ends with the connection

    async with (
        running(never_greet) as server,
        client_of_url(server.url.replace("http:", "https:"), timeout_s=BOUND_S) as client,
    ):
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(fetch_window(client))
            await greeted.wait()
            call.cancel()
        assert call.cancelled()
        await server.wait_closed()


async def test_two_calls_share_one_connection() -> None:
    async with (
        running(keep_alive) as server,
        client_of_url(server.url, timeout_s=BOUND_S) as client,
    ):
        await fetch_window(client)
        await fetch_window(client)
        assert server.connections == 1


async def test_a_connection_closed_after_each_answer_does_not_fail_calls() -> None:
    async with (
        running(sending(GOOD)) as server,
        client_of_url(server.url, timeout_s=BOUND_S) as client,
    ):
        for _ in range(20):
            assert await fetch_window(client)


async def test_a_keep_alive_connection_closed_by_the_server_does_not_fail_calls() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await sending(GOOD)(reader, writer)
        await reader.read(1)  # the connection is closed only after the next request arrived

    async with running(serve) as server, client_of_url(server.url, timeout_s=BOUND_S) as client:
        await fetch_window(client)
        assert await fetch_window(client)


@pytest.mark.slow
@pytest.mark.parametrize("calls", [200, 300], ids=["as-many", "more"])
async def test_hanging_calls_time_out_with_and_without_a_connection(calls: int) -> None:
    async with running(hang) as server, client_of_url(server.url, timeout_s=1.0) as client:
        ends = await asyncio.gather(
            *[fetch_window(client) for _ in range(calls)], return_exceptions=True
        )
    assert {type(end) for end in ends} == {RetrievalUnavailable}


@pytest.mark.slow
async def test_the_pool_recovers_from_many_hanging_calls() -> None:
    hanging = True

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (hang if hanging else keep_alive)(reader, writer)

    async with running(serve) as server, client_of_url(server.url, timeout_s=5.0) as client:
        await asyncio.gather(*[fetch_window(client) for _ in range(300)], return_exceptions=True)
        hanging = False
        assert await fetch_window(client)


async def step(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def cancelled_after(client: RetrievalClient, steps: int) -> bool:
    """Start a call, cancel it after ``steps`` turns of the event loop; return False if it was
    done."""
    async with asyncio.TaskGroup() as tasks:
        pending_call = tasks.create_task(fetch_window(client))
        await step(steps)
        pending_call.cancel()
    return pending_call.cancelled()


async def test_cancellation_of_a_call_is_propagated() -> None:
    async with running(hang) as server, client_of_url(server.url, timeout_s=BOUND_S) as client:
        assert await cancelled_after(client, 50)


async def test_a_call_cancelled_at_any_step_releases_its_connection() -> None:
    async with (
        running(keep_alive) as server,
        client_of_url(server.url, timeout_s=BOUND_S) as client,
    ):
        for round_ in range(320):
            await cancelled_after(client, round_ % 32)
        await fetch_window(client)
        await server.wait_closed(but=1)
