"""The tools as a caller sees them, where arguments are filled in for it: those are not shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from mcp_tools_proxy.domain.caller import Call, narrow_documents
from mcp_tools_proxy.domain.components import (
    DOCUMENT_ARGUMENT,
    Component,
    ComponentSpec,
    JsonObject,
    Result,
    Tool,
    ToolSpec,
)
from mcp_tools_proxy.domain.errors import DocumentRefused
from mcp_tools_proxy.policy.visibility import NO_OFFERS, Offers, Permissions, Visibility
from mcp_tools_proxy.registry.component_table import ComponentTable
from mcp_tools_proxy.registry.mcp_lists import McpToolLists
from mcp_tools_proxy.registry.refusals import in_profile
from mcp_tools_proxy.registry.tool_lists import ToolLists

MAX_VARIANTS = 16
"""How many variants of the lists are kept: one for callers with one document, and of each agent
with arguments of its own two. A variant costs as much as the lists themselves."""

BindTool = Callable[[Tool], Tool]
"""Returns a tool with arguments filled in, or the tool itself if it has none of them."""


class ToolVariant:
    """The tools and their lists for callers to whom the same arguments are filled in."""

    def __init__(
        self,
        table: ComponentTable[Tool],
        offers: Offers,
        specs: Sequence[ToolSpec] | None = None,
    ) -> None:
        """``specs`` are the tools' in the order of the table where they differ from their own."""
        self.lists = ToolLists(table, offers, specs)
        self.mcp = McpToolLists(table, specs)


class ShownTools:
    """The tools of one registry, in the variants that its callers see.

    ``bind_by_agent`` has a function for each agent whose profile fills in arguments. Variants are
    built when they are first requested.
    """

    def __init__(
        self,
        table: ComponentTable[Tool],
        offers: Offers = NO_OFFERS,
        bind_by_agent: Mapping[str, BindTool] | None = None,
    ) -> None:
        self._table = table
        self._offers = offers
        self._bind_by_agent = bind_by_agent or {}
        self._plain = ToolVariant(table, offers)
        self._variants: dict[tuple[str | None, bool], ToolVariant] = {}

    def variant_for(self, permissions: Permissions) -> ToolVariant:
        """Return the lists for a caller."""
        agent = permissions.agent if permissions.agent in self._bind_by_agent else None
        if agent is None and not permissions.has_one_document:
            return self._plain
        key = (agent, permissions.has_one_document)
        variant = self._variants.pop(key, None)
        if variant is None:
            specs = [self.spec_for(tool, permissions) for tool in self._table.items]
            variant = ToolVariant(self._table, self._offers, specs)
            if len(self._variants) == MAX_VARIANTS:
                del self._variants[next(iter(self._variants))]
        self._variants[key] = variant
        return variant

    def tool_for(self, tool: Tool, permissions: Permissions) -> Tool:
        """Return a tool with the arguments filled in that the caller's agent may not choose.

        A tool of ours works on those documents alone that the agent's profile names, if any, and
        answers with or without sources as the profile says.
        """
        agent = permissions.agent
        if agent is None:
            return tool
        bound = self._bound_tool(tool, agent)
        if _is_narrowed(tool.spec, permissions):
            return NarrowedTool(bound, permissions.visibility)
        return bound

    def _bound_tool(self, tool: Tool, agent: str) -> Tool:
        bind = self._bind_by_agent.get(agent)
        return tool if bind is None else bind(tool)

    def spec_for(self, tool: Tool, permissions: Permissions) -> ToolSpec:
        """Return the description of a tool as the caller sees it."""
        spec = self.tool_for(tool, permissions).spec
        if permissions.has_one_document and names_document(spec):
            return without_document(spec)
        return spec


def narrowed(component: Component, permissions: Permissions) -> Component:
    """Return a component with the documents alone that the agent's profile names, if any."""
    if _is_narrowed(component.spec, permissions):
        return NarrowedComponent(component, permissions.visibility)
    return component


def _is_narrowed(spec: ComponentSpec, permissions: Permissions) -> bool:
    visibility = permissions.visibility
    narrows = visibility.documents is not None or visibility.sources is not None
    return spec.server_id is None and narrows


class NarrowedComponent:
    """One of ours for an agent whose profile names its only documents, or speaks of sources.

    The caller of ``complete_arguments`` has those documents alone from then on, in a list, too.
    """

    __slots__ = ("_component", "_visibility")

    def __init__(self, component: Component, visibility: Visibility) -> None:
        self._component = component
        self._visibility = visibility

    @property
    def spec(self) -> ComponentSpec:
        """The component's own description."""
        return self._component.spec

    def complete_arguments(self, call: Call) -> Call:
        """Return the call of a caller that has the profile's documents alone."""
        documents = narrow_documents(call.caller.documents, self._visibility.documents)
        caller = replace(call.caller, documents=documents)
        sources = self._visibility.sources if call.sources is None else call.sources
        return self._component.complete_arguments(replace(call, caller=caller, sources=sources))

    def parse(self, arguments: JsonObject) -> object:
        """Check the arguments. Raises InvalidArguments."""
        return self._component.parse(arguments)

    async def check_document(self, parsed: object, call: Call) -> str | None:
        """Return the version of the document. Raises AccessDenied, DocumentNotFound."""
        try:
            return await self._component.check_document(parsed, call)
        except DocumentRefused as error:
            is_of_profile = call.caller.documents == self._visibility.documents
            if error.is_unbound and is_of_profile:
                # neither request nor token names fewer, so the profile decided
                error.reason = "the agent's profile allows only other documents"
                error.rule = in_profile(call.caller.agent, "documents")
            raise

    async def call(self, parsed: object, call: Call) -> Result:
        """Perform the call."""
        return await self._component.call(parsed, call)


class NarrowedTool(NarrowedComponent):
    """A tool that is narrowed."""

    __slots__ = ("_tool",)

    def __init__(self, tool: Tool, visibility: Visibility) -> None:
        super().__init__(tool, visibility)
        self._tool = tool

    @property
    def spec(self) -> ToolSpec:
        """The tool's own description."""
        return self._tool.spec


def names_document(spec: ToolSpec) -> bool:
    """Return whether a tool is one of ours whose argument names a document."""
    return spec.server_id is None and DOCUMENT_ARGUMENT in spec.argument_names


def without_document(spec: ToolSpec) -> ToolSpec:
    """Return a document tool's spec without ``doc_id``, for callers with one document."""
    schema = spec.input_schema
    properties = cast("JsonObject", schema["properties"])
    required = cast("Sequence[str]", schema.get("required", ()))
    return replace(
        spec,
        input_schema={
            **schema,
            "properties": {key: properties[key] for key in properties if key != DOCUMENT_ARGUMENT},
            "required": [name for name in required if name != DOCUMENT_ARGUMENT],
        },
    )
