"""Tool arguments that a client repeats in HTTP headers: ``x-mcp-header`` in the input schema.

Proxies route by such headers, so the SDK refuses a call whose headers and arguments differ.
"""

from mcp.shared.inbound import x_mcp_header_map

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.mcp_server.request import CURRENT_CALLER
from mcp_tools_proxy.registry.registry import RegistryHolder


class HeaderParameters:
    """Finds the tools that have header parameters, once for each tool of a registry.

    Most tools have none. Given the schema, the SDK would walk through it twice at each call to find
    that out; given None, it checks nothing.
    """

    def __init__(self, registry: RegistryHolder) -> None:
        self._holder = registry
        self._registry = registry.current
        self._has_parameters: dict[int, bool] = {}
        """By ``id()`` of the schemas, which are unique while their registry lives."""

    def schema(self, tool: str) -> JsonObject | None:
        """Return the input schema of a tool with header parameters, else None.

        None too for a tool that the current caller may not use: the SDK must not reveal it.
        """
        caller, registry = CURRENT_CALLER.get(), self._holder.current
        schema = None if caller is None else registry.input_schema(tool, caller)
        if schema is None:
            return None
        if registry is not self._registry:
            self._registry, self._has_parameters = registry, {}
        found = self._has_parameters.get(id(schema))
        if found is None:
            self._has_parameters[id(schema)] = found = bool(x_mcp_header_map(schema))
        return schema if found else None
