"""Exit of the server and its options; the started program is tested in e2e."""

import httpx
import uvicorn

from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.server.uvicorn_server import GracefulServer, build_server
from mcp_tools_proxy.settings.settings import Settings
from tests.support.captured_logs import capture_logs
from tests.support.tables import each_row


@each_row("phase", list(Phase))
async def test_the_server_exits_when_the_gateway_stops(phase: Phase) -> None:
    lifecycle = Lifecycle()
    lifecycle.phase = phase
    server = GracefulServer(uvicorn.Config("unused:app", log_config=None), lifecycle, grace_s=10)
    assert await server.on_tick(1) is (phase is Phase.STOPPING)


def test_the_keep_alive_timeout_is_longer_than_that_of_most_clients() -> None:
    assert build_server(Settings()).config.timeout_keep_alive == 75


async def test_the_peer_of_a_request_is_not_taken_from_its_headers() -> None:
    """uvicorn would trust them; the gateway trusts only those of trusted proxies."""
    config = build_server(Settings()).config
    config.load()
    transport = httpx.ASGITransport(config.loaded_app, client=("192.0.2.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        with capture_logs() as lines:
            headers = {"X-Forwarded-For": "203.0.113.9"}
            await http.get("/internal/mcp/tools?agent=a&agent=b", headers=headers)
    assert [(line["event"], line["peer"]) for line in lines] == [("request.refused", "192.0.2.1")]
