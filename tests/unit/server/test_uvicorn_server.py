"""When the server exits, and what it is told; the started program is tested in e2e."""

import pytest
import uvicorn

from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.server.uvicorn_server import GracefulServer, build_server
from mcp_tools_proxy.settings.settings import Settings


@pytest.mark.parametrize("phase", list(Phase))
async def test_a_server_whose_gateway_stopped_by_itself_exits(phase: Phase) -> None:
    lifecycle = Lifecycle()
    lifecycle.phase = phase
    server = GracefulServer(uvicorn.Config("unused:app", log_config=None), lifecycle, grace_s=10)
    assert await server.on_tick(1) is (phase is Phase.STOPPING)


def test_an_idle_connection_is_kept_for_longer_than_most_callers_keep_theirs() -> None:
    assert build_server(Settings()).config.timeout_keep_alive == 75
