"""Shows the state of the downstream servers and of the connection to the remote backend."""

from collections.abc import Callable, Iterable, Mapping

from fastapi import Response

from mcp_tools_proxy.api.callers import require_authentication
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.backend_link import RemoteStatus
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.server import ServerStatus, SessionCounts
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

FOR_OPERATORS = frozenset({"last_error", "problem", "problems", "warnings"})
"""Keys of a server that only operators see."""


class StatusHandlers:
    """Handlers that show ``servers``, in the order of mcp.json, and ``remote``, None if off."""

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        servers: Callable[[], Iterable[ServerStatus]],
        remote: Callable[[], RemoteStatus | None],
    ) -> None:
        self._authenticator = authenticator
        self._servers = servers
        self._remote = remote

    async def list_servers(self, parsed: ParsedRequest[None]) -> Response:
        """Show each server, with its errors for operators only."""
        is_operator = await require_authentication(self._authenticator, parsed.request)
        shown = [_server(status) for status in self._servers()]
        if not is_operator:
            shown = [_without_details(line) for line in shown]
        return json_response({"servers": shown}, headers={TRACE_HEADER: parsed.trace_id})

    async def show_remote(self, parsed: ParsedRequest[None]) -> Response:
        """Show the connection to the remote backend."""
        await require_authentication(self._authenticator, parsed.request)
        return json_response(_remote(self._remote()), headers={TRACE_HEADER: parsed.trace_id})


def _without_details(line: Mapping[str, object]) -> dict[str, object]:
    """Remove the fields that may hold paths, addresses and texts of servers."""
    return {key: value for key, value in line.items() if key not in FOR_OPERATORS}


def _server(status: ServerStatus) -> dict[str, object]:
    connect_ms = None if status.connect_s is None else round(status.connect_s * 1000, 1)
    line = {
        "server_id": status.server_id,
        "state": status.state.value,
        "transport": status.transport and status.transport.value,
        "era": status.era,
        "last_error": status.last_error,
        "discovered_at": status.discovered_at,
        "stale": status.stale,
        "counts": status.counts,
        "connect_ms": connect_ms,
        "reconnects": status.reconnects,
        "sessions": status.sessions and _sessions(status.sessions),
        "problems": status.problems or None,
    }
    return without_none(line)


def _sessions(counts: SessionCounts) -> dict[str, int]:
    return {"open": counts.open, "busy": counts.busy, "max": counts.max}


def _remote(status: RemoteStatus | None) -> dict[str, object]:
    if status is None:
        return {"state": "off"}
    next_attempt_s = None if status.next_attempt_s is None else round(status.next_attempt_s, 3)
    shown = {
        "state": status.state.value,
        "since": status.since,
        "server_identifier": status.server_identifier,
        "backend": status.backend,
        "last_error": status.last_error,
        "attempts": status.attempts,
        "next_attempt_s": next_attempt_s,
        "links": status.links,
        "sessions": status.sessions,
        "open_requests": status.open_requests,
        "waiting_bytes": status.waiting_bytes,
    }
    return without_none(shown)
