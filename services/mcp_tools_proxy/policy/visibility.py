"""Who may see and use what: the one decision, for lists and calls, every kind and every entry.

``decide`` says whether a caller may use an item, and if not, why. Why an item is in no registry is
an input of it: ``Offers`` says so. Reasons are for operators only, since they would reveal what is
hidden (A-09, A-11). A profile can only narrow what the active preset allows (A-03 … A-06, A-14,
contract §6).
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import NamedTuple, Self, overload

from mcp_tools_proxy.domain.audit import RuleSource
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.configuration import (
    EMPTY_PRESET,
    AgentProfile,
    Missing,
    Preset,
    Reference,
)
from mcp_tools_proxy.domain.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.domain.server import (
    ServerState,
    ServerStatus,
    not_listed,
    unavailable_text,
)
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.policy.document_tools import READS_RESOURCES, is_turned_off
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions
from mcp_tools_proxy.policy.presets import enabled, overrides_of
from mcp_tools_proxy.wire.identifiers import server_id_of
from mcp_tools_proxy.wire.text import quote

_Pair = tuple[str, str]


class Denial(Enum):
    """Why a component is denied: a field of the agent's profile, or the lack of a tenant."""

    SERVER = "client_ids"
    EXCLUDED = "exclude_components"
    BIND = "bind"
    """The profile binds an argument that the tool does not have, or has with another value."""
    DOCUMENT_TOOLS = "document_tools"
    PRESET = "preset"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetScope:
    """A preset as a predicate that does not depend on the servers' offers (P-03 … P-12)."""

    servers: frozenset[str]
    tools: frozenset[_Pair]
    prompts: frozenset[_Pair] | None
    resources: frozenset[_Pair] | None
    preset_id: str = field(default="", compare=False)
    given_names: Mapping[Kind, Mapping[str, _Pair]] = field(default_factory=dict, hash=False)
    """The items that the preset gives names to, by kind and name."""

    @classmethod
    def of(cls, preset: Preset) -> Self:
        """Compile a preset."""
        tools, prompts, resources = (
            None if references is None else frozenset(enabled(references))
            for references in (preset.tools, preset.prompts, preset.resources)
        )
        mentioned = (tools or frozenset()) | (prompts or frozenset()) | (resources or frozenset())
        return cls(
            servers=frozenset(server_id for server_id, _ in mentioned),
            tools=tools or frozenset(),
            prompts=prompts,
            resources=resources,
            preset_id=preset.preset_id,
            given_names={
                Kind.TOOL: _given_names(preset.tools),
                Kind.PROMPT: _given_names(preset.prompts or ()),
            },
        )

    def named(self, kind: Kind) -> frozenset[_Pair] | None:
        """Return the items of a kind that the preset names, None where it does not restrict it."""
        match kind:
            case Kind.TOOL:
                return self.tools
            case Kind.PROMPT:
                return self.prompts
            case Kind.RESOURCE:
                return self.resources

    def renamed(self, kind: Kind, name: str) -> _Pair | None:
        """Return the item that the preset gives a name to, None if there is none."""
        return self.given_names.get(kind, {}).get(name)

    def allows(self, kind: Kind, server_id: str, name: str) -> bool:
        """Return whether the preset allows a downstream component."""
        listed = self.named(kind)
        return server_id in self.servers if listed is None else (server_id, name) in listed


def _given_names(references: Iterable[Reference]) -> Mapping[str, _Pair]:
    overrides = overrides_of(references).items()
    return {it.name: pair for pair, it in overrides if it.name is not None}


