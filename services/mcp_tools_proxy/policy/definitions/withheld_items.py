"""The names of items that servers offer and the gateway withholds: each is refused."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.policy.visibility import PresetScope


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldItems:
    """Items that are withheld, by every name that a caller may use for them."""

    names: Mapping[tuple[Kind, str], DefinitionKey] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Iterable[DefinitionKey], scope: PresetScope) -> Self:
        """Collect the names of the items, those that the preset gives included."""
        names = {name: key for key in sorted(keys) for name in _names_of(key)}
        items = {(key.kind.item_kind, key.server_id, key.name): key for key in names.values()}
        for kind, given in scope.given_names.items():
            for name, pair in given.items():
                if (key := items.get((kind, *pair))) is not None:
                    names[kind, name] = key
        return cls(names=names)

    def find(self, kind: Kind, name: str) -> DefinitionKey | None:
        """Return the withheld item that ``name`` means, None if there is none."""
        return self.names.get((kind, name))


def _names_of(key: DefinitionKey) -> Iterator[tuple[Kind, str]]:
    kind = key.kind.item_kind
    if kind is None:
        return
    yield kind, key.name
    yield kind, qualified_name(key.server_id, key.name)
    if kind is Kind.TOOL:
        yield kind, alias_of(key.server_id, key.name)


NOTHING_WITHHELD = WithheldItems()
