"""Tool arguments that a client repeats in HTTP headers: ``x-mcp-header`` in the input schema.

Proxies route by such headers, so a call whose headers and arguments differ is refused.
"""

from collections.abc import Mapping

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.mcp_server.stateless import StatelessRequest
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import X_MCP_HEADER

_KEYWORD = to_json(X_MCP_HEADER)


class HeaderParameters:
    """Finds the tools that have header parameters, once for each tool of a registry.

    Most tools have none, and a walk through the schema at each call would be in vain.
    """

    def __init__(self, registry: RegistryHolder) -> None:
        self._holder = registry
        self._registry = registry.current
        self._has_parameters: dict[int, bool] = {}
        """By ``id()`` of the schemas, which are unique while their registry lives."""

    def check(self, request: StatelessRequest, caller: Caller, headers: Mapping[str, str]) -> None:
        """Raise JsonRpcError if the ``Mcp-Param-`` headers of a tools/call differ from arguments.

        Nothing is checked for a tool that ``caller`` may not use: its schema must not be revealed.
        """
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if request.method != "tools/call" or not isinstance(name, str):
            return
        if not isinstance(arguments, dict | None) or not (arguments or headers):
            return
        schema = self._schema(name, caller)
        if schema is None:
            return
        # the SDK, which such a tool's server has imported
        from mcp.shared.inbound import validate_mcp_param_headers  # noqa: PLC0415

        rejection = validate_mcp_param_headers(schema, arguments or {}, headers)
        if rejection is not None:
            raise JsonRpcError(rejection.code, rejection.message, rejection.data)

    def _schema(self, tool: str, caller: Caller) -> JsonObject | None:
        """Return the input schema of a tool with header parameters, else None."""
        registry = self._holder.current
        schema = registry.input_schema(tool, caller)
        if schema is None:
            return None
        if registry is not self._registry:
            self._registry, self._has_parameters = registry, {}
        found = self._has_parameters.get(id(schema))
        if found is None:
            self._has_parameters[id(schema)] = found = _KEYWORD in to_json(schema)
        return schema if found else None
