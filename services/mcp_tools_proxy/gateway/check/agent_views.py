"""Items visible to and hidden from agents, read from a registry like that of a running gateway."""

from collections.abc import Iterable, Iterator, Mapping

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import ANY_TENANT, Caller, Kind
from mcp_tools_proxy.domain.components import ComponentSpec, JsonObject
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions
from mcp_tools_proxy.policy.visibility import decide
from mcp_tools_proxy.registry.registry import Registry
from mcp_tools_proxy.wire.text import estimate_tokens

Offer = tuple[Kind, str, str]
"""An item of a server: kind, server id, and name or URI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """The names visible to an agent; ``tokens`` is the size of its tools' definitions."""

    profile: AgentProfile
    tools: tuple[str, ...]
    prompts: tuple[str, ...]
    resources: tuple[str, ...]
    templates: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleItem:
    """An item visible to an agent, under the name that the agent uses."""

    kind: Kind
    name: str
    alias: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenItem:
    """An item hidden from an agent; ``server_id`` is None for a local tool."""

    kind: Kind
    server_id: str | None
    name: str
    hidden_by: str
    """The key that hides it, in the agent's profile or ``exclude`` in the server's entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """All items visible to and hidden from one agent."""

    agent: str
    visible: tuple[VisibleItem, ...]
    hidden: tuple[HiddenItem, ...]


def summarize_agents(registry: Registry, agents: Agents) -> tuple[AgentReport, ...]:
    """List the items visible to each agent, and estimate the tokens of its tools."""
    sizes = {tool.spec.name: len(to_json(tool.spec.as_mcp)) for tool in registry.tools.items}

    def report_of(profile: AgentProfile) -> AgentReport:
        caller = _caller(profile.name)
        tools, lists = registry.visible_to(caller), registry.listings
        permissions = registry.access_rules.permissions_of(caller)
        punctuation = len(tools) + 1 if tools else 0  # the brackets and commas of a JSON list
        return AgentReport(
            profile=profile,
            tools=tuple(spec.listed_name for spec in tools),
            prompts=_names(lists.prompts.definitions_for(permissions), "name"),
            resources=_names(lists.resources.definitions_for(permissions), "uri"),
            templates=_names(lists.templates.definitions_for(permissions), "uriTemplate"),
            tokens=estimate_tokens(sum(sizes[spec.name] for spec in tools) + punctuation),
        )

    return tuple(map(report_of, agents.profiles.values()))


def describe_agent_view(registry: Registry, agent: str, offers: Iterable[Offer] = ()) -> AgentView:
    """List the items visible to an agent, and the hidden ones with reasons.

    ``offers`` are all items of the servers, because excluded ones are not in the registry.
    """
    caller = _caller(agent)
    permissions, lists = registry.access_rules.permissions_of(caller), registry.listings
    return AgentView(
        agent=agent,
        visible=(
            *(
                VisibleItem(kind=Kind.TOOL, name=spec.listed_name, alias=spec.alias)
                for spec in registry.visible_to(caller)
            ),
            *_named(Kind.PROMPT, lists.prompts.definitions_for(permissions), "name"),
            *_named(Kind.RESOURCE, lists.resources.definitions_for(permissions), "uri"),
            *_named(Kind.RESOURCE, lists.templates.definitions_for(permissions), "uriTemplate"),
        ),
        hidden=(
            *(
                HiddenItem(
                    kind=spec.kind,
                    server_id=spec.server_id,
                    name=spec.bare_name,
                    hidden_by=denial.value,
                )
                for spec in _specs(registry)
                if (denial := decide(permissions, spec))
            ),
            *_excluded(offers, registry.offers.exclude),
        ),
    )


def _excluded(offers: Iterable[Offer], exclude: Mapping[str, Exclusions]) -> Iterator[HiddenItem]:
    """Yield items excluded for all agents by the servers' entries in mcp.json."""
    for kind, server_id, name in offers:
        if exclude.get(server_id, NO_EXCLUSIONS).matches(kind, server_id, name):
            yield HiddenItem(kind=kind, server_id=server_id, name=name, hidden_by="exclude")


def _specs(registry: Registry) -> Iterator[ComponentSpec]:
    for table in (registry.tools, registry.prompts, registry.resources, registry.templates):
        yield from (item.spec for item in table.items)


def _named(kind: Kind, listed: Iterable[JsonObject], key: str) -> Iterator[VisibleItem]:
    for name in _names(listed, key):
        yield VisibleItem(kind=kind, name=name)


def _names(listed: Iterable[JsonObject], key: str) -> tuple[str, ...]:
    """Return the names of MCP descriptors, by ``key``; a resource can lack a URI (P-12)."""
    return tuple(str(descriptor.get(key, descriptor["name"])) for descriptor in listed)


def _caller(agent: str) -> Caller:
    return Caller(tenant_id=ANY_TENANT, user_id="-", agent=agent)
