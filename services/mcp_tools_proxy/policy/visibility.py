"""Visibility: a single decision for all lists and calls, kinds and entry points.

``decide`` returns whether a caller may use an item, or the reason why not; ``Offers`` provides the
reason why the registry lacks an item. Reasons are for operators only, because they reveal hidden
items (A-09, A-11). A profile can only narrow the active preset (A-03 … A-06, A-14, contract §6).
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
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
from mcp_tools_proxy.domain.fast_dataclass import dataclass
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
    """Why a component is denied: a field of the agent's profile, or a missing tenant."""

    SERVER = "client_ids"
    EXCLUDED = "exclude_components"
    BIND = "bind"
    """The profile binds an argument that the tool lacks, or already has with another value."""
    DOCUMENT_TOOLS = "document_tools"
    PRESET = "preset"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetScope:
    """A preset as a predicate, independent of the servers' offers (P-03 … P-12)."""

    servers: frozenset[str]
    tools: frozenset[_Pair]
    prompts: frozenset[_Pair] | None
    resources: frozenset[_Pair] | None
    preset_id: str = field(default="", compare=False)
    given_names: Mapping[Kind, Mapping[str, _Pair]] = field(default_factory=dict, hash=False)
    """The items that the preset renames, by kind and new name."""

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
        """Return the items of a kind that the preset names; None if the kind is unrestricted."""
        match kind:
            case Kind.TOOL:
                return self.tools
            case Kind.PROMPT:
                return self.prompts
            case Kind.RESOURCE:
                return self.resources

    def renamed(self, kind: Kind, name: str) -> _Pair | None:
        """Return the item that the preset gives this name; None without one."""
        return self.given_names.get(kind, {}).get(name)

    def allows(self, kind: Kind, server_id: str, name: str) -> bool:
        """Return whether the preset allows a downstream component."""
        listed = self.named(kind)
        return server_id in self.servers if listed is None else (server_id, name) in listed


def _given_names(references: Iterable[Reference]) -> Mapping[str, _Pair]:
    overrides = overrides_of(references).items()
    return {it.name: pair for pair, it in overrides if it.name is not None}


NO_SCOPE = PresetScope.of(EMPTY_PRESET)


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
    """Default for sources in answers of document tools."""
    unbound: frozenset[str] = frozenset()
    """Full names of the tools with an argument that the profile cannot bind."""

    @classmethod
    def of(cls, profile: AgentProfile, scope: PresetScope | None) -> Self:
        """Compile a profile; ``scope`` is that of its preset, None without one."""
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

        ``name`` is the bare name. Only ``exclude_components`` and ``document_tools`` apply to local
        components.
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
    """Permissions of one caller: its agent's, and whether it has a tenant."""

    agent: str | None = None
    visibility: Visibility = EVERYTHING
    has_tenant: bool = True
    documents: frozenset[str] | None = None
    """The only documents that the caller may use; None for all readable ones."""

    @property
    def has_one_document(self) -> bool:
        """Whether the caller may use exactly one document, which the gateway then fills in."""
        return self.documents is not None and len(self.documents) == 1


