"""Arguments that a call mirrors in headers: ``x-mcp-header`` in a tool's schema."""

from mcp.shared.inbound import x_mcp_header_map

from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.mcp_server.request import CURRENT_CALLER
from mcp_tools_proxy.registry.registry import RegistryHolder


class HeaderParameters:
    """Knows the tools that mirror arguments: the SDK checks the headers of their calls.

    Most tools mirror none. The SDK would find that out by two walks through the schema at each
    call; here it is found out once for each tool of a registry.
    """

    def __init__(self, registry: RegistryHolder) -> None:
        self._holder = registry
        self._registry = registry.current
        self._mirror: dict[int, bool] = {}
        """By the ids of the schemas, which live as long as their registry."""

    def schema(self, tool: str) -> JsonObject | None:
        """Give the input schema of a tool that the one who asks may use, if it mirrors any."""
        caller, registry = CURRENT_CALLER.get(), self._holder.current
        schema = None if caller is None else registry.input_schema(tool, caller)
        if schema is None:
            return None
        if registry is not self._registry:
            self._registry, self._mirror = registry, {}
        mirrors = self._mirror.get(id(schema))
        if mirrors is None:
            self._mirror[id(schema)] = mirrors = bool(x_mcp_header_map(schema))
        return schema if mirrors else None
