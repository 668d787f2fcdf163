"""HTTP endpoints of MCP.

The headers of a request show its era: ``stateless_http`` serves the newer one, ``stateful_http``
the older ones.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity
from mcp_tools_proxy.domain.list_options import ALIASES, LEGACY_SSE, ListOptions
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.gateway.worker_group import WorkerGroup
from mcp_tools_proxy.http.body import BodyLimits
from mcp_tools_proxy.http.list_query import list_options_of
from mcp_tools_proxy.http.request_headers import trace_id_from
from mcp_tools_proxy.http.request_refusals import RequestRefusals
from mcp_tools_proxy.http.responses import error_headers, status_of
from mcp_tools_proxy.mcp.server.http.event_streams import OpenStreams
from mcp_tools_proxy.mcp.server.http.http_request import HeaderParameters, HttpRequest
from mcp_tools_proxy.mcp.server.http.legacy_sse import LegacySse
from mcp_tools_proxy.mcp.server.http.live_sessions import LiveSessions
from mcp_tools_proxy.mcp.server.http.protected_resource import ProtectedResource
from mcp_tools_proxy.mcp.server.http.session_ids import SessionIds
from mcp_tools_proxy.mcp.server.http.session_records import SessionRecords
from mcp_tools_proxy.mcp.server.http.stateful_http import SESSION_HEADER, StatefulHttp
from mcp_tools_proxy.mcp.server.http.stateless_http import StatelessHttp
from mcp_tools_proxy.mcp.server.server import GatewayMcpServer
from mcp_tools_proxy.policy.tenant_share import tenant_share
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS, INVALID_REQUEST, PARSE_ERROR
from mcp_tools_proxy.wire.strict_json import BODY

if TYPE_CHECKING:
    from mcp_tools_proxy.mcp.server.http.shared_sessions import SharedSessions


VERSION_HEADER = b"mcp-protocol-version"
_STREAM_HEADERS = frozenset({VERSION_HEADER, SESSION_HEADER, b"last-event-id"})
"""A GET for a stream of streamable HTTP has at least one of these."""
_SESSION_VERSIONS = frozenset(version.encode() for version in HANDSHAKE_VERSIONS)


Handle = Callable[[HttpRequest], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Limits of one process; a session ends after ``session_idle_s`` seconds without use."""

    body: BodyLimits
    max_batch_calls: int
    max_sessions: int
    session_idle_s: float
    session_keys: Sequence[bytes]
    """Keys of the session ids, the first for new ones; empty for a single replica."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """ASGI app of a function; Starlette's Route would take the function for an endpoint."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class HttpEndpoints:
    """Serves ``server`` at ``routes`` while ``lifespan`` is open."""

    def __init__(
        self,
        server: GatewayMcpServer,
        *,
        registry: RegistryHolder,
        callers: CallerResolver,
        lifecycle: Lifecycle,
        metrics: Metrics,
        refusals: RequestRefusals,
        limits: HttpLimits,
        workers: WorkerGroup,
        shared_sessions: "SharedSessions | None" = None,
        protected_resource: ProtectedResource | None = None,
    ) -> None:
        """Create the endpoints.

        ``shared_sessions`` shares sessions between replicas. ``protected_resource`` is for clients
        that discover the sign-in; None without sign-in.
        """
        self._callers = callers
        self._protected_resource = protected_resource
        self._server = server
        self._lifecycle = lifecycle
        self._refusals = refusals
        self._limits = limits
        self._streams = OpenStreams(max_of_tenant=tenant_share(limits.max_sessions))
        records = SessionRecords(
            idle_s=limits.session_idle_s, is_alone=not limits.session_keys, shared=shared_sessions
        )
        self._live = LiveSessions(
            server,
            records,
            shared=shared_sessions,
            max_held=limits.max_sessions,
            idle_s=limits.session_idle_s,
            others=self._streams.legacy_sse_sessions,
        )
        self._stateful = StatefulHttp(
            server,
            self._streams,
            self._live,
            ids=SessionIds(limits.session_keys),
            records=records,
            limits=limits.body,
            max_batch_calls=limits.max_batch_calls,
        )
        self._stateless = StatelessHttp(
            server, HeaderParameters(registry), self._streams, limits.body
        )
        metrics.mcp_sessions.set_function(lambda: self.sessions)
        metrics.mcp_sessions_limit.set(limits.max_sessions)
        metrics.mcp_streams.set_function(lambda: self.streams)
        self._sse = LegacySse(
            server, on_shutdown=self._no_more_calls, limits=limits.body, workers=workers
        )

    @property
    def sessions(self) -> int:
        """Number of sessions with state in this process, including those of legacy HTTP+SSE."""
        return len(self._live)

    @property
    def streams(self) -> int:
        """Number of open streams: of sessions, of legacy HTTP+SSE, of ``subscriptions/listen``."""
        return len(self._streams)

    @property
    def subscribers(self) -> int:
        """Number of clients that receive list changes."""
        return len(self._server.list_changes)

    def routes(self) -> Sequence[Route]:
        """Return the routes of MCP, with and without an agent in the path, and of the metadata."""
        streamable = _Endpoint(partial(self._enter, self._streamable, ALIASES))
        legacy = _Endpoint(partial(self._enter, self._legacy, LEGACY_SSE))
        routes = (
            Route("/mcp", streamable),
            Route("/mcp/", streamable),
            Route("/mcp/agents/{agent}", streamable),
            Route("/mcp/agents/{agent}/", streamable),
            Route("/mcp/sse", legacy),
            Route("/mcp/agents/{agent}/sse", legacy),
        )
        if self._protected_resource is None:
            return routes
        return (*routes, *self._protected_resource.routes(route.path for route in routes))

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Serve while open. When the service stops, streams end when no call needs them."""
        async with asyncio.TaskGroup() as chores:
            tasks = [
                chores.create_task(self._server.run_notifications()),
                chores.create_task(self._live.run()),
                chores.create_task(self._streams.run()),
                chores.create_task(self._end_streams()),
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _enter(
        self, handle: Handle, entry: ListOptions, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            asserted = asserted_by_path(scope)
            caller = await self._callers.resolve(scope, asserted)
            check = partial(self._callers.revalidate, scope, asserted, caller)
            options = list_options_of(scope, entry)
            await handle(HttpRequest(scope, caller, options, check, receive, send))
        except ProxyError as error:
            await self._refuse(error, scope)(scope, receive, send)

    async def _streamable(self, request: HttpRequest) -> None:
        """Serve streamable HTTP, and legacy HTTP+SSE at the same address (seed 001)."""
        if await self._is_legacy_sse(request):
            request.options = LEGACY_SSE.in_session(request.options)
            await self._legacy(request)
        elif _is_modern(request.scope):
            await self._stateless.serve(request)
        else:
            await self._stateful.serve(request)

    async def _is_legacy_sse(self, request: HttpRequest) -> bool:
        """Return whether a request at the address of streamable HTTP is of legacy HTTP+SSE.

        Such clients send no newer headers, except that the TypeScript SDK sends the negotiated
        version: then the message must belong to an open stream of its caller.
        """
        scope, method = request.scope, request.method
        if method == "GET":
            names = {name for name, _ in scope["headers"]}
            return names.isdisjoint(_STREAM_HEADERS) and _requests_events(scope)
        if method != "POST" or b"sessionId=" not in scope["query_string"]:
            return False
        names = {name for name, _ in scope["headers"]}
        if not names.isdisjoint(_STREAM_HEADERS - {VERSION_HEADER}):
            return False
        if VERSION_HEADER not in names:
            return True
        return not _is_modern(scope) and await self._sse.has_session(request)

    async def _legacy(self, request: HttpRequest) -> None:
        match request.method:
            case "POST":
                await self._sse.post(request)
            case "GET":
                self._streams.check_capacity(request.caller.tenant_id)
                self._live.make_space(request.caller)
                await self._streams.serve(
                    partial(self._sse.stream, request),
                    request,
                    is_session=True,
                    session_tenant=request.caller.tenant_id,
                    sends_last_message=True,
                )
            case _:
                await request.refuse_method("GET", "POST")

    def _refuse(self, error: ProxyError, scope: Scope) -> Response:
        trace_id = trace_id_from(None, Headers(scope=scope))
        self._refusals.record_refusal(scope, error, trace_id)
        return json_rpc_error_response(error, trace_id)

    async def _end_streams(self) -> None:
        await self._lifecycle.draining()
        self._server.listen_streams.close()
        self._streams.end()
        await self._no_more_calls()
        await self._streams.end_all()

    async def _no_more_calls(self) -> None:
        await self._lifecycle.draining()
        await self._lifecycle.idle()


def _requests_events(scope: Scope) -> bool:
    """Return whether ``Accept`` names event streams; any client sends ``*/*``."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return b"text/event-stream" in accepted.lower()


def _is_modern(scope: Scope) -> bool:
    """Return whether a request is of MCP 2026-07-28 or of an unknown version.

    Older clients send a version of the handshake, or none; the first of repeated headers counts.
    """
    for name, value in scope["headers"]:
        if name == VERSION_HEADER:
            return value.strip(b" \t") not in _SESSION_VERSIONS
    return False


def asserted_by_path(scope: Scope) -> AssertedIdentity:
    """Return the agent that the path of a request asserts. Raises InvalidRequest."""
    agent = scope.get("path_params", {}).get("agent")
    if agent is None:
        return NO_ASSERTION
    if not is_identifier(agent):
        raise InvalidRequest(
            "the agent in the path should be 1-256 characters without control characters",
            details={"field": "path"},
        )
    return AssertedIdentity(agent=agent)


def json_rpc_error_response(error: ProxyError, trace_id: str) -> Response:
    """Build the response to a refused request: a JSON-RPC error without an id."""
    is_json = (error.details or {}).get("field") != BODY
    error_object = {
        "code": INVALID_REQUEST if is_json else PARSE_ERROR,
        "message": error.message,
        "data": {**error.as_json, "trace_id": trace_id},
    }
    body = to_json({"jsonrpc": "2.0", "id": None, "error": error_object})
    return Response(body, status_of(error).mcp, error_headers(error, trace_id), "application/json")
