"""Arguments that agents' profiles bind: which tools they get, and which they may not use for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, Self, runtime_checkable

from mcp_tools_proxy.domain.components import Tool
from mcp_tools_proxy.domain.configuration import AgentProfile
from mcp_tools_proxy.domain.offers.bindings import Binding, Path
from mcp_tools_proxy.json_schema.bound_offers import NamedElsewhere
from mcp_tools_proxy.policy.visibility import Visibility
from mcp_tools_proxy.registry.shown_tools import BindTool


@runtime_checkable
class Bindable(Protocol):
    """A tool whose arguments can be bound; those of ``bindings`` are."""

    @property
    def bindings(self) -> Sequence[Binding]:
        """What is bound already, by its server's entry."""
        ...

    def bound_to(self, bindings: Sequence[Binding]) -> Tool:
        """Return the tool with these arguments bound as well. Raises NamedElsewhere."""
        ...


@dataclass(frozen=True, slots=True)
class BoundAgents:
    """What the profiles of agents bind: the tools that change, and those that cannot be used."""

    bind_by_agent: Mapping[str, BindTool] = field(default_factory=dict)
    hidden: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Agent → full names of tools without the bound argument, or bound to two values."""

    @classmethod
    def of(cls, profiles: Mapping[str, AgentProfile], tools: Iterable[Tool]) -> Self:
        """Bind the tools for each agent whose profile binds any."""
        binding = {name: profile for name, profile in profiles.items() if profile.bindings}
        if not binding:
            return cls()
        by_name = {tool.spec.name: tool for tool in tools}
        bind_by_agent: dict[str, BindTool] = {}
        hidden: dict[str, Sequence[str]] = {}
        for name, profile in binding.items():
            bound, refused = _bind(profile, by_name)
            bind_by_agent[name] = partial(_bound_tool, bound)
            hidden[name] = refused
        return cls(bind_by_agent, hidden)

    def narrowed(self, visibilities: Mapping[str, Visibility]) -> Mapping[str, Visibility]:
        """Return what agents may use, without the tools that are hidden from them."""
        if not any(self.hidden.values()):
            return visibilities
        return {
            name: replace(visibility, unbound=frozenset(self.hidden[name]))
            if self.hidden.get(name)
            else visibility
            for name, visibility in visibilities.items()
        }

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield each agent and tool that is hidden from it."""
        for agent, tools in self.hidden.items():
            for tool in tools:
                yield agent, tool


def _bind(
    profile: AgentProfile, by_name: Mapping[str, Tool]
) -> tuple[Mapping[int, Tool], Sequence[str]]:
    """Return the bound tools by the ``id()`` of the unbound ones, and the names of the refused."""
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
    """Return a tool with all bindings applied; None if one of them cannot be."""
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
    """Return whether one of two different paths leads through the other."""
    shorter, longer = sorted((one, other), key=len)
    return one != other and longer[: len(shorter)] == shorter


def _bound_tool(bound: Mapping[int, Tool], tool: Tool) -> Tool:
    return bound.get(id(tool), tool)
