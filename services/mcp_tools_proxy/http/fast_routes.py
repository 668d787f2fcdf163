"""Dispatches the busiest routes before FastAPI, since they use none of its features.

That saves about two thirds of a call's work (``make bench``). Errors of the framework get the
envelope of the HTTP API.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_tools_proxy.domain.errors import (
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    ProxyError,
    RouteNotFound,
)
from mcp_tools_proxy.http.request_headers import trace_id_from
from mcp_tools_proxy.http.request_refusals import RequestRefusals
from mcp_tools_proxy.http.responses import error_response

log = structlog.get_logger()


class CrashHandler:
    """ASGI middleware that logs a crash, answers INTERNAL_ERROR, and re-raises the exception.

    Starlette's middleware wraps ``send`` to detect a started response: 2 % of a short call.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if scope["type"] == "http":
                trace_id = trace_id_from(None, Headers(scope=scope))
                log.exception("request.crashed", trace_id=trace_id, exc_info=error)
                with suppress(Exception):  # the server accepts no second response
                    await error_response(InternalError(), trace_id)(scope, receive, send)
            raise


Components = dict[str, dict[str, object]]
"""The shared parts of an OpenAPI document, by kind (schemas, responses, headers …) and name."""


class FastRouter:
    """Routes requests to the first of ``routes`` that matches, and all others to ``app``.

    A request whose client has disconnected gets no response.
    """

    def __init__(self, app: ASGIApp, *, routes: Sequence[Route]) -> None:
        self._app = app
        self._by_path = {route.path: route for route in routes if not route.param_convertors}
        self._patterns = [route for route in routes if route.param_convertors]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        app, scope = self._found(scope)
        try:
            await app(scope, receive, send)
        except ClientDisconnect:
            return

    def _found(self, scope: Scope) -> tuple[ASGIApp, Scope]:
        route = self._by_path.get(scope["path"])
        if route is not None:
            allowed = route.methods is None or scope["method"] in route.methods
            return (route.app if allowed else self._app), scope
        for route in self._patterns:
            match, matched = route.matches(scope)
            if match is Match.FULL:
                return route.app, {**scope, **matched}
        return self._app, scope


class DirectRoute(Route):
    """Passes the bare Request to an endpoint that reads the body and builds the response.

    FastAPI's handler solves dependencies and validates; for an endpoint from Request to Response
    that is two thirds of the work of a call (``make bench``). A route that ``is_fast`` is also for
    FastRouter.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        method: str,
        name: str,
        is_fast: bool = False,
        describe: Callable[[Components], Mapping[str, object]],
        **description: Any,
    ) -> None:
        """``description`` has the arguments of APIRoute. ``describe`` returns the rest of the
        operation, and adds its schemas to the components.
        """
        super().__init__(path, endpoint, methods=[method], name=name)
        self.methods = {method}  # Starlette adds HEAD to GET
        self.app = _asgi(endpoint)
        self.is_fast = is_fast
        self._describe = describe
        self._description = description

    def described(self, components: Components) -> APIRoute:
        """Return the route as FastAPI describes it, and add its schemas to ``components``.

        Only the OpenAPI document needs it. It used to take two thirds of the time to build the
        service.
        """
        return APIRoute(
            self.path,
            self.endpoint,
            methods=self.methods,
            name=self.name,
            openapi_extra={**self._describe(components)},
            **self._description,
        )


class DescribedApp(FastAPI):
    """An app whose middleware runs before FastAPI's, with a CrashHandler in front.

    The OpenAPI document is built on its first request, in a thread, since that takes 0.7 s.
    """

    def setup(self) -> None:
        """Add the route of the OpenAPI document."""
        self._describing = asyncio.Lock()
        self._description: bytes | None = None
        self.add_route("/openapi.json", self._show_description, include_in_schema=False)

    async def _show_description(self, _: Request) -> Response:
        async with self._describing:
            if self._description is None:
                document = await asyncio.to_thread(lambda: JSONResponse(self.openapi()))
                self._description = bytes(document.body)
        return Response(self._description, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; FastAPI's implementation would check for telemetry first."""
        if scope["type"] != "http" or self.middleware_stack is None:
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        await self.middleware_stack(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Build the middleware; FastAPI's serve the requests that FastRouter does not."""
        ours, self.user_middleware = self.user_middleware, []
        try:
            app = super().build_middleware_stack()
        finally:
            self.user_middleware = ours  # a stack that is built again needs its guards
        if isinstance(app, ServerErrorMiddleware):  # CrashHandler replaces it
            app = app.app
        for middleware in [Middleware(CrashHandler), *ours][::-1]:
            app = middleware.cls(app, *middleware.args, **middleware.kwargs)
        return app

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            components: Components = {}
            routes = [it.described(components) for it in self.routes if isinstance(it, DirectRoute)]
            document = get_openapi(
                title=self.title, version=self.version, tags=self.openapi_tags, routes=routes
            )
            document["components"] = {**document.get("components", {}), **components}
            self.openapi_schema = document
        return self.openapi_schema


def _asgi(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive))
        await response(scope, receive, send)

    return app


CLIENT_CLOSED_REQUEST = 499
"""Status, as in nginx, for a response that its client no longer reads."""


def add_error_handlers(app: FastAPI, refusals: RequestRefusals) -> None:
    """Register handlers that put every error response into the envelope (contract §1)."""

    def refuse(request: Request, error: ProxyError, headers: Mapping[str, str] | None) -> Response:
        trace_id = trace_id_from(None, request.headers)
        refusals.record_refusal(request.scope, error, trace_id)
        return error_response(error, trace_id, headers)

    async def http_error(request: Request, error: HTTPException) -> Response:
        allowed = _allowed(request) if error.status_code == 405 else error.headers
        return refuse(request, _of_status(error.status_code, request), allowed)

    async def disconnected(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    app.exception_handler(HTTPException)(http_error)
    app.exception_handler(ClientDisconnect)(disconnected)


def _allowed(request: Request) -> Mapping[str, str]:
    """Return ``Allow`` with every method of the path; Starlette lists those of one route only."""
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.path_regex.match(request.url.path)
        for method in route.methods or ()
    }
    return {"Allow": ", ".join(sorted(methods))}


def _of_status(status: int, request: Request) -> ProxyError:
    if status == 404:
        return RouteNotFound(
            "no such route; /openapi.json lists those of the HTTP API, and MCP is at /mcp and "
            "/mcp/agents/{agent}, without a trailing slash"
        )
    if status == 405:
        return MethodNotAllowed(
            f"this route does not accept {request.method[:16]}; use a method that the Allow header "
            "names"
        )
    return InvalidRequest("the request could not be read; check it and send it again")
