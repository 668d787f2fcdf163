"""The registry: frozen tables of all callable components, and the holder that replaces them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self

from mcp_tools_proxy.domain.audit import NO_REGISTRY, RegistryVersion
from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.components import (
    Component,
    JsonObject,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
    ToolNameStyle,
    ToolSpec,
)
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.policy.aliases import impersonates_server, qualified_name
from mcp_tools_proxy.policy.guards.screen import GuardSet
from mcp_tools_proxy.policy.visibility import NO_OFFERS, Offers, Permissions
from mcp_tools_proxy.registry.access_rules import UNRESTRICTED, AccessRules
from mcp_tools_proxy.registry.component_table import (
    AbsentTools,
    ComponentTable,
    HasSpec,
    ItemT,
    names_of_tool,
)
from mcp_tools_proxy.registry.instructions import NO_TEXTS, Instructions, InstructionTexts
from mcp_tools_proxy.registry.mcp_lists import (
    SERVER_STYLE,
    McpList,
    McpListings,
    McpLists,
    NameStyles,
)
from mcp_tools_proxy.registry.refusals import Refusals, ambiguous
from mcp_tools_proxy.registry.shown_tools import NOTHING_BOUND, BoundAgents, ShownTools, narrowed
from mcp_tools_proxy.registry.template_resolver import TemplateResolver
from mcp_tools_proxy.registry.tool_lists import ToolList
from mcp_tools_proxy.wire.json_schema.tool_formats import ToolFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """All callable components, by the names that callers use; immutable, replaced as a whole.

    Lists and ``resolve`` use the same tables and predicate. Names are looked up, never parsed
    (contract §6):

    - A tool is found by its name, then its alias, then its bare name if that is unique in the
      caller's view, including the preset's absent tools.
    - A prompt or resource is found by ``server_id:name``, then its bare name.
    - Any other URI is resolved through a matching template.

    Nothing outside the tables is ever looked up (F-14).
    """

    tools: ComponentTable[Tool]
    shown_tools: ShownTools
    prompts: ComponentTable[Prompt]
    resources: ComponentTable[Resource]
    templates: ComponentTable[ResourceTemplate]
    template_resolver: TemplateResolver
    listings: McpListings
    refusals: Refusals
    access_rules: AccessRules
    offers: Offers
    """The servers' offers, and the reasons why items are missing here."""
    name_styles: NameStyles
    instructions: Instructions
    version: RegistryVersion
    guards: GuardSet | None
    remembered: frozenset[str]
    """The servers with items from an earlier run: they are listed, and calls wait for discovery."""

    @classmethod
    def build(
        cls,
        tools: Iterable[Tool],
        *,
        prompts: Iterable[Prompt] = (),
        resources: Iterable[Resource] = (),
        templates: Iterable[ResourceTemplate] = (),
        access_rules: AccessRules = UNRESTRICTED,
        name_styles: NameStyles = SERVER_STYLE,
        offers: Offers = NO_OFFERS,
        version: RegistryVersion = NO_REGISTRY,
        bound_agents: BoundAgents = NOTHING_BOUND,
        guards: GuardSet | None = None,
        instructions: InstructionTexts = NO_TEXTS,
    ) -> Self:
        """Build a registry that keeps the order of the items.

        ``name_styles`` are the styles of tool names in lists, ``offers`` the servers' offers with
        the active preset, ``bound_agents`` the tools bound by agents' profiles, and
        ``instructions`` the texts of servers and presets. Raises ValueError if two tools share a
        name or alias, or two other items of a kind share server and name.
        """

        def bare_name_allowed(item: HasSpec) -> bool:
            it = item.spec
            return not impersonates_server(it.kind, it.server_id, it.bare_name, offers.servers)

        tools = tuple(tools)
        tool_table = ComponentTable(
            tools,
            names_of=names_of_tool,
            first_shadows=False,
            bare_name_allowed=bare_name_allowed,
            is_listed=lambda tool: tool.spec.is_configured,
            has_aliases=True,
            absent=AbsentTools.of(offers, (tool.spec for tool in tools)),
        )
        prompt_table = ComponentTable(
            prompts, names_of=_qualified, bare_name_allowed=bare_name_allowed
        )
        resource_table = ComponentTable(
            resources, names_of=_qualified, bare_name_allowed=bare_name_allowed
        )
        template_table = ComponentTable(templates, names_of=_qualified)
        snapshots = offers.snapshots.items()
        return cls(
            tools=tool_table,
            shown_tools=ShownTools(tool_table, offers, bound_agents),
            prompts=prompt_table,
            resources=resource_table,
            templates=template_table,
            template_resolver=TemplateResolver(template_table, offers),
            listings=McpListings.of(prompt_table, resource_table, template_table),
            refusals=Refusals(offers),
            access_rules=access_rules,
            offers=offers,
            name_styles=name_styles,
            instructions=Instructions(
                instructions,
                (
                    tool_table.visible_to,
                    prompt_table.visible_to,
                    resource_table.visible_to,
                    template_table.visible_to,
                ),
            ),
            version=version,
            guards=guards,
            remembered=frozenset(server_id for server_id, it in snapshots if it.is_remembered),
        )

    def __repr__(self) -> str:
        return f"<Registry tools={len(self.tools)} agents={len(self.access_rules.agents or ())}>"

    def resolve(self, call: Call) -> Component:
        """Return the component that the call names.

        Raises AgentNotFound, AgentRequired, AmbiguousName, and the kind's not-allowed and not-found
        errors with the refusing rule.
        """
        permissions = self.access_rules.permissions_of(call.caller)
        match call.kind:
            case Kind.TOOL:
                return self._tool(call.name, permissions)
            case Kind.PROMPT:
                return self._prompt(call.name, permissions)
            case Kind.RESOURCE:
                return narrowed(self._resource(call.name, permissions), permissions)

    def _tool(self, name: str, permissions: Permissions) -> Tool:
        found = self.tools.find(name, permissions)
        if len(found) == 1:
            tool = found[0]
            return (
                tool if permissions.agent is None else self.shown_tools.tool_for(tool, permissions)
            )
        if candidates := self.tools.candidates(name, permissions):
            raise ambiguous(name, candidates)
        visible = (tool.spec.listed_name for tool in self.tools.visible_to(permissions))
        denied = self.tools.denied(name, permissions)
        raise self.refusals.of(Kind.TOOL, name, permissions, denied, visible)

    def _prompt(self, name: str, permissions: Permissions) -> Prompt:
        found = self.prompts.find(name, permissions)
        return self._only(found, name, permissions, self.prompts, self.listings.prompts)

    def _resource(self, uri: str, permissions: Permissions) -> Resource:
        listed = self.resources.find(uri, permissions)
        found = listed or self.template_resolver.find(uri, permissions)
        return self._only(found, uri, permissions, self.resources, self.listings.resources)

    def _only(
        self,
        found: Sequence[ItemT],
        name: str,
        permissions: Permissions,
        table: ComponentTable[ItemT],
        lists: McpLists[ItemT],
    ) -> ItemT:
        if len(found) == 1:
            return found[0]
        if found:
            raise ambiguous(name, [qualified_name(it.spec.server_id or "", name) for it in found])
        kind = Kind.PROMPT if table is self.prompts else Kind.RESOURCE
        denied = table.denied(name, permissions)
        if denied is None and table is self.resources:
            denied = self.template_resolver.denied(name, permissions)
        visible = lists.names_for(permissions)
        raise self.refusals.of(kind, name, permissions, denied, visible)

    def resource(self, call: Call) -> Resource:
        """Return the resource whose URI the call names. Raises like ``resolve``."""
        return self._resource(call.name, self.access_rules.permissions_of(call.caller))

    def completion(self, call: Call) -> Component:
        """Return the completion of arguments for the call's prompt or resource template.

        Both are found by their listed names. Raises like ``resolve``.
        """
        permissions = self.access_rules.permissions_of(call.caller)
        if call.kind is Kind.PROMPT:
            return self._prompt(call.name, permissions).completion
        found = self.templates.find(call.name, permissions)
        lists = self.listings.templates
        template = self._only(found, call.name, permissions, self.templates, lists)
        return narrowed(template.completion, permissions)

    def visible_to(self, caller: Caller) -> Sequence[ToolSpec]:
        """List the tools that ``caller`` may call. Raises AgentNotFound, AgentRequired."""
        permissions = self.access_rules.permissions_of(caller)
        shown = self.shown_tools
        return [shown.spec_for(tool, permissions) for tool in self.tools.visible_to(permissions)]

    async def list_tools(
        self,
        caller: Caller,
        tool_format: ToolFormat,
        names: Sequence[str] | None = None,
        style: ToolNameStyle = ToolNameStyle.SERVER,
    ) -> ToolList:
        """List the caller's tools in a format for model APIs.

        ``names`` limits the list to the tools that they resolve to. ``style`` applies to names in
        MCP's format.
        """
        permissions = self.access_rules.permissions_of(caller)
        lists = self.shown_tools.variant_for(permissions).lists
        return await lists.list_for(permissions, tool_format, names, style)

    async def mcp_tools(self, caller: Caller, options: ListOptions = SERVER_NAMES) -> McpList:
        """List the MCP definitions of the caller's tools, with an entity tag.

        ``options`` determine the format, then agent and settings; each listed name resolves to its
        own tool.
        """
        permissions = self.access_rules.permissions_of(caller)
        shape = self.name_styles.over_mcp(options, caller.agent)
        variant = self.shown_tools.variant_for(permissions)
        return await (await variant.mcp.lists_in(shape)).list_for(permissions)

    def input_schema(self, name: str, caller: Caller) -> JsonObject | None:
        """Return the input schema of the tool that ``name`` resolves to; None without a match."""
        try:
            permissions = self.access_rules.permissions_of(caller)
        except ProxyError:
            return None
        found = self.tools.find(name, permissions)
        if len(found) != 1:
            return None
        return self.shown_tools.spec_for(found[0], permissions).input_schema


