import pytest

from tests.connector.backend_link import linked, linked_to_one
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.service import READY


async def test_the_backend_is_dialled_after_the_servers_are_connected() -> None:
    async with linked_to_one(discovered=False) as (_, backend, _):
        listed = await backend.session().request("tools/list")
        assert "s1:whoami" in [tool["name"] for tool in listed["result"]["tools"]]


@pytest.mark.parametrize(
    ("agent", "problem"), [(None, "MCP_PROXY_REMOTE_AGENT"), ("stranger", '"stranger"')]
)
async def test_readiness_reports_a_missing_agent(agent: str | None, problem: str) -> None:
    config = Config(presets=[make_preset()], agents=[make_agent("reader")])
    async with linked(config=config, remote_agent=agent) as (service, _):
        line = (await service.get(READY))["checks"]["remote"]
        assert line["status"] == "degraded"
        assert problem in line["problem"]
