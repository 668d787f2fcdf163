"""Tools as a caller sees them, without the arguments that the gateway fills in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol, Self, cast, runtime_checkable

from mcp_tools_proxy.domain.bindings import Binding, Path
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
from mcp_tools_proxy.domain.configuration import AgentProfile
from mcp_tools_proxy.domain.errors import DocumentRefused
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.visibility import NO_OFFERS, Offers, Permissions, Visibility
from mcp_tools_proxy.registry.component_table import ComponentTable
from mcp_tools_proxy.registry.mcp_lists import McpToolLists
from mcp_tools_proxy.registry.refusals import in_profile
from mcp_tools_proxy.registry.tool_lists import ToolLists
from mcp_tools_proxy.wire.json_schema.bound_offers import NamedElsewhere

MAX_VARIANTS = 16
"""Maximum number of kept list variants: one for callers with one document, and two for each
agent with bound arguments. Each costs as much as the lists themselves."""


class ToolVariant:
    """The tools and their lists for callers with the same filled-in arguments."""

    def __init__(
        self,
        table: ComponentTable[Tool],
        offers: Offers,
        specs: Sequence[ToolSpec] | None = None,
    ) -> None:
        """Create a variant; ``specs``, in the order of the table, replace the tools' own."""
        self.lists = ToolLists(table, offers, specs)
        self.mcp = McpToolLists(table, specs)


@dataclass(frozen=True, slots=True)
class BoundAgents:
    """Bindings of agents' profiles: the changed tools, and the unusable ones."""

    tools: Mapping[str, Mapping[int, Tool]] = field(default_factory=dict)
    """Agent → bound tools, by the ``id()`` of the unbound ones."""
    hidden: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Agent → full names of tools without the bound argument, or bound to two values."""

    @classmethod
    def of(cls, profiles: Mapping[str, AgentProfile], tools: Iterable[Tool]) -> Self:
        """Bind the tools for each agent whose profile binds any."""
        binding = {name: profile for name, profile in profiles.items() if profile.bindings}
        if not binding:
            return cls()
        by_name = {tool.spec.name: tool for tool in tools}
        found = {name: _bind(profile, by_name) for name, profile in binding.items()}
        return cls(
            tools={name: bound for name, (bound, _) in found.items()},
            hidden={name: refused for name, (_, refused) in found.items()},
        )

    def tool_for(self, agent: str, tool: Tool) -> Tool:
        """Return a tool with the agent's bound arguments filled in, if any."""
        bound = self.tools.get(agent)
        return tool if bound is None else bound.get(id(tool), tool)

    def narrowed(self, visibilities: Mapping[str, Visibility]) -> Mapping[str, Visibility]:
        """Return the agents' visibilities without the tools that are hidden from them."""
        if not any(self.hidden.values()):
            return visibilities
        return {
            name: replace(visibility, unbound=frozenset(self.hidden[name]))
            if self.hidden.get(name)
            else visibility
            for name, visibility in visibilities.items()
        }

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield each agent with its hidden tools."""
        for agent, tools in self.hidden.items():
            for tool in tools:
                yield agent, tool


NOTHING_BOUND = BoundAgents()


class ShownTools:
    """The tools of one registry, in the variants that its callers see, built on first request.

    ``bound_agents`` has the tools of agents whose profiles fill in arguments.
    """

    def __init__(
        self,
        table: ComponentTable[Tool],
        offers: Offers = NO_OFFERS,
        bound_agents: BoundAgents = NOTHING_BOUND,
    ) -> None:
        self._table = table
        self._offers = offers
        self._bound_agents = bound_agents
        self._plain = ToolVariant(table, offers)
        self._variants: dict[tuple[str | None, bool], ToolVariant] = {}

    def variant_for(self, permissions: Permissions) -> ToolVariant:
        """Return the lists for a caller."""
        agent = permissions.agent if permissions.agent in self._bound_agents.tools else None
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
        """Return a tool with the arguments filled in that the caller's agent cannot choose.

        A local tool follows the profile's documents and sources, if set.
        """
        agent = permissions.agent
        if agent is None:
            return tool
        bound = self._bound_agents.tool_for(agent, tool)
        if _is_narrowed(tool.spec, permissions):
            return NarrowedTool(bound, permissions.visibility)
        return bound

    def spec_for(self, tool: Tool, permissions: Permissions) -> ToolSpec:
        """Return the description of a tool as the caller sees it."""
        spec = self.tool_for(tool, permissions).spec
        if permissions.has_one_document and names_document(spec):
            return without_document(spec)
        return spec


def narrowed(component: Component, permissions: Permissions) -> Component:
    """Return a component limited to the documents in the agent's profile, if set."""
    if _is_narrowed(component.spec, permissions):
        return NarrowedComponent(component, permissions.visibility)
    return component


