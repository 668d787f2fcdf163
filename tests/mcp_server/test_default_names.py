from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from mcp import Client
from mcp.client.sse import sse_client

from mcp_tools_proxy.policy.aliases import alias_of
from tests.connector.backend_link import ERAS as CONNECTOR_ERAS
from tests.connector.backend_link import begun, linked
from tests.mcp_server.entries import HTTP_PATHS, Who, by_stdio
from tests.mcp_server.listed_tools import listed_by, of_servers
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.mcp_endpoint import ERAS, TENANT, Served, serving
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.program import UNLIMITED

eras = pytest.mark.parametrize("mode", ERAS)

LONG = "create_a_very_long_report_of_everything_that_was_ever_reported"
TOOLS = [("reports", LONG), ("reports", "whoami"), ("a.b", "whoami"), ("a.b", "renamed")]
IN_FULL = [f"{server_id}:{tool}" for server_id, tool in TOOLS]
DEFAULTS = {
    "server": [*IN_FULL[:-1], "given"],
    "alias": [*(alias_of(*pair) for pair in TOOLS[:-1]), "given"],
}
SPELLINGS = [
    [*IN_FULL, LONG, "renamed", "given"],
    *([alias_of(*pair, size) for pair in TOOLS] for size in (16, 17, 24, 40, 63, 64)),
]
"""Names of the tools: in full, bare if unique, and aliases of any length."""
UNSET = {key: it for key, it in UNLIMITED.items() if key != "MCP_PROXY_TOOL_NAME_STYLE"}


@asynccontextmanager
async def configured() -> AsyncIterator[Config]:
    """Serve two servers; one has a tool with a long name, and the preset renames one."""
    own: Mapping[str, list[str]] = {"reports": [LONG], "a.b": ["renamed"]}
    async with AsyncExitStack() as stack:
        servers = {}
        for server_id, tools in own.items():
            extra = [{"name": it, "inputSchema": {"type": "object"}} for it in tools]
            raw = running_raw(name=server_id, only=("whoami",), extra={"tools": extra})
            servers[server_id] = (await stack.enter_async_context(raw)).entry
        preset = make_preset(tools=TOOLS, prompts=(), resources=())
        preset["tools"][-1]["overrides"] = {"name": "given"}
        yield Config(
            servers=servers,
            presets=[preset],
            agents=[make_agent("whole")],
            more={"defaultPresetId": "work"},
        )


@asynccontextmanager
async def in_front() -> AsyncIterator[Served]:
    async with (
        configured() as config,
        serving(config=config, require_agent=False, tool_name_style=None) as served,
    ):
        yield served


async def refused_by(client: Client) -> list[str]:
    """Call each tool by each spelling, and return the refused spellings."""
    names = [name for spelling in SPELLINGS for name in spelling]
    return [name for name in names if (await client.call_tool(name, {})).is_error]


@pytest.mark.requirement("P-06")
@eras
@pytest.mark.parametrize("entry", HTTP_PATHS)
async def test_each_http_entry_has_its_own_names_and_accepts_every_spelling(
    entry: str, mode: str
) -> None:
    path = HTTP_PATHS[entry].format(agent="whole")
    expected = DEFAULTS["server" if path.endswith("/sse") else "alias"]
    async with in_front() as served, served.client(path, mode=mode) as client:
        assert await listed_by(client) == expected
        assert await refused_by(client) == []


@pytest.mark.requirement("P-06")
@eras
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/agents/whole"])
async def test_a_get_stream_at_the_streamable_http_address_lists_the_seeds_names(
    path: str, mode: str
) -> None:
    async with in_front() as served:
        transport = sse_client(served.url + path, headers=dict(TENANT))
        async with Client(transport, mode=mode, cache=None) as client:
            assert await listed_by(client) == DEFAULTS["server"]
            assert await refused_by(client) == []


@pytest.mark.requirement("P-06")
@pytest.mark.e2e
@eras
@pytest.mark.parametrize("name_max", [None, "24"])
async def test_stdio_lists_aliases_and_accepts_every_spelling(
    name_max: str | None, mode: str
) -> None:
    environment = {**UNSET, "MCP_PROXY_REQUIRE_AGENT": "false"}
    expected = DEFAULTS["alias"]
    if name_max is not None:
        environment["MCP_PROXY_NAME_MAX"] = name_max
        expected = [*(alias_of(*pair, int(name_max)) for pair in TOOLS[:-1]), "given"]
    async with in_front(), by_stdio(mode, Who(), environment) as client:
        assert await listed_by(client) == expected
        assert await refused_by(client) == []


@pytest.mark.requirement("P-06")
@pytest.mark.parametrize("era", CONNECTOR_ERAS)
async def test_the_connector_lists_the_seeds_names_and_accepts_every_spelling(era: str) -> None:
    async with (
        configured() as config,
        linked(config=config, require_agent=False, tool_name_style=None) as (_, backend),
    ):
        session = await begun(backend, era)
        listed = [tool["name"] for tool in (await session.result("tools/list"))["tools"]]
        assert of_servers(listed) == DEFAULTS["server"]
        for name in (name for spelling in SPELLINGS for name in spelling):
            called = await session.call(name)
            assert not called.get("isError"), name
