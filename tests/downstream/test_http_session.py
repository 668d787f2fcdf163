import asyncio
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer
from tests.downstream.connections import config_of, dialled
from tests.downstream.stub_server import LEGACY, Json, answering, events, fine, result_of
from tests.support.bounds import BOUND_S, until
from tests.support.mcp_servers.raw_web import running_raw

PING = 'data: {"jsonrpc":"2.0","id":"p1","method":"ping"}\n\n'
CHANGED = 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'


def entry_of(url: str, **headers: str) -> Json:
    return {"transport": "streamable-http", "url": url, "headers": headers}


async def test_a_sessions_id_is_sent_with_every_request_and_released_at_the_end() -> None:
    async with answering(fine, era="legacy", session_id="abc") as server:
        async with dialled(entry_of(server.url)) as line:
            await line.call("any")
        methods = {message["method"]: request for request, message in server.seen}
        assert "Mcp-Session-Id" not in methods["initialize"].headers
        for method in ("notifications/initialized", "tools/call"):
            assert methods[method].headers["Mcp-Session-Id"] == "abc"
            assert methods[method].headers["MCP-Protocol-Version"] == LEGACY["protocolVersion"]
        assert [delete.headers["Mcp-Session-Id"] for delete in server.deletes] == ["abc"]


@pytest.mark.parametrize("sse", [False, True])
async def test_a_lost_session_fails_the_call_and_the_link(sse: bool) -> None:
    async with (
        running_raw("http", era="legacy", sse=sse) as server,
        dialled(server.entry) as line,
    ):
        await line.call("echo", text="x")
        server.lose_sessions()
        with pytest.raises(ConnectionFailure) as caught:
            await line.call("echo", text="x")
        assert caught.value.reason == "the server has lost the session"
        assert (
            await asyncio.wait_for(line.link.wait_lost(), BOUND_S)
            == "the server has lost the session"
        )


async def test_a_refusal_that_names_the_session_is_a_lost_session_too() -> None:
    async def answer(_: web.Request, __: Json) -> web.StreamResponse:
        error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
        return web.json_response({"jsonrpc": "2.0", "id": None, "error": error}, status=400)

    async with (
        answering(answer, era="legacy", session_id="abc") as server,
        dialled(entry_of(server.url)) as line,
    ):
        with pytest.raises(ConnectionFailure):
            await line.call("any")
        assert await asyncio.wait_for(line.link.wait_lost(), BOUND_S)


async def test_a_modern_link_survives_a_restart_of_its_server() -> None:
    async with (
        running_raw("http", era="modern", list_changed=False) as server,
        dialled(server.entry) as line,
    ):
        await line.call("echo", text="x")
        await server.restart()
        await line.call("echo", text="x")


async def test_a_stopped_server_is_noticed_without_a_call() -> None:
    async with running_raw("http", era="modern") as server, dialled(server.entry) as line:
        await until(lambda: bool(server.script.listeners), "it listens")
        await server.stop()
        assert "connection refused" in await asyncio.wait_for(line.link.wait_lost(), BOUND_S)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_broken_stream_of_changes_is_reopened_and_counts_as_a_change(
    era: str,
) -> None:
    async with running_raw("http", era=era) as server, dialled(server.entry) as line:
        await until(lambda: bool(server.script.listeners), "it listens")
        assert line.changes == []
        server.drop_connections()
        await until(lambda: len(line.changes) == 1, "listeners are notified of the gap")
        server.script.notify_list_changed()
        await until(lambda: len(line.changes) == 2, "and changes are notified again")


