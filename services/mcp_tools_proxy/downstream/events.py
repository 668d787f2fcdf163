"""The log lines about what a server offers and how it is."""

from collections.abc import Mapping

import structlog

from mcp_tools_proxy.domain.capability import Dropped, Snapshot
from mcp_tools_proxy.domain.server import ServerStatus

MAX_DROPPED_LINES = 20
"""Log lines about the unusable items of one snapshot."""

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
    dropped = [item for item in snapshot.dropped if known is None or item not in known.dropped]
    for item in dropped[:MAX_DROPPED_LINES]:
        _log_dropped(server_id, item)
    if len(dropped) > MAX_DROPPED_LINES:
        more = len(dropped) - MAX_DROPPED_LINES
        log.warning("server.items_dropped", server_id=server_id, more=more)


def _log_dropped(server_id: str, item: Dropped) -> None:
    log.warning(
        "server.item_dropped",
        server_id=server_id,
        kind=item.kind.value,
        name=item.name,
        reason=item.reason,
    )
