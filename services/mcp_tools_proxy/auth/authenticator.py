"""Decides who calls: the one place for every entry of the gateway."""

from collections.abc import Mapping
from typing import TypeVar

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import AgentRequired, Forbidden, ProxyError, Unauthenticated
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity, Principal, TokenVerifier

T = TypeVar("T")


class Authenticator:
    """Resolves the caller of a request from its token and from the identities that it asserts.

    Without a ``verifier`` (``auth_mode`` none) assertions are believed: for trusted networks.
    """

    def __init__(self, verifier: TokenVerifier | None = None) -> None:
        self._verifier = verifier

    @property
    def needs_token(self) -> bool:
        """Whether callers must send a token (``auth_mode`` token or jwt)."""
        return self._verifier is not None

    async def authenticate(self, authorization: str | None) -> Principal | None:
        """Return the principal of an ``Authorization`` header's value; None if no token is needed.

        Raises Unauthenticated.
        """
        if self._verifier is None:
            return None
        token = bearer_token(authorization)
        if token is None:
            raise Unauthenticated("this service needs a token; send Authorization: Bearer <token>")
        return await self._verifier.verify(token)

    async def verify(self, token: str) -> None:
        """Check a token. Raises Unauthenticated."""
        if self._verifier is not None:
            await self._verifier.verify(token)

    def is_known(self, token: str) -> bool:
        """Return whether a token is known to be good, or none is needed."""
        return self._verifier is None or self._verifier.is_known(token)

    def may_be_good(self, token: str) -> bool:
        """Return whether an unknown token can be good, without checking its signature."""
        return self._verifier is not None and self._verifier.may_be_good(token)

    async def resolve_caller(
        self, authorization: str | None, *asserted: AssertedIdentity
    ) -> Caller:
        """Return the caller of a request.

        ``authorization`` is the header's value, ``asserted`` what each part of the request (body,
        headers, path) asserts. Raises Unauthenticated; Forbidden if two parts differ or the token
        does not allow what they assert; AgentRequired if the token is for several agents and no
        part names one.
        """
        principal = None if self._verifier is None else await self.authenticate(authorization)
        if principal is None:
            return _from_assertions(_merge_all(asserted))
        try:
            return _from_token(principal, _merge_all(asserted))
        except ProxyError as error:
            error.proven = proven_of(principal)
            raise


def proven_of(principal: Principal) -> Mapping[str, str]:
    """Return the log fields of a caller whose token is good and whose request is refused."""
    tenant = {} if principal.tenant_id is None else {"tenant_id": principal.tenant_id}
    return {**tenant, **principal.proof}


def bearer_token(authorization: str | None) -> str | None:
    """Return the token of an ``Authorization`` header's value; None if it has none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _from_assertions(asserted: AssertedIdentity) -> Caller:
    return Caller(
        tenant_id=asserted.tenant_id or NO_TENANT,
        user_id=asserted.user_id or "",
        roles=asserted.roles or (),
        agent=asserted.agent,
    )


def _from_token(principal: Principal, asserted: AssertedIdentity) -> Caller:
    """Build the caller; assertions count only where the token leaves a field open.

    Raises Forbidden, AgentRequired.
    """
    if asserted.tenant_id is not None and principal.tenant_id is None:
        raise Forbidden("the token belongs to no tenant; use one of that tenant")
    if asserted.tenant_id not in (None, principal.tenant_id):
        raise Forbidden(
            "the token is for another tenant; leave the tenant out, or name the token's"
        )
    if principal.user_id is not None and asserted.user_id not in (None, principal.user_id):
        raise Forbidden("the token is for another user; leave the user out, or name the token's")
    if not set(asserted.roles or ()) <= set(principal.roles):
        raise Forbidden("the token does not give every role that is named; leave roles out")
    return Caller(
        tenant_id=principal.tenant_id or NO_TENANT,
        user_id=principal.user_id or asserted.user_id or "",
        roles=principal.roles,
        agent=_agent(principal.agents, asserted.agent),
        proof=principal.proof,
    )


def _agent(allowed: frozenset[str] | None, asserted: str | None) -> str | None:
    if allowed is None:
        return asserted
    if asserted is None and len(allowed) == 1:
        (only,) = allowed
        return only
    if asserted is None and allowed:
        raise AgentRequired("the token is for several agents; name one of them")
    if asserted not in allowed:
        raise Forbidden("the token is not for this agent; name one that it is for")
    return asserted


def _merge_all(asserted: tuple[AssertedIdentity, ...]) -> AssertedIdentity:
    """Merge what the parts of a request assert. Raises Forbidden if two of them differ."""
    whole = NO_ASSERTION
    for part in asserted:
        if part is not NO_ASSERTION:
            whole = part if whole is NO_ASSERTION else _merge(whole, part)
    return whole


def _merge(one: AssertedIdentity, other: AssertedIdentity) -> AssertedIdentity:
    return AssertedIdentity(
        tenant_id=_merge_field("tenant_id", one.tenant_id, other.tenant_id),
        user_id=_merge_field("user_id", one.user_id, other.user_id),
        roles=_merge_field("roles", one.roles, other.roles),
        agent=_merge_field("agent", one.agent, other.agent),
    )


def _merge_field(name: str, one: T | None, other: T | None) -> T | None:
    if one is None or other is None or one == other:
        return other if one is None else one
    raise Forbidden(f"the request names two different values of {name}; name one")
