"""Log events about the state of a server and about changes of its offer."""

from collections.abc import Mapping, Sequence

import structlog

from mcp_tools_proxy.domain.offers.snapshot import Ignored, InvalidItem, Snapshot
from mcp_tools_proxy.domain.server import ServerStatus

MAX_DROPPED_LINES = 20
"""Upper bound of log lines about unusable items of one snapshot, and again about ignored fields."""

log = structlog.get_logger()


def counts_of(snapshot: Snapshot) -> Mapping[str, int]:
    """Count the items that the server offers, by category."""
    return {category: len(items) for category, items in snapshot.by_category.items()}


def log_connected(status: ServerStatus) -> None:
    """Log that a server is connected and discovered."""
    log.info(
        "server.connected",
        server_id=status.server_id,
        era=status.era,
        transport=status.transport and status.transport.value,
        connect_ms=round((status.connect_s or 0.0) * 1000),
        **status.counts,
    )


def log_change(server_id: str, known: Snapshot | None, snapshot: Snapshot) -> None:
    """Log the new counts, and each item that became unusable or lost fields since ``known``."""
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
    """Log each of the first items that ``known`` does not contain, and a summary of the others."""
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
