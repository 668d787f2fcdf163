"""MCP over HTTP: streamable HTTP of both eras at one endpoint, and legacy HTTP+SSE.

A response is one JSON body if it is the only message, else an event stream. A request of the newer
era decides that by itself: a stream if it wants progress or log messages. In the older eras the
first request decides for its session: JSON bodies if it does not accept ``text/event-stream``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.mcp_server.http.authentication import (
    asserted_by_path,
    authenticated_scope,
    json_rpc_error_response,
)
from mcp_tools_proxy.mcp_server.http.json_responses import answer_in_session
from mcp_tools_proxy.mcp_server.http.legacy_sse import LegacySse
from mcp_tools_proxy.mcp_server.http.open_streams import Check, OpenStreams
from mcp_tools_proxy.mcp_server.http.session_manager import (
    HttpSessions,
    InFlightIds,
    replay_body,
    send_204_instead_of_200,
)
from mcp_tools_proxy.mcp_server.http.stateless_http import answer_stateless_post
from mcp_tools_proxy.mcp_server.notify.listen_streams import LISTEN
from mcp_tools_proxy.mcp_server.request import CURRENT_CALLER, wants_stream
from mcp_tools_proxy.mcp_server.server import GatewayMcpServer
from mcp_tools_proxy.policy.session_eviction import select_session_to_evict
from mcp_tools_proxy.policy.tenant_share import tenant_share
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.web.body import BodyLimits, read_body
from mcp_tools_proxy.web.disconnect import cancel_on_disconnect
from mcp_tools_proxy.web.request_refusals import RequestRefusals
from mcp_tools_proxy.web.trace_headers import trace_id_from
from mcp_tools_proxy.wire.request_json import parse_request

INITIALIZE = "initialize"
SESSION_HEADER = b"mcp-session-id"
VERSION_HEADER = b"mcp-protocol-version"
HANDSHAKE_VERSIONS = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)


Handle = Callable[[Scope, Caller, Check, Receive, Send], Awaitable[None]]
"""Serves an authenticated request; its ``Check`` is repeated while the response is a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Limits of one process; a session ends after ``session_idle_s`` seconds without use."""

    body: BodyLimits
    max_sessions: int
    session_idle_s: float


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """Wraps a function as an ASGI app: Starlette's Route takes a plain function for an endpoint."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class HttpEndpoints:
    """Serves ``server`` at ``routes`` while ``lifespan`` is open."""

    def __init__(
        self,
        server: GatewayMcpServer,
        *,
        callers: CallerResolver,
        lifecycle: Lifecycle,
        metrics: Metrics,
        refusals: RequestRefusals,
        limits: HttpLimits,
    ) -> None:
        self._callers = callers
        self._server = server
        self._lifecycle = lifecycle
        self._refusals = refusals
        self._limits = limits
        self._streams = OpenStreams(max_of_tenant=tenant_share(limits.max_sessions))
        self._with_bodies = self._sessions(json_response=True)
        self._with_streams = self._sessions(json_response=False)
        metrics.mcp_sessions.set_function(lambda: self.sessions)
        metrics.mcp_streams.set_function(lambda: self.streams)
        self._ids_in_use = InFlightIds()
        self._sse = LegacySse(server, on_shutdown=self._no_more_calls, limits=limits.body)

    @property
    def sessions(self) -> int:
        """Number of open sessions of the older eras, legacy HTTP+SSE included."""
        return len(self._with_bodies) + len(self._with_streams) + self._streams.carrying_answers

    @property
    def streams(self) -> int:
        """Number of open streams: of sessions, of legacy HTTP+SSE, of ``subscriptions/listen``."""
        return len(self._streams)

    @property
    def watchers(self) -> int:
        """Number of clients that get list changes."""
        return len(self._server.list_changes)

    def routes(self) -> Sequence[Route]:
        """Return the routes, without and with an agent in the path."""
        streamable = _Endpoint(partial(self._enter, self._streamable))
        legacy = _Endpoint(partial(self._enter, self._legacy))
        return (
            Route("/mcp", streamable),
            Route("/mcp/agents/{agent}", streamable),
            Route("/mcp/sse", legacy),
            Route("/mcp/agents/{agent}/sse", legacy),
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Serve while open. When the service stops, streams end as soon as no call needs them."""
        async with (
            self._with_bodies.run(),
            self._with_streams.run(),
            asyncio.TaskGroup() as chores,
        ):
            tasks = [
                chores.create_task(self._server.run_notifications()),
                chores.create_task(self._streams.run()),
                chores.create_task(self._end_streams()),
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _enter(self, handle: Handle, scope: Scope, receive: Receive, send: Send) -> None:
        """Resolve the caller of a request and pass it to ``handle``, or send an error response."""
        try:
            asserted = asserted_by_path(scope)
            caller = await self._callers.resolve(scope, asserted)
            CURRENT_CALLER.set(caller)
            check = partial(self._callers.revalidate, scope, asserted, caller)
            await handle(scope, caller, check, receive, send)
        except ProxyError as error:
            await self._refuse(error, scope)(scope, receive, send)

    async def _streamable(
        self, scope: Scope, caller: Caller, check: Check, receive: Receive, send: Send
    ) -> None:
        """Serve streamable HTTP."""
        serve = self._post if scope["method"] == "POST" else self._other
        await serve(scope, caller, check, receive, send)

    async def _legacy(
        self, scope: Scope, caller: Caller, check: Check, receive: Receive, send: Send
    ) -> None:
        """Serve legacy HTTP+SSE."""
        scope = authenticated_scope(scope, caller)
        match scope["method"]:
            case "POST":
                body = await read_body(receive, self._limits.body.max_bytes)
                await self._sse.post(scope, body, replay_body(body, receive), send)
            case "GET":
                self._streams.check_capacity(caller.tenant_id)
                await self._make_space(caller)
                await self._streams.serve(
                    self._sse.stream,
                    scope,
                    receive,
                    send,
                    check=check,
                    carries_answers=True,
                    session_of=caller.tenant_id,
                    ends_itself=True,
                )
            case _:
                await _not_allowed("GET, POST")(scope, receive, send)

    async def _post(
        self, scope: Scope, caller: Caller, check: Check, receive: Receive, send: Send
    ) -> None:
        body = await read_body(receive, self._limits.body.max_bytes)
        content = parse_request(body, max_items=self._limits.body.max_items)
        replayed = replay_body(body, receive)
        headers = _headers(scope)
        version = headers.get(VERSION_HEADER)
        if version is None or version in HANDSHAKE_VERSIONS:
            is_new = SESSION_HEADER not in headers and _method_of(content) == INITIALIZE
            if is_new:
                await self._make_space(caller)
            scope = authenticated_scope(scope, caller)
            async with self._ids_in_use.reserve(headers.get(SESSION_HEADER), content):
                sessions = self._sessions_for(headers)
                await answer_in_session(sessions, scope, replayed, send)
        elif _method_of(content) == LISTEN:
            await self._streams.serve(
                self._with_streams.handle_buffered,
                authenticated_scope(scope, caller),
                replayed,
                send,
                check=check,
                ends_itself=True,
            )
        elif wants_stream(content):
            await self._with_streams.handle_buffered(
                authenticated_scope(scope, caller), replayed, send
            )
        elif not await answer_stateless_post(self._server, caller, content, scope, receive, send):
            scope = authenticated_scope(scope, caller)
            answering = self._with_bodies.handle_buffered(scope, replayed, send)
            await cancel_on_disconnect(receive, answering)

    async def _other(
        self, scope: Scope, caller: Caller, check: Check, receive: Receive, send: Send
    ) -> None:
        if scope["method"] not in ("GET", "DELETE"):
            await _not_allowed("GET, POST, DELETE")(scope, receive, send)
            return
        scope = authenticated_scope(scope, caller)
        sessions = self._sessions_for(_headers(scope))
        if scope["method"] == "DELETE":
            await sessions.handle_request(scope, receive, send_204_instead_of_200(send))
            return
        self._streams.check_capacity(caller.tenant_id)
        await self._streams.serve(
            sessions.handle_request, scope, receive, send, check=check, session_of=caller.tenant_id
        )

    def _sessions_for(self, headers: Mapping[bytes, bytes]) -> HttpSessions:
        """Return the manager that has a request's session, or will have the new one.

        The SDK fixes JSON bodies or streams for a manager, so there is one of each kind.
        """
        session_id = headers.get(SESSION_HEADER)
        if session_id is not None:
            known = session_id.decode("latin-1") in self._with_bodies
            return self._with_bodies if known else self._with_streams
        accept = headers.get(b"accept", b"*/*")
        accepts_streams = b"text/event-stream" in accept or b"*/*" in accept
        return self._with_streams if accepts_streams else self._with_bodies

    def _refuse(self, error: ProxyError, scope: Scope) -> Response:
        """Build the response to a refused request, and count and log the refusal."""
        trace_id = trace_id_from(None, Headers(scope=scope))
        self._refusals.record_refusal(scope, error, trace_id)
        return json_rpc_error_response(error, trace_id)

    async def _make_space(self, caller: Caller) -> None:
        """End an idle session if one more of ``caller`` would be too many.

        Raises CapacityExceeded if no session may be ended for it.
        """
        while self.sessions >= self._limits.max_sessions:
            both = self._with_bodies, self._with_streams
            idle = [session for manager in both for session in manager.idle]
            tenants = both[0].tenants + both[1].tenants
            end = select_session_to_evict(
                idle, tenants, caller.tenant_id, limit=self._limits.max_sessions
            )
            await end()

    def _sessions(self, *, json_response: bool) -> HttpSessions:
        return HttpSessions(
            self._server,
            json_response=json_response,
            session_idle_timeout=self._limits.session_idle_s,
            max_request_body_size=self._limits.body.max_bytes,
            max_sessions=None,  # both managers share one limit, see _make_space
        )

    async def _end_streams(self) -> None:
        await self._lifecycle.stopping()
        self._server.listen_streams.close()
        self._streams.end()
        await self._no_more_calls()
        await self._streams.end_all()

    async def _no_more_calls(self) -> None:
        """Wait until the service stops and no call is in flight."""
        await self._lifecycle.stopping()
        await self._lifecycle.idle()


def _headers(scope: Scope) -> Mapping[bytes, bytes]:
    """Return the headers by name; the first of a repeated one counts, as in the SDK."""
    return {name: value.strip(b" \t") for name, value in reversed(scope["headers"])}


def _method_of(content: object) -> object:
    return content.get("method") if isinstance(content, dict) else None


def _not_allowed(methods: str) -> Response:
    return Response(status_code=405, headers={"Allow": methods})
