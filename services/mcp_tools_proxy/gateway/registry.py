"""The frozen table of everything callable now, and its holder."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Caller, Kind
from mcp_tools_proxy.domain.component import Component, JsonObject
from mcp_tools_proxy.domain.errors import AgentNotFound, AgentRequired
from mcp_tools_proxy.domain.prompt import Prompt
from mcp_tools_proxy.domain.resource import Resource, ResourceTemplate
from mcp_tools_proxy.domain.tool import Tool, ToolSpec
from mcp_tools_proxy.gateway.refusals import (
    ambiguous,
    needs_a_tenant,
    not_allowed,
    not_found,
    outside_the_preset,
)
from mcp_tools_proxy.gateway.table import (
    WITHOUT_AGENT,
    WITHOUT_AGENT_OR_TENANT,
    Described,
    ItemT,
    Table,
    Viewer,
)
from mcp_tools_proxy.gateway.through_templates import ThroughTemplates
from mcp_tools_proxy.gateway.tool_lists import ToolList, ToolLists
from mcp_tools_proxy.policy.alias import qualified_name
from mcp_tools_proxy.policy.bounds import quote
from mcp_tools_proxy.policy.exclusion import Exclusions
from mcp_tools_proxy.policy.formats import ToolFormat
from mcp_tools_proxy.policy.lookalike import looks_like_anothers
from mcp_tools_proxy.policy.visibility import Denial, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may use what, of all that a registry has; the default is that all may use it.

    ``agents`` are the profiles by name, None while nobody can know them. With ``agent_required``
    nothing may be used without one. ``exclude`` is what nobody may see of a server (A-01), by its
    id: it concerns URIs that a template stands for; whatever is listed was left out before.
    ``servers`` are the ids of all servers that mcp.json has, there or not.
    """

    agents: Mapping[str, Visibility] | None = field(default_factory=dict)
    agent_required: bool = False
    exclude: Mapping[str, Exclusions] = field(default_factory=dict)
    servers: Container[str] = ()

    def viewer(self, caller: Caller) -> Viewer:
        """Give whom to answer. Raises AgentNotFound, AgentRequired."""
        has_tenant = caller.tenant_id != NO_TENANT
        if caller.agent is None and not self.agent_required:
            return WITHOUT_AGENT if has_tenant else WITHOUT_AGENT_OR_TENANT
        if self.agents is None:
            error = AgentRequired if caller.agent is None else AgentNotFound
            raise error("agents.json has problems, so no agent is known: have an operator mend it")
        if caller.agent is None:
            raise AgentRequired("the request names no agent: set agent to the name of a profile")
        visibility = self.agents.get(caller.agent)
        if visibility is None:
            ways_out = "" if self.agent_required else ", or leave agent out"
            raise AgentNotFound(
                f"no agent profile is named {quote(caller.agent)}; "
                f"name one that agents.json has{ways_out}"
            )
        return Viewer(caller.agent, visibility, has_tenant)


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
    through_templates: ThroughTemplates
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

        def goes_bare(item: Described) -> bool:
            return not looks_like_anothers(item.spec, access.servers)

        tool_table = Table(
            tools,
            names_of=lambda tool: (tool.spec.name, tool.spec.alias),
            bare_names=False,
            goes_bare=goes_bare,
        )
        template_table = Table(templates, names_of=_qualified)
        return cls(
            tools=tool_table,
            tool_lists=ToolLists(tool_table),
            prompts=Table(prompts, names_of=_qualified, goes_bare=goes_bare),
            resources=Table(resources, names_of=_qualified, goes_bare=goes_bare),
            templates=template_table,
            through_templates=ThroughTemplates(template_table, access.exclude),
            access=access,
        )

    def __repr__(self) -> str:
        return (
            f"<Registry tools={len(self.tools)} prompts={len(self.prompts)} "
            f"resources={len(self.resources)} templates={len(self.templates)} "
            f"agents={len(self.access.agents or ())}>"
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
        tool = _only(self.tools.find(name, viewer), name)
        if tool is not None:
            return tool
        self._check_denied(Kind.TOOL, self.tools.denial(name, viewer), name, viewer)
        server_id, _, tool_name = name.partition(":")
        if not (server_id and tool_name):
            raise not_found(Kind.TOOL, name, (t.spec.name for t in self.tools.seen_by(viewer)))
        if viewer.agent is not None:
            raise not_allowed(Kind.TOOL, name, viewer.agent, None)
        raise outside_the_preset(name)

    def _prompt(self, name: str, viewer: Viewer) -> Prompt:
        prompt = _only(self.prompts.find(name, viewer), name)
        if prompt is not None:
            return prompt
        self._check_denied(Kind.PROMPT, self.prompts.denial(name, viewer), name, viewer)
        raise not_found(Kind.PROMPT, name, _names(self.prompts, viewer))

    def _resource(self, uri: str, viewer: Viewer) -> Resource:
        found = self.resources.find(uri, viewer) or self.through_templates.find(uri, viewer)
        resource = _only(found, uri)
        if resource is not None:
            return resource
        self._check_denied(Kind.RESOURCE, self._resource_denial(uri, viewer), uri, viewer)
        raise not_found(Kind.RESOURCE, uri, _names(self.resources, viewer))

    def _resource_denial(self, uri: str, viewer: Viewer) -> Denial | None:
        """Say what refuses a URI to an agent: others may read it, or it is excluded by name."""
        if viewer.visibility.excluded.hits_uri(None, uri):
            return Denial.EXCLUDED
        denial = self.resources.denial(uri, viewer)
        return denial or self.through_templates.denial(uri, viewer)

    def _check_denied(self, kind: Kind, denial: Denial | None, name: str, viewer: Viewer) -> None:
        """Refuse what needs a tenant to who has none, and to an agent what its profile takes from
        it, or names. Raises NotAllowed."""
        if denial is Denial.TENANT:
            raise needs_a_tenant(kind, name)
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
        self._listeners: dict[object, Callable[[], None]] = {}

    def replace(self, registry: Registry) -> None:
        """Put another registry in place of the current one, and tell those who listen."""
        self.current = registry
        for listener in tuple(self._listeners.values()):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called after each replacement, until what is returned is called.

        It must not raise or wait.
        """
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    async def list_tools(
        self, caller: Caller, tool_format: ToolFormat, names: Sequence[str] | None
    ) -> ToolList:
        """List in a format the tools that ``caller`` may run now, as the registry does."""
        return await self.current.list_tools(caller, tool_format, names)


def _qualified(item: ItemT) -> tuple[str, ...]:
    spec = item.spec
    return (qualified_name(spec.server_id or "", spec.bare_name),)


def _only(found: Sequence[ItemT], name: str) -> ItemT | None:
    """Give what goes by a name, None when nothing does. Raises AmbiguousName."""
    if len(found) > 1:
        raise ambiguous(name, [qualified_name(it.spec.server_id or "", name) for it in found])
    return found[0] if found else None


def _listed(table: Table[ItemT], viewer: Viewer, *, key: str) -> Sequence[JsonObject]:
    return [_shown(table, item, viewer, key) for item in table.seen_by(viewer)]


def _shown(table: Table[ItemT], item: ItemT, viewer: Viewer, key: str) -> JsonObject:
    """Give a descriptor under a name that leads to this very item."""
    descriptor = item.spec.as_mcp
    name = _name_for(table, item, viewer)
    if name == item.spec.bare_name:
        return descriptor
    return {**descriptor, (key if key in descriptor else "name"): name}


def _names(table: Table[ItemT], viewer: Viewer) -> Iterable[str]:
    return (_name_for(table, item, viewer) for item in table.seen_by(viewer))


def _name_for(table: Table[ItemT], item: ItemT, viewer: Viewer) -> str:
    """Give the shortest name by which ``viewer`` gets this very item."""
    spec = item.spec
    if table.find(spec.bare_name, viewer) == (item,):
        return spec.bare_name
    return qualified_name(spec.server_id or "", spec.bare_name)
