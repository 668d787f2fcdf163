"""The frozen table of everything callable now, and its holder."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.component import Component, ComponentSpec, JsonObject
from mcp_tools_proxy.domain.errors import AgentNotFound, AgentRequired
from mcp_tools_proxy.domain.prompt import Prompt
from mcp_tools_proxy.domain.resource import Resource, ResourceTemplate
from mcp_tools_proxy.domain.tool import Tool, ToolSpec
from mcp_tools_proxy.gateway.refusals import ambiguous, not_allowed, not_found, outside_the_preset
from mcp_tools_proxy.gateway.table import WITHOUT_AGENT, ItemT, Table, Viewer
from mcp_tools_proxy.gateway.tool_lists import ToolList, ToolLists
from mcp_tools_proxy.policy.alias import qualified_name
from mcp_tools_proxy.policy.bounds import quote
from mcp_tools_proxy.policy.exclusion import NOTHING_EXCLUDED, Exclusions
from mcp_tools_proxy.policy.formats import ToolFormat
from mcp_tools_proxy.policy.visibility import Denial, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may use what, of all that a registry has; the default is that all may use it.

    ``agents`` are the profiles by name. With ``agent_required`` nothing may be used without one.
    ``exclude`` is what nobody may see of a server (A-01), by server id: it concerns URIs that a
    template stands for; whatever is listed was left out before.
    """

    agents: Mapping[str, Visibility] = field(default_factory=dict)
    agent_required: bool = False
    exclude: Mapping[str, Exclusions] = field(default_factory=dict)

    def viewer(self, caller: Caller) -> Viewer:
        """Give whom to answer. Raises AgentNotFound, AgentRequired."""
        if caller.agent is None:
            if self.agent_required:
                raise AgentRequired(
                    "the request names no agent: set agent to the name of a profile"
                )
            return WITHOUT_AGENT
        visibility = self.agents.get(caller.agent)
        if visibility is None:
            ways_out = "" if self.agent_required else ", or leave agent out"
            raise AgentNotFound(
                f"no agent profile is named {quote(caller.agent)}; "
                f"name one that agents.json has{ways_out}"
            )
        return Viewer(caller.agent, visibility)


