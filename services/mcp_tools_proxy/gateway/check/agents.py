"""What ``check`` reports about agents: what each of them sees, what is hidden from it, and why.

Everything is read from a registry, so a serving gateway would answer the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import ANY_TENANT, Caller, Kind
from mcp_tools_proxy.domain.components import ComponentSpec, JsonObject, ResourceTemplate
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents
from mcp_tools_proxy.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions, name_variants
from mcp_tools_proxy.policy.visibility import Denial
from mcp_tools_proxy.registry.registry import Registry
from mcp_tools_proxy.wire.text import estimate_tokens

_Item = tuple[Kind, str | None, str]
"""A component: its kind, its server's id (None for a local tool), its name at its server."""

_Entry = tuple[str, str, tuple[str, ...]]
"""An exclusion: its owner, its text, what it hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFindings:
    """How much an agent sees; ``tokens`` is the size of its tools' definitions."""

    profile: AgentProfile
    tools: int
    prompts: int
    resources: int
    templates: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFindings:
    """An exclusion and what it hides, for all ``owners`` for which it hides the same.

    An owner is ``agent reader`` or ``server notes``. ``hidden`` has names like
    ``tool:notes:search``, or ``URIs of resource:notes:notes://{id}`` if the entry is a URI that
    no server lists. For an agent it has only what the agent would see otherwise; for a server
    everything that the entry matches.
    """

    owners: tuple[str, ...]
    entry: str
    hidden: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleItem:
    """One component that an agent sees, under the name that the agent has to use."""

    kind: Kind
    name: str
    alias: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenItem:
    """One present component that an agent's profile denies, and the part that denies it."""

    spec: ComponentSpec
    denial: Denial


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """Everything that one agent sees, and everything that is hidden from the agent."""

    agent: str
    visible: tuple[VisibleItem, ...]
    hidden: tuple[HiddenItem, ...]


def summarize_agents(registry: Registry, agents: Agents) -> tuple[AgentFindings, ...]:
    """Count what each agent sees, and the tokens of its tools' definitions."""
    sizes = {tool.spec.name: len(to_json(tool.spec.as_mcp)) for tool in registry.tools.items}

    def counts_of(profile: AgentProfile) -> AgentFindings:
        caller = _caller(profile.name)
        tools = registry.visible_to(caller)
        punctuation = len(tools) + 1 if tools else 0  # the brackets and commas of a JSON list
        return AgentFindings(
            profile=profile,
            tools=len(tools),
            prompts=len(registry.prompts_visible_to(caller)),
            resources=len(registry.resources_visible_to(caller)),
            templates=len(registry.templates_visible_to(caller)),
            tokens=estimate_tokens(sum(sizes[spec.name] for spec in tools) + punctuation),
        )

    return tuple(map(counts_of, agents.profiles.values()))


def describe_agent_view(registry: Registry, agent: str) -> AgentView:
    """List what an agent sees, and what is hidden from the agent and why."""
    caller = _caller(agent)
    viewer = registry.access.viewer_for(caller)
    return AgentView(
        agent=agent,
        visible=(
            *(
                VisibleItem(kind=Kind.TOOL, name=spec.name, alias=spec.alias)
                for spec in registry.visible_to(caller)
            ),
            *_named(Kind.PROMPT, registry.prompts_visible_to(caller), "name"),
            *_named(Kind.RESOURCE, registry.resources_visible_to(caller), "uri"),
            *_named(Kind.RESOURCE, registry.templates_visible_to(caller), "uriTemplate"),
        ),
        hidden=tuple(
            HiddenItem(spec=spec, denial=denial)
            for spec in _specs(registry)
            if (denial := viewer.denial(spec))
        ),
    )


def explain_exclusions(
    registry: Registry,
    agents: Agents,
    exclude: Mapping[str, Sequence[str]],
    snapshots: Mapping[str, Snapshot],
) -> tuple[EntryFindings, ...]:
    """Return what each exclusion hides; ``exclude`` has the servers' own ones, by server id."""
    owners: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    of_servers = _entries_of_servers(registry, exclude, snapshots)
    for owner, entry, hidden in chain(of_servers, _entries_of_agents(registry, agents)):
        owners.setdefault((entry, hidden), []).append(owner)
    return tuple(
        EntryFindings(owners=tuple(dict.fromkeys(same)), entry=entry, hidden=hidden)
        for (entry, hidden), same in owners.items()
    )


