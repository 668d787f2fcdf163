from dataclasses import replace

import pytest
from starlette.datastructures import Headers

from mcp_tools_proxy.domain.caller import NO_TENANT
from mcp_tools_proxy.mcp.server.http.http_request import HeaderParameters
from mcp_tools_proxy.mcp.server.stateless import StatelessRequest
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from tests.support.builders import make_caller
from tests.support.fakes import FakeTool

CALL = StatelessRequest(1, "tools/call", {"name": "fake", "arguments": {"region": "eu"}}, {})
OTHER_REGION = Headers({"mcp-param-region": "us"})


def registry_with(schema: dict[str, object]) -> Registry:
    """Build a registry with one tool, visible only to callers with a tenant."""
    tool = FakeTool(needs_tenant=True)
    properties = {"type": "object", "properties": {"region": schema}}
    tool.spec = replace(tool.spec, input_schema=properties)
    return Registry.build([tool])


MIRRORED = registry_with({"type": "string", "x-mcp-header": "Region"})
PLAIN = registry_with({"type": "string"})


def test_a_header_that_differs_from_its_argument_is_refused() -> None:
    parameters = HeaderParameters(RegistryHolder(MIRRORED))
    with pytest.raises(JsonRpcError):
        parameters.check(CALL, make_caller(), OTHER_REGION)


def test_the_schema_of_a_hidden_tool_is_not_revealed() -> None:
    parameters = HeaderParameters(RegistryHolder(MIRRORED))
    parameters.check(CALL, make_caller(tenant_id=NO_TENANT), OTHER_REGION)


def test_header_parameters_added_by_a_reload_are_checked() -> None:
    holder = RegistryHolder(PLAIN)
    parameters = HeaderParameters(holder)
    parameters.check(CALL, make_caller(), OTHER_REGION)
    holder.replace(MIRRORED)
    with pytest.raises(JsonRpcError):
        parameters.check(CALL, make_caller(), OTHER_REGION)


def test_other_methods_are_not_checked() -> None:
    parameters = HeaderParameters(RegistryHolder(MIRRORED))
    parameters.check(replace(CALL, method="prompts/get"), make_caller(), OTHER_REGION)
