"""What goes wrong on the way to a server, in words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from mcp_tools_proxy.downstream.transports.failures import HTTP_ERRORS, from_aiohttp


@asynccontextmanager
async def talking_plain() -> AsyncIterator[str]:
    """Serve something on a port that is no TLS; give its https URL."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def test_a_server_without_tls_is_not_said_to_have_a_bad_certificate() -> None:
    async with talking_plain() as url, aiohttp.ClientSession() as web:
        with pytest.raises(HTTP_ERRORS) as caught:
            await web.get(url)
    assert from_aiohttp(caught.value).reason == (
        "no TLS with the server; perhaps it speaks plain HTTP at this url"
    )