def _entries_of_servers(
    registry: Registry, exclude: Mapping[str, Sequence[str]], snapshots: Mapping[str, Snapshot]
) -> Iterator[_Entry]:
    for server_id, entries in exclude.items():
        offer = snapshots.get(server_id, EMPTY_SNAPSHOT).components
        templates = [it for it in registry.templates.items if it.spec.server_id == server_id]
        matcher = _ExclusionMatcher(((kind, server_id, name) for kind, name in offer), templates)
        for entry in entries:
            hidden = [_full_name(item) for item in matcher.components(entry)]
            hidden += [
                f"URIs of {_full_name(_item(it.spec))}" for it, _ in matcher.templates(entry)
            ]
            yield f"server {server_id}", entry, tuple(hidden)


def _entries_of_agents(registry: Registry, agents: Agents) -> Iterator[_Entry]:
    exclude = registry.access.exclude
    matcher = _ExclusionMatcher(map(_item, _specs(registry)), registry.templates.items)
    for name, profile in agents.profiles.items():
        visibility = registry.access.viewer_for(_caller(name)).visibility
        for entry in profile.exclude_components:
            hidden = [
                _full_name(item)
                for item in matcher.components(entry)
                if visibility.denial(*item) is Denial.EXCLUDED
            ]
            hidden += [
                f"URIs of {_full_name(_item(template.spec))}"
                for template, uri in matcher.templates(entry)
                if visibility.denial(*_item(template.spec)) is None
                and not _is_excluded(exclude, template.spec.server_id, uri)
            ]
            yield f"agent {name}", entry, tuple(hidden)


class _ExclusionMatcher:
    """Matches exclusions to components, and to templates whose URIs they name (A-18, A-20)."""

    def __init__(self, items: Iterable[_Item], templates: Sequence[ResourceTemplate]) -> None:
        self._components: dict[str, list[_Item]] = {}
        for item in items:
            for spelling in name_variants(*item):
                self._components.setdefault(spelling, []).append(item)
        self._templates = templates
        self._of_templates: dict[str, list[tuple[ResourceTemplate, str]]] = {}

    def components(self, entry: str) -> Sequence[_Item]:
        """Return the components that the entry names, in any of their name_variants."""
        return self._components.get(entry, ())

    def templates(self, entry: str) -> Sequence[tuple[ResourceTemplate, str]]:
        """Return each template that matches the entry, with the URI that it matches.

        An entry that names a component matches no template.
        """
        if entry in self._components:
            return ()
        if entry not in self._of_templates:
            self._of_templates[entry] = [
                (template, uri)
                for template in self._templates
                for uri in _uris(template.spec.server_id, entry)
                if template.at(uri) is not None
            ]
        return self._of_templates[entry]


def _uris(server_id: str, entry: str) -> Iterator[str]:
    """Yield the URIs that an entry may name: the entry without a ``resource:`` or server prefix."""
    for prefix in name_variants(Kind.RESOURCE, server_id, ""):
        if entry.startswith(prefix):
            yield entry[len(prefix) :]


def _is_excluded(exclude: Mapping[str, Exclusions], server_id: str, uri: str) -> bool:
    return exclude.get(server_id, NO_EXCLUSIONS).matches_uri(server_id, uri)


def _specs(registry: Registry) -> Iterator[ComponentSpec]:
    for table in (registry.tools, registry.prompts, registry.resources, registry.templates):
        yield from (item.spec for item in table.items)


def _item(spec: ComponentSpec) -> _Item:
    return spec.kind, spec.server_id, spec.bare_name


def _full_name(item: _Item) -> str:
    """Return the full name of a component: ``tool:notes:search``."""
    *_, full = name_variants(*item)
    return full


def _named(kind: Kind, listed: Iterable[JsonObject], key: str) -> Iterator[VisibleItem]:
    """Yield the items of MCP descriptors, named by ``key``; a resource may have no URI (P-12)."""
    for descriptor in listed:
        yield VisibleItem(kind=kind, name=str(descriptor.get(key, descriptor["name"])))


def _caller(agent: str) -> Caller:
    return Caller(tenant_id=ANY_TENANT, user_id="-", agent=agent)
