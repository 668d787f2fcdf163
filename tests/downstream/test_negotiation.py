import asyncio
import socket
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from mcp_tools_proxy.domain.server import Transport
from mcp_tools_proxy.downstream.connection import Connection, ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from tests.downstream.connections import config_of, dialled
from tests.downstream.stub_server import Json, answering, fine
from tests.support.bounds import until
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.mcp_servers.threaded_server import running_server

MODERN, LEGACY = "2026-07-28", "2025-11-25"


AGREED = {"both": MODERN, "modern": MODERN, "legacy": LEGACY}
SPOKEN = {
    "http": Transport.STREAMABLE_HTTP,
    "sse": Transport.SSE,
    "ws": Transport.WEBSOCKET,
}


@pytest.mark.parametrize("mode", SPOKEN)
@pytest.mark.parametrize("era", AGREED)
async def test_the_sdks_servers_use_the_newest_era_they_know(mode: str, era: str) -> None:
    async with running_server(mode, era=era) as server, dialled(server.entry) as line:
        assert (line.link.transport, line.link.era) == (SPOKEN[mode], AGREED[era])
        tools = await line.link.request("tools/list", {}, timeout_s=10)
        assert len(tools["tools"]) == 1


@pytest.mark.parametrize("mode", ["http", "sse"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_http_detects_the_servers_transport(mode: str, era: str) -> None:
    async with (
        running_raw(mode, era=era) as server,
        dialled(server.entry, transport="http") as line,
    ):
        assert line.link.transport is SPOKEN[mode]
        assert await line.call("echo", text="x")


@pytest.mark.parametrize("status", [400, 404, 405, 406, 415, 500])
async def test_any_refusal_of_the_newer_probe_falls_back_to_the_older_era(status: int) -> None:
    async def discovered(_: web.Request, __: Json) -> web.StreamResponse:
        return web.Response(status=status, text="?")

    async with (
        answering(fine, era="legacy", on_discover=discovered) as server,
        dialled({"transport": "http", "url": server.url}) as line,
    ):
        assert line.link.era == LEGACY


@pytest.mark.parametrize("status", [301, 401, 403, 429, 503])
async def test_a_refusal_unrelated_to_the_era_ends_the_attempt_immediately(status: int) -> None:
    async def discovered(_: web.Request, __: Json) -> web.StreamResponse:
        return web.Response(status=status, text="?")

    async with answering(fine, on_discover=discovered) as server:
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled({"transport": "http", "url": server.url}):
                pass
        assert f"HTTP status {status}" in caught.value.reason
        assert len(server.seen) == 1


async def test_an_unanswered_newer_probe_falls_back_to_the_older_era() -> None:
    async with (
        running_raw("http", era="legacy", mute=("server/discover",), stateless=True) as server,
        dialled(server.entry, connect_timeout_s=9) as line,
    ):  # the SDK would wait 10 s
        assert line.link.era == LEGACY


@pytest.mark.parametrize("transport", ["stdio", "ws", "sse"])
async def test_a_server_killed_by_the_newer_probe_is_connected_to_again(
    transport: str,
) -> None:
    options: Json = {"era": "legacy", "die_on": ("server/discover",)}
    if transport == "stdio":
        async with dialled(raw_entry(**options)) as line:
            assert line.link.era == LEGACY
        return
    async with running_raw(transport, **options) as server, dialled(server.entry) as line:
        assert line.link.era == LEGACY


RECOVERS = """
import os, pathlib, sys
starts, broken_for = pathlib.Path(sys.argv[1]), int(sys.argv[2])
count = len(starts.read_text()) if starts.exists() else 0
starts.write_text("x" * (count + 1))
if count < broken_for:
    sys.exit(1)
os.execv(sys.executable, [sys.executable, "-m", "tests.support.mcp_servers.raw", *sys.argv[3:]])
"""


@pytest.mark.parametrize(
    ("options", "broken_for", "starts", "dials"),
    [
        ({"era": "legacy", "die_on": "server/discover"}, 2, 3, 2),  # the third without the probe
        ({"era": "legacy", "die_on": "server/discover"}, 3, 5, 4),
        ({"era": "modern"}, 3, 4, 3),
        ({"era": "modern"}, 2, 4, 3),  # the third dial tries both again
    ],
)
async def test_a_program_that_exits_at_startup_is_started_once_for_each_further_attempt(
    tmp_path: Path, options: Json, broken_for: int, starts: int, dials: int
) -> None:
    journal = tmp_path / "starts"
    entry = raw_entry(**options)
    args = ["-c", RECOVERS, str(journal), str(broken_for), *entry["args"][2:]]
    config, count = config_of({**entry, "args": args}), 0
    async with Dialer() as dialer:
        while True:
            count += 1
            assert count < 9
            with suppress(ConnectionFailure, JsonRpcError):
                async with dialer.dial(config, lambda: None) as link:
                    assert link.era == (LEGACY if options["era"] == "legacy" else MODERN)
                    break
    assert (len(journal.read_text()), count) == (starts, dials)


async def test_a_successful_choice_is_tried_first_the_next_time() -> None:
    async with running_raw("sse", era="legacy", die_on=("server/discover",)) as server:
        config = config_of(server.entry, transport="http")
        async with Dialer() as dialer:
            for _ in range(2):
                async with dialer.dial(config, lambda: None) as link:
                    assert link.transport is Transport.SSE
        assert server.script.requests["server/discover"] == 1


async def test_a_choice_that_no_longer_works_is_forgotten() -> None:
    async with Dialer() as dialer:
        async with running_raw("sse") as before:
            config, port = config_of(before.entry, transport="http"), before.port
            assert await spoken_by(dialer.dial(config, lambda: None)) is Transport.SSE
        async with running_raw("http", port=port):
            assert await spoken_by(dialer.dial(config, lambda: None)) is Transport.STREAMABLE_HTTP


async def test_a_server_with_only_unknown_versions_is_refused() -> None:
    async def discovered(_: web.Request, message: Json) -> web.StreamResponse:
        data = {"supported": ["2099-01-01"], "requested": MODERN}
        error = {"code": -32022, "message": "No.", "data": data}
        answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return web.json_response(answer, status=400)

    async with answering(fine, on_discover=discovered) as server:
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled({"transport": "http", "url": server.url}):
                pass
    assert 'protocol version is not supported: "2099-01-01"; supported are' in caught.value.reason


async def test_an_unreachable_server_is_reported_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    for transport, scheme in (("http", "http"), ("sse", "http"), ("websocket", "ws")):
        url = f"{scheme}://u:pa55@127.0.0.1:{port}/?key=t0ken"
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled({"transport": transport, "url": url}):
                pass
        assert caught.value.reason == "connection refused"


@pytest.mark.parametrize("entry", [
    {"transport": "http", "url": "http://[oops/"},
    {"transport": "sse", "url": "nothing"},
    {"transport": "websocket", "url": "http://127.0.0.1:99999/"},
    {"transport": "http", "url": "http://127.0.0.1:1/", "headers": {"X": "a\r\nb"}},
], ids=["no-host", "no-scheme", "no-port", "bad-header"])  # fmt: skip
async def test_an_unusable_entry_is_reported(entry: Json) -> None:
    with pytest.raises(ConnectionFailure):
        async with dialled(entry):
            pass


@pytest.mark.parametrize("transport", ["http", "sse", "ws"])
async def test_cancelling_a_dial_to_a_hanging_server_leaves_nothing_open(transport: str) -> None:
    async with running_raw(transport, mute=("*",)) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), dialled(server.entry):
                pass
        await until(lambda: server.connection_count == 0, "no connection is open")


async def test_an_exception_inside_the_block_is_not_converted() -> None:
    async with running_raw("http") as server:
        with pytest.raises(KeyError):
            async with dialled(server.entry):
                raise KeyError("mine")


async def spoken_by(dialling: AbstractAsyncContextManager[Connection]) -> Transport:
    async with dialling as link:
        return link.transport