NO_SCOPE = PresetScope.of(EMPTY_PRESET)
"""Allows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The components that one agent may use; the default is all."""

    server_ids: frozenset[str] | None = None
    excluded: Exclusions = NO_EXCLUSIONS
    preset: PresetScope | None = None
    documents: frozenset[str] | None = None
    """The only documents that the agent may use; None for all that its user may read."""
    document_tools: frozenset[str] | None = None
    """The only document tools that the agent may use; None for all."""
    sources: bool | None = None
    """Whether answers of document tools have sources, where the request does not say it."""
    unbound: frozenset[str] = frozenset()
    """Full names of the tools with an argument that the profile cannot bind."""

    @classmethod
    def of(cls, profile: AgentProfile, scope: PresetScope | None) -> Self:
        """Compile a profile; ``scope`` is that of the profile's preset, None if it names none."""
        ids = profile.server_ids
        return cls(
            server_ids=None if ids is None else frozenset(map(server_id_of, ids)),
            excluded=Exclusions(profile.exclude_components),
            preset=scope,
            documents=profile.documents,
            document_tools=profile.document_tools,
            sources=profile.sources,
        )

    def may_allow(self, kind: Kind, server_id: str) -> bool:
        """Return whether any item of this kind and server could be allowed."""
        if self.server_ids is not None and server_id not in self.server_ids:
            return False
        if self.preset is None or server_id not in self.preset.servers:
            return self.preset is None
        named = self.preset.named(kind)
        return named is None or any(named_id == server_id for named_id, _ in named)

    def denial(self, kind: Kind, server_id: str | None, name: str) -> Denial | None:
        """Return why a component is denied, None if allowed; the server is checked first (A-09).

        ``name`` is the bare name. Local components have no server; only ``exclude_components`` and
        ``document_tools`` apply to them.
        """
        if server_id is not None:
            if self.server_ids is not None and server_id not in self.server_ids:
                return Denial.SERVER
            if self.preset is not None and not self.preset.allows(kind, server_id, name):
                return Denial.PRESET
        elif self.document_tools is not None:
            needed = name if kind is Kind.TOOL else READS_RESOURCES
            if is_turned_off(needed, self.document_tools):
                return Denial.DOCUMENT_TOOLS
        if self.excluded.matches(kind, server_id, name):
            return Denial.EXCLUDED
        return Denial.BIND if self.unbound and self._is_unbound(kind, server_id, name) else None

    def _is_unbound(self, kind: Kind, server_id: str | None, name: str) -> bool:
        if kind is not Kind.TOOL or server_id is None:
            return False
        return qualified_name(server_id, name) in self.unbound


EVERYTHING = Visibility()


@dataclass(frozen=True, slots=True)
class Permissions:
    """What one caller may use: by its agent, if any, and whether it has a tenant."""

    agent: str | None = None
    visibility: Visibility = EVERYTHING
    has_tenant: bool = True
    documents: frozenset[str] | None = None
    """The only documents that the caller may use; None for all that it may read."""

    @property
    def has_one_document(self) -> bool:
        """Whether the caller may use one document only, which is filled in for it."""
        return self.documents is not None and len(self.documents) == 1


class NamedItem(NamedTuple):
    """An item of a server that a file or a caller names, and that no registry has."""

    kind: Kind
    server_id: str
    bare_name: str
    needs_tenant: bool = False


@overload
def decide(caller: Permissions, item: ComponentSpec | NamedItem) -> Denial | None: ...
@overload
def decide(
    caller: Permissions, item: ComponentSpec | NamedItem, hidden: "Reason | None"
) -> "Denial | Reason | None": ...
def decide(
    caller: Permissions, item: ComponentSpec | NamedItem, hidden: "Reason | None" = None
) -> "Denial | Reason | None":
    """Return None if ``caller`` may see and use ``item``, else why not, for operators only.

    ``hidden`` is why nobody gets the item now: its server is pending, it is quarantined, …; see
    ``Offers``. The agent's profile comes before the tenant, which would not help against it.
    """
    if hidden is not None:
        return hidden
    visibility = caller.visibility
    if visibility is not EVERYTHING:
        denial = visibility.denial(item.kind, item.server_id, item.bare_name)
        if denial is not None:
            return denial
    if item.needs_tenant and not caller.has_tenant:
        return Denial.TENANT
    return None


class Why(StrEnum):
    """Why an item cannot be used; a word of the API."""

    NO_SERVER = "no_server"
    """mcp.json has no server of this id."""
    EXCLUDED = "excluded"
    """The server's entry in mcp.json excludes it."""
    INVALID = "invalid"
    """It breaks a rule of MCP, or of the gateway."""
    NEEDS_TASK = "needs_task"
    """It can only be run as a task."""
    NOT_OFFERED = "not_offered"
    """The server was discovered, and does not offer it."""
    NOT_IN_PRESET = "not_in_preset"
    SERVER_DISABLED = "server_disabled"
    SERVER_INVALID = "server_invalid"
    """The server's entry in mcp.json is invalid, and no earlier good one is known."""
    SERVER_CONNECTING = "server_connecting"
    """The first attempt to connect is not over."""
    SERVER_UNREACHABLE = "server_unreachable"
    """No attempt to connect to the server has succeeded."""
    SERVER_FAILED = "server_failed"
    """The server cannot be used as its entry in mcp.json says."""
    NOT_LISTED = "not_listed"
    """The server was discovered, and has not answered its list of such items yet."""
    LOGIN_REQUIRED = "login_required"
    """Somebody has to sign in to the server."""
    CANNOT_BIND = "cannot_bind"
    """An argument of it that the server's entry binds cannot be bound."""
    QUARANTINED = "quarantined"
    """Its definition is not as locked."""
    GUARDED = "guarded"
    """A guard hides it, for what is in its definition."""
    SHADOWED = "shadowed"
    """A server before this one offers the same."""
    NAME_TAKEN = "name_taken"
    """Another tool has its name or alias."""

    @property
    def is_of_server(self) -> bool:
        """Whether the item is missing for as long as its server cannot be used."""
        return self is Why.NOT_LISTED or self in _OF_STATE.values()


