from pathlib import Path

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import RemoteComponents
from mcp_tools_proxy.domain.offers import View
from mcp_tools_proxy.policy.visibility import Why
from tests.support.fakes import FakeTool
from tests.unit.gateway.reloader_fixture import Reloading


async def test_a_tool_with_a_duplicate_name_is_reported(folder: Path) -> None:
    duplicate = FakeTool(name="alpha:search", alias="local", server_id="alpha")

    def build(_view: View, _bindings: object = None) -> RemoteComponents:
        return RemoteComponents(tools=(duplicate,))

    it = Reloading(folder, build=build)
    await it.reloader.load()
    reason = it.holder.current.offers.reason(Kind.TOOL, "alpha", "search")
    assert reason is not None
    assert reason.why is Why.NAME_TAKEN
