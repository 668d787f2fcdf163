"""Why items of a preset are not visible: missing, shadowed, or left out for a name conflict."""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass

import structlog

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import Tool
from mcp_tools_proxy.domain.configuration import Missing
from mcp_tools_proxy.domain.offers.view import View
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.json_schema.bound_offers import HeldBack
from mcp_tools_proxy.policy.exclusions import NO_EXCLUSIONS, Exclusions
from mcp_tools_proxy.wire.text import QUOTE_CHARS

NAMES_SHOWN = 20
"""How many names one log line has; its ``count`` is the number of all."""

NOT_OFFERED = "the server does not offer it"
NOT_CONNECTED = "its server is not connected"
EXCLUDED = "mcp.json excludes it"
INVALID = "its server's entry in mcp.json has problems"
NO_SERVER = "mcp.json has no enabled server of this id"
NEEDS_TASK = "it can only be run as a task"
CANNOT_BIND = "an argument of it cannot be bound"
TAKEN = "its name or alias is taken"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingItems:
    """Items of one kind and server that are not visible for one reason."""

    event: str
    server_id: str
    kind: Kind
    reason: str
    names: tuple[str, ...]


def explain_missing(
    view: View,
    conflicting: Iterable[Tool],
    *,
    servers: Mapping[str, ServerConfig],
    discovered: Collection[str],
    exclude: Mapping[str, Exclusions],
    invalid: Container[str] = (),
    pending: Container[str] = (),
    held_back: Iterable[HeldBack] = (),
) -> tuple[MissingItems, ...]:
    """Group what is not visible by server, kind and reason.

    ``conflicting`` are the tools that were left out because their name or alias is taken.
    ``discovered`` are the servers whose offer is known, ``invalid`` those whose entry in mcp.json
    cannot be used. Items of ``pending`` servers, which were not tried yet, are not missing yet.
    ``held_back`` are those with an argument that cannot be bound.
    """
    cannot_bind = {(it.server_id, it.kind, it.name) for it in held_back}
    groups: dict[tuple[str, str, Kind, str], list[str]] = {}
    for missing in view.missing:
        if missing.server_id in pending:
            continue
        reason = _why_missing(missing, servers, discovered, exclude, invalid)
        if missing.kind is Kind.TOOL and (missing.server_id, missing.name) in view.need_task:
            reason = NEEDS_TASK
        if (missing.server_id, missing.kind, missing.name) in cannot_bind:
            reason = CANNOT_BIND
        key = ("preset.missing", missing.server_id, missing.kind, reason)
        groups.setdefault(key, []).append(missing.name)
    for shadowed in view.shadowed:
        reason = f"server {shadowed.winner} comes first and offers the same"
        key = ("preset.shadowed", shadowed.server_id, shadowed.kind, reason)
        groups.setdefault(key, []).append(shadowed.name)
    for tool in conflicting:
        key = ("preset.clash", tool.spec.server_id or "", Kind.TOOL, TAKEN)
        groups.setdefault(key, []).append(tool.spec.name)
    return tuple(
        MissingItems(event=event, server_id=server_id, kind=kind, reason=reason, names=tuple(names))
        for (event, server_id, kind, reason), names in groups.items()
    )


def log_missing_items(groups: Iterable[MissingItems], *, preset_id: str) -> None:
    """Log each group with the first of its names."""
    for items in groups:
        log.warning(
            items.event,
            preset=preset_id,
            server_id=items.server_id[:QUOTE_CHARS],
            kind=items.kind.value,
            reason=items.reason,
            names=[name[:QUOTE_CHARS] for name in items.names[:NAMES_SHOWN]],
            count=len(items.names),
        )


def _why_missing(
    missing: Missing,
    servers: Mapping[str, ServerConfig],
    discovered: Collection[str],
    exclude: Mapping[str, Exclusions],
    invalid: Container[str],
) -> str:
    server_id = missing.server_id
    if exclude.get(server_id, NO_EXCLUSIONS).matches(missing.kind, server_id, missing.name):
        return EXCLUDED
    if server_id in discovered:
        return NOT_OFFERED
    config = servers.get(server_id)
    if config is None and server_id in invalid:
        return INVALID
    return NOT_CONNECTED if config is not None and config.enabled else NO_SERVER
