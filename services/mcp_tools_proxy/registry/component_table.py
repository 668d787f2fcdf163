"""The components of one kind: visibility for a caller, and name resolution."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Generic, Protocol, Self, TypeVar

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ComponentSpec, Tool, ToolSpec
from mcp_tools_proxy.domain.list_options import MAX_NAME_CHARS, MIN_NAME_CHARS
from mcp_tools_proxy.policy.aliases import alias_of, hash_in, pair_hash, qualified_name
from mcp_tools_proxy.policy.visibility import Denial, NamedItem, Offers, Permissions, decide


class HasSpec(Protocol):
    """A component, or a resource template."""

    @property
    def spec(self) -> ComponentSpec:
        """The description of the item."""
        ...


ItemT = TypeVar("ItemT", bound=HasSpec)

NAMED_IN_FULL = 1
NAMED_BARE = 2
"""The bytes of ``ComponentTable.naming_mask`` for visible items."""


_Pair = tuple[str, str]


class AbsentTools:
    """Tools that the active preset names but no server currently offers; their names stay reserved.

    Otherwise a bare name that two servers share would mean the present server's tool, and a rogue
    server would receive calls meant for the absent one (A-19).
    """

    def __init__(self, pairs: Iterable[_Pair] = ()) -> None:
        self._servers: dict[str, list[str]] = {}
        """Bare name of the tool → server ids."""
        self._full_names: set[str] = set()
        self._hashes: set[str] = set()
        for server_id, name in sorted(pairs):
            self._servers.setdefault(name, []).append(server_id)
            self._full_names |= {qualified_name(server_id, name), alias_of(server_id, name)}
            self._hashes.add(pair_hash(server_id, name))

    @classmethod
    def of(cls, offers: Offers, present: Iterable[ToolSpec]) -> Self:
        """Build from the preset, without tools that their servers may never show."""
        pairs = offers.scope.tools - {(spec.server_id, spec.bare_name) for spec in present}
        return cls(
            (server_id, name)
            for server_id, name in pairs
            if server_id in offers.servers and offers.bar(Kind.TOOL, server_id, name) is None
        )

    def owns(self, name: str) -> bool:
        """Return whether ``name`` is the qualified name or alias of an absent tool."""
        return name in self._full_names

    def owns_shortened(self, name: str) -> bool:
        """Return whether ``name`` ends in the hash of an absent tool's shortened alias."""
        return hash_in(name) in self._hashes

    def candidates(self, name: str, permissions: Permissions) -> Sequence[str]:
        """Return the qualified names of absent tools with this bare name that a caller may use."""
        return [
            qualified_name(server_id, name)
            for server_id in self._servers.get(name, ())
            if decide(permissions, NamedItem(Kind.TOOL, server_id, name)) is None
        ]


NOTHING_ABSENT = AbsentTools()