_OF_STATE: Mapping[ServerState, Why] = {
    ServerState.DISABLED: Why.SERVER_DISABLED,
    ServerState.INVALID: Why.SERVER_INVALID,
    ServerState.CONNECTING: Why.SERVER_CONNECTING,
    ServerState.UNREACHABLE: Why.SERVER_UNREACHABLE,
    ServerState.FAILED: Why.SERVER_FAILED,
    ServerState.LOGIN_REQUIRED: Why.LOGIN_REQUIRED,
}
"""By the state of a server that was never discovered."""

OUTSIDE_THE_PRESET = "not visible under the active preset"

_TEXTS: Mapping[Why, str] = {
    Why.EXCLUDED: "mcp.json excludes it",
    Why.NOT_IN_PRESET: OUTSIDE_THE_PRESET,
    Why.CANNOT_BIND: "an argument of it cannot be bound",
    Why.QUARANTINED: "quarantined: its definition differs from definitions.lock.json",
    Why.GUARDED: "hidden by a guard: its definition has text that the guard refuses",
    Why.NAME_TAKEN: "its name or alias is taken",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an item cannot be used; ``text`` has no address and no secret."""

    why: Why
    text: str


def reason_of(why: Why) -> Reason:
    """Return a reason whose text depends on nothing else."""
    return Reason(why, _TEXTS[why])


def shadowed_by(winner: str) -> Reason:
    """Return the reason of an item that another server, earlier in the preset, offers as well."""
    return Reason(Why.SHADOWED, f"server {winner} comes earlier and offers the same name")


def no_statuses() -> Mapping[str, ServerStatus]:
    """Return that the state of no server is known."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What servers offer, and why an item of it is hidden from everybody: the one place for it.

    ``scope`` is the active preset. ``servers`` are the ids of all servers of mcp.json, ``exclude``
    has the exclusions of each (A-01), and ``key_of`` returns its key there. ``snapshots`` are what
    those offer that were discovered, ``statuses`` returns the present status of servers by id;
    the entries of ``invalid_servers`` are invalid, with no good ones before.

    ``unbound`` have an argument that their server's entry cannot bind, ``quarantined`` are not as
    locked, and a guard hides each of ``guarded``, by its rule. ``shadowed`` has the winner of each
    item that is hidden by another, ``taken`` server and name of the tools that were left out
    because of their name, ``need_task`` those that the preset allows and that can only be run as
    a task.
    """

    scope: PresetScope = NO_SCOPE
    servers: Container[str] = ()
    exclude: Mapping[str, Exclusions] = field(default_factory=dict)
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    statuses: Callable[[], Mapping[str, ServerStatus]] = no_statuses
    unbound: frozenset[DefinitionKey] = frozenset()
    quarantined: frozenset[DefinitionKey] = frozenset()
    guarded: Mapping[DefinitionKey, RuleSource] = field(default_factory=dict)
    shadowed: Mapping[tuple[Kind, str, str], str] = field(default_factory=dict)
    taken: frozenset[_Pair] = frozenset()
    need_task: Sequence[_Pair] = ()
    invalid_servers: frozenset[str] = frozenset()
    key_of: Callable[[str], str] = field(default=str, compare=False)

    def bar(self, kind: Kind, server_id: str, name: str) -> "Reason | None":
        """Return the rule of mcp.json or the preset against an item, whether offered or not."""
        if self.excluded(server_id).matches(kind, server_id, name):
            return reason_of(Why.EXCLUDED)
        return None if self.scope.allows(kind, server_id, name) else reason_of(Why.NOT_IN_PRESET)

    def may_show(self, caller: Permissions, kind: Kind, server_id: str, name: str) -> bool:
        """Return whether a caller may use an item once its server offers it."""
        bar = self.bar(kind, server_id, name)
        return decide(caller, NamedItem(kind, server_id, name), bar) is None

    def excluded(self, server_id: str | None) -> Exclusions:
        """Return what the entry of a server excludes."""
        return self.exclude.get(server_id or "", NO_EXCLUSIONS)

    def excludes_uri(self, server_id: str | None, uri: str, caller: Permissions) -> bool:
        """Return whether the server's entry or the caller's profile excludes a URI (A-20)."""
        excluded = (self.excluded(server_id), caller.visibility.excluded)
        return any(it.matches_uri(server_id, uri) for it in excluded)

    def reason(self, kind: Kind, server_id: str, name: str) -> Reason | None:
        """Return why an item is hidden from everybody, None if it is not.

        ``name`` is the server's own, or a URI of one of its templates.
        """
        if server_id not in self.servers:
            return Reason(Why.NO_SERVER, f"server {quote(server_id)} is not in mcp.json")
        bar = self.bar(kind, server_id, name)
        if bar is not None and bar.why is Why.EXCLUDED:
            return bar
        snapshot = self.snapshots.get(server_id)
        missing = None if snapshot is None else _missing_in(snapshot, kind, server_id, name)
        if missing is not None and missing.why is not Why.NOT_LISTED:
            return missing
        if bar is not None:
            return bar
        if snapshot is None:
            return self.server_reason(server_id)
        return missing or self._hidden(kind, server_id, name)

    def missing_reason(self, missing: Missing) -> Reason:
        """Return why an item of the preset is missing."""
        reason = self.reason(missing.kind, missing.server_id, missing.name)
        return reason or _not_offered(missing.kind, missing.server_id)

    @property
    def without_tools(self) -> frozenset[str]:
        """The servers of the preset that mcp.json has and that never listed their tools."""
        listed = {it for it, found in self.snapshots.items() if not found.lacks_list(Kind.TOOL)}
        return frozenset(it for it in self.scope.servers - listed if it in self.servers)

    def now(self) -> Self:
        """Return these reasons with the statuses of this moment, to decide for many items."""
        statuses = self.statuses()
        return replace(self, statuses=lambda: statuses)

    def server_reason(self, server_id: str) -> Reason:
        """Return why no tool of a server can be used that never listed its tools."""
        if server_id in self.snapshots:
            return _not_listed(Kind.TOOL, server_id)
        status = self.statuses().get(server_id)
        if status is None:  # it was added a moment ago
            status = ServerStatus(server_id=server_id, state=ServerState.CONNECTING, transport=None)
        return Reason(_OF_STATE.get(status.state, Why.SERVER_CONNECTING), status.unavailable)

    def withheld_for(self, key: DefinitionKey) -> Why | None:
        """Return why an item that its server offers is withheld, None if it is not."""
        if key in self.unbound:
            return Why.CANNOT_BIND
        if key in self.quarantined:
            return Why.QUARANTINED
        return Why.GUARDED if key in self.guarded else None

    def _hidden(self, kind: Kind, server_id: str, name: str) -> Reason | None:
        """Return why an item is hidden that its server offers and the preset names."""
        for of_kind in _DEFINITIONS[kind]:
            why = self.withheld_for(DefinitionKey(server_id, of_kind, name))
            if why is not None:
                return reason_of(why)
        winner = self.shadowed.get((kind, server_id, name))
        if winner is not None:
            return shadowed_by(winner)
        is_taken = kind is Kind.TOOL and (server_id, name) in self.taken
        return reason_of(Why.NAME_TAKEN) if is_taken else None


NO_OFFERS = Offers()


_DEFINITIONS: Mapping[Kind, Sequence[DefinitionKind]] = {
    Kind.TOOL: (DefinitionKind.TOOL,),
    Kind.PROMPT: (DefinitionKind.PROMPT,),
    Kind.RESOURCE: (DefinitionKind.RESOURCE, DefinitionKind.RESOURCE_TEMPLATE),
}


def _missing_in(snapshot: Snapshot, kind: Kind, server_id: str, name: str) -> Reason | None:
    """Return why a server that was discovered does not have an item, None if it has."""
    for item in snapshot.dropped:
        if (item.kind, item.name) == (kind, name):
            text = f"the {kind.value} that server {quote(server_id)} lists is not usable: "
            why = Why.NEEDS_TASK if item.needs_task else Why.INVALID
            return Reason(why, text + item.reason)
    offered = {
        Kind.TOOL: snapshot.tools,
        Kind.PROMPT: snapshot.prompts,
        Kind.RESOURCE: snapshot.resources,
    }[kind]
    if name in offered:
        return None
    is_of_template = name in snapshot.templates or snapshot.has_template_for(name)
    if kind is Kind.RESOURCE and is_of_template:
        return None
    if snapshot.lacks_list(kind):
        return _not_listed(kind, server_id)
    return _not_offered(kind, server_id)


def _not_listed(kind: Kind, server_id: str) -> Reason:
    return Reason(Why.NOT_LISTED, unavailable_text(server_id, not_listed(kind)))


def _not_offered(kind: Kind, server_id: str) -> Reason:
    return Reason(Why.NOT_OFFERED, f"server {quote(server_id)} does not offer this {kind.value}")
