"""What ``check`` finds about agents: what each of them sees, and what is hidden from it, and why.

All of it is asked of a registry, so it is what a gateway that serves would answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import SOME_TENANT, Caller, Kind
from mcp_tools_proxy.domain.components import ComponentSpec, JsonObject, ResourceTemplate
from mcp_tools_proxy.domain.configuration import AgentProfile, Agents
from mcp_tools_proxy.domain.snapshot import NOTHING_OFFERED, Snapshot
from mcp_tools_proxy.policy.exclusions import NOTHING_EXCLUDED, Exclusions, spellings
from mcp_tools_proxy.policy.visibility import Denial
from mcp_tools_proxy.registry.registry import Registry
from mcp_tools_proxy.wire.text import estimate_tokens

_Item = tuple[Kind, str | None, str]
"""A component: its kind, its server's id unless it is ours, what its server calls it."""

_Entry = tuple[str, str, tuple[str, ...]]
"""An entry: whose it is, how it is spelt, what it hides."""


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
    """An excluded name and what it hides, for all ``owners`` of whom this is the same.

    An owner is spelt ``agent reader`` or ``server notes``. What is hidden is spelt
    ``tool:notes:search``, or ``URIs of resource:notes:notes://{id}`` where the entry is a URI that
    is not listed. It is only what the agent would see otherwise; for a server all that it offers.
    """

    owners: tuple[str, ...]
    entry: str
    hidden: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleItem:
    """One component that an agent sees, by the name that it has to use."""

    kind: Kind
    name: str
    alias: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenItem:
    """One component that is there and that an agent's profile takes from it."""

    spec: ComponentSpec
    denial: Denial


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """Everything that one agent sees, and all that is hidden from it."""

    agent: str
    visible: tuple[VisibleItem, ...]
    hidden: tuple[HiddenItem, ...]


def summarize_agents(registry: Registry, agents: Agents) -> tuple[AgentFindings, ...]:
    """Count what each agent sees."""
    sizes = {tool.spec.name: len(to_json(tool.spec.as_mcp)) for tool in registry.tools.items}

    def counts_of(profile: AgentProfile) -> AgentFindings:
        caller = _caller(profile.name)
        tools = registry.visible_to(caller)
        around = len(tools) + 1 if tools else 0  # the brackets and commas of a list
        return AgentFindings(
            profile=profile,
            tools=len(tools),
            prompts=len(registry.prompts_visible_to(caller)),
            resources=len(registry.resources_visible_to(caller)),
            templates=len(registry.templates_visible_to(caller)),
            tokens=estimate_tokens(sum(sizes[spec.name] for spec in tools) + around),
        )

    return tuple(map(counts_of, agents.profiles.values()))


def describe_agent_view(registry: Registry, agent: str) -> AgentView:
    """List what an agent sees, and what it does not see of what there is, and why."""
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
    """Find out what each excluded name hides; ``exclude`` has those of the servers, by their id."""
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
        offer = snapshots.get(server_id, NOTHING_OFFERED).components
        templates = [it for it in registry.templates.items if it.spec.server_id == server_id]
        named = _Named(((kind, server_id, name) for kind, name in offer), templates)
        for entry in entries:
            hidden = [_spelt(item) for item in named.components(entry)]
            hidden += [f"URIs of {_spelt(_item(it.spec))}" for it, _ in named.templates(entry)]
            yield f"server {server_id}", entry, tuple(hidden)


def _entries_of_agents(registry: Registry, agents: Agents) -> Iterator[_Entry]:
    exclude = registry.access.exclude
    named = _Named(map(_item, _specs(registry)), registry.templates.items)
    for name, profile in agents.profiles.items():
        visibility = registry.access.viewer_for(_caller(name)).visibility
        for entry in profile.exclude_components:
            hidden = [
                _spelt(item)
                for item in named.components(entry)
                if visibility.denial(*item) is Denial.EXCLUDED
            ]
            hidden += [
                f"URIs of {_spelt(_item(template.spec))}"
                for template, uri in named.templates(entry)
                if visibility.denial(*_item(template.spec)) is None
                and not _is_excluded(exclude, template.spec.server_id, uri)
            ]
            yield f"agent {name}", entry, tuple(hidden)


class _Named:
    """Finds what entries name: components, and URIs that templates stand for (A-18, A-20)."""

    def __init__(self, items: Iterable[_Item], templates: Sequence[ResourceTemplate]) -> None:
        self._components: dict[str, list[_Item]] = {}
        for item in items:
            for spelling in spellings(*item):
                self._components.setdefault(spelling, []).append(item)
        self._templates = templates
        self._of_templates: dict[str, list[tuple[ResourceTemplate, str]]] = {}

    def components(self, entry: str) -> Sequence[_Item]:
        """Give the components of which the entry is a spelling."""
        return self._components.get(entry, ())

    def templates(self, entry: str) -> Sequence[tuple[ResourceTemplate, str]]:
        """Give each template that stands for the entry, as which URI; none for a component."""
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
    """Give the URIs of which an entry may be a spelling."""
    for prefix in spellings(Kind.RESOURCE, server_id, ""):
        if entry.startswith(prefix):
            yield entry[len(prefix) :]


def _is_excluded(exclude: Mapping[str, Exclusions], server_id: str, uri: str) -> bool:
    return exclude.get(server_id, NOTHING_EXCLUDED).hits_uri(server_id, uri)


def _specs(registry: Registry) -> Iterator[ComponentSpec]:
    for table in (registry.tools, registry.prompts, registry.resources, registry.templates):
        yield from (item.spec for item in table.items)


def _item(spec: ComponentSpec) -> _Item:
    return spec.kind, spec.server_id, spec.bare_name


def _spelt(item: _Item) -> str:
    """Spell a component in full: ``tool:notes:search``."""
    *_, full = spellings(*item)
    return full


def _named(kind: Kind, listed: Iterable[JsonObject], key: str) -> Iterator[VisibleItem]:
    """Read from MCP descriptors what they are named by; a resource may have no URI (P-12)."""
    for shown in listed:
        yield VisibleItem(kind=kind, name=str(shown.get(key, shown["name"])))


def _caller(agent: str) -> Caller:
    return Caller(tenant_id=SOME_TENANT, user_id="-", agent=agent)