class RegistryHolder:
    """Holds the current registry. A call reads ``current`` once, and uses it to the end."""

    def __init__(self, registry: Registry | None = None) -> None:
        """Create a holder; by default nothing is callable until the first ``replace``."""
        self.current = Registry.build(()) if registry is None else registry
        self._subscribers: dict[object, Callable[[], None]] = {}

    def replace(self, registry: Registry) -> None:
        """Replace the current registry, and notify the subscribers."""
        self.current = registry
        for on_replaced in tuple(self._subscribers.values()):
            on_replaced()

    def subscribe(self, on_replaced: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_replaced`` after each replacement; return the function that unsubscribes.

        ``on_replaced`` must not raise or block.
        """
        key = object()
        self._subscribers[key] = on_replaced

        def unsubscribe() -> None:
            self._subscribers.pop(key, None)

        return unsubscribe

    async def list_tools(
        self, caller: Caller, tool_format: ToolFormat, names: Sequence[str] | None
    ) -> ToolList:
        """List the caller's current tools in a format; see ``Registry.list_tools``."""
        return await self.current.list_tools(caller, tool_format, names)


def _qualified(item: HasSpec) -> Iterator[str]:
    spec = item.spec
    yield spec.name if spec.server_id is None else qualified_name(spec.server_id, spec.bare_name)
    if spec.given_name is not None:
        yield spec.given_name
