"""Shows the state of the connection to the remote backend."""

from collections.abc import Callable

from fastapi import Response

from mcp_tools_proxy.api.callers import require_authentication
from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.backend_link import RemoteStatus
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER


class StatusHandlers:
    """The handler that shows ``remote``, None if off."""

    def __init__(
        self, authenticator: Authenticator, *, remote: Callable[[], RemoteStatus | None]
    ) -> None:
        self._authenticator = authenticator
        self._remote = remote

    async def show_remote(self, parsed: ParsedRequest[None]) -> Response:
        """Show the connection to the remote backend."""
        await require_authentication(self._authenticator, parsed.request)
        return json_response(_remote(self._remote()), headers={TRACE_HEADER: parsed.trace_id})


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