class ComponentTable(Generic[ItemT]):
    """All components of one kind, in the view's order; immutable.

    Components can share a bare name. With ``first_shadows``, a caller without an agent sees only
    the first; an agent sees all that its profile allows. Lists and lookups both use ``is_visible``.
    """

    def __init__(
        self,
        items: Iterable[ItemT],
        *,
        names_of: Callable[[ItemT], Iterable[str]],
        first_shadows: bool = True,
        bare_name_allowed: Callable[[ItemT], bool] = lambda _: True,
        is_listed: Callable[[ItemT], bool] = lambda _: True,
        absent: AbsentTools = NOTHING_ABSENT,
        has_aliases: bool = False,
    ) -> None:
        """Build the table.

        ``names_of`` returns an item's unique names, ``bare_name_allowed`` whether its bare name is
        callable, ``is_listed`` whether lists show it. ``has_aliases`` is for tools, whose aliases
        can be shortened. Names of ``absent`` tools are reserved, and a bare name shared with one is
        not resolved. Raises ValueError if two items share a unique name.
        """
        self.items = tuple(items)
        self._by_name = _unique((name, item) for item in self.items for name in names_of(item))
        named_bare = _grouped(
            item
            for item in self.items
            if item.spec.server_id is not None and bare_name_allowed(item)
        )
        if first_shadows:
            named_bare = {name: _without_renamed(same) for name, same in named_bare.items()}
        self._by_bare_name = named_bare
        self._absent = absent
        self._has_aliases = has_aliases
        self._is_listed = is_listed
        self._unlisted = [item for item in self.items if not is_listed(item)]
        self._shadowed = frozenset(
            id(item)
            for same in (self._by_bare_name.values() if first_shadows else ())
            for item in same[1:]
        )
        self._masks: dict[tuple[str | None, bool], bytes] = {}
        self._naming_masks: dict[tuple[str | None, bool], bytes] = {}
        self._same_masks: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self.items)

    def is_visible(self, item: ItemT, permissions: Permissions) -> bool:
        """Return whether a caller with these permissions may see and use an item."""
        if permissions.agent is None and id(item) in self._shadowed:
            return False
        return decide(permissions, item.spec) is None

    def find(self, name: str, permissions: Permissions) -> tuple[ItemT, ...]:
        """Return the visible items of this name: by unique name, then by bare name.

        Several are returned only for an ambiguous bare name (A-10), none if an absent tool makes it
        ambiguous. A unique name never resolves to another item, even if the first is hidden or
        absent: otherwise a server could receive another server's calls (A-19).
        """
        own = self._by_name.get(name)
        if own is not None:
            return (own,) if self.is_visible(own, permissions) else ()
        other = self._find_shortened(name) or self._find_for_gemini(name)
        if other is not None:
            return (other,) if self.is_visible(other, permissions) else ()
        found = self._find_bare(name, permissions)
        if found and self._absent.candidates(name, permissions):
            return ()
        return found

    def has_short_aliases(self, item: ItemT) -> bool:
        """Return whether the item's shortened aliases are unique, by their hash."""
        spec = item.spec
        return self._by_hash.get(pair_hash(spec.server_id or "", spec.bare_name)) is item

    def _find_shortened(self, name: str) -> ItemT | None:
        """Return the tool with the shortened alias ``name`` (``name_max``)."""
        if not self._has_aliases or (digest := hash_in(name)) is None:
            return None
        item = self._by_hash.get(digest)
        if item is None or item.spec.server_id is None:
            return None
        pair = item.spec.server_id, item.spec.bare_name
        is_alias = any(alias_of(*pair, size) == name for size in _sizes_for(name))
        return item if is_alias else None

    def _find_for_gemini(self, name: str) -> ItemT | None:
        """Return the tool that Gemini's format lists as ``name`` (one that begins with a digit)."""
        return self._by_gemini_name.get(name) if self._has_aliases and name[:1] == "_" else None

    @cached_property
    def _by_gemini_name(self) -> Mapping[str, ItemT | None]:
        """Tools with a different name for Gemini; None for a shared name."""
        found: dict[str, ItemT | None] = {}
        for item in self.items:
            spec = item.spec
            if isinstance(spec, ToolSpec) and spec.gemini_name != spec.model_name:
                found[spec.gemini_name] = None if spec.gemini_name in found else item
        return found

    @cached_property
    def _by_hash(self) -> Mapping[str, ItemT | None]:
        """Items of servers by the hash of their shortened aliases; None for a shared hash."""
        found: dict[str, ItemT | None] = {}
        for item in self.items if self._has_aliases else ():
            if item.spec.server_id is not None:
                digest = pair_hash(item.spec.server_id, item.spec.bare_name)
                found[digest] = None if digest in found else item
        return found

    def candidates(self, name: str, permissions: Permissions) -> Sequence[str]:
        """Return the qualified names of all meanings of a bare name for the caller.

        Several mean that it is ambiguous. Absent items are included if at least one item is
        present.
        """
        if name in self._by_name:
            return ()
        found = self._find_bare(name, permissions)
        present = [qualified_name(it.spec.server_id or "", name) for it in found]
        return [*present, *self._absent.candidates(name, permissions)] if present else ()

    def _find_bare(self, name: str, permissions: Permissions) -> tuple[ItemT, ...]:
        """Return the visible items of a bare name, unless an absent tool has it as full name."""
        group = self._by_bare_name.get(name)
        if group is None or self._absent.owns(name) or self._absent.owns_shortened(name):
            return ()
        return tuple(it for it in group if self.is_visible(it, permissions))

    def owns(self, name: str) -> bool:
        """Return whether ``name`` is the unique name of an item, visible or not."""
        return name in self._by_name

    def denied(self, name: str, permissions: Permissions) -> tuple[Denial, ComponentSpec] | None:
        """Return the first item of this name that is denied to the caller, with the denial."""
        own = self._by_name.get(name)
        known = (*(() if own is None else (own,)), *self._by_bare_name.get(name, ()))
        denials = ((decide(permissions, it.spec), it.spec) for it in known)
        return next(((denial, spec) for denial, spec in denials if denial), None)

    def visible_to(self, permissions: Permissions) -> tuple[ItemT, ...]:
        """List the items that a caller with these permissions may use, in the view's order."""
        return tuple(compress(self.items, self.visibility_mask(permissions)))

    def unlisted_for(self, permissions: Permissions) -> Sequence[ItemT]:
        """Return the usable items that lists omit."""
        return [item for item in self._unlisted if self.is_visible(item, permissions)]

    def visibility_mask(self, permissions: Permissions) -> bytes:
        """Return one byte for each of ``items``: 1 if lists show it to the caller, otherwise 0.

        Masks are cached by agent and presence of a tenant. Equal masks are one object, so that
        equal lists are cached once.
        """
        key = (permissions.agent, permissions.has_tenant)
        mask = self._masks.get(key)
        if mask is None:
            mask = bytes(
                self.is_visible(item, permissions) and self._is_listed(item) for item in self.items
            )
            self._masks[key] = mask = self._same_masks.setdefault(mask, mask)
        return mask

    def naming_mask(self, permissions: Permissions) -> bytes:
        """Return the visibility mask with NAMED_BARE for items found by their bare name."""
        view = permissions.agent, permissions.has_tenant
        mask = self._naming_masks.get(view)
        if mask is None:
            visible = zip(self.items, self.visibility_mask(permissions), strict=True)
            mask = bytes(self._named(it, permissions) if seen else 0 for it, seen in visible)
            self._naming_masks[view] = mask = self._same_masks.setdefault(mask, mask)
        return mask

    def is_found_bare(self, item: ItemT, permissions: Permissions) -> bool:
        """Return whether the bare name of an item resolves to exactly this item for the caller."""
        return self.find(item.spec.bare_name, permissions) == (item,)

    def _named(self, item: ItemT, permissions: Permissions) -> int:
        is_bare = item.spec.server_id is not None and self.is_found_bare(item, permissions)
        return NAMED_BARE if is_bare else NAMED_IN_FULL