class NamedItem(NamedTuple):
    """A named item of a server that is missing from the registry."""

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
    """Return None if ``caller`` may see and use ``item``, or the reason, for operators only.

    ``hidden`` is the reason why the item is hidden from all callers, see ``Offers``. The profile is
    checked before the tenant, because a tenant would not help against it.
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
    """Why an item cannot be used; values appear in the API."""

    NO_SERVER = "no_server"
    """mcp.json does not have this server."""
    EXCLUDED = "excluded"
    """The server's entry in mcp.json excludes it."""
    INVALID = "invalid"
    """It violates a rule of MCP or of the gateway."""
    NEEDS_TASK = "needs_task"
    """It can only run as a task."""
    NOT_OFFERED = "not_offered"
    """The server was discovered, and does not offer it."""
    NOT_IN_PRESET = "not_in_preset"
    SERVER_DISABLED = "server_disabled"
    SERVER_INVALID = "server_invalid"
    """The server's entry in mcp.json is invalid, and no earlier valid one is known."""
    SERVER_CONNECTING = "server_connecting"
    """The first connection attempt is not finished."""
    SERVER_UNREACHABLE = "server_unreachable"
    """All connection attempts have failed."""
    SERVER_FAILED = "server_failed"
    """The server cannot be used as configured in mcp.json."""
    NOT_LISTED = "not_listed"
    """The server was discovered, but has not returned its list of such items yet."""
    LOGIN_REQUIRED = "login_required"
    """A person must sign in to the server."""
    CANNOT_BIND = "cannot_bind"
    """The server's entry binds an argument of it that cannot be bound."""
    QUARANTINED = "quarantined"
    """Its definition differs from the lock."""
    GUARDED = "guarded"
    """A guard hides it because of its definition."""
    SHADOWED = "shadowed"
    """An earlier server offers the same name."""
    NAME_TAKEN = "name_taken"
    """Another tool has its name or alias."""

    @property
    def is_of_server(self) -> bool:
        """Whether the item is missing because its server is unavailable."""
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
    """Why an item cannot be used; ``text`` contains neither address nor secret."""

    why: Why
    text: str


def reason_of(why: Why) -> Reason:
    """Return a reason with a constant text."""
    return Reason(why, _TEXTS[why])


def shadowed_by(winner: str) -> Reason:
    """Return the reason for an item that an earlier server in the preset also offers."""
    return Reason(Why.SHADOWED, f"server {winner} comes earlier and offers the same name")


def no_statuses() -> Mapping[str, ServerStatus]:
    """Return an empty mapping: the states of servers are unknown."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The servers' offers, and the reasons why items are hidden from all callers.

    ``scope`` is the active preset. ``servers`` are the ids in mcp.json, ``exclude`` their
    exclusions (A-01), and ``key_of`` returns a server's key there. ``snapshots`` has the discovered
    offers; ``statuses`` returns the current statuses by id. ``invalid_servers`` have an invalid
    entry, without an earlier valid one.

    ``unbound`` have an argument that the server's entry cannot bind, ``quarantined`` differ from
    the lock, and ``guarded`` are hidden by a guard's rule. ``shadowed`` has the winner for each
    shadowed item, ``taken`` are tools dropped for a name conflict, and ``need_task`` can only run
    as a task.
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
        """Return the exclusions in a server's entry."""
        return self.exclude.get(server_id or "", NO_EXCLUSIONS)

    def excludes_uri(self, server_id: str | None, uri: str, caller: Permissions) -> bool:
        """Return whether the server's entry or the caller's profile excludes a URI (A-20)."""
        excluded = (self.excluded(server_id), caller.visibility.excluded)
        return any(it.matches_uri(server_id, uri) for it in excluded)

    def reason(self, kind: Kind, server_id: str, name: str) -> Reason | None:
        """Return why an item is hidden from all callers; None if it is visible.

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
        """The servers of the preset and mcp.json that have never listed their tools."""
        listed = {it for it, found in self.snapshots.items() if not found.lacks_list(Kind.TOOL)}
        return frozenset(it for it in self.scope.servers - listed if it in self.servers)

    def now(self) -> Self:
        """Return a copy with the current statuses, for decisions on many items."""
        statuses = self.statuses()
        return replace(self, statuses=lambda: statuses)

    def server_reason(self, server_id: str) -> Reason:
        """Return why a server's tools are unusable before its first list."""
        if server_id in self.snapshots:
            return _not_listed(Kind.TOOL, server_id)
        status = self.statuses().get(server_id)
        if status is None:  # just added
            status = ServerStatus(server_id=server_id, state=ServerState.CONNECTING, transport=None)
        return Reason(_OF_STATE.get(status.state, Why.SERVER_CONNECTING), status.unavailable)

    def withheld_for(self, key: DefinitionKey) -> Why | None:
        """Return why an offered item is withheld; None if it is available."""
        if key in self.unbound:
            return Why.CANNOT_BIND
        if key in self.quarantined:
            return Why.QUARANTINED
        return Why.GUARDED if key in self.guarded else None

    def _hidden(self, kind: Kind, server_id: str, name: str) -> Reason | None:
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
