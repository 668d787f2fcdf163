"""From a request to its caller: what its body or query, its headers and its token say."""

from dataclasses import replace

from starlette.requests import Request

from mcp_tools_proxy.api.models import CallerQuery, RequestContext
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.caller import ANY_TENANT, NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import Forbidden, InvalidRequest
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity
from mcp_tools_proxy.web.identity_headers import read_headers
from mcp_tools_proxy.web.request_refusals import CALLER


async def resolve_caller(
    identity: Authenticator, request: Request, context: RequestContext
) -> Caller:
    """Give the caller of a request with a body, who has a tenant and a user.

    Raises InvalidRequest naming what nobody says, Unauthenticated, Forbidden, AgentRequired.
    """
    caller = await _caller(identity, request, _assertion_of(context))
    if caller.tenant_id != NO_TENANT and caller.user_id:
        return caller
    field = "user.user_id"
    if caller.tenant_id == NO_TENANT:
        field = "user.tenant_id" if caller.user_id or context.user is not None else "user"
    raise InvalidRequest(f"{field}: is missing", details={"field": field})


async def resolve_list_caller(
    identity: Authenticator, request: Request, query: CallerQuery
) -> Caller:
    """Give whom a list is for: some tenant where none is named, since each is shown the same.

    Raises InvalidRequest, Unauthenticated, Forbidden, AgentRequired.
    """
    by_query = AssertedIdentity(tenant_id=query.tenant_id, user_id=query.user_id, agent=query.agent)
    caller = await _caller(identity, request, by_query)
    return replace(caller, tenant_id=caller.tenant_id or ANY_TENANT)


async def require_authentication(identity: Authenticator, request: Request) -> bool:
    """Refuse who has to prove who it is and does not; return whether it is an operator.

    Where nobody has to, everybody is one. Raises InvalidRequest, Unauthenticated.
    """
    authorization, _ = read_headers(request.headers.raw)
    principal = await identity.authenticate(authorization)
    return principal is None or principal.is_admin


async def _caller(identity: Authenticator, request: Request, assertion: AssertedIdentity) -> Caller:
    authorization, by_headers = read_headers(request.headers.raw)
    caller = await identity.resolve_caller(authorization, assertion, by_headers)
    request.scope[CALLER] = caller
    if identity.needs_token and caller.tenant_id == NO_TENANT:
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