def _is_narrowed(spec: ComponentSpec, permissions: Permissions) -> bool:
    visibility = permissions.visibility
    narrows = visibility.documents is not None or visibility.sources is not None
    return spec.server_id is None and narrows


class NarrowedComponent:
    """A local component for an agent whose profile limits documents or sets sources.

    After ``complete_arguments``, the caller is limited to those documents, also in lists.
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
        """Return the call with a caller limited to the profile's documents."""
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
                # request and token do not restrict further, so the profile decided
                error.reason = "the agent's profile allows only other documents"
                error.rule = in_profile(call.caller.agent, "documents")
            raise

    async def call(self, parsed: object, call: Call) -> Result:
        """Execute the call."""
        return await self._component.call(parsed, call)


class NarrowedTool(NarrowedComponent):
    """A limited tool."""

    __slots__ = ("_tool",)

    def __init__(self, tool: Tool, visibility: Visibility) -> None:
        super().__init__(tool, visibility)
        self._tool = tool

    @property
    def spec(self) -> ToolSpec:
        """The tool's own description."""
        return self._tool.spec


def names_document(spec: ToolSpec) -> bool:
    """Return whether a tool is a local one with a document argument."""
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


@runtime_checkable
class Bindable(Protocol):
    """A tool with bindable arguments; ``bindings`` are already bound."""

    @property
    def bindings(self) -> Sequence[Binding]:
        """The bindings of its server's entry."""
        ...

    def bound_to(self, bindings: Sequence[Binding]) -> Tool:
        """Return the tool with these arguments bound as well. Raises NamedElsewhere."""
        ...


def _bind(
    profile: AgentProfile, by_name: Mapping[str, Tool]
) -> tuple[Mapping[int, Tool], Sequence[str]]:
    """Return the bound tools by the ``id()`` of the unbound ones, and the refused names."""
    bound: dict[int, Tool] = {}
    refused: list[str] = []
    for name, bindings in profile.bindings.items():
        tool = by_name.get(name)
        if tool is None:
            continue
        found = _bound_to(tool, bindings)
        if found is None:
            refused.append(name)
        else:
            bound[id(tool)] = found
    return bound, refused


def _bound_to(tool: Tool, bindings: Sequence[Binding]) -> Tool | None:
    """Return a tool with all bindings applied; None if one of them cannot be applied."""
    if not isinstance(tool, Bindable):
        return None
    known = {binding.path: binding for binding in tool.bindings}
    if any(known.get(it.path, it) != it for it in bindings):
        return None
    if any(_is_within(one, it.path) for one in known for it in bindings):
        return None
    new = [it for it in bindings if it.path not in known]
    try:
        changed = tool.bound_to(new)
    except NamedElsewhere:
        return None
    is_bound = isinstance(changed, Bindable) and len(changed.bindings) == len(known) + len(new)
    return changed if is_bound else None


def _is_within(one: Path, other: Path) -> bool:
    """Return whether one of two different paths is a prefix of the other."""
    shorter, longer = sorted((one, other), key=len)
    return one != other and longer[: len(shorter)] == shorter