async def test_a_server_without_a_stream_is_not_asked_again() -> None:
    requests = []

    async def get(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return web.Response(status=405)

    async with answering(fine, era="legacy", get=get) as server, dialled(entry_of(server.url)):
        await until(lambda: bool(requests), "the stream is requested")
        await asyncio.sleep(0.7)  # longer than the first pause before the next attempt
    assert len(requests) == 1


async def test_a_request_on_a_calls_stream_is_answered_by_a_post() -> None:
    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        reply = f'data: {{"jsonrpc":"2.0","id":{message["id"]},"result":{{"n":1}}}}\n\n'
        return await events(request, PING, CHANGED, reply)

    async with (
        answering(answer, era="legacy", session_id="abc") as server,
        dialled(entry_of(server.url)) as line,
    ):
        assert await line.call("any") == {"n": 1}
        replies = [(request, m) for request, m in server.seen if "method" not in m]
        ((request, reply),) = replies
        assert reply == {"jsonrpc": "2.0", "id": "p1", "result": {}}
        assert request.headers["Mcp-Session-Id"] == "abc"
        assert len(line.changes) == 1


async def test_requests_for_unsupported_methods_are_declined() -> None:
    async def get(request: web.Request) -> web.StreamResponse:
        list_roots = '{"jsonrpc":"2.0","id":9,"method":"roots/list"}'
        response = await events(request, f"data: {list_roots}\n\n")
        await asyncio.sleep(5)
        return response

    async with answering(fine, era="legacy", get=get) as server, dialled(entry_of(server.url)):
        await until(lambda: any("error" in m for _, m in server.seen), "it is declined")


async def test_a_stream_that_the_server_ends_early_is_resumed() -> None:
    request_ids = []

    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        request_ids.append(message["id"])
        return await events(request, "id: e1\nretry: 10\ndata:\n\n")

    async def get(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Last-Event-ID") != "e1":
            return web.Response(status=405)
        reply = f'{{"jsonrpc":"2.0","id":{request_ids[0]},"result":{{"n":1}}}}'
        return await events(request, f"data: {reply}\n\n")

    async with (
        answering(answer, era="legacy", session_id="abc", get=get) as server,
        dialled(entry_of(server.url)) as line,
    ):
        assert await line.call("any") == {"n": 1}


async def test_each_server_gets_only_its_own_headers() -> None:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        servers = [await enter(answering(fine)) for _ in range(3)]
        dialer = await enter(Dialer())
        for number, server in enumerate(servers):
            headers = {"X-Key": f"key-{number}", "Accept": "x/y", "mcp-method": "mine"}
            config = config_of(entry_of(server.url, **headers), server_id=f"s{number}")
            link = await enter(dialer.dial(config, lambda: None))
            await link.request("tools/call", {"name": "any"}, timeout_s=BOUND_S)
        for number, server in enumerate(servers):
            assert server.messages("tools/call")
            for request, message in server.seen:
                assert request.headers.getall("X-Key") == [f"key-{number}"]
                assert request.headers["Accept"] == "application/json, text/event-stream"
                assert request.headers.getall("Mcp-Method") == [message["method"]]
                assert "Cookie" not in request.headers


async def test_modern_headers_match_the_body() -> None:
    async def answer(_: web.Request, message: Json) -> web.StreamResponse:
        return result_of(message, {})

    schema = {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    }
    async with answering(answer) as server, dialled(entry_of(server.url)) as line:
        wire = line.link
        await wire.request("tools/call", {"name": "é:x", "arguments": {}}, timeout_s=BOUND_S)
        request, message = server.seen[-1]
        assert request.headers["Mcp-Name"] == "=?base64?w6k6eA==?="
        meta = message["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "mcp-tools-proxy"
        server.listing = [{"name": "near", "inputSchema": schema}, {"name": 3}, "odd"]
        await wire.request("tools/list", {}, timeout_s=BOUND_S)
        params = {"name": "near", "arguments": {"region": "eu"}}
        await wire.request("tools/call", params, timeout_s=BOUND_S)
        assert server.seen[-1][0].headers["Mcp-Param-Region"] == "eu"


async def test_a_closed_link_accepts_no_more_requests() -> None:
    async with answering(fine) as server:
        async with dialled(entry_of(server.url)) as line:
            pass
        with pytest.raises(ConnectionFailure):
            await line.call("any")


async def test_closing_is_quick_if_the_server_does_not_end_its_session() -> None:
    async with answering(fine, era="legacy", session_id="abc") as server:

        async def never(_: web.Request) -> web.StreamResponse:
            await asyncio.sleep(60)
            raise AssertionError

        async with asyncio.timeout(BOUND_S):
            async with dialled(entry_of(server.url)):
                server.on_delete = never


@pytest.mark.parametrize("transport", ["http", "sse", "ws"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_no_connection_is_left_after_many_cancelled_calls(transport: str, era: str) -> None:
    async with running_raw(transport, era=era) as server:
        async with dialled(server.entry) as line:
            calls = [asyncio.ensure_future(line.call("hang")) for _ in range(200)]
            await asyncio.sleep(0.05)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: server.connection_count == 0, "every connection is closed")
