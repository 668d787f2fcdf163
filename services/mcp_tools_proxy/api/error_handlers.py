"""Converts errors of the framework to the envelope of the HTTP API."""

from collections.abc import Mapping

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from mcp_tools_proxy.domain.errors import (
    InvalidRequest,
    MethodNotAllowed,
    ProxyError,
    RouteNotFound,
)
from mcp_tools_proxy.web.envelope import error_response
from mcp_tools_proxy.web.request_refusals import RequestRefusals
from mcp_tools_proxy.web.trace_headers import trace_id_from

CLIENT_CLOSED_REQUEST = 499
"""Status, as nginx has it, for a response that its client does not read any more."""


def add_error_handlers(app: FastAPI, refusals: RequestRefusals) -> None:
    """Register handlers so that every error response has the envelope (contract §1)."""

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
    """Return ``Allow`` with every method of the path: Starlette lists those of one route only."""
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
