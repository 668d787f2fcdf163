"""Unmatched names in presets, exclusions and bindings.

An exclusion or binding without a match (A-15) is usually a typo: the item to be hidden is visible,
and the model chooses the argument to be bound.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

import structlog

from mcp_tools_proxy.config.agents import AGENTS_FILE
from mcp_tools_proxy.config.checked_configuration import at_names
from mcp_tools_proxy.config.json_file import json_path, limit_problems
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE
from mcp_tools_proxy.config.unknown_keys import Oddity, group_oddities
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import Tool
from mcp_tools_proxy.domain.configuration import Agents, Configuration, Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import Snapshot, View
from mcp_tools_proxy.policy.exclusions import name_variants
from mcp_tools_proxy.policy.visibility import Offers, Reason, Why, reason_of, shadowed_by
from mcp_tools_proxy.registry.shown_tools import BoundAgents
from mcp_tools_proxy.wire.identifiers import with_server_id
from mcp_tools_proxy.wire.json_schema.bound_offers import HeldBack, unmatched_bindings
from mcp_tools_proxy.wire.problem_texts import join_first
from mcp_tools_proxy.wire.text import QUOTE_CHARS, quote
from mcp_tools_proxy.wire.uris import has_own_scheme

NAMES_SHOWN = 20
"""Names per log line; its ``count`` includes all."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingItems:
    """Items of one kind and server that are not visible for the same reason."""

    event: str
    server_id: str
    kind: Kind
    reason: Reason
    names: tuple[str, ...]


def explain_missing(
    view: View,
    conflicting: Iterable[Tool],
    offers: Offers,
    *,
    pending: Container[str] = (),
) -> tuple[MissingItems, ...]:
    """Group items that are not visible by server, kind and reason.

    ``conflicting`` are tools omitted because their name or alias is taken. Items of ``pending``
    servers, which were not tried, are skipped.
    """
    offers = offers.now()
    groups: dict[tuple[str, str, Kind, Reason], list[str]] = {}
    for missing in view.missing:
        if missing.server_id in pending:
            continue
        reason = offers.missing_reason(missing)
        key = ("preset.missing", missing.server_id, missing.kind, reason)
        groups.setdefault(key, []).append(missing.name)
    for shadowed in view.shadowed:
        reason = shadowed_by(shadowed.winner)
        key = ("preset.shadowed", shadowed.server_id, shadowed.kind, reason)
        groups.setdefault(key, []).append(shadowed.name)
    for tool in conflicting:
        key = ("preset.clash", tool.spec.server_id or "", Kind.TOOL, reason_of(Why.NAME_TAKEN))
        groups.setdefault(key, []).append(tool.spec.name)
    return tuple(
        MissingItems(event=event, server_id=server_id, kind=kind, reason=reason, names=tuple(names))
        for (event, server_id, kind, reason), names in groups.items()
    )


def log_missing_items(groups: Iterable[MissingItems], *, preset_id: str) -> None:
    """Log each group with its first names."""
    for items in groups:
        log.warning(
            items.event,
            preset=preset_id,
            server_id=items.server_id[:QUOTE_CHARS],
            kind=items.kind.value,
            reason=items.reason.text,
            names=[name[:QUOTE_CHARS] for name in items.names[:NAMES_SHOWN]],
            count=len(items.names),
        )


_KINDS = frozenset(kind.value for kind in Kind)


def find_unmatched_exclusions(
    *,
    agents: Agents,
    configuration: Configuration,
    snapshots: Mapping[str, Snapshot],
    local_tools: Iterable[str],
) -> tuple[Problem, ...]:
    """Return warnings for entries that match nothing, at most 100 per file.

    - An agent's entry can match any item that a server of ``snapshots`` offers, even if it is not
      visible to the agent, and any of ``local_tools``; a server's entry only this server's items.
    - A URI with the prefix of a template counts as a match (A-20).
    - A URI of the gateway's scheme can be that of a document.
    - An entry is reported after all servers that it can refer to are discovered. Disabled servers
      are never discovered, so entries that name them are not reported.
    """
    in_agents = _in_agents(agents, configuration, snapshots, local_tools)
    in_configuration = group_oddities(
        CONFIGURATION_FILE, _in_configuration(configuration, snapshots)
    )
    return (
        *limit_problems(AGENTS_FILE, group_oddities(AGENTS_FILE, in_agents)),
        *limit_problems(CONFIGURATION_FILE, at_names(in_configuration, configuration.original_ids)),
    )


def _in_agents(
    agents: Agents,
    configuration: Configuration,
    snapshots: Mapping[str, Snapshot],
    local_tools: Iterable[str],
) -> Iterator[Oddity]:
    known = configuration.server_ids
    enabled = known - {it.server_id for it in configuration.servers.values() if not it.enabled}
    discovered = _discovered(snapshots)
    entries = [
        (("agents", index, "exclude_components", at), entry)
        for index, profile in enumerate(agents.profiles.values())
        for at, entry in enumerate(profile.exclude_components)
        if not has_own_scheme(entry.removeprefix(f"{Kind.RESOURCE}:"))
    ]
    for place, entry in _unmatched(entries, snapshots, local_tools):
        servers = _servers_meant(with_server_id(entry), known, enabled)
        if servers.issubset(discovered):
            yield place, _message(entry, [it for it in discovered if it in servers])


