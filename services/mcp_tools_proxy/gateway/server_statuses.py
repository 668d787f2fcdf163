"""The status of every server of mcp.json: running ones, and those whose entry is invalid."""

from collections.abc import Iterable
from dataclasses import replace

from mcp_tools_proxy.domain.configuration import Configuration
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable


def merge_statuses(
    running: Iterable[ServerStatus], configuration: Configuration
) -> tuple[ServerStatus, ...]:
    """Return the status of every server, in the file's order.

    A server whose entry is invalid runs by its last good entry, or is INVALID if it never had one;
    either way its status lists the entry's problems.
    """
    known = {status.server_id: status for status in running}
    if not configuration.invalid:
        return tuple(known.values())
    problems = {
        server_id: tuple(map(str, found)) for server_id, found in configuration.invalid.items()
    }
    return tuple(
        replace(
            known.get(server_id) or _invalid(server_id),
            problems=problems.get(server_id, ()),
            original_id=configuration.original_ids.get(server_id),
        )
        for server_id in dict.fromkeys((*configuration.order, *known))
        if server_id in known or server_id in problems
    )


def _invalid(server_id: str) -> ServerStatus:
    """Build the status of a server that cannot run; its id may be any string, so it is escaped."""
    shown = printable(server_id[:QUOTE_CHARS])
    return ServerStatus(server_id=shown, state=ServerState.INVALID, transport=None)
