import signal
import subprocess
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from tests.downstream.connections import dialled
from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.program import wait_until
from tests.support.program_launch import launch

LONG = "[0:0:0:0:0:0:0:1]"


@pytest.mark.parametrize("transport", ["http", "sse", "ws"])
async def test_a_server_is_reached_at_an_ipv6_address(transport: str) -> None:
    async with running_raw(transport, host="::1") as server, dialled(server.entry) as line:
        assert server.url.split("//")[1].startswith("[::1]:")
        await line.call("echo", BOUND_S, text="x")


async def test_all_spellings_of_an_address_are_the_same() -> None:
    async with running_raw("http", host="::1") as server:

        def moved(request: web.Request) -> web.Response | None:
            if request.path == "/mcp":
                return None
            target = server.url.replace("[::1]", LONG)
            return web.Response(status=307, headers={"Location": target})

        server.instead = moved
        entry = {"transport": "streamable-http", "url": server.url.replace("/mcp", "/start")}
        async with dialled(entry) as line:
            answer = await line.call("echo", BOUND_S, text="x")
            assert answer["structuredContent"] == {"text": "x"}


async def test_a_redirect_to_another_ipv6_address_is_refused() -> None:
    async with running_raw("http", host="::1") as server:
        target = "http://user:pa55@[2001:db8::5]:1/mcp?key=t0ken"
        server.instead = lambda _: web.Response(status=308, headers={"Location": target})
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled(server.entry):
                pass
    assert '"http://[2001:db8::5]:1/mcp"' in caught.value.for_operators


@pytest.mark.e2e
def test_the_gateway_serves_on_an_ipv6_address(tmp_path: Path) -> None:
    port, allowed = free_port(), "[2001:db8::5]:8082"
    process = launch(
        ["serve", "--host", "::1", "--port", str(port)],
        tmp_path,
        {"MCP_PROXY_ALLOWED_HOSTS": allowed},
        streams=(None, subprocess.DEVNULL, subprocess.DEVNULL),
    )
    try:
        with httpx.Client(base_url=f"http://[::1]:{port}", timeout=BOUND_S) as http:

            def status(host: str) -> int:
                path = "/internal/mcp/presets"
                try:
                    return http.get(path, headers={"Host": host}).status_code
                except httpx.TransportError:
                    return 0

            wait_until(lambda: status("[::1]") == 200)
            hosts = [f"[::1]:{port}", f"{LONG}:{port}", allowed, "[2001:DB8:0::5]:8082"]
            assert [status(host) for host in hosts] == [200] * 4
            foreign = ["[2001:db8::5]:8083", "[2001:db8::5]", "[2001:db8::6]:8082", "::1"]
            assert [status(host) for host in foreign] == [403] * 4
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(BOUND_S)
