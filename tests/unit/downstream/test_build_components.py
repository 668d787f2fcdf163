import pytest

from mcp_tools_proxy.domain.errors import InvalidArguments
from mcp_tools_proxy.downstream.components.build_components import build_components
from tests.unit.downstream.fake_server import FakeServer, tool
from tests.unit.downstream.observed_session import until
from tests.unit.downstream.offered_components import offered, view_of


async def test_items_of_a_removed_server_are_omitted() -> None:
    async with offered(FakeServer(tool("add"))) as (_, fleet):
        view = view_of(fleet)
        fleet.apply()
        assert build_components(view, fleet.pool, max_text_bytes=1000).tools == ()


async def test_a_view_older_than_the_snapshot_still_checks_arguments() -> None:
    server = FakeServer(tool("add", inputSchema={"type": "object", "required": ["a"]}))
    async with offered(server) as (_, fleet):
        view = view_of(fleet)
        server.lists["tools/list"] = []
        server.link.lists_changed()
        await until(lambda: fleet.changes == 2)
        [kept] = build_components(view, fleet.pool, max_text_bytes=1000).tools
        with pytest.raises(InvalidArguments):
            kept.parse({})
