"""Items that a preset allows among the servers' offers (P-03 … P-14), and its overrides.

Each name must identify one item, also visually, as checked before any server is contacted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from mcp_tools_proxy.domain.bindings import NO_OVERRIDES, Overrides
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.configuration import Missing, Preset, Reference
from mcp_tools_proxy.domain.definitions import DefinitionsMode, with_items, without_items
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import EMPTY_SNAPSHOT, Route, Shadowed, Snapshot, View
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.policy.definitions.canonical import only_pinned
from mcp_tools_proxy.policy.definitions.comparison import Findings
from mcp_tools_proxy.policy.document_tools import DOCUMENT_TOOLS
from mcp_tools_proxy.policy.exclusions import Exclusions
from mcp_tools_proxy.wire.lookalikes import joined_skeleton

_Pair = tuple[str, str]
"""A server's id and the name (or key) of one of its items."""

_Offers = Mapping[str, Mapping[str, JsonObject]]
"""Items of one kind: server id → name → descriptor, for the servers in scope, in order."""


@dataclass(frozen=True, slots=True)
class _Routed:
    routes: dict[str, list[Route]] = field(default_factory=dict)
    missing: dict[_Pair, None] = field(default_factory=dict)

    @property
    def by_key(self) -> dict[str, tuple[Route, ...]]:
        return {key: tuple(routes) for key, routes in self.routes.items()}

    def shadowed(self, kind: Kind) -> Iterator[Shadowed]:
        for winner, *others in self.routes.values():
            for it in others:
                yield Shadowed(
                    kind=kind, server_id=it.server_id, name=it.name, winner=winner.server_id
                )


def filter_capabilities(
    snapshots: Mapping[str, Snapshot],
    preset: Preset,
    exclude: Mapping[str, Exclusions] | None = None,
) -> View:
    """Build the view of ``snapshots`` (server id → its offers) that ``preset`` allows.

    - In scope are all servers that an enabled reference names, in the order of first mention:
      tools, then prompts, then resources.
    - Tools are exactly those referenced. Prompts and resources are those referenced or, without a
      list in the preset, all of the servers in scope.
    - A resource reference means the resource with that key and the template with that URI template.
    - If several servers have the same prompt, resource or template, the first in scope wins (P-13).
    - Referenced items that no server offers are missing, also without a snapshot (P-07).
    - Items that ``exclude`` (server id → exclusions) matches count as not offered (A-01).
    """
    exclude = exclude or {}
    tools = enabled(preset.tools)
    prompts = None if preset.prompts is None else enabled(preset.prompts)
    resources = None if preset.resources is None else enabled(preset.resources)
    mentioned = (server_id for server_id, _ in (*tools, *(prompts or ()), *(resources or ())))
    scope = {
        server_id: without_excluded(
            snapshots.get(server_id, EMPTY_SNAPSHOT), server_id, exclude.get(server_id)
        )
        for server_id in dict.fromkeys(mentioned)
    }

    of_tools = _route(
        tools, {s: it.tools for s, it in scope.items()}, overrides_of(preset.tools), qualified_name
    )
    of_prompts = _choose(preset.prompts, {s: it.prompts for s, it in scope.items()})
    of_resources = _choose(preset.resources, {s: it.resources for s, it in scope.items()})
    of_templates = _choose(preset.resources, {s: it.templates for s, it in scope.items()})
    return View(
        tools={name: routes[0] for name, routes in of_tools.routes.items()},
        prompts=of_prompts.by_key,
        resources=of_resources.by_key,
        templates=of_templates.by_key,
        missing=(
            *_missing(Kind.TOOL, of_tools.missing),
            *_missing(Kind.PROMPT, of_prompts.missing),
            *_missing(
                Kind.RESOURCE,
                (pair for pair in of_resources.missing if pair in of_templates.missing),
            ),
        ),
        need_task=tuple(pair for pair in of_tools.missing if pair[1] in scope[pair[0]].need_task),
        shadowed=(
            *of_prompts.shadowed(Kind.PROMPT),
            *of_resources.shadowed(Kind.RESOURCE),
            *of_templates.shadowed(Kind.RESOURCE),
        ),
    )


def accepted_view(
    snapshots: Mapping[str, Snapshot],
    preset: Preset,
    exclude: Mapping[str, Exclusions],
    view: View,
    findings: Findings,
) -> View:
    """Return ``view`` for callers; hidden items do not count as missing.

    Definitions are as modified by guards. In the mode PIN, unpinned fields are removed too.
    """
    hidden = findings.quarantined.union(findings.guarded)
    accepted = without_items(snapshots, hidden) if hidden else snapshots
    accepted = with_items(accepted, findings.redacted)
    if findings.mode is DefinitionsMode.PIN:
        accepted = only_pinned(accepted)
    if accepted is snapshots:
        return view
    return replace(filter_capabilities(accepted, preset, exclude), missing=view.missing)


