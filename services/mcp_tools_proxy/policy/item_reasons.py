"""Why an item of a server cannot be used: the one place that decides it, for every surface.

Refusals, records, explanations, lists, the console, ``check`` and the log show what is decided
here. Two places that decided apart said "does not offer it" and "is not connected" of one server.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Missing
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.domain.server import (
    ServerState,
    ServerStatus,
    not_listed,
    unavailable_text,
)
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions
from mcp_tools_proxy.policy.visibility import NO_SCOPE, PresetScope
from mcp_tools_proxy.wire.text import quote


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
class ItemReasons:
    """Decides for the items of one preset.

    ``servers`` are the ids of all servers of mcp.json, ``snapshots`` what those offer that were
    discovered, ``statuses`` returns the present status of servers by id. ``shadowed`` has the
    winner of each item that is hidden by another, ``taken`` server and name of the tools that were
    left out because of their name.
    """

    scope: PresetScope = NO_SCOPE
    servers: Container[str] = ()
    exclude: Mapping[str, Exclusions] = field(default_factory=dict)
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    statuses: Callable[[], Mapping[str, ServerStatus]] = no_statuses
    unbound: frozenset[DefinitionKey] = frozenset()
    quarantined: frozenset[DefinitionKey] = frozenset()
    guarded: frozenset[DefinitionKey] = frozenset()
    shadowed: Mapping[tuple[Kind, str, str], str] = field(default_factory=dict)
    taken: frozenset[tuple[str, str]] = frozenset()

    def of(self, kind: Kind, server_id: str, name: str) -> Reason | None:
        """Return why an item cannot be used, None if it can.

        ``name`` is the server's own, or a URI of one of its templates.
        """
        if server_id not in self.servers:
            return Reason(Why.NO_SERVER, f"server {quote(server_id)} is not in mcp.json")
        if self.exclude.get(server_id, NO_EXCLUSIONS).matches(kind, server_id, name):
            return reason_of(Why.EXCLUDED)
        snapshot = self.snapshots.get(server_id)
        reason = None if snapshot is None else _missing_in(snapshot, kind, server_id, name)
        if reason is not None and reason.why is not Why.NOT_LISTED:
            return reason
        if not self.scope.allows(kind, server_id, name):
            return reason_of(Why.NOT_IN_PRESET)
        if snapshot is None:
            return self.of_server(server_id)
        return reason or self._hidden(kind, server_id, name)

    def of_missing(self, missing: Missing) -> Reason:
        """Return why an item of the preset is missing."""
        reason = self.of(missing.kind, missing.server_id, missing.name)
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

    def of_server(self, server_id: str) -> Reason:
        """Return why no tool of a server can be used that never listed its tools."""
        if server_id in self.snapshots:
            return _not_listed(Kind.TOOL, server_id)
        status = self.statuses().get(server_id)
        if status is None:  # it was added a moment ago
            status = ServerStatus(server_id=server_id, state=ServerState.CONNECTING, transport=None)
        return Reason(_OF_STATE.get(status.state, Why.SERVER_CONNECTING), status.unavailable)

    def _hidden(self, kind: Kind, server_id: str, name: str) -> Reason | None:
        """Return why an item is hidden that its server offers and the preset names."""
        keys = {DefinitionKey(server_id, it, name) for it in _DEFINITIONS[kind]}
        for why, hidden in (
            (Why.CANNOT_BIND, self.unbound),
            (Why.QUARANTINED, self.quarantined),
            (Why.GUARDED, self.guarded),
        ):
            if not keys.isdisjoint(hidden):
                return reason_of(why)
        winner = self.shadowed.get((kind, server_id, name))
        if winner is not None:
            return shadowed_by(winner)
        is_taken = kind is Kind.TOOL and (server_id, name) in self.taken
        return reason_of(Why.NAME_TAKEN) if is_taken else None


NO_REASONS = ItemReasons()


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