EVERYBODY = Access()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Everything callable, under what callers name it by; never changed, only replaced.

    A list is made of the same tables that ``resolve`` looks in, by the same predicate, so the two
    cannot disagree.
    """

    tools: Table[Tool]
    tool_lists: ToolLists
    prompts: Table[Prompt]
    resources: Table[Resource]
    templates: Table[ResourceTemplate]
    access: Access = EVERYBODY

    @classmethod
    def build(
        cls,
        tools: Iterable[Tool],
        *,
        prompts: Iterable[Prompt] = (),
        resources: Iterable[Resource] = (),
        templates: Iterable[ResourceTemplate] = (),
        access: Access = EVERYBODY,
    ) -> Self:
        """Make a registry, in the order given.

        Raises ValueError when two tools share a name or alias, or two others server and name.
        """
        table = Table(
            tools, names_of=lambda tool: (tool.spec.name, tool.spec.alias), bare_names=False
        )
        return cls(
            tools=table,
            tool_lists=ToolLists(table),
            prompts=Table(prompts, names_of=_qualified),
            resources=Table(resources, names_of=_qualified),
            templates=Table(templates, names_of=_qualified),
            access=access,
        )

    def __repr__(self) -> str:
        return (
            f"<Registry tools={len(self.tools)} prompts={len(self.prompts)} "
            f"resources={len(self.resources)} templates={len(self.templates)} "
            f"agents={len(self.access.agents)}>"
        )

    def resolve(self, call: Call) -> Component:
        """Give what the call names, looked up as it is spelt, never parsed (contract §6).

        A tool goes by its name, else its alias, else for an agent its bare name; a prompt or
        resource by ``server_id:name``, else its bare name. Any other URI is read through a template
        that it matches. Nothing outside the tables is ever looked for (F-14). Raises AgentNotFound,
        AgentRequired, AmbiguousName, and for each kind not allowed and not found.
        """
        viewer = self.access.viewer(call.caller)
        match call.kind:
            case Kind.TOOL:
                return self._tool(call.name, viewer)
            case Kind.PROMPT:
                return self._prompt(call.name, viewer)
            case Kind.RESOURCE:
                return self._resource(call.name, viewer)

    def visible_to(self, caller: Caller) -> Sequence[ToolSpec]:
        """List the tools that ``resolve`` would accept from ``caller``.

        Raises AgentNotFound, AgentRequired, as the other lists do.
        """
        return [tool.spec for tool in self.tools.seen_by(self.access.viewer(caller))]

    async def list_tools(
        self, caller: Caller, tool_format: ToolFormat, names: Sequence[str] | None = None
    ) -> ToolList:
        """List in a format the tools that ``resolve`` would accept from ``caller``.

        With ``names`` only those that go by one of them. Raises AgentNotFound, AgentRequired.
        """
        viewer = self.access.viewer(caller)
        return await self.tool_lists.list_for(viewer, tool_format, names)

    def prompts_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the prompts that ``resolve`` would accept from ``caller``, as MCP does.

        One whose bare name means several to this caller is listed as ``server_id:name``; so are
        resources and templates.
        """
        return _listed(self.prompts, self.access.viewer(caller), key="name")

    def resources_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the resources that ``caller`` may read by their names, as MCP does."""
        return _listed(self.resources, self.access.viewer(caller), key="uri")

    def templates_visible_to(self, caller: Caller) -> Sequence[JsonObject]:
        """List the templates whose URIs ``caller`` may read, as MCP does."""
        return _listed(self.templates, self.access.viewer(caller), key="uriTemplate")

    def _tool(self, name: str, viewer: Viewer) -> Tool:
        found = self.tools.find(name, viewer)
        if len(found) == 1:
            return found[0]
        if found:
            raise ambiguous(name, [(tool.spec, name) for tool in found])
        server_id, _, tool_name = name.partition(":")
        looks_qualified = bool(server_id and tool_name)
        self._check_denied(Kind.TOOL, self.tools.denial(name, viewer), name, viewer)
        if looks_qualified and viewer.agent is not None:
            raise not_allowed(Kind.TOOL, name, viewer.agent, None)
        if looks_qualified:
            raise outside_the_preset(name)
        raise not_found(Kind.TOOL, name, _specs(self.tools.seen_by(viewer)))

    def _prompt(self, name: str, viewer: Viewer) -> Prompt:
        found = self.prompts.find(name, viewer)
        if len(found) == 1:
            return found[0]
        if found:
            raise ambiguous(name, [(prompt.spec, name) for prompt in found])
        self._check_denied(Kind.PROMPT, self.prompts.denial(name, viewer), name, viewer)
        raise not_found(Kind.PROMPT, name, _specs(self.prompts.seen_by(viewer)))

    def _resource(self, uri: str, viewer: Viewer) -> Resource:
        found = self.resources.find(uri, viewer) or self._through_templates(uri, viewer)
        if len(found) == 1:
            return found[0]
        if found:
            raise ambiguous(uri, [(resource.spec, uri) for resource in found])
        self._check_denied(Kind.RESOURCE, self._resource_denial(uri, viewer), uri, viewer)
        raise not_found(Kind.RESOURCE, uri, _specs(self.resources.seen_by(viewer)))

    def _through_templates(self, uri: str, viewer: Viewer) -> tuple[Resource, ...]:
        """Read ``uri`` through the first template of each server that it matches.

        Without an agent only the first server counts. A URI with a server's id in front is what is
        left without it, where it matches nothing as it is.
        """
        templates = self.templates.seen_by(viewer)
        found: dict[str, Resource] = {}
        for template in templates:
            server_id = template.spec.server_id
            if server_id not in found and (resource := self._at(template, uri, viewer)):
                found[server_id] = resource
                if viewer.agent is None:
                    break
        if found:
            return tuple(found.values())
        for template in templates:
            prefix = qualified_name(template.spec.server_id, "")
            bare = uri.removeprefix(prefix)
            if bare != uri and (resource := self._at(template, bare, viewer)):
                return (resource,)
        return ()

    def _at(self, template: ResourceTemplate, uri: str, viewer: Viewer) -> Resource | None:
        """Give the resource that a template stands for, unless it is excluded (A-20)."""
        server_id = template.spec.server_id
        if self.access.exclude.get(server_id, NOTHING_EXCLUDED).hits_uri(server_id, uri):
            return None
        if viewer.visibility.excluded.hits_uri(server_id, uri):
            return None
        return template.at(uri)

    def _resource_denial(self, uri: str, viewer: Viewer) -> Denial | None:
        """Say what refuses a URI to an agent: others may read it, or it is excluded by name."""
        if viewer.visibility.excluded.hits_uri(None, uri):
            return Denial.EXCLUDED
        denial = self.resources.denial(uri, viewer)
        if denial is not None:
            return denial
        for template in self.templates.items:
            if self._at(template, uri, WITHOUT_AGENT) is not None:
                return viewer.denial(template.spec) or Denial.EXCLUDED
        return None

    def _check_denied(self, kind: Kind, denial: Denial | None, name: str, viewer: Viewer) -> None:
        """Refuse to an agent what its profile takes from it, or names. Raises NotAllowed."""
        if viewer.agent is None:
            return
        if denial is None and viewer.visibility.excluded.hits(kind, None, name):
            denial = Denial.EXCLUDED
        if denial is not None:
            raise not_allowed(kind, name, viewer.agent, denial)


class RegistryHolder:
    """Holds the current registry; a reader takes ``current`` once and finishes on it."""

    def __init__(self, registry: Registry) -> None:
        self.current = registry

    async def list_tools(
        self, caller: Caller, tool_format: ToolFormat, names: Sequence[str] | None
    ) -> ToolList:
        """List in a format the tools that ``caller`` may run now, as the registry does."""
        return await self.current.list_tools(caller, tool_format, names)


def _qualified(item: ItemT) -> tuple[str, ...]:
    spec = item.spec
    return (qualified_name(spec.server_id or "", spec.bare_name),)


def _specs(items: Iterable[ItemT]) -> Iterable[ComponentSpec]:
    return (item.spec for item in items)


def _listed(table: Table[ItemT], viewer: Viewer, *, key: str) -> Sequence[JsonObject]:
    return [_shown(table, item, viewer, key) for item in table.seen_by(viewer)]


def _shown(table: Table[ItemT], item: ItemT, viewer: Viewer, key: str) -> JsonObject:
    """Give a descriptor under a name that leads to this very item."""
    spec = item.spec
    if table.find(spec.bare_name, viewer) == (item,):
        return spec.as_mcp
    field_name = key if key in spec.as_mcp else "name"
    return {**spec.as_mcp, field_name: qualified_name(spec.server_id or "", spec.bare_name)}