def _in_configuration(
    configuration: Configuration, snapshots: Mapping[str, Snapshot]
) -> Iterator[Oddity]:
    for server_id in _discovered(snapshots):
        entries = [
            (("mcpServers", server_id, "exclude", at), entry)
            for at, entry in enumerate(configuration.exclude.get(server_id, ()))
        ]
        for place, entry in _unmatched(entries, {server_id: snapshots[server_id]}):
            yield place, _message(entry, [server_id])


def _discovered(snapshots: Mapping[str, Snapshot]) -> Sequence[str]:
    """Return the servers with completely known offers, in configured order."""
    return [
        server_id
        for server_id, it in snapshots.items()
        if not (it.failed_lists or it.is_remembered)
    ]


def _unmatched(
    entries: Sequence[Oddity], snapshots: Mapping[str, Snapshot], local_tools: Iterable[str] = ()
) -> Iterator[Oddity]:
    """Yield entries without a match, each with its place."""
    unknown = {it for _, entry in entries for it in (entry, with_server_id(entry))}
    if unknown:
        unknown.difference_update(_names(snapshots, local_tools))
    prefixes = tuple(_template_prefixes(snapshots)) if unknown else ()
    for place, entry in entries:
        is_unknown = {entry, with_server_id(entry)} <= unknown
        if is_unknown and not entry.casefold().startswith(prefixes):
            yield place, entry


def _names(snapshots: Mapping[str, Snapshot], local_tools: Iterable[str]) -> Iterator[str]:
    """Yield all spellings of all names that entries can match, including invalid items."""
    for name in local_tools:
        yield from name_variants(Kind.TOOL, None, name)
    for server_id, offer in snapshots.items():
        for kind, name in offer.components:
            yield from name_variants(kind, server_id, name)
        for item in offer.dropped:
            yield from name_variants(item.kind, server_id, item.name)


def _template_prefixes(snapshots: Mapping[str, Snapshot]) -> Iterator[str]:
    """Yield all spellings of the text before the first variable of each template.

    Case is folded, because excluded URIs match regardless of case.
    """
    for server_id, offer in snapshots.items():
        for template in offer.templates:
            for spelling in name_variants(Kind.RESOURCE, server_id, template.partition("{")[0]):
                yield spelling.casefold()


def _servers_meant(entry: str, known: Collection[str], enabled: frozenset[str]) -> frozenset[str]:
    """Return the servers that an agent's entry can refer to: the named one, otherwise all.

    A URI can belong to any server, even if its scheme is a server id.
    """
    first, _, rest = entry.partition(":")
    if first in _KINDS and first not in known:
        first = rest.partition(":")[0]
    named = frozenset({first}).intersection(known)
    return enabled | named if "://" in entry or not named else named


def _message(entry: str, discovered: Sequence[str]) -> str:
    if not discovered:
        return f"{quote(entry)} matches no tool of the gateway, and no server is enabled"
    servers = join_first(discovered, quote)
    return f"{quote(entry)} matches nothing offered by the servers that were discovered: {servers}"


def find_unusable_bindings(
    *,
    agents: Agents,
    configuration: Configuration,
    snapshots: Mapping[str, Snapshot],
    held_back: Iterable[HeldBack],
    bound_agents: BoundAgents,
) -> tuple[Problem, ...]:
    """Return warnings for items hidden by their bindings, and for bindings without effect."""
    return (
        *limit_problems(
            CONFIGURATION_FILE,
            at_names(_of_servers(configuration, snapshots, held_back), configuration.original_ids),
        ),
        *limit_problems(AGENTS_FILE, tuple(_of_agents(agents, bound_agents))),
    )


def _of_servers(
    configuration: Configuration, snapshots: Mapping[str, Snapshot], held_back: Iterable[HeldBack]
) -> Iterator[Problem]:
    for it in held_back:
        path = json_path(("mcpServers", it.server_id, "bind"))
        message = f"{it.kind.value} {quote(it.name)} is hidden: {it.reason}"
        yield Problem(file=CONFIGURATION_FILE, path=path, message=message)
    for server_id, binding in unmatched_bindings(snapshots, configuration.bindings):
        path = json_path(("mcpServers", server_id, "bind", binding.text))
        message = "has no effect: none of the server's tools and prompts takes this argument"
        yield Problem(file=CONFIGURATION_FILE, path=path, message=message)


def _of_agents(agents: Agents, bound_agents: BoundAgents) -> Iterator[Problem]:
    places = {name: index for index, name in enumerate(agents.profiles)}
    for agent, tool in bound_agents.problems():
        path = json_path(("agents", places[agent], "bind", tool))
        message = (
            "hides the tool from the agent: the tool does not take this argument, refers to it "
            "outside properties, or mcp.json binds it to another value"
        )
        yield Problem(file=AGENTS_FILE, path=path, message=message)
