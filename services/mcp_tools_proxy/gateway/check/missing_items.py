"""Groups what of a preset is not visible: missing, shadowed, or left out for a name conflict."""

from collections.abc import Container, Iterable
from dataclasses import dataclass

import structlog

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import Tool
from mcp_tools_proxy.domain.offers.view import View
from mcp_tools_proxy.policy.visibility import (
    Offers,
    Reason,
    Why,
    reason_of,
    shadowed_by,
)
from mcp_tools_proxy.wire.text import QUOTE_CHARS

NAMES_SHOWN = 20
"""How many names one log line has; its ``count`` is the number of all."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingItems:
    """Items of one kind and server that are not visible for one reason."""

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
    """Group what is not visible by server, kind and reason.

    ``conflicting`` are the tools that were left out because their name or alias is taken. Items of
    ``pending`` servers, which were not tried yet, are not missing yet.
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
    """Log each group with the first of its names."""
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
