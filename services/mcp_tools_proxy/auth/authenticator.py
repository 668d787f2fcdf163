"""Who calls: the one place that decides it, for every entry of the gateway."""

from collections.abc import Mapping
from typing import TypeVar

from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import AgentRequired, Forbidden, ProxyError, Unauthenticated
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity, Principal, TokenVerifier

T = TypeVar("T")


class Authenticator:
    """Makes the caller of a request, from what its parts say and what its token proves.

    Without a ``verifier`` what the request says is believed: a network of friends.
    """

    def __init__(self, verifier: TokenVerifier | None = None) -> None:
        self._verifier = verifier

    @property
    def needs_token(self) -> bool:
        """Whether callers prove who they are (``auth_mode`` token or jwt)."""
        return self._verifier is not None

    async def authenticate(self, authorization: str | None) -> Principal | None:
        """Give whom the ``Authorization`` header's value stands for; None where none is asked for.

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
        """Return whether a token is known to be good, or none is asked for."""
        return self._verifier is None or self._verifier.is_known(token)

    def may_be_good(self, token: str) -> bool:
        """Return whether an unknown token can be good, without checking its signature."""
        return self._verifier is not None and self._verifier.may_be_good(token)

    async def resolve_caller(self, authorization: str | None, *said: AssertedIdentity) -> Caller:
        """Give the caller; ``authorization`` is the header's value, ``said`` what each part says.

        Raises Unauthenticated; Forbidden when two parts differ, or the token does not allow what
        they say; AgentRequired when the token is for several agents and no part names one.
        """
        principal = None if self._verifier is None else await self.authenticate(authorization)
        if principal is None:
            return _from_assertions(_merge_all(said))
        try:
            return _from_token(principal, _merge_all(said))
        except ProxyError as error:
            error.proven = proven_of(principal)
            raise


def proven_of(principal: Principal) -> Mapping[str, str]:
    """Return what the log says of a caller who proved who it is, and is refused."""
    tenant = {} if principal.tenant_id is None else {"tenant_id": principal.tenant_id}
    return {**tenant, **principal.proof}


def bearer_token(authorization: str | None) -> str | None:
    """Give the token of an ``Authorization`` header's value; None when it holds none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _from_assertions(said: AssertedIdentity) -> Caller:
    return Caller(
        tenant_id=said.tenant_id or NO_TENANT,
        user_id=said.user_id or "",
        roles=said.roles or (),
        agent=said.agent,
    )


def _from_token(principal: Principal, said: AssertedIdentity) -> Caller:
    """Take from what is said only what the token leaves open. Raises Forbidden, AgentRequired."""
    if said.tenant_id is not None and principal.tenant_id is None:
        raise Forbidden("the token belongs to no tenant; use one of that tenant")
    if said.tenant_id not in (None, principal.tenant_id):
        raise Forbidden(
            "the token is for another tenant; leave the tenant out, or name the token's"
        )
    if principal.user_id is not None and said.user_id not in (None, principal.user_id):
        raise Forbidden("the token is for another user; leave the user out, or name the token's")
    if not set(said.roles or ()) <= set(principal.roles):
        raise Forbidden("the token does not give every role that is named; leave roles out")
    return Caller(
        tenant_id=principal.tenant_id or NO_TENANT,
        user_id=principal.user_id or said.user_id or "",
        roles=principal.roles,
        agent=_agent(principal.agents, said.agent),
        proof=principal.proof,
    )


def _agent(allowed: frozenset[str] | None, said: str | None) -> str | None:
    if allowed is None:
        return said
    if said is None and len(allowed) == 1:
        (only,) = allowed
        return only
    if said is None and allowed:
        raise AgentRequired("the token is for several agents; name one of them")
    if said not in allowed:
        raise Forbidden("the token is not for this agent; name one that it is for")
    return said


def _merge_all(said: tuple[AssertedIdentity, ...]) -> AssertedIdentity:
    """Join what the parts of a request say. Raises Forbidden when two of them differ."""
    whole = NO_ASSERTION
    for part in said:
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


def _merge_field(what: str, one: T | None, other: T | None) -> T | None:
    if one is None or other is None or one == other:
        return other if one is None else one
    raise Forbidden(f"the request names two different values of {what}; name one")
