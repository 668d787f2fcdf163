"""Resolves the caller of a request to the HTTP API: what body and query assert, what is missing."""

from collections.abc import Sequence

from starlette.requests import Request

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.models import CallerQuery, RequestContext
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.auth.caller_resolver import CallerResolver, read_headers
from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity, roles_of


async def resolve_user(callers: CallerResolver, parsed: ParsedRequest[RequestContext]) -> Caller:
    """Return the caller of a request with a body; tenant and user are always set.

    Raises InvalidRequest naming a missing field, Unauthenticated, Forbidden, AgentRequired.
    """
    context = parsed.body
    caller = await callers.resolve(parsed.request.scope, asserted_by_body(context))
    if caller.tenant_id != NO_TENANT and caller.user_id:
        return caller
    field = "user.user_id"
    if caller.tenant_id == NO_TENANT:
        field = "user.tenant_id" if caller.user_id or context.user is not None else "user"
    raise InvalidRequest(f"{field}: is missing", details={"field": field})


def require_user(asserted: AssertedIdentity) -> None:
    """Raise InvalidRequest if a body that stands for somebody does not name tenant and user."""
    for field, value in (
        ("user.tenant_id", asserted.tenant_id),
        ("user.user_id", asserted.user_id),
    ):
        if value is None:
            raise InvalidRequest(f"{field}: is missing", details={"field": field})


def asserted_by_query(query: CallerQuery) -> AssertedIdentity:
    """Return the identity that the query of a list asserts."""
    return AssertedIdentity(
        tenant_id=query.tenant_id,
        user_id=query.user_id,
        roles=None if query.roles is None else roles_of(query.roles),
        agent=query.agent,
        documents=_documents(query.documents),
    )


async def require_authentication(authenticator: Authenticator, request: Request) -> bool:
    """Check the token where callers need one; return whether the caller is an operator.

    Where callers need no token, each counts as an operator. Raises InvalidRequest, Unauthenticated.
    """
    authorization, _ = read_headers(request.headers.raw)
    return await authenticator.is_operator(authorization)


def asserted_by_body(context: RequestContext) -> AssertedIdentity:
    """Return the identity that a body asserts."""
    user, documents = context.user, _documents(context.documents)
    if user is None:
        if context.agent is None and documents is None:
            return NO_ASSERTION
        return AssertedIdentity(agent=context.agent, documents=documents)
    return AssertedIdentity(
        tenant_id=user.tenant_id,
        user_id=user.user_id,
        roles=None if user.roles is None else roles_of(user.roles),
        agent=context.agent,
        documents=documents,
    )


def _documents(ids: Sequence[str] | None) -> frozenset[str] | None:
    return None if ids is None else frozenset(ids)
