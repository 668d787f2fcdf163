"""Resolves the caller of an HTTP request from its body or query, its headers and its token."""

from dataclasses import replace

from starlette.requests import Request

from mcp_tools_proxy.api.models import CallerQuery, RequestContext
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.auth.identity_headers import read_headers
from mcp_tools_proxy.domain.caller import ANY_TENANT, NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import Forbidden, InvalidRequest
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity
from mcp_tools_proxy.web.request_refusals import CALLER


async def resolve_caller(
    authenticator: Authenticator, request: Request, context: RequestContext
) -> Caller:
    """Return the caller of a request with a body; tenant and user are always set.

    Raises InvalidRequest naming a missing field, Unauthenticated, Forbidden, AgentRequired.
    """
    caller = await _caller(authenticator, request, _assertion_of(context))
    if caller.tenant_id != NO_TENANT and caller.user_id:
        return caller
    field = "user.user_id"
    if caller.tenant_id == NO_TENANT:
        field = "user.tenant_id" if caller.user_id or context.user is not None else "user"
    raise InvalidRequest(f"{field}: is missing", details={"field": field})


async def resolve_list_caller(
    authenticator: Authenticator, request: Request, query: CallerQuery
) -> Caller:
    """Return the caller of a list; ANY_TENANT if none is named, as all tenants see the same list.

    Raises InvalidRequest, Unauthenticated, Forbidden, AgentRequired.
    """
    by_query = AssertedIdentity(tenant_id=query.tenant_id, user_id=query.user_id, agent=query.agent)
    caller = await _caller(authenticator, request, by_query)
    return replace(caller, tenant_id=caller.tenant_id or ANY_TENANT)


async def require_authentication(authenticator: Authenticator, request: Request) -> bool:
    """Check the token where callers need one; return whether the caller is an operator.

    Where callers need no token, each counts as an operator. Raises InvalidRequest, Unauthenticated.
    """
    authorization, _ = read_headers(request.headers.raw)
    principal = await authenticator.authenticate(authorization)
    return principal is None or principal.is_admin


async def _caller(
    authenticator: Authenticator, request: Request, assertion: AssertedIdentity
) -> Caller:
    authorization, by_headers = read_headers(request.headers.raw)
    caller = await authenticator.resolve_caller(authorization, assertion, by_headers)
    request.scope[CALLER] = caller
    if authenticator.needs_token and caller.tenant_id == NO_TENANT:
        raise Forbidden("the token belongs to no tenant; use one of a tenant")
    return caller


def _assertion_of(context: RequestContext) -> AssertedIdentity:
    user = context.user
    if user is None:
        return NO_ASSERTION if context.agent is None else AssertedIdentity(agent=context.agent)
    return AssertedIdentity(
        tenant_id=user.tenant_id,
        user_id=user.user_id,
        roles=None if user.roles is None else tuple(user.roles),
        agent=context.agent,
    )
