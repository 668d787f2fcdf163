"""Requests without a tenant: the document tools are neither listed nor callable."""

import pytest

from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller
from mcp_tools_proxy.domain.outcome import Failed, Ok
from tests.support.configuration import make_agent
from tests.support.http_api import ALL_OF_BOTH, two_servers
from tests.support.local_tools import LISTED_TOOLS
from tests.support.service import TOOLS, Service, running

LOCAL = {*LISTED_TOOLS}


async def called(service: Service, name: str, agent: str | None = None) -> Ok | str:
    caller = Caller(tenant_id=NO_TENANT, user_id="", agent=agent)
    outcome = await service.gateway.executor.execute(
        Call(name=name, caller=caller, trace_id="trace-1")
    )
    return outcome.error.code if isinstance(outcome, Failed) else outcome


async def offered(service: Service, agent: str | None = None) -> object:
    outcome = await called(service, "list_available_tools", agent)
    assert isinstance(outcome, Ok)
    return outcome.result["tools"]


@pytest.mark.parametrize("agent", [None, "reader"])
async def test_the_list_of_a_caller_without_a_tenant_has_no_document_tool(
    agent: str | None,
) -> None:
    async with two_servers(make_agent(), require_agent=False) as two:
        assert await offered(two.service, agent) == ["list_available_tools", *ALL_OF_BOTH.tools]


@pytest.mark.parametrize("name", sorted(LOCAL - {"list_available_tools"}))
async def test_a_document_tool_is_refused_without_a_tenant(name: str) -> None:
    async with running() as service:
        assert await called(service, name) == "TOOL_NOT_ALLOWED"


async def test_a_server_tool_runs_without_a_tenant() -> None:
    async with two_servers() as two:
        assert isinstance(await called(two.service, "a:whoami"), Ok)


async def test_the_http_list_has_the_document_tools_without_a_tenant_in_the_query() -> None:
    async with running() as service:
        tools = (await service.get(TOOLS))["tools"]
        assert {tool["name"] for tool in tools} == LOCAL
