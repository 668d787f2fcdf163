import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from tests.downstream.connections import dialled
from tests.support.bounds import BOUND_S
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.web_app import serving_app


@asynccontextmanager
async def getting(handler: object) -> AsyncIterator[str]:
    """Serve one GET handler; yield ``host:port/mcp``."""
    app = web.Application()
    app.router.add_get("/mcp", handler)  # type: ignore[arg-type] # a handler
    async with serving_app(app, cancels=True) as url:
        yield f"{url.removeprefix('http://')}/mcp"


async def fault_of(transport: str, url: str) -> str:
    with pytest.raises(ConnectionFailure) as caught:
        async with asyncio.timeout(BOUND_S), dialled({"transport": transport, "url": url}):
            pass
    return caught.value.reason


async def test_the_subprotocol_and_the_servers_headers_are_sent_in_the_handshake() -> None:
    async with (
        running_raw("ws") as server,
        dialled(server.entry, headers={"X-Key": "k"}) as line,
    ):
        headers = (await line.call("headers"))["structuredContent"]
    assert (headers["sec-websocket-protocol"], headers["x-key"]) == ("mcp", "k")


async def test_a_handshake_is_not_redirected_to_another_address() -> None:
    seen = []

    async def other(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return web.Response()

    async with getting(other) as there:

        async def redirect(_: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(f"http://{there}")

        async with getting(redirect) as here:
            for transport, scheme in (("websocket", "ws"), ("sse", "http")):
                reason = await fault_of(transport, f"{scheme}://{here}")
                assert "redirects to another address are not followed" in reason
    assert seen == []


async def test_a_refused_handshake_states_its_reason() -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.Response(status=401)

    async with getting(refuse) as here:
        assert "401: the server rejected the credentials" in await fault_of(
            "websocket", f"ws://{here}"
        )
        assert "401: the server rejected the credentials" in await fault_of("sse", f"http://{here}")


async def test_the_reason_of_a_closed_websocket_has_its_code() -> None:
    async def closing(request: web.Request) -> web.StreamResponse:
        websocket = web.WebSocketResponse(protocols=("mcp",))
        await websocket.prepare(request)
        await websocket.receive()
        await websocket.close(code=1013)
        return websocket

    async with getting(closing) as here:
        assert "1013" in await fault_of("websocket", f"ws://{here}")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("event: endpoint\ndata: http://localhost:1/x\n\n", "another origin"),
        ("event: endpoint\ndata: //evil.test/x\n\n", "another origin"),
        ("data: {}\n\n", "address for POST"),
        ("event: endpoint\ndata: http://[x\n\n", "address for POST"),
        ("event: endpoint\ndata: mailto:x\n\n", "address for POST"),
        (": nothing\n\n", "ended before it named"),
    ],
    ids=["port", "host", "message", "no-url", "no-host", "nothing"],
)
async def test_an_event_stream_must_name_an_address_of_its_own_origin(
    first: str, words: str
) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(first.encode())
        return response

    async with getting(stream) as here:
        assert words in await fault_of("sse", f"http://{here}")


async def test_an_answer_that_is_not_an_event_stream_is_an_error() -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>", content_type="text/html")

    async with getting(page) as here:
        assert "no event stream" in await fault_of("sse", f"http://{here}")


async def test_a_message_refused_by_the_server_fails_only_its_request() -> None:
    async with running_raw("sse") as server, dialled(server.entry) as line:
        await line.call("echo", text="x")
        server.lose_sessions()
        with pytest.raises(ConnectionFailure) as caught:
            await line.call("echo", text="x")
        assert "HTTP status 404" in caught.value.reason