def _sizes_for(name: str) -> Iterable[int]:
    """Return the values of ``name_max`` that can shorten an alias to ``name``.

    Its parts lose underscores at their ends, so it can be shorter than the limit.
    """
    return range(max(MIN_NAME_CHARS, len(name)), MAX_NAME_CHARS)


def names_of_tool(tool: Tool) -> tuple[str, ...]:
    """Return a tool's unique names."""
    spec = tool.spec
    names = (spec.name, spec.alias)
    return names if spec.given_name is None else (*names, spec.given_name)


def drop_name_conflicts(
    local: Iterable[Tool], remote: Iterable[Tool]
) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """Split ``remote`` into the tools that can be added to ``local``, and the rest.

    Tools share one namespace, local ones first: a remote tool is dropped if one of its names is
    taken. So a server cannot replace a tool of the gateway or of another server.
    """
    taken = {name for tool in local for name in names_of_tool(tool)}
    accepted: list[Tool] = []
    dropped: list[Tool] = []
    for tool in remote:
        names = set(names_of_tool(tool))
        if names & taken:
            dropped.append(tool)
        else:
            taken |= names
            accepted.append(tool)
    return tuple(accepted), tuple(dropped)


def _grouped(items: Iterable[ItemT]) -> Mapping[str, tuple[ItemT, ...]]:
    groups: dict[str, list[ItemT]] = {}
    for item in items:
        groups.setdefault(item.spec.bare_name, []).append(item)
    return {name: tuple(same) for name, same in groups.items()}


def _without_renamed(same: tuple[ItemT, ...]) -> tuple[ItemT, ...]:
    """Return the items that compete for a bare name: renamed items give it up.

    If all are renamed, the first keeps it.
    """
    return tuple(item for item in same if item.spec.given_name is None) or same[:1]


def _unique(named: Iterable[tuple[str, ItemT]]) -> Mapping[str, ItemT]:
    table: dict[str, ItemT] = {}
    for name, item in named:
        if table.setdefault(name, item) is not item:
            raise ValueError(f"two components are named {name!r}")
    return table
