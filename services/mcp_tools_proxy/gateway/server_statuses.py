"""How all servers of mcp.json are: those that run, and those whose entry cannot be used."""

from collections.abc import Iterable
from dataclasses import replace

from mcp_tools_proxy.domain.configuration import Configuration
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable


def merge_statuses(
    running: Iterable[ServerStatus], configuration: Configuration
) -> tuple[ServerStatus, ...]:
    """Give the status of every server, in the file's order.

    One whose entry is wrong runs by its last good entry, where there is one, and is INVALID where
    there is none; either has its problems.
    """
    known = {status.server_id: status for status in running}
    if not configuration.invalid:
        return tuple(known.values())
    problems = {
        server_id: tuple(map(str, found)) for server_id, found in configuration.invalid.items()
    }
    return tuple(
        replace(known.get(server_id) or _invalid(server_id), problems=problems.get(server_id, ()))
        for server_id in dict.fromkeys((*configuration.order, *known))
        if server_id in known or server_id in problems
    )


def _invalid(server_id: str) -> ServerStatus:
    """Make the status of a server that cannot run; its id may be anything that JSON can hold."""
    shown = printable(server_id[:QUOTE_CHARS])
    return ServerStatus(server_id=shown, state=ServerState.INVALID, transport=None)
