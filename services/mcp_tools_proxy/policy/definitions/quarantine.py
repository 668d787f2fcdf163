"""What is quarantined: taken out of the servers' offers, and refused by every name."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey, DefinitionKind
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name


def without_quarantined(
    snapshots: Mapping[str, Snapshot], quarantined: frozenset[DefinitionKey]
) -> Mapping[str, Snapshot]:
    """Return the snapshots without the items that are quarantined; the same if none is."""
    if not quarantined:
        return snapshots
    affected = {key.server_id for key in quarantined}
    return {
        server_id: _reduced(server_id, snapshot, quarantined) if server_id in affected else snapshot
        for server_id, snapshot in snapshots.items()
    }


def _reduced(server_id: str, snapshot: Snapshot, quarantined: frozenset[DefinitionKey]) -> Snapshot:
    def kept(kind: DefinitionKind, items: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
        return {
            name: item
            for name, item in items.items()
            if DefinitionKey(server_id, kind, name) not in quarantined
        }

    return replace(
        snapshot,
        tools=kept(DefinitionKind.TOOL, snapshot.tools),
        prompts=kept(DefinitionKind.PROMPT, snapshot.prompts),
        resources=kept(DefinitionKind.RESOURCE, snapshot.resources),
        templates=kept(DefinitionKind.RESOURCE_TEMPLATE, snapshot.templates),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The items that are quarantined, by every name that a caller may use for them."""

    names: Mapping[tuple[Kind, str], DefinitionKey] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Iterable[DefinitionKey]) -> Self:
        """Collect the names of what is quarantined."""
        return cls(names={name: key for key in sorted(keys) for name in _names_of(key)})

    def find(self, kind: Kind, name: str) -> DefinitionKey | None:
        """Return the quarantined item that ``name`` means, None if there is none."""
        return self.names.get((kind, name))


def _names_of(key: DefinitionKey) -> Iterator[tuple[Kind, str]]:
    kind = key.kind.item_kind
    if kind is None:
        return
    yield kind, key.name
    yield kind, qualified_name(key.server_id, key.name)
    if kind is Kind.TOOL:
        yield kind, alias_of(key.server_id, key.name)


NOTHING_QUARANTINED = Quarantine()
