from collections.abc import Sequence

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.components import JsonObject, Prompt, Resource, ResourceTemplate
from mcp_tools_proxy.registry.mcp_lists import McpList, McpLists
from mcp_tools_proxy.registry.registry import Registry

KINDS = ("prompts", "resources", "templates")


def visible(registry: Registry, kind: str, caller: Caller) -> Sequence[JsonObject]:
    """Return the definitions of one of KINDS that a caller sees."""
    return _lists(registry, kind).definitions_for(registry.access_rules.permissions_of(caller))


async def mcp_list(registry: Registry, kind: str, caller: Caller) -> McpList:
    """Return the list of one of KINDS as every MCP client accepts it."""
    return await _lists(registry, kind).list_for(registry.access_rules.permissions_of(caller))


def _lists(
    registry: Registry, kind: str
) -> McpLists[Prompt] | McpLists[Resource] | McpLists[ResourceTemplate]:
    listings = registry.listings
    if kind == "prompts":
        return listings.prompts
    return listings.resources if kind == "resources" else listings.templates