def without_excluded(
    snapshot: Snapshot, server_id: str, excluded: Exclusions | None = None
) -> Snapshot:
    """Return a server's snapshot without its excluded items (A-01)."""
    if not excluded:
        return snapshot

    def kept(kind: Kind, items: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
        return {
            name: item
            for name, item in items.items()
            if not excluded.matches(kind, server_id, name)
        }

    return replace(
        snapshot,
        tools=kept(Kind.TOOL, snapshot.tools),
        prompts=kept(Kind.PROMPT, snapshot.prompts),
        resources=kept(Kind.RESOURCE, snapshot.resources),
        templates=kept(Kind.RESOURCE, snapshot.templates),
        need_task=frozenset(kept(Kind.TOOL, {name: {} for name in snapshot.need_task})),
    )


def enabled(references: Iterable[Reference]) -> list[_Pair]:
    """Return server id and name of the enabled references, without duplicates."""
    pairs = ((it.server_id, it.name) for it in references if it.enabled)
    return list(dict.fromkeys(pairs))


def overrides_of(references: Iterable[Reference]) -> Mapping[_Pair, Overrides]:
    """Return the overrides of enabled references, by server id and name."""
    return {
        (it.server_id, it.name): it.overrides
        for it in references
        if it.enabled and it.overrides != NO_OVERRIDES
    }


def _choose(references: Iterable[Reference] | None, offers: _Offers) -> _Routed:
    if references is None:
        wanted = [(server_id, name) for server_id, items in offers.items() for name in items]
        return _route(wanted, offers, {}, _by_name)
    rank = {server_id: place for place, server_id in enumerate(offers)}
    wanted = sorted(enabled(references), key=lambda pair: rank[pair[0]])
    overrides = overrides_of(references)

    def shown_name(server_id: str, name: str) -> str:
        return overrides.get((server_id, name), NO_OVERRIDES).name or name

    return _route(wanted, offers, overrides, shown_name)


def _by_name(_server_id: str, name: str) -> str:
    return name


def _route(
    wanted: Iterable[_Pair],
    offers: _Offers,
    overrides: Mapping[_Pair, Overrides],
    key_of: Callable[[str, str], str],
) -> _Routed:
    routed = _Routed()
    for server_id, name in wanted:
        descriptor = offers[server_id].get(name)
        if descriptor is None:
            routed.missing[server_id, name] = None
            continue
        route = Route(
            server_id=server_id,
            name=name,
            descriptor=descriptor,
            overrides=overrides.get((server_id, name), NO_OVERRIDES),
        )
        routed.routes.setdefault(key_of(server_id, name), []).append(route)
    return routed


def _missing(kind: Kind, pairs: Iterable[_Pair]) -> Iterator[Missing]:
    return (Missing(kind=kind, server_id=server_id, name=name) for server_id, name in pairs)


LOCAL_TOOLS = frozenset({"list_available_tools", *DOCUMENT_TOOLS})
"""The names of the gateway's own tools."""

ALIAS_JOINT = "__"
"""Separator in aliases: a name with it looks like a server's tool."""


class OverrideProblem(NamedTuple):
    """Why the overrides of one reference in a preset are invalid."""

    kind: Kind
    place: int
    """The index of the reference within its kind."""
    field: str | None
    """The field of the overrides; None for all of them."""
    message: str


def find_override_problems(preset: Preset) -> Iterator[OverrideProblem]:
    """Yield override problems of a preset.

    These are names that could be mistaken for another item's, and items with two different
    overrides.
    """
    for kind, references in preset.references:
        if all(it.overrides == NO_OVERRIDES for it in references):
            continue  # most presets: no names are compared (3,000 for 1,000 tools)
        owners = _owners(kind, references)
        first: dict[_Pair, Reference] = {}
        for index, reference in enumerate(references):
            if not reference.enabled:
                continue
            pair = (reference.server_id, reference.name)
            if first.setdefault(pair, reference).overrides != reference.overrides:
                message = "are not those of an earlier reference to the same item; keep one of them"
                yield OverrideProblem(kind, index, None, message)
            elif (clash := _clash(pair, reference.overrides.name, owners)) is not None:
                yield OverrideProblem(kind, index, "name", clash)


def _owners(kind: Kind, references: Sequence[Reference]) -> Mapping[str, Sequence[_Pair | None]]:
    """Return the owners of names by appearance; None for the gateway's own tools."""
    owners: dict[str, list[_Pair | None]] = {}
    for name in LOCAL_TOOLS if kind is Kind.TOOL else ():
        owners.setdefault(joined_skeleton(name), []).append(None)
    for it in references:
        if it.enabled:
            for name in filter(None, _names_of(kind, it)):
                owners.setdefault(joined_skeleton(name), []).append((it.server_id, it.name))
    return owners


def _names_of(kind: Kind, reference: Reference) -> Iterator[str | None]:
    server_id, name = reference.server_id, reference.name
    yield name
    yield qualified_name(server_id, name)
    yield reference.overrides.name
    if kind is Kind.TOOL:
        yield alias_of(server_id, name)


def _clash(
    pair: _Pair, name: str | None, owners: Mapping[str, Sequence[_Pair | None]]
) -> str | None:
    if name is None:
        return None
    if ALIAS_JOINT in name:
        return f"has {ALIAS_JOINT}, which stands between server and tool in aliases; leave it out"
    other = next((it for it in owners[joined_skeleton(name)] if it != pair), pair)
    if other == pair:
        return None
    owner = "a tool of the gateway" if other is None else f"{other[0]}:{other[1]}"
    return f"is also a name of {owner}, or looks like one; choose another"
