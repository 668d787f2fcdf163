"""The log lines about what a server offers and how it is."""

from collections.abc import Mapping, Sequence

import structlog

from mcp_tools_proxy.domain.server import ServerStatus
from mcp_tools_proxy.domain.snapshot import Ignored, InvalidItem, Snapshot

MAX_DROPPED_LINES = 20
"""Log lines about the unusable items of one snapshot, and as many about ignored fields."""

log = structlog.get_logger()


def counts_of(snapshot: Snapshot) -> Mapping[str, int]:
    """Count what the server offers, by category."""
    return {category: len(items) for category, items in snapshot.by_category.items()}


def log_connected(status: ServerStatus) -> None:
    """Tell that a server is in service."""
    log.info(
        "server.connected",
        server_id=status.server_id,
        era=status.era,
        transport=status.transport and status.transport.value,
        connect_ms=round((status.connect_s or 0.0) * 1000),
        **status.counts,
    )


def log_change(server_id: str, known: Snapshot | None, snapshot: Snapshot) -> None:
    """Tell what is new in ``snapshot``: how many items, and which of them cannot be used."""
    if known is not None:
        log.info("server.changed", server_id=server_id, **counts_of(snapshot))
    _log_new_items(
        server_id, "server.items_dropped", snapshot.dropped, known.dropped if known else ()
    )
    _log_new_items(
        server_id, "server.fields_ignored", snapshot.ignored, known.ignored if known else ()
    )


def _log_new_items(
    server_id: str,
    summary_event: str,
    items: Sequence[InvalidItem | Ignored],
    known: Sequence[InvalidItem | Ignored],
) -> None:
    """Write a line for each of the first items that were not known before."""
    before = set(known)
    new = [item for item in items if item not in before]
    for item in new[:MAX_DROPPED_LINES]:
        _log_item(server_id, item)
    if len(new) > MAX_DROPPED_LINES:
        log.warning(summary_event, server_id=server_id, more=len(new) - MAX_DROPPED_LINES)


def _log_item(server_id: str, item: InvalidItem | Ignored) -> None:
    fields = {"server_id": server_id, "kind": item.kind.value, "name": item.name}
    match item:
        case InvalidItem(needs_task=True):
            log.info("server.item_dropped", **fields, reason=item.reason)
        case InvalidItem():
            log.warning("server.item_dropped", **fields, reason=item.reason)
        case Ignored():
            log.warning("server.fields_ignored", **fields, fields=list(item.fields))
