"""The registry: the frozen tables of everything callable now, and the holder that replaces them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.components import (
    Component,
    JsonObject,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
    ToolSpec,
)
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.json_schema.model_api.tool_formats import ToolFormat
from mcp_tools_proxy.policy.aliases import ToolNameStyle, impersonates_server, qualified_name
from mcp_tools_proxy.policy.visibility import NO_SCOPE, Denial, PresetScope
from mcp_tools_proxy.registry.access import UNRESTRICTED, Access
from mcp_tools_proxy.registry.hidden_items import NOTHING_HIDDEN, HiddenItems
from mcp_tools_proxy.registry.lookup_errors import (
    ambiguous,
    not_allowed,
    not_found,
    not_in_preset,
    tenant_required,
)
from mcp_tools_proxy.registry.mcp_lists import McpList, McpListings
from mcp_tools_proxy.registry.pending_offers import PendingOffers
from mcp_tools_proxy.registry.table import HasSpec, ItemT, Table, Viewer
from mcp_tools_proxy.registry.template_resolver import TemplateResolver
from mcp_tools_proxy.registry.tool_lists import ToolList, ToolLists


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Everything callable, by the names that callers use; never changed, only replaced.

    Lists and ``resolve`` read the same tables through the same predicate, so the two cannot
    disagree about what a caller may use.
    """

    tools: Table[Tool]
    tool_lists: ToolLists
    prompts: Table[Prompt]
    resources: Table[Resource]
    templates: Table[ResourceTemplate]
    template_resolver: TemplateResolver
    listings: McpListings
    access: Access = UNRESTRICTED
    pending_offers: PendingOffers = field(default_factory=PendingOffers)
    hidden_items: HiddenItems = NOTHING_HIDDEN

    @classmethod
    def build(
        cls,
        tools: Iterable[Tool],
        *,
        prompts: Iterable[Prompt] = (),
        resources: Iterable[Resource] = (),
        templates: Iterable[ResourceTemplate] = (),
        access: Access = UNRESTRICTED,
        tool_names: ToolNameStyle = ToolNameStyle.SERVER,
        scope: PresetScope = NO_SCOPE,
        hidden_items: HiddenItems = NOTHING_HIDDEN,
    ) -> Self:
        """Build a registry that keeps the order of the items.

        ``tool_names`` is the style in which MCP lists name tools, ``scope`` the active preset.
        Raises ValueError if two tools share a name or alias, or two other items of a kind share
        server and name.
        """

        def bare_name_allowed(item: HasSpec) -> bool:
            it = item.spec
            return not impersonates_server(it.kind, it.server_id, it.bare_name, access.servers)

        tool_table = Table(
            tools,
            names_of=lambda tool: (tool.spec.name, tool.spec.alias),
            first_shadows=False,
            bare_names=tool_names is ToolNameStyle.BARE,
            bare_name_allowed=bare_name_allowed,
        )
        prompt_table = Table(prompts, names_of=_qualified, bare_name_allowed=bare_name_allowed)
        resource_table = Table(resources, names_of=_qualified, bare_name_allowed=bare_name_allowed)
        template_table = Table(templates, names_of=_qualified)
        return cls(
            tools=tool_table,
            tool_lists=ToolLists(tool_table, hidden_items),
            prompts=prompt_table,
            resources=resource_table,
            templates=template_table,
            template_resolver=TemplateResolver(template_table, access.exclude),
            listings=McpListings.of(
                tool_table, prompt_table, resource_table, template_table, tool_names
            ),
            access=access,
            hidden_items=hidden_items,
            pending_offers=PendingOffers(
                scope=scope,
                exclude=access.exclude,
                servers=access.servers,
                bare_tools=tool_names is ToolNameStyle.BARE,
            ),
        )

    def __repr__(self) -> str:
        return f"<Registry tools={len(self.tools)} agents={len(self.access.agents or ())}>"

    def resolve(self, call: Call) -> Component:
        """Return the component that the call names: looked up, never parsed (contract §6).

        - A tool is found by its name, else its alias, else its bare name; the last for agents, and
          for every caller if MCP lists show bare names.
        - A prompt or resource is found by ``server_id:name``, else its bare name.
        - Any other URI is resolved through a template that matches it.

        Nothing outside the tables is ever looked up (F-14). Raises AgentNotFound, AgentRequired,
        AmbiguousName, and for each kind its errors for not allowed and not found.
        """
        viewer = self.access.viewer_for(call.caller)
        match call.kind:
            case Kind.TOOL:
                return self._tool(call.name, viewer)
            case Kind.PROMPT:
                return self._prompt(call.name, viewer)
            case Kind.RESOURCE:
                return self._resource(call.name, viewer)

    def resource(self, call: Call) -> Resource:
        """Return the resource whose URI the call names. Raises like ``resolve``."""
        return self._resource(call.name, self.access.viewer_for(call.caller))

    def completion(self, call: Call) -> Component:
        """Return the completion of arguments for the prompt or resource template of the call.

        Both are found by their listed names. Raises like ``resolve``.
        """
        viewer = self.access.viewer_for(call.caller)
        if call.kind is Kind.PROMPT:
            return self._prompt(call.name, viewer).completion
        template = _only(self.templates.find(call.name, viewer), call.name)
        if template is not None:
            return template.completion
        denial = self.templates.denial(call.name, viewer)
        self._check_denied(Kind.RESOURCE, denial, call.name, viewer)
        names = self.listings.templates.names_for(viewer)
        raise self._not_found(Kind.RESOURCE, call.name, names)

    def visible_to(self, caller: Caller) -> Sequence[ToolSpec]:
        """List the tools that ``caller`` may call.

        Raises AgentNotFound, AgentRequired, as all lists do.
        """
        return [tool.spec for tool in self.tools.visible_to(self.access.viewer_for(caller))]

    async def list_tools(
        self, caller: Caller, tool_format: ToolFormat, names: Sequence[str] | None = None
    ) -> ToolList:
        """List the tools that ``caller`` may call in a format for model APIs.

        ``names`` limits the list to the tools that they resolve to.
        """
        viewer = self.access.viewer_for(caller)
        return await self.tool_lists.list_for(viewer, tool_format, names)

    def prompts_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the MCP definitions of the prompts that ``caller`` may get.

        A prompt whose bare name is ambiguous to this caller is listed as ``server_id:name``; so
        are resources and templates.
        """
        return self.listings.prompts.definitions_for(self.access.viewer_for(caller))

    def resources_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the MCP definitions of the resources that ``caller`` may read."""
        return self.listings.resources.definitions_for(self.access.viewer_for(caller))

    def templates_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the MCP definitions of the templates whose URIs ``caller`` may read."""
        return self.listings.templates.definitions_for(self.access.viewer_for(caller))

    async def mcp_tools(self, caller: Caller) -> McpList:
        """List the MCP definitions of the tools that ``caller`` may call, with an entity tag.

        Tools are named in the configured style; every listed name resolves to its own tool.
        """
        return await self.listings.tools.list_for(self.access.viewer_for(caller))

    async def mcp_prompts(self, caller: Caller) -> McpList:
        """List the prompts that ``caller`` may get, with an entity tag."""
        return await self.listings.prompts.list_for(self.access.viewer_for(caller))

    async def mcp_resources(self, caller: Caller) -> McpList:
        """List the resources that ``caller`` may read by valid URIs, with an entity tag."""
        return await self.listings.resources.list_for(self.access.viewer_for(caller))

    async def mcp_templates(self, caller: Caller) -> McpList:
        """List the templates whose URIs ``caller`` may read, with an entity tag."""
        return await self.listings.templates.list_for(self.access.viewer_for(caller))

    def input_schema(self, name: str, caller: Caller) -> JsonObject | None:
        """Return the input schema of the tool that ``name`` resolves to; None if it does not."""
        try:
            found = self.tools.find(name, self.access.viewer_for(caller))
        except ProxyError:
            return None
        return found[0].spec.input_schema if len(found) == 1 else None

    def _tool(self, name: str, viewer: Viewer) -> Tool:
        tool = _only(self.tools.find(name, viewer), name)
        if tool is not None:
            return tool
        self._check_denied(Kind.TOOL, self.tools.denial(name, viewer), name, viewer)
        server_id, _, tool_name = name.partition(":")
        if not (server_id and tool_name):
            raise not_found(Kind.TOOL, name, (t.spec.name for t in self.tools.visible_to(viewer)))
        if viewer.agent is not None:
            raise not_allowed(Kind.TOOL, name, viewer.agent, None)
        raise not_in_preset(name)

    def _prompt(self, name: str, viewer: Viewer) -> Prompt:
        prompt = _only(self.prompts.find(name, viewer), name)
        if prompt is not None:
            return prompt
        self._check_denied(Kind.PROMPT, self.prompts.denial(name, viewer), name, viewer)
        raise self._not_found(Kind.PROMPT, name, self.listings.prompts.names_for(viewer))

    def _resource(self, uri: str, viewer: Viewer) -> Resource:
        found = self.resources.find(uri, viewer) or self.template_resolver.find(uri, viewer)
        resource = _only(found, uri)
        if resource is not None:
            return resource
        self._check_denied(Kind.RESOURCE, self._resource_denial(uri, viewer), uri, viewer)
        raise self._not_found(Kind.RESOURCE, uri, self.listings.resources.names_for(viewer))

    def _resource_denial(self, uri: str, viewer: Viewer) -> Denial | None:
        """Return what denies a URI to ``viewer``: an exclusion, or a denial of its resource."""
        if viewer.visibility.excluded.matches_uri(None, uri):
            return Denial.EXCLUDED
        denial = self.resources.denial(uri, viewer)
        return denial or self.template_resolver.denial(uri, viewer)

    def _not_found(self, kind: Kind, name: str, visible: Iterable[str]) -> ProxyError:
        return not_found(kind, name, visible, reason=self.hidden_items.reason(kind, name))

    def _check_denied(self, kind: Kind, denial: Denial | None, name: str, viewer: Viewer) -> None:
        """Raise NotAllowed for a denial, and for any name that the agent's profile excludes.

        So an excluded name is refused in the same way, whether or not some server offers it.
        """
        if denial is Denial.TENANT:
            raise tenant_required(kind, name)
        if viewer.agent is None:
            return
        if denial is None and viewer.visibility.excluded.matches(kind, None, name):
            denial = Denial.EXCLUDED
        if denial is not None:
            raise not_allowed(kind, name, viewer.agent, denial)


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


def _qualified(item: ItemT) -> tuple[str, ...]:
    spec = item.spec
    return (qualified_name(spec.server_id or "", spec.bare_name),)


def _only(found: Sequence[ItemT], name: str) -> ItemT | None:
    """Return the one item found for a name, None if there is none. Raises AmbiguousName."""
    if len(found) > 1:
        raise ambiguous(name, [qualified_name(it.spec.server_id or "", name) for it in found])
    return found[0] if found else None
