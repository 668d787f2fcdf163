"""Reads the agent of an MCP path, builds the scope that the SDK gets, and refuses requests."""

from functools import lru_cache
from typing import cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.types import INVALID_REQUEST, PARSE_ERROR
from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from mcp_tools_proxy.auth.caller_resolver import CALLER
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity
from mcp_tools_proxy.mcp_server.request import Context
from mcp_tools_proxy.web.error_status import error_headers, status_of
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.request_json import BODY
from mcp_tools_proxy.wire.tracing import TRACE_CONTEXT

CACHED_USERS = 1024
"""Number of SDK user objects that are cached: building one costs more than a look-up."""

FORWARDED_HEADERS = frozenset(
    {
        b"accept",
        b"content-length",
        b"content-type",
        b"last-event-id",
        b"mcp-method",
        b"mcp-name",
        b"mcp-protocol-version",
        b"mcp-session-id",
        b"x-trace-id",
        *(name.encode() for name in TRACE_CONTEXT),
    }
)
"""The headers that the SDK gets: no token is among them."""


def asserted_by_path(scope: Scope) -> AssertedIdentity:
    """Return the identity that the path of a request asserts, its agent. Raises InvalidRequest."""
    agent = scope.get("path_params", {}).get("agent")
    if agent is None:
        return NO_ASSERTION
    if not is_identifier(agent):
        raise InvalidRequest(
            "the agent in the path should be 1-256 characters without control characters",
            details={"field": "path"},
        )
    return AssertedIdentity(agent=agent)


def authenticated_scope(scope: Scope, caller: Caller) -> Scope:
    """Return the scope of a request whose caller is known, with FORWARDED_HEADERS only.

    The SDK binds a session to the scope's ``user``, so requests of other users do not reach it.
    White space around header values is removed, which httptools leaves there (RFC 9110 §5.5).
    """
    return {
        **scope,
        "user": _user(caller.tenant_id, caller.user_id, caller.agent),
        "headers": [
            (name, value.strip(b" \t"))
            for name, value in scope["headers"]
            if name in FORWARDED_HEADERS
        ],
    }


@lru_cache(maxsize=CACHED_USERS)
def _user(*who: str | None) -> AuthenticatedUser:
    return AuthenticatedUser(AccessToken(token="", client_id=to_json(who).decode(), scopes=[]))


def tenant_of(client_id: str) -> str:
    """Return the tenant id that ``_user`` has put into the client id of the SDK's user."""
    tenant_id: str = from_json(client_id)[0]
    return tenant_id


def authenticated_caller(context: Context) -> Caller:
    """Return the caller that CallerResolver has put into the scope of a request."""
    request = cast("Request", context.request)
    caller: Caller = request.scope[CALLER]
    return caller


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
