"""Streamable HTTP of the older eras: requests belong to sessions, which the SDK serves.

A session has JSON bodies if its first request does not accept ``text/event-stream``, else streams.
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.mcp_server.http.authentication import authenticated_scope
from mcp_tools_proxy.mcp_server.http.json_responses import answer_in_session
from mcp_tools_proxy.mcp_server.http.open_streams import CallerCheck, OpenStreams
from mcp_tools_proxy.mcp_server.http.session_manager import (
    HttpSessions,
    InFlightIds,
    SessionReservations,
    replay_body,
    send_204_instead_of_200,
)
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.mcp_server.stateless import INITIALIZE
from mcp_tools_proxy.policy.session_eviction import select_session_to_evict
from mcp_tools_proxy.web.body import BodyLimits, read_body
from mcp_tools_proxy.wire.request_json import parse_request

SESSION_HEADER = b"mcp-session-id"


class StatefulHttp:
    """Serves the sessions of older eras: at most ``max_sessions``, legacy HTTP+SSE included."""

    def __init__(
        self,
        server: GatewayMcpServer,
        streams: OpenStreams,
        *,
        limits: BodyLimits,
        max_sessions: int,
        idle_s: float,
    ) -> None:
        self._streams = streams
        self._limits = limits
        self._max_sessions = max_sessions
        self._json_sessions, self._event_sessions = (
            HttpSessions(
                server,
                json_response=json_response,
                session_idle_timeout=idle_s,
                max_request_body_size=limits.max_bytes,
                max_sessions=None,  # both share one limit, see make_space
            )
            for json_response in (True, False)
        )
        self._ids_in_use = InFlightIds()
        self._reservations = SessionReservations()

    def __len__(self) -> int:
        """Number of sessions, those of legacy HTTP+SSE and those that are being opened included."""
        return (
            len(self._json_sessions)
            + len(self._event_sessions)
            + self._streams.legacy_sse_sessions.total()
            + self._reservations.tenants.total()
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Serve while open."""
        async with self._json_sessions.run(), self._event_sessions.run():
            yield

    async def serve(
        self, scope: Scope, caller: Caller, check: CallerCheck, receive: Receive, send: Send
    ) -> None:
        """Serve one HTTP request. Raises ProxyError."""
        scope = authenticated_scope(scope, caller)
        headers = dict(reversed(scope["headers"]))  # the first of a repeated one counts
        sessions = self._sessions_for(headers)
        match scope["method"]:
            case "POST":
                await self._post(sessions, headers, scope, caller, receive, send)
            case "GET":
                self._streams.check_capacity(caller.tenant_id)
                await self._streams.serve(
                    sessions.handle_request,
                    scope,
                    receive,
                    send,
                    check=check,
                    session_tenant=caller.tenant_id,
                )
            case "DELETE":
                await sessions.handle_request(scope, receive, send_204_instead_of_200(send))
            case _:
                refused = Response(status_code=405, headers={"Allow": "GET, POST, DELETE"})
                await refused(scope, receive, send)

    async def make_space(self, caller: Caller) -> None:
        """End an idle session if one more of ``caller`` would be too many.

        Raises CapacityExceeded if no session may be ended for it. The caller takes the space
        before it waits for anything, else another one may.
        """
        while len(self) >= self._max_sessions:
            both = self._json_sessions, self._event_sessions
            idle = [session for manager in both for session in manager.idle]
            end = select_session_to_evict(
                idle, self._tenants, caller.tenant_id, limit=self._max_sessions
            )
            await end()

    @property
    def _tenants(self) -> Counter[str]:
        """Number of sessions of each tenant, of every kind."""
        return (
            self._json_sessions.tenants
            + self._event_sessions.tenants
            + self._streams.legacy_sse_sessions
            + self._reservations.tenants
        )

    async def _post(
        self,
        sessions: HttpSessions,
        headers: Mapping[bytes, bytes],
        scope: Scope,
        caller: Caller,
        receive: Receive,
        send: Send,
    ) -> None:
        body = await read_body(receive, self._limits.max_bytes)
        content = parse_request(body, max_items=self._limits.max_items)
        session_id = headers.get(SESSION_HEADER)
        is_initialize = isinstance(content, dict) and content.get("method") == INITIALIZE
        async with AsyncExitStack() as stack:
            if session_id is None and is_initialize:
                await self.make_space(caller)
                stack.enter_context(self._reservations.reserve(caller.tenant_id))
            await stack.enter_async_context(self._ids_in_use.reserve(session_id, content))
            await answer_in_session(sessions, scope, replay_body(body, receive), send)

    def _sessions_for(self, headers: Mapping[bytes, bytes]) -> HttpSessions:
        """Return the manager that has a request's session, or will have the new one.

        The SDK fixes JSON bodies or streams for a manager, so there is one of each kind.
        """
        session_id = headers.get(SESSION_HEADER)
        if session_id is not None:
            known = session_id.decode("latin-1") in self._json_sessions
            return self._json_sessions if known else self._event_sessions
        accept = headers.get(b"accept", b"*/*")
        accepts_streams = b"text/event-stream" in accept or b"*/*" in accept
        return self._event_sessions if accepts_streams else self._json_sessions
