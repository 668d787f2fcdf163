import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import aiohttp
import pytest
from mcp.types import INTERNAL_ERROR

from mcp_tools_proxy.downstream.mcp_client.dialer import HttpClients
from mcp_tools_proxy.downstream.mcp_client.error_mapping import (
    HTTP_ERRORS,
    Unreachable,
    from_aiohttp,
    peer_error,
)
from tests.support.bounds import BOUND_S
from tests.support.tables import each_row

CALLERS_THAT_FILL_IT = 4


@asynccontextmanager
async def server_without_tls() -> AsyncIterator[str]:
    """Run a server without TLS; yield its port as an https URL."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def test_a_server_without_tls_is_not_reported_as_a_bad_certificate() -> None:
    async with server_without_tls() as url, aiohttp.ClientSession() as web:
        with pytest.raises(HTTP_ERRORS) as caught:
            await web.get(url)
    assert from_aiohttp(caught.value).reason == (
        "the TLS handshake failed; it may expect plain HTTP at this url"
    )


async def test_a_timeout_is_not_reported_as_a_lost_connection() -> None:
    with pytest.raises(HTTP_ERRORS) as caught:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    assert from_aiohttp(caught.value).reason == "the server did not answer in time"


@contextmanager
def unanswering_port() -> Iterator[int]:
    """Yield a port where connections hang, as on a host that is down."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(CALLERS_THAT_FILL_IT):  # never accepted, so the backlog is full
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@each_row("scheme", ["http", "ws"])
async def test_an_unresponsive_host_is_reported_as_unreachable_soon(scheme: str) -> None:
    clients = HttpClients(connect_s=0.2)
    web = clients.of(None)
    with unanswering_port() as port:
        url = f"{scheme}://127.0.0.1:{port}/mcp"
        async with asyncio.timeout(BOUND_S):
            with pytest.raises(HTTP_ERRORS) as caught:
                await (web.websockets.ws_connect(url) if scheme == "ws" else web.http.post(url))
        await clients.close()
    fault = from_aiohttp(caught.value)
    assert (type(fault), fault.reason) == (
        Unreachable,
        "no answer from its address",
    )


@each_row("code", [True, 10**4200, 2**31, "-32000", None, 1.5])
def test_an_invalid_error_code_becomes_internal_error(code: object) -> None:
    assert peer_error({"code": code, "message": "no"}).code == INTERNAL_ERROR
