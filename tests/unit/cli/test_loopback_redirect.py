"""The loopback redirect of a sign-in: requests that other local users may send."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import pytest

from mcp_tools_proxy.cli.login_commands import (
    MAX_HEAD_BYTES,
    LoopbackRedirect,
    listening,
)
from tests.support.bounds import BOUND_S

STATE = "the-state"


async def _connect(redirect: LoopbackRedirect) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = int(redirect.uri.removeprefix("http://127.0.0.1:").partition("/")[0])
    return await asyncio.open_connection("127.0.0.1", port)


async def _send(redirect: LoopbackRedirect, head: str) -> str:
    """Send a request; return the status, or "" without an answer."""
    reader, writer = await _connect(redirect)
    writer.write(head.encode("latin-1"))
    answer = await _received(reader)
    await _close(writer)
    return answer.decode().partition("\r\n")[0].removeprefix("HTTP/1.1 ")


async def _received(reader: asyncio.StreamReader) -> bytes:
    """Return the data received until the end; nothing if the connection is reset."""
    with suppress(ConnectionError):
        async with asyncio.timeout(BOUND_S):
            return await reader.read()
    return b""


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _finish(redirect: LoopbackRedirect) -> Mapping[str, str]:
    target = f"/oauth/callback?code=c&state={STATE}"
    assert await _send(redirect, f"GET {target} HTTP/1.1\r\n\r\n") == "200 OK"
    return await redirect.wait(BOUND_S)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /oauth/callback?state=the-state HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /oauth/callback?code=evil HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET /oauth/callback?code=evil&state= HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET /oauth/callback?code=evil&state=the-stat%E9 HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET http://[/oauth/callback HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("\xff\xfe\r\n\r\n", "404 Not Found"),
        ("\r\n\r\n", "404 Not Found"),
        ("x" * (2 * MAX_HEAD_BYTES), ""),
    ],
)
async def test_other_requests_are_refused_and_waiting_continues(
    head: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(None) as redirect:
        redirect.expect(STATE)
        assert await _send(redirect, head) == status
        assert await _finish(redirect) == {"code": "c", "state": STATE}
    assert caplog.messages == []


async def test_an_unused_connection_does_not_delay_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Browsers preconnect; the command waited for that connection, or ended with a traceback."""
    before = asyncio.all_tasks()
    async with listening(None) as redirect:
        redirect.expect(STATE)
        reader, writer = await _connect(redirect)
        await _finish(redirect)
    assert asyncio.all_tasks() == before
    assert await _received(reader) == b""
    await _close(writer)
    assert caplog.messages == []


async def test_early_and_second_answers_are_refused() -> None:
    async with listening(None) as redirect:
        early = "GET /oauth/callback?code=early&state= HTTP/1.1\r\n\r\n"
        assert await _send(redirect, early) == "400 Bad Request"
        redirect.expect(STATE)
        first = await _finish(redirect)
        late = f"GET /oauth/callback?code=late&state={STATE} HTTP/1.1\r\n\r\n"
        assert await _send(redirect, late) == "400 Bad Request"
        assert await redirect.wait(BOUND_S) == first
