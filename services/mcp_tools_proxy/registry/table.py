"""The components of one kind: who may use which, and which go by a name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Generic, Protocol, TypeVar

from mcp_tools_proxy.domain.components import ComponentSpec, Tool
from mcp_tools_proxy.policy.visibility import Denial, Visibility


def drop_name_conflicts(
    local: Iterable[Tool], remote: Iterable[Tool]
) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """Part ``remote`` into the tools that can stand beside ``local`` and those that cannot.

    Names and aliases are one space, and local ones are reserved: a remote tool whose name or alias
    is taken, by a local tool or by one before it, is left out. It never shadows.
    """
    taken = {name for tool in local for name in (tool.spec.name, tool.spec.alias)}
    kept: list[Tool] = []
    dropped: list[Tool] = []
    for tool in remote:
        names = {tool.spec.name, tool.spec.alias}
        if names & taken:
            dropped.append(tool)
        else:
            taken |= names
            kept.append(tool)
    return tuple(kept), tuple(dropped)


EVERYTHING = Visibility()


class HasSpec(Protocol):
    """A component, or what gives components: a template."""

    @property
    def spec(self) -> ComponentSpec:
        """Describe it."""
        ...


ItemT = TypeVar("ItemT", bound=HasSpec)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Whom a registry answers: an agent, or a caller without one; for a tenant, or for none."""

    agent: str | None = None
    visibility: Visibility = EVERYTHING
    has_tenant: bool = True

    def denial(self, spec: ComponentSpec) -> Denial | None:
        """Say what refuses a component; None when nothing does.

        The agent's profile comes first: a tenant would not change what that says.
        """
        denial = self.visibility.denial(spec.kind, spec.server_id, spec.bare_name)
        if denial is None and spec.needs_tenant and not self.has_tenant:
            return Denial.TENANT
        return denial


WITHOUT_AGENT = Viewer()
WITHOUT_AGENT_OR_TENANT = Viewer(has_tenant=False)


class Table(Generic[ItemT]):
    """Every component of one kind that anybody may use, in the view's order; never changed.

    Of several that share a bare name, a caller without an agent may use the first one only where
    that one shadows the others, and each agent those that its profile leaves it. What a list shows
    and what a name leads to are both ``is_visible``, so they cannot disagree.
    """

    def __init__(
        self,
        items: Iterable[ItemT],
        *,
        names_of: Callable[[ItemT], Iterable[str]],
        first_shadows: bool = True,
        bare_names: bool = True,
        bare_name_allowed: Callable[[ItemT], bool] = lambda _: True,
    ) -> None:
        """Build the table; ``names_of`` returns the names that are an item's alone.

        ``bare_name_allowed`` returns whether an item may be used by its bare name.

        Without ``bare_names`` a caller without an agent names no item by its bare name. Raises
        ValueError when two items have one name.
        """
        self.items = tuple(items)
        self._by_name = _unique((name, item) for item in self.items for name in names_of(item))
        self._by_bare_name = _grouped(
            item
            for item in self.items
            if item.spec.server_id is not None and bare_name_allowed(item)
        )
        self._bare_names = bare_names
        self._shadowed = frozenset(
            id(item)
            for same in (self._by_bare_name.values() if first_shadows else ())
            for item in same[1:]
        )
        self._masks: dict[tuple[str | None, bool], bytes] = {}
        self._same_masks: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self.items)

    def is_visible(self, item: ItemT, viewer: Viewer) -> bool:
        """Tell whether ``viewer`` may see and use an item."""
        if viewer.agent is None and id(item) in self._shadowed:
            return False
        return viewer.denial(item.spec) is None

    def find(self, name: str, viewer: Viewer) -> tuple[ItemT, ...]:
        """Give what goes by ``name`` and ``viewer`` may use: by its own name, else by its bare one.

        More than one only where none shadows the others (A-10). A name that is one item's own never
        leads to another, so no server can get the calls that a viewer may not make of another one
        (A-19).
        """
        own = self._by_name.get(name)
        if own is not None:
            return (own,) if self.is_visible(own, viewer) else ()
        if viewer.agent is None and not self._bare_names:
            return ()
        return tuple(it for it in self._by_bare_name.get(name, ()) if self.is_visible(it, viewer))

    def owns(self, name: str) -> bool:
        """Tell whether ``name`` is the own name of an item, whoever may use it."""
        return name in self._by_name

    def denial(self, name: str, viewer: Viewer) -> Denial | None:
        """Say what refuses to ``viewer`` what goes by ``name``; None where nothing does."""
        own = self._by_name.get(name)
        known = (*(() if own is None else (own,)), *self._by_bare_name.get(name, ()))
        return next((why for it in known if (why := viewer.denial(it.spec))), None)

    def visible_to(self, viewer: Viewer) -> tuple[ItemT, ...]:
        """List what ``viewer`` may use, in the view's order."""
        return tuple(compress(self.items, self.visibility_mask(viewer)))

    def visibility_mask(self, viewer: Viewer) -> bytes:
        """Give a byte for each of ``items``, 1 where ``viewer`` sees it.

        Made once for an agent with a tenant, and once for it without; viewers that see the same
        share one.
        """
        key = (viewer.agent, viewer.has_tenant)
        mask = self._masks.get(key)
        if mask is None:
            mask = bytes(self.is_visible(item, viewer) for item in self.items)
            self._masks[key] = mask = self._same_masks.setdefault(mask, mask)
        return mask


def _grouped(items: Iterable[ItemT]) -> Mapping[str, tuple[ItemT, ...]]:
    """Group items by their bare names, in order."""
    groups: dict[str, list[ItemT]] = {}
    for item in items:
        groups.setdefault(item.spec.bare_name, []).append(item)
    return {name: tuple(same) for name, same in groups.items()}


def _unique(named: Iterable[tuple[str, ItemT]]) -> Mapping[str, ItemT]:
    table: dict[str, ItemT] = {}
    for name, item in named:
        if table.setdefault(name, item) is not item:
            raise ValueError(f"two components are named {name!r}")
    return table
