"""What one server offers, and why callers do not see some of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers.snapshot import EMPTY_SNAPSHOT, InvalidItem, Snapshot
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS
from mcp_tools_proxy.registry.component_table import HasSpec
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder


class HiddenFor(StrEnum):
    """Why no caller sees an item that a server offers."""

    INVALID = "invalid"
    """It breaks a rule of MCP, or of the gateway; ``problem`` says which."""
    NEEDS_TASK = "needs_task"
    """It can only be run as a task."""
    EXCLUDED = "excluded"
    """The server's entry in mcp.json excludes it."""
    NOT_IN_PRESET = "not_in_preset"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedItem:
    """An item as its server defines it; of an invalid one there is only its name and problem."""

    kind: DefinitionKind
    name: str
    definition: JsonObject | None = None
    problem: str | None = None
    hidden_for: HiddenFor | None = None
    """Why the active preset does not show it, None if it does."""


class OfferedItems:
    """All that one server offers, in its order by kind; an item is explained when it is read."""

    def __init__(self, snapshot: Snapshot, reasons: "_HiddenReasons") -> None:
        self._usable = tuple(_usable(snapshot))
        self._dropped = snapshot.dropped
        self._reasons = reasons

    def __len__(self) -> int:
        return len(self._usable) + len(self._dropped)

    def __getitem__(self, place: int) -> OfferedItem:
        """Return the item at a place from 0. Raises IndexError."""
        if place >= len(self._usable):
            return _dropped(self._dropped[place - len(self._usable)])
        kind, name, definition = self._usable[place]
        return OfferedItem(
            kind=kind, name=name, definition=definition, hidden_for=self._reasons.of(kind, name)
        )


class ServerOffers:
    """The offers that the registry in force was built of."""

    def __init__(self, publisher: RegistryPublisher, holder: RegistryHolder) -> None:
        self._publisher = publisher
        self._holder = holder

    def items_of(self, server_id: str) -> OfferedItems:
        """Return what a server offers; nothing while that is unknown."""
        registry = self._holder.current
        snapshot = registry.unlisted_offers.snapshots.get(server_id, EMPTY_SNAPSHOT)
        return OfferedItems(snapshot, _HiddenReasons(server_id, registry, self._publisher))


class _HiddenReasons:
    """Why items of one server are hidden, in one registry."""

    def __init__(self, server_id: str, registry: Registry, publisher: RegistryPublisher) -> None:
        self._server_id = server_id
        self._excluded = registry.access_rules.exclude.get(server_id, NO_EXCLUSIONS)
        self._scope = registry.rules.scope
        offers = registry.unlisted_offers
        self._unbound = frozenset(offers.unbound.names.values())
        self._quarantined = frozenset(offers.quarantine.names.values())
        self._guarded = frozenset(offers.guarded.names.values())
        self._shadowed = {
            (it.kind, it.name)
            for it in publisher.preset_state.shadowed
            if it.server_id == server_id
        }
        self._listed_tools = _names_of(registry.tools.items, server_id)

    def of(self, kind: DefinitionKind, name: str) -> HiddenFor | None:
        """Return why an item is hidden, None if it is not."""
        item_kind = kind.item_kind or Kind.RESOURCE
        key = DefinitionKey(self._server_id, kind, name)
        if self._excluded.matches(item_kind, self._server_id, name):
            return HiddenFor.EXCLUDED
        if not self._scope.allows(item_kind, self._server_id, name):
            return HiddenFor.NOT_IN_PRESET
        if key in self._unbound:
            return HiddenFor.CANNOT_BIND
        if key in self._quarantined:
            return HiddenFor.QUARANTINED
        if key in self._guarded:
            return HiddenFor.GUARDED
        if (item_kind, name) in self._shadowed:
            return HiddenFor.SHADOWED
        is_taken = item_kind is Kind.TOOL and name not in self._listed_tools
        return HiddenFor.NAME_TAKEN if is_taken else None


def _names_of(items: Iterable[HasSpec], server_id: str) -> frozenset[str]:
    return frozenset(it.spec.bare_name for it in items if it.spec.server_id == server_id)


def _usable(snapshot: Snapshot) -> Iterator[tuple[DefinitionKind, str, JsonObject]]:
    for kind, items in (
        (DefinitionKind.TOOL, snapshot.tools),
        (DefinitionKind.PROMPT, snapshot.prompts),
        (DefinitionKind.RESOURCE, snapshot.resources),
        (DefinitionKind.RESOURCE_TEMPLATE, snapshot.templates),
    ):
        for name, item in items.items():
            yield kind, name, item


def _dropped(item: InvalidItem) -> OfferedItem:
    return OfferedItem(
        kind=DefinitionKind(item.kind.value),
        name=item.name,
        problem=item.reason,
        hidden_for=HiddenFor.NEEDS_TASK if item.needs_task else HiddenFor.INVALID,
    )
