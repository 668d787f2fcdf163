"""What a preset lets through of what the servers offer (P-03 … P-14)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.capability import Snapshot
from mcp_tools_proxy.domain.component import JsonObject
from mcp_tools_proxy.domain.preset import Missing, Preset, Reference
from mcp_tools_proxy.domain.view import Route, Shadowed, View
from mcp_tools_proxy.policy.alias import qualified_name

_Pair = tuple[str, str]
"""A server's id and the name (or key) of one of its items."""

_Offers = Mapping[str, Mapping[str, JsonObject]]
"""Items of one kind: server id → name → descriptor, for the servers in scope, in their order."""

_NOTHING = Snapshot()


@dataclass(frozen=True, slots=True)
class _Routed:
    """What became of the wanted items of one kind; ``missing`` keeps their order."""

    routes: dict[str, Route] = field(default_factory=dict)
    missing: dict[_Pair, None] = field(default_factory=dict)
    shadowed: list[Shadowed] = field(default_factory=list)


def filter_capabilities(snapshots: Mapping[str, Snapshot], preset: Preset) -> View:
    """Make the view that ``preset`` gives of ``snapshots`` (server id → what it offered).

    In scope is every server that an enabled reference names, in the order of first mention: tools,
    then prompts, then resources. Tools are exactly those referenced. Prompts and resources are
    those referenced, or all of the servers in scope where the preset leaves them open. A resource
    reference means the resource of that key and the template of that URI template. Of two servers
    that offer one prompt, resource or template the first in scope has it (P-13). What is referenced
    and not offered is missing, also where the server is not in ``snapshots`` (P-07).
    """
    tools = _enabled(preset.tools)
    prompts = None if preset.prompts is None else _enabled(preset.prompts)
    resources = None if preset.resources is None else _enabled(preset.resources)
    mentioned = (server_id for server_id, _ in (*tools, *(prompts or ()), *(resources or ())))
    scope = {server_id: snapshots.get(server_id, _NOTHING) for server_id in mentioned}

    of_tools = _route(Kind.TOOL, tools, {s: it.tools for s, it in scope.items()}, qualified_name)
    of_prompts = _choose(Kind.PROMPT, prompts, {s: it.prompts for s, it in scope.items()})
    of_resources = _choose(Kind.RESOURCE, resources, {s: it.resources for s, it in scope.items()})
    of_templates = _choose(Kind.RESOURCE, resources, {s: it.templates for s, it in scope.items()})
    return View(
        tools=of_tools.routes,
        prompts=of_prompts.routes,
        resources=of_resources.routes,
        templates=of_templates.routes,
        missing=(
            *_missing(Kind.TOOL, of_tools.missing),
            *_missing(Kind.PROMPT, of_prompts.missing),
            *_missing(
                Kind.RESOURCE,
                (pair for pair in of_resources.missing if pair in of_templates.missing),
            ),
        ),
        shadowed=(*of_prompts.shadowed, *of_resources.shadowed, *of_templates.shadowed),
    )


def _enabled(references: Iterable[Reference]) -> list[_Pair]:
    """Drop what is disabled and what was said before."""
    pairs = ((it.server_id, it.name) for it in references if it.enabled)
    return list(dict.fromkeys(pairs))


def _choose(kind: Kind, references: list[_Pair] | None, offers: _Offers) -> _Routed:
    """Route the items referenced, or all when there is no list; servers in scope order."""
    if references is None:
        wanted = [(server_id, name) for server_id, items in offers.items() for name in items]
    else:
        rank = {server_id: place for place, server_id in enumerate(offers)}
        wanted = sorted(references, key=lambda pair: rank[pair[0]])
    return _route(kind, wanted, offers, _by_name)


def _by_name(_server_id: str, name: str) -> str:
    return name


def _route(
    kind: Kind, wanted: Iterable[_Pair], offers: _Offers, key_of: Callable[[str, str], str]
) -> _Routed:
    """Find each wanted item; the first of one key wins."""
    routed = _Routed()
    for server_id, name in wanted:
        descriptor = offers[server_id].get(name)
        if descriptor is None:
            routed.missing[server_id, name] = None
            continue
        route = Route(server_id=server_id, name=name, descriptor=descriptor)
        winner = routed.routes.setdefault(key_of(server_id, name), route)
        if winner is not route:
            routed.shadowed.append(
                Shadowed(kind=kind, server_id=server_id, name=name, winner=winner.server_id)
            )
    return routed


def _missing(kind: Kind, pairs: Iterable[_Pair]) -> Iterator[Missing]:
    return (Missing(kind=kind, server_id=server_id, name=name) for server_id, name in pairs)
