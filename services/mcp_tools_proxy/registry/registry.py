"""The registry: the frozen tables of everything callable now, and the holder that replaces them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from mcp_tools_proxy.domain.audit.registry_version import NO_REGISTRY, RegistryVersion
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
from mcp_tools_proxy.domain.errors import AmbiguousName, ProxyError
from mcp_tools_proxy.domain.list_options import SERVER_NAMES, ListOptions
from mcp_tools_proxy.json_schema.tool_formats import ToolFormat
from mcp_tools_proxy.policy.aliases import impersonates_server, qualified_name
from mcp_tools_proxy.policy.guards.screen import GuardSet
from mcp_tools_proxy.policy.visibility import NO_SCOPE, PresetScope
from mcp_tools_proxy.registry.access_rules import UNRESTRICTED, AccessRules, Permissions
from mcp_tools_proxy.registry.component_table import (
    AbsentTools,
    ComponentTable,
    HasSpec,
    names_of_tool,
)
from mcp_tools_proxy.registry.instructions import (
    NO_INSTRUCTIONS,
    Instructions,
    InstructionTexts,
)
from mcp_tools_proxy.registry.mcp_lists import SERVER_STYLE, McpList, McpListings, NameStyles
from mcp_tools_proxy.registry.name_resolver import NameResolver
from mcp_tools_proxy.registry.pending_offers import PendingOffers
from mcp_tools_proxy.registry.rule_finder import RuleFinder
from mcp_tools_proxy.registry.shown_tools import BindTool, ShownTools, narrowed
from mcp_tools_proxy.registry.template_resolver import TemplateResolver
from mcp_tools_proxy.registry.tool_lists import ToolList
from mcp_tools_proxy.registry.unlisted_offers import NOTHING_UNLISTED, UnlistedOffers
from mcp_tools_proxy.wire.uris import MAX_URI_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Everything callable, by the names that callers use; never changed, only replaced.

    Lists and ``resolve`` read the same tables through the same predicate, so the two cannot
    disagree about what a caller may use.
    """

    tools: ComponentTable[Tool]
    shown_tools: ShownTools
    prompts: ComponentTable[Prompt]
    resources: ComponentTable[Resource]
    templates: ComponentTable[ResourceTemplate]
    resolver: NameResolver
    listings: McpListings
    access_rules: AccessRules = UNRESTRICTED
    pending_offers: PendingOffers = field(default_factory=PendingOffers)
    unlisted_offers: UnlistedOffers = NOTHING_UNLISTED
    name_styles: NameStyles = SERVER_STYLE
    instructions: Instructions = NO_INSTRUCTIONS
    version: RegistryVersion = NO_REGISTRY
    guards: GuardSet | None = None
    """The guards of calls; None if none is on."""
    remembered: frozenset[str] = frozenset()
    """The servers whose items are of an earlier run: they are listed, and calls wait for them."""
    rules: RuleFinder = field(
        default_factory=lambda: RuleFinder(scope=NO_SCOPE, access_rules=UNRESTRICTED)
    )

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
        scope: PresetScope = NO_SCOPE,
        unlisted_offers: UnlistedOffers = NOTHING_UNLISTED,
        version: RegistryVersion = NO_REGISTRY,
        bind_by_agent: Mapping[str, BindTool] | None = None,
        guards: GuardSet | None = None,
        instructions: InstructionTexts | None = None,
    ) -> Self:
        """Build a registry that keeps the order of the items.

        ``name_styles`` are the styles in which lists name tools, ``scope`` is the active preset,
        ``bind_by_agent`` fills in arguments of tools for the agents that have some,
        ``instructions`` are the servers' and presets' texts.
        Raises ValueError if two tools share a name or alias, or two other items of a kind share
        server and name.
        """

        def bare_name_allowed(item: HasSpec) -> bool:
            it = item.spec
            return not impersonates_server(
                it.kind, it.server_id, it.bare_name, access_rules.servers
            )

        tools = tuple(tools)
        tool_table = ComponentTable(
            tools,
            names_of=names_of_tool,
            first_shadows=False,
            bare_name_allowed=bare_name_allowed,
            is_listed=lambda tool: tool.spec.is_configured,
            has_aliases=True,
            absent=AbsentTools.of(scope, (tool.spec for tool in tools), access_rules),
        )
        prompt_table = ComponentTable(
            prompts, names_of=_qualified, bare_name_allowed=bare_name_allowed
        )
        resource_table = ComponentTable(
            resources, names_of=_qualified, bare_name_allowed=bare_name_allowed
        )
        template_table = ComponentTable(templates, names_of=_qualified)
        listings = McpListings.of(prompt_table, resource_table, template_table)
        return cls(
            tools=tool_table,
            shown_tools=ShownTools(tool_table, unlisted_offers, bind_by_agent),
            prompts=prompt_table,
            resources=resource_table,
            templates=template_table,
            resolver=NameResolver(
                tools=tool_table,
                prompts=prompt_table,
                resources=resource_table,
                templates=template_table,
                template_resolver=TemplateResolver(template_table, access_rules.exclude),
                listings=listings,
                unlisted_offers=unlisted_offers,
            ),
            listings=listings,
            access_rules=access_rules,
            unlisted_offers=unlisted_offers,
            pending_offers=PendingOffers(
                scope=scope,
                exclude=access_rules.exclude,
                servers=access_rules.servers,
            ),
            name_styles=name_styles,
            instructions=(
                NO_INSTRUCTIONS
                if instructions is None
                else Instructions(
                    instructions, (tool_table, prompt_table, resource_table, template_table)
                )
            ),
            version=version,
            guards=guards,
            remembered=frozenset(
                server_id
                for server_id, found in unlisted_offers.snapshots.items()
                if found.is_remembered
            ),
            rules=RuleFinder(scope=scope, access_rules=access_rules),
        )

    def __repr__(self) -> str:
        return f"<Registry tools={len(self.tools)} agents={len(self.access_rules.agents or ())}>"

    def resolve(self, call: Call) -> Component:
        """Return the component that the call names; see ``NameResolver``.

        Raises AgentNotFound, AgentRequired, AmbiguousName, and for each kind its errors for not
        allowed and not found, with the rule that refused.
        """
        permissions = self.access_rules.permissions_of(call.caller)
        try:
            match call.kind:
                case Kind.TOOL:
                    tool = self.resolver.tool(call.name, permissions)
                    return self.shown_tools.tool_for(tool, permissions)
                case Kind.PROMPT:
                    return self.resolver.prompt(call.name, permissions)
                case Kind.RESOURCE:
                    return narrowed(self.resolver.resource(call.name, permissions), permissions)
        except AmbiguousName:
            raise
        except ProxyError as error:
            self._add_rule(call, error, permissions)
            raise

    def _add_rule(self, call: Call, error: ProxyError, permissions: Permissions) -> None:
        """Add to a refusal the rule that decided, and the name of the item that it denies."""
        kind, name = call.kind, call.name
        if len(name) > MAX_URI_CHARS:  # no name of an item is longer
            return
        match kind:
            case Kind.TOOL:
                denied = self.tools.denied(name, permissions)
            case Kind.PROMPT:
                denied = self.prompts.denied(name, permissions)
            case Kind.RESOURCE:
                denied = self.resources.denied(name, permissions)
                denied = denied or self.resolver.template_resolver.denied(name, permissions)
        if denied is not None:
            denial, spec = denied
            error.rule = self.rules.of_denial(denial, spec, permissions, name)
            error.denied_name, error.denied_server = spec.name, spec.server_id
        elif (withheld := self.rules.of_withheld(kind, name, self.unlisted_offers)) is not None:
            error.rule, error.denied_server = withheld
        else:
            server_id = error.denied_server = self._server_of_name(kind, name)
            if kind is Kind.TOOL and self.unlisted_offers.is_missing(name):
                server_id = None  # no rule of a server or preset hides what the server has not
            error.rule = self.rules.of_name(kind, name, permissions, server_id)

    def _server_of_name(self, kind: Kind, name: str) -> str | None:
        """Return the server that a tool is named with, or that has a prompt or resource."""
        if kind is not Kind.TOOL:
            return self.unlisted_offers.server_of(kind, name)
        named = name.partition(":")[0]
        return named if named in self.access_rules.servers else None

    def resource(self, call: Call) -> Resource:
        """Return the resource whose URI the call names. Raises like ``resolve``."""
        return self.resolver.resource(call.name, self.access_rules.permissions_of(call.caller))

    def completion(self, call: Call) -> Component:
        """Return the completion of arguments for the prompt or resource template of the call.

        Both are found by their listed names. Raises like ``resolve``.
        """
        permissions = self.access_rules.permissions_of(call.caller)
        if call.kind is Kind.PROMPT:
            return self.resolver.prompt(call.name, permissions).completion
        return narrowed(self.resolver.template(call.name, permissions).completion, permissions)

    def knows(self, server_id: str) -> bool:
        """Return whether it has what the server offers, or offered in an earlier run."""
        return server_id in self.unlisted_offers.snapshots

    def visible_to(self, caller: Caller) -> Sequence[ToolSpec]:
        """List the tools that ``caller`` may call.

        Raises AgentNotFound, AgentRequired, as all lists do.
        """
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
        """List the tools that ``caller`` may call in a format for model APIs.

        ``names`` limits the list to the tools that they resolve to. ``style`` is that of the names
        in MCP's format; the others name tools by their aliases.
        """
        permissions = self.access_rules.permissions_of(caller)
        lists = self.shown_tools.variant_for(permissions).lists
        return await lists.list_for(permissions, tool_format, names, style)

    def instructions_for(self, caller: Caller) -> str | None:
        """Return the joined instructions of the servers of which ``caller`` sees something.

        Raises AgentNotFound, AgentRequired.
        """
        return self.instructions.text_for(self.access_rules.permissions_of(caller))

    def prompts_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the MCP definitions of the prompts that ``caller`` may get.

        A prompt whose bare name is ambiguous to this caller is listed as ``server_id:name``; so
        are resources and templates.
        """
        return self.listings.prompts.definitions_for(self.access_rules.permissions_of(caller))

    def resources_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the MCP definitions of the resources that ``caller`` may read."""
        return self.listings.resources.definitions_for(self.access_rules.permissions_of(caller))

    def templates_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the MCP definitions of the templates whose URIs ``caller`` may read."""
        return self.listings.templates.definitions_for(self.access_rules.permissions_of(caller))

    async def mcp_tools(self, caller: Caller, options: ListOptions = SERVER_NAMES) -> McpList:
        """List the MCP definitions of the tools that ``caller`` may call, with an entity tag.

        ``options`` decide how it is written, then the caller's agent, then the settings; every
        listed name resolves to its own tool.
        """
        permissions = self.access_rules.permissions_of(caller)
        shape = self.name_styles.over_mcp(options, caller.agent)
        variant = self.shown_tools.variant_for(permissions)
        return await (await variant.mcp.lists_in(shape)).list_for(permissions)

    async def mcp_prompts(self, caller: Caller) -> McpList:
        """List the prompts that ``caller`` may get, with an entity tag."""
        return await self.listings.prompts.list_for(self.access_rules.permissions_of(caller))

    async def mcp_resources(self, caller: Caller) -> McpList:
        """List the resources that ``caller`` may read by valid URIs, with an entity tag."""
        return await self.listings.resources.list_for(self.access_rules.permissions_of(caller))

    async def mcp_templates(self, caller: Caller) -> McpList:
        """List the templates whose URIs ``caller`` may read, with an entity tag."""
        return await self.listings.templates.list_for(self.access_rules.permissions_of(caller))

    def input_schema(self, name: str, caller: Caller) -> JsonObject | None:
        """Return the input schema of the tool that ``name`` resolves to; None if it does not."""
        try:
            permissions = self.access_rules.permissions_of(caller)
        except ProxyError:
            return None
        found = self.tools.find(name, permissions)
        if len(found) != 1:
            return None
        return self.shown_tools.spec_for(found[0], permissions).input_schema


class RegistryHolder:
    """Holds the current registry. A call reads ``current`` once and finishes on that registry."""

    def __init__(self, registry: Registry | None = None) -> None:
        """Create a holder; by default nothing can be called until the first ``replace``."""
        self.current = Registry.build(()) if registry is None else registry
        self._subscribers: dict[object, Callable[[], None]] = {}

    def replace(self, registry: Registry) -> None:
        """Replace the current registry, and notify the subscribers."""
        self.current = registry
        for on_replaced in tuple(self._subscribers.values()):
            on_replaced()

    def subscribe(self, on_replaced: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_replaced`` after each replacement; return a function that ends this.

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
        """List the tools that ``caller`` may call now in a format; see ``Registry.list_tools``."""
        return await self.current.list_tools(caller, tool_format, names)


def _qualified(item: HasSpec) -> Iterator[str]:
    spec = item.spec
    yield spec.name if spec.server_id is None else qualified_name(spec.server_id, spec.bare_name)
    if spec.given_name is not None:
        yield spec.given_name
