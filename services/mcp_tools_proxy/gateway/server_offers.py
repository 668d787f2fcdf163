"""What one server offers, and why callers do not see some of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.offers.definitions import DefinitionKind
from mcp_tools_proxy.domain.offers.snapshot import EMPTY_SNAPSHOT, InvalidItem, Snapshot
from mcp_tools_proxy.policy.visibility import Offers, Why
from mcp_tools_proxy.registry.registry import RegistryHolder


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedItem:
    """An item as its server defines it; of an invalid one there is only its name and problem."""

    kind: DefinitionKind
    name: str
    definition: JsonObject | None = None
    problem: str | None = None
    hidden_for: Why | None = None
    """Why the active preset does not show it, None if it does."""


class OfferedItems:
    """All that one server offers, in its order by kind; an item is explained when it is read."""

    def __init__(self, server_id: str, snapshot: Snapshot, offers: Offers) -> None:
        self._server_id = server_id
        self._usable = tuple(_usable(snapshot))
        self._dropped = snapshot.dropped
        self._offers = offers

    def __len__(self) -> int:
        return len(self._usable) + len(self._dropped)

    def __getitem__(self, place: int) -> OfferedItem:
        """Return the item at a place from 0. Raises IndexError."""
        if place >= len(self._usable):
            return _dropped(self._dropped[place - len(self._usable)])
        kind, name, definition = self._usable[place]
        item_kind = kind.item_kind or Kind.RESOURCE
        reason = self._offers.reason(item_kind, self._server_id, name)
        hidden_for = None if reason is None else reason.why
        return OfferedItem(kind=kind, name=name, definition=definition, hidden_for=hidden_for)


class ServerOffers:
    """The offers that the registry in force was built of."""

    def __init__(self, holder: RegistryHolder) -> None:
        self._holder = holder

    def items_of(self, server_id: str) -> OfferedItems:
        """Return what a server offers; nothing while that is unknown."""
        offers = self._holder.current.offers
        snapshot = offers.snapshots.get(server_id, EMPTY_SNAPSHOT)
        return OfferedItems(server_id, snapshot, offers)


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
        hidden_for=Why.NEEDS_TASK if item.needs_task else Why.INVALID,
    )
