"""The frozen table of everything callable now, and its holder."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import Self, TypeVar

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.component import Component
from mcp_tools_proxy.domain.errors import (
    AgentNotFound,
    PromptNotFound,
    ResourceNotFound,
    ToolNotAllowed,
    ToolNotFound,
)
from mcp_tools_proxy.domain.prompt import Prompt, PromptSpec
from mcp_tools_proxy.domain.resource import Resource, ResourceSpec, ResourceTemplate
from mcp_tools_proxy.domain.tool import Tool, ToolSpec
from mcp_tools_proxy.policy.bounds import quote

EXPECTED_NAME = "the name of a tool that list_available_tools shows, or server_id:tool"

COMPARED_NAMES = 50
COMPARED_CHARS = 64
"""How many names a wrong one is compared with for a suggestion, and how much of it."""

ComponentT = TypeVar("ComponentT", bound=Component)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Everything callable, under what callers name it by; never changed, only replaced.

    A list is made of the same tables that ``resolve`` looks in, so the two cannot disagree. The
    tuples of specs are made once: a list costs nothing to give.
    """

    by_name: Mapping[str, Tool]
    by_alias: Mapping[str, Tool]
    prompts: Mapping[str, Prompt]
    resources: Mapping[str, Resource]
    templates: Mapping[str, ResourceTemplate]
    tool_specs: tuple[ToolSpec, ...] = field(init=False)
    prompt_specs: tuple[PromptSpec, ...] = field(init=False)
    resource_specs: tuple[ResourceSpec, ...] = field(init=False)
    template_specs: tuple[ResourceSpec, ...] = field(init=False)

    def __post_init__(self) -> None:
        for name, table in (
            ("tool_specs", self.by_name),
            ("prompt_specs", self.prompts),
            ("resource_specs", self.resources),
            ("template_specs", self.templates),
        ):
            object.__setattr__(self, name, tuple(item.spec for item in table.values()))

    @classmethod
    def build(
        cls,
        tools: Iterable[Tool],
        *,
        prompts: Iterable[Prompt] = (),
        resources: Iterable[Resource] = (),
        templates: Iterable[ResourceTemplate] = (),
    ) -> Self:
        """Make a registry, in the order given. Raises ValueError when two share a name."""
        tools = tuple(tools)
        return cls(
            by_name=_table("tools", tools, _name),
            by_alias=_table("tools", tools, lambda tool: tool.spec.alias),
            prompts=_table("prompts", prompts, _name),
            resources=_table("resources", resources, _name),
            templates=_table("templates", templates, _name),
        )

    def __repr__(self) -> str:
        return (
            f"<Registry tools={len(self.by_name)} prompts={len(self.prompts)} "
            f"resources={len(self.resources)} templates={len(self.templates)}>"
        )

    def resolve(self, call: Call) -> Component:
        """Give what the call names, looked up as it is spelt, never parsed (contract §6).

        A tool goes by its name, else its alias; a prompt by its name; a resource by its URI, else
        it is read through the first template, in scope order, that the URI matches. Nothing outside
        the tables is ever looked for (F-14). Raises AgentNotFound, ToolNotAllowed, ToolNotFound,
        PromptNotFound, ResourceNotFound.
        """
        check_agent(call.caller)
        match call.kind:
            case Kind.TOOL:
                return self._tool(call.name)
            case Kind.PROMPT:
                return self._prompt(call.name)
            case Kind.RESOURCE:
                return self._resource(call.name)

    def visible_to(self, caller: Caller) -> tuple[ToolSpec, ...]:
        """List the tools that ``resolve`` would accept from ``caller``. Raises AgentNotFound."""
        check_agent(caller)
        return self.tool_specs

    def prompts_visible_to(self, caller: Caller) -> tuple[PromptSpec, ...]:
        """List the prompts that ``resolve`` would accept from ``caller``. Raises AgentNotFound."""
        check_agent(caller)
        return self.prompt_specs

    def resources_visible_to(self, caller: Caller) -> tuple[ResourceSpec, ...]:
        """List the resources that ``caller`` may read by their names. Raises AgentNotFound."""
        check_agent(caller)
        return self.resource_specs

    def templates_visible_to(self, caller: Caller) -> tuple[ResourceSpec, ...]:
        """List the templates whose URIs ``caller`` may read. Raises AgentNotFound."""
        check_agent(caller)
        return self.template_specs

    def _tool(self, name: str) -> Tool:
        tool = self.by_name.get(name) or self.by_alias.get(name)
        if tool is not None:
            return tool
        server_id, _, tool_name = name.partition(":")
        if server_id and tool_name:
            raise ToolNotAllowed(
                f"tool {quote(name)} cannot be used: the active preset does not allow it, or its "
                "server does not offer it; use one that list_available_tools shows"
            )
        near = _near(name, self.by_name)
        hint = _hint(near, f"expected {EXPECTED_NAME}")
        raise ToolNotFound(
            f"no tool is named {quote(name)}; {hint}",
            details={"expected": EXPECTED_NAME, **({"did_you_mean": near} if near else {})},
        )

    def _prompt(self, name: str) -> Prompt:
        prompt = self.prompts.get(name)
        if prompt is None:
            near = _near(name, self.prompts)
            hint = _hint(near, "list the prompts to see which there are")
            raise PromptNotFound(f"no prompt is named {quote(name)}; {hint}")
        return prompt

    def _resource(self, uri: str) -> Resource:
        resource = self.resources.get(uri)
        if resource is not None:
            return resource
        for template in self.templates.values():
            if template.matches(uri):
                return template
        near = _near(uri, self.resources)
        hint = _hint(near, "list the resources to see which there are")
        raise ResourceNotFound(f"no resource has the URI {quote(uri)}; {hint}")


class RegistryHolder:
    """Holds the current registry; a reader takes ``current`` once and finishes on it."""

    def __init__(self, registry: Registry) -> None:
        self.current = registry

    def visible_to(self, caller: Caller) -> tuple[ToolSpec, ...]:
        """List the tools that ``caller`` may run now. Raises AgentNotFound."""
        return self.current.visible_to(caller)


def check_agent(caller: Caller) -> None:
    """Refuse an agent that has no profile; there are none yet. Raises AgentNotFound."""
    if caller.agent is not None:
        raise AgentNotFound(
            f"no agent profile is named {quote(caller.agent)}; leave agent out, there are none yet"
        )


def _name(component: Component) -> str:
    return component.spec.name


def _table(
    kind: str, items: Iterable[ComponentT], name_of: Callable[[ComponentT], str]
) -> dict[str, ComponentT]:
    """Key components by a name of theirs. Raises ValueError when two share it."""
    table: dict[str, ComponentT] = {}
    for item in items:
        name = name_of(item)
        if name in table:
            raise ValueError(f"two {kind} are named {name!r}")
        table[name] = item
    return table


def _hint(near: str | None, otherwise: str) -> str:
    return f"did you mean {quote(near)}?" if near else otherwise


def _near(name: str, known: Collection[str]) -> str | None:
    """Find what ``name`` was meant to be: some server's tool of that name, else a similar spelling.

    Only the first names of many are compared, so that a wrong name costs little.
    """
    with_server = f":{name}"
    for candidate in known:
        if candidate.endswith(with_server):
            return candidate
    short = (candidate for candidate in known if len(candidate) <= COMPARED_CHARS)
    close = get_close_matches(name[:COMPARED_CHARS], islice(short, COMPARED_NAMES), n=1)
    return close[0] if close else None
