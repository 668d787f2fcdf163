"""When the server exits; the started program is tested in e2e."""

import pytest
import uvicorn

from mcp_tools_proxy.gateway.lifecycle import Lifecycle, Phase
from mcp_tools_proxy.serving import GracefulServer


@pytest.mark.parametrize("phase", list(Phase))
async def test_a_server_whose_gateway_stopped_by_itself_exits(phase: Phase) -> None:
    lifecycle = Lifecycle()
    lifecycle.phase = phase
    server = GracefulServer(uvicorn.Config("unused:app"), lifecycle, grace_s=10)
    assert await server.on_tick(1) is (phase is Phase.STOPPING)
