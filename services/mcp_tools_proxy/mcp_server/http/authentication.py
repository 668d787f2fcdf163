"""The entrance of every HTTP request to the facade: who it is, and refusals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.types import INVALID_REQUEST, PARSE_ERROR
from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import Forbidden, InvalidRequest, ProxyError, Unauthenticated
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity
from mcp_tools_proxy.mcp_server.http.stateless_http import MIRRORED
from mcp_tools_proxy.mcp_server.request import Context
from mcp_tools_proxy.web.identity_headers import read_headers, www_authenticate
from mcp_tools_proxy.web.request_refusals import CALLER
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER
from mcp_tools_proxy.wire.identifiers import is_identifier
from mcp_tools_proxy.wire.request_json import BODY
from mcp_tools_proxy.wire.tracing import TRACE_CONTEXT

CACHED_USERS = 1024
"""How many of those who asked last are kept as the SDK knows them."""

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
"""The headers that the SDK is given, besides mirrored arguments: no token gets there."""

STATUS: Mapping[str, int] = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "AGENT_REQUIRED": 403,
    "PAYLOAD_TOO_LARGE": 413,
    "SHUTTING_DOWN": 503,
    "NO_ROOM": 503,
}
"""What a refusal at the entrance is answered with; anything else is 400."""


@dataclass(frozen=True, slots=True)
class RequestAuthenticator:
    """Knows who sends a request.

    ``default_tenant_id`` is whose a request without a tenant is, where no token says whose it is.
    """

    identity: Authenticator
    default_tenant_id: str | None

    async def identify(self, scope: Scope) -> Caller:
        """Give the caller of a request; its path may name the agent. Raises ProxyError."""
        authorization, by_headers = read_headers(scope["headers"])
        agent = scope.get("path_params", {}).get("agent")
        if agent is not None and not is_identifier(agent):
            raise InvalidRequest(
                "the agent in the path should be 1-256 characters without control characters",
                details={"field": "path"},
            )
        by_path = NO_ASSERTION if agent is None else AssertedIdentity(agent=agent)
        caller = await self.identity.resolve_caller(authorization, by_headers, by_path)
        if caller.tenant_id != NO_TENANT or self.default_tenant_id is None:
            return caller
        if self.identity.needs_token:  # an operator's token: it runs nothing
            return caller
        return replace(caller, tenant_id=self.default_tenant_id)

    async def revalidate(self, scope: Scope, caller: Caller) -> None:
        """Raise ProxyError when a request's sender is no longer the ``caller`` it was."""
        if await self.identify(scope) != caller:
            raise Forbidden("the token stands for somebody else now; connect again")


def authenticated_scope(scope: Scope, caller: Caller) -> Scope:
    """Give the scope of a request whose caller is known, with the headers that are still read.

    The SDK binds a session to its ``user``: nobody else's request reaches it. The white space at
    the end of header values goes, which the parser below leaves there (RFC 9110 §5.5).
    """
    return {
        **scope,
        CALLER: caller,
        "user": _user(caller.tenant_id, caller.user_id, caller.agent),
        "headers": [
            (name, value.strip(b" \t"))
            for name, value in scope["headers"]
            if name in FORWARDED_HEADERS or name.startswith(MIRRORED)
        ],
    }


@lru_cache(maxsize=CACHED_USERS)
def _user(*who: str | None) -> AuthenticatedUser:
    return AuthenticatedUser(AccessToken(token="", client_id=to_json(who).decode(), scopes=[]))


def tenant_of(client_id: str) -> str:
    """Give the tenant of the SDK's ``user``, from what it is known by."""
    tenant_id: str = from_json(client_id)[0]
    return tenant_id


def authenticated_caller(context: Context) -> Caller:
    """Give the caller of a request that was admitted."""
    request = cast("Request", context.request)
    caller: Caller = request.scope[CALLER]
    return caller


def json_rpc_error_response(error: ProxyError, trace_id: str) -> Response:
    """Answer a request that comes no further than the entrance."""
    status = STATUS.get(error.code, 400)
    headers = {TRACE_HEADER: trace_id}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = www_authenticate(error)
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if status == 413:
        headers["Connection"] = "close"  # the rest of the body was not read
    is_json = (error.details or {}).get("field") != BODY
    error_object = {
        "code": INVALID_REQUEST if is_json else PARSE_ERROR,
        "message": error.message,
        "data": {**error.as_json, "trace_id": trace_id},
    }
    body = to_json({"jsonrpc": "2.0", "id": None, "error": error_object})
    return Response(body, status, headers, "application/json")
