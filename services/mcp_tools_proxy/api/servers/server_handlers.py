"""Shows the downstream servers and what one offers, and reconnects one (contract §1)."""

from collections.abc import Callable, Iterable, Mapping

from fastapi import Response

from mcp_tools_proxy.api.callers import require_authentication
from mcp_tools_proxy.api.endpoint import ParsedRequest, single_values, validate
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.servers.offer_pages import page_of
from mcp_tools_proxy.api.servers.server_models import ServersQuery
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.errors import InvalidRequest, RouteNotFound
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.server import ServerStatus, SessionCounts
from mcp_tools_proxy.gateway.server_offers import ServerOffers
from mcp_tools_proxy.telemetry.recorder import cut
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER
from mcp_tools_proxy.wire.identifiers import server_id_of
from mcp_tools_proxy.wire.text import quote

FOR_OPERATORS = frozenset({"last_error", "problem", "problems", "warnings"})
"""Keys of a server that only operators see."""


class ServerHandlers:
    """Handlers of ``servers``, which are in the order of mcp.json.

    ``reconnect`` begins to reconnect a server, and returns whether it runs.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        gate: OperatorGate,
        *,
        servers: Callable[[], Iterable[ServerStatus]],
        offers: ServerOffers,
        reconnect: Callable[[str], bool],
    ) -> None:
        self._authenticator = authenticator
        self._gate = gate
        self._servers = servers
        self._offers = offers
        self._reconnect = reconnect

    async def list_servers(self, parsed: ParsedRequest[None]) -> Response:
        """Show each server, with its errors for operators only."""
        is_operator = await require_authentication(self._authenticator, parsed.request)
        content: dict[str, object] = {}
        if "offers" in parsed.request.query_params:
            content["offers"] = await self._offers_page(parsed)
        servers = [_shown(status, is_operator=is_operator) for status in self._servers()]
        content = {"servers": servers, **content}
        return json_response(content, headers={TRACE_HEADER: parsed.trace_id})

    async def reconnect(self, parsed: ParsedRequest[None]) -> Response:
        """Close and reopen the connection to the server that the path names."""
        await self._gate.check(parsed, OperatorRight.CONFIG)
        is_operator = await require_authentication(self._authenticator, parsed.request)
        server_id = server_id_of(parsed.request.path_params["server_id"])
        add_to_operation(parsed.request.scope, server_id=cut(server_id))
        self._status_of(server_id)
        if not self._reconnect(server_id):
            raise InvalidRequest(
                f"server_id: server {quote(server_id)} is disabled, or its entry in mcp.json is "
                "invalid; fix the entry in mcp.json",
                details={"field": "server_id"},
            )
        return json_response(
            _shown(self._status_of(server_id), is_operator=is_operator),
            status=202,
            headers={TRACE_HEADER: parsed.trace_id},
        )

    async def _offers_page(self, parsed: ParsedRequest[None]) -> Mapping[str, object]:
        """Return a page of what a server offers. Raises as the gate; RouteNotFound."""
        query = validate(ServersQuery, single_values(parsed.request.query_params))
        server_id = server_id_of(query.offers or "")
        await self._gate.check(parsed, OperatorRight.AUDIT)
        add_to_operation(parsed.request.scope, server_id=cut(server_id))
        self._status_of(server_id)
        items = self._offers.items_of(server_id)
        return {"server_id": server_id, **page_of(items, query.cursor)}

    def _status_of(self, server_id: str) -> ServerStatus:
        for status in self._servers():
            if status.server_id == server_id:
                return status
        raise RouteNotFound(
            f"unknown server {quote(server_id)}; GET /internal/mcp/servers lists the servers"
        )


def _shown(status: ServerStatus, *, is_operator: bool) -> Mapping[str, object]:
    line = _server(status)
    return line if is_operator else _without_details(line)


def _without_details(line: Mapping[str, object]) -> dict[str, object]:
    """Remove the fields that may hold paths, addresses and texts of servers."""
    return {key: value for key, value in line.items() if key not in FOR_OPERATORS}


def _server(status: ServerStatus) -> dict[str, object]:
    connect_ms = None if status.connect_s is None else round(status.connect_s * 1000, 1)
    line = {
        "server_id": status.server_id,
        "original_id": status.original_id,
        "state": status.state.value,
        "transport": status.transport and status.transport.value,
        "era": status.era,
        "last_error": status.last_error,
        "discovered_at": status.discovered_at,
        "stale": status.stale,
        "counts": status.counts,
        "connect_ms": connect_ms,
        "reconnects": status.reconnects,
        "attempts": status.attempts or None,
        "next_attempt_at": status.next_attempt_at,
        "sessions": status.sessions and _sessions(status.sessions),
        "problems": status.problems or None,
    }
    return without_none(line)


def _sessions(counts: SessionCounts) -> dict[str, int]:
    return {"open": counts.open, "busy": counts.busy, "max": counts.max}
