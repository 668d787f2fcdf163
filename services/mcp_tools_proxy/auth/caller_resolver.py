"""Resolves the caller of requests for the HTTP API, MCP over HTTP, stdio and the connector.

Also parses the headers that identify the caller.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from mcp_tools_proxy.auth.authenticator import Authenticator, bearer_token, proven_of
from mcp_tools_proxy.domain.audit import UNKNOWN_ORIGIN, Origin
from mcp_tools_proxy.domain.caller import NO_TENANT, Caller, StandIn, narrow_documents
from mcp_tools_proxy.domain.errors import AgentRequired, Forbidden, InvalidRequest, ProxyError
from mcp_tools_proxy.domain.identity import (
    NO_ASSERTION,
    AssertedIdentity,
    CallerJwt,
    OperatorRight,
    Principal,
    roles_of,
)
from mcp_tools_proxy.wire.identifiers import DOCUMENTS_RULE, MAX_ROLES, document_ids, is_identifier

CALLER = "mcp_tools_proxy.caller"
"""Key in the ASGI scope for the resolved caller, which refusals are logged with."""

PRINCIPAL = "mcp_tools_proxy.principal"
"""Key in the ASGI scope for the principal of a request whose token was checked."""

Scope = MutableMapping[str, Any]

T = TypeVar("T")


def _unknown_origin(_scope: Scope) -> Origin:
    return UNKNOWN_ORIGIN


class CallerResolver:
    """Resolves the callers of one entry.

    ``default_tenant_id`` is the tenant of callers that name none and need no token. With
    ``admits_operators``, an operator's token without a tenant is a caller without a tenant;
    otherwise it is refused. ``origin_of`` returns the origin of a request.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        default_tenant_id: str = NO_TENANT,
        admits_operators: bool = False,
        origin_of: Callable[[Scope], Origin] = _unknown_origin,
    ) -> None:
        self._authenticator = authenticator
        self._default_tenant_id = default_tenant_id
        self._admits_operators = admits_operators
        self._origin_of = origin_of

    async def resolve(self, scope: Scope, asserted: AssertedIdentity = NO_ASSERTION) -> Caller:
        """Return the caller of an HTTP request, and store it in ``scope`` under CALLER.

        ``asserted`` is the assertion of the body, query or path. Raises InvalidRequest for a
        malformed header; Unauthenticated; Forbidden if headers and ``asserted`` differ or the token
        does not allow them; AgentRequired if the token is for several agents and the request names
        none.
        """
        caller = scope[CALLER] = await self._identify(scope, asserted, scope.get(PRINCIPAL))
        if caller.tenant_id == NO_TENANT and not self._may_be_tenantless:
            raise Forbidden("the token belongs to no tenant; send a token that does")
        return caller

    async def revalidate(self, scope: Scope, asserted: AssertedIdentity, caller: Caller) -> None:
        """Raise ProxyError if the sender of a request is no longer ``caller``.

        A token can expire, or be assigned to another user, while a stream stays open for hours.
        """
        if await self._identify(scope, asserted) != caller:
            raise Forbidden("this session was opened by another caller; connect again")

    def resolve_trusted(
        self, asserted: AssertedIdentity, origin: Origin = UNKNOWN_ORIGIN
    ) -> Caller:
        """Return the caller named by settings or command line, which need no token."""
        return Caller(
            tenant_id=asserted.tenant_id or self._default_tenant_id,
            user_id=asserted.user_id or "",
            roles=asserted.roles or (),
            agent=asserted.agent,
            origin=origin,
            documents=asserted.documents,
        )

    async def resolve_own(self, scope: Scope, asserted: AssertedIdentity) -> Caller | None:
        """Return the caller of a request if a JWT proves that the sender is that user.

        None for another user, or for a role that the JWT does not grant. Raises as ``resolve``.
        """
        authorization, _ = read_headers(scope["headers"])
        sender = await self._authenticator.authenticate(authorization)
        if sender is None or sender.own_name != (asserted.tenant_id, asserted.user_id):
            return None
        if not set(asserted.roles or ()) <= set(sender.roles):
            return None
        return await self.resolve(scope, asserted)

    def resolve_stand_in(
        self, scope: Scope, asserted: AssertedIdentity, operator: Principal
    ) -> Caller:
        """Return the caller that an operator with the right ``run`` acts for.

        The caller has no JWT, so none is exchanged for tokens. Limits of the operator's token on
        agents and documents apply. Raises Forbidden, AgentRequired.
        """
        return Caller(
            tenant_id=asserted.tenant_id or NO_TENANT,
            user_id=asserted.user_id or "",
            roles=asserted.roles or (),
            agent=_agent(operator.agents, asserted.agent),
            token_log_fields=operator.token_log_fields,
            origin=self._origin_of(scope),
            documents=narrow_documents(operator.documents, asserted.documents),
            stand_in=StandIn(
                reads_documents=OperatorRight.DOCUMENTS in operator.rights,
                user_id=operator.user_id or "",
            ),
            may_call=operator.executes,
        )

    @property
    def _may_be_tenantless(self) -> bool:
        return self._admits_operators or not self._authenticator.needs_token

    async def _identify(
        self, scope: Scope, asserted: AssertedIdentity, principal: Principal | None = None
    ) -> Caller:
        """Return the sender of a request; without ``principal``, the token is checked."""
        authorization, by_headers = read_headers(scope["headers"])
        if principal is None:
            principal = await self._authenticator.authenticate(authorization)
        if principal is None:
            return self.resolve_trusted(_merge(asserted, by_headers), self._origin_of(scope))
        try:
            return _from_token(
                principal,
                _merge(asserted, by_headers),
                origin=self._origin_of(scope),
                jwt=_jwt_of(principal, authorization),
            )
        except ProxyError as error:
            error.proven = proven_of(principal)
            raise


def _jwt_of(principal: Principal, authorization: str | None) -> CallerJwt | None:
    if principal.jwt is None or principal.own_name is None:
        return None
    issuer, expires_at = principal.jwt
    token = bearer_token(authorization) or ""
    return CallerJwt(issuer=issuer, expires_at=expires_at, token=token)


def _from_token(
    principal: Principal, asserted: AssertedIdentity, *, origin: Origin, jwt: CallerJwt | None
) -> Caller:
    """Build the caller; assertions count only if the token leaves a field open.

    Roles are open only for a token that asserts users. A token that only lacks a user has fixed
    roles; otherwise its holder could claim any role. Documents must be allowed by both. Raises
    Forbidden, AgentRequired.
    """
    if asserted.tenant_id is not None and principal.tenant_id is None:
        raise Forbidden(
            "the token belongs to no tenant; send a token of the tenant that the request names"
        )
    if asserted.tenant_id not in (None, principal.tenant_id):
        raise Forbidden(
            "the token is for another tenant; leave the tenant out, or name the token's"
        )
    if principal.user_id is not None and asserted.user_id not in (None, principal.user_id):
        raise Forbidden("the token is for another user; leave the user out, or name the token's")
    roles = (asserted.roles or ()) if principal.asserts_users else principal.roles
    if not set(asserted.roles or ()) <= set(roles):
        raise Forbidden(
            "the token does not grant every role that the request names; leave roles out, or name "
            "only those it grants"
        )
    return Caller(
        tenant_id=principal.tenant_id or NO_TENANT,
        user_id=principal.user_id or asserted.user_id or "",
        roles=roles,
        agent=_agent(principal.agents, asserted.agent),
        token_log_fields=principal.token_log_fields,
        origin=origin,
        documents=narrow_documents(principal.documents, asserted.documents),
        jwt=jwt,
        jwt_claims=principal.jwt_claims,
        user_is_unproved=bool(asserted.user_id)
        and principal.user_id is None
        and not principal.asserts_users,
        may_call=principal.executes,
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
        raise Forbidden("the token does not allow this agent; name an agent that it allows")
    return asserted


def _merge(one: AssertedIdentity, other: AssertedIdentity) -> AssertedIdentity:
    """Merge the assertions of two parts of a request. Raises Forbidden if they differ.

    Documents can differ: those in both parts remain.
    """
    if one is NO_ASSERTION or other is NO_ASSERTION:
        return other if one is NO_ASSERTION else one
    return AssertedIdentity(
        tenant_id=_merge_field("tenant_id", one.tenant_id, other.tenant_id),
        user_id=_merge_field("user_id", one.user_id, other.user_id),
        roles=_merge_field("roles", one.roles, other.roles),
        agent=_merge_field("agent", one.agent, other.agent),
        documents=narrow_documents(one.documents, other.documents),
    )


def _merge_field(name: str, one: T | None, other: T | None) -> T | None:
    if one is None or other is None or one == other:
        return other if one is None else one
    raise Forbidden(f"the request has two different values for {name}; keep one")


TENANT_HEADER = "X-Tenant-Id"
USER_HEADER = "X-User-Id"
ROLES_HEADER = "X-User-Roles"
AGENT_HEADER = "X-Agent-Id"
DOCUMENTS_HEADER = "X-Documents"
AUTHORIZATION = "Authorization"

_AUTHORIZATION_KEY = AUTHORIZATION.lower().encode()

MAX_CACHED = 1_000

MAX_CACHED_BYTES = 1024
"""Longer headers are not cached: 1,000 requests with 60 kB of roles each kept 1.2 GB."""

_NAMES = {
    name.lower().encode(): name
    for name in (
        *(TENANT_HEADER, USER_HEADER, ROLES_HEADER, AGENT_HEADER),
        *(DOCUMENTS_HEADER, AUTHORIZATION),
    )
}


def read_authorization(raw: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the value of ``Authorization``. Raises InvalidRequest for a repeated one.

    No other header is parsed before the token is checked.
    """
    values = [value for key, value in raw if key == _AUTHORIZATION_KEY]
    if len(values) > 1:
        raise _invalid(AUTHORIZATION, "is given twice; keep one")
    return values[0].strip(b" \t").decode("latin-1") if values else None


def read_headers(raw: Sequence[tuple[bytes, bytes]]) -> tuple[str | None, AssertedIdentity]:
    """Return the value of ``Authorization`` and the identity that the ``X-*`` headers assert.

    ``raw`` are ASGI's pairs, names in lower case. Values of ``X-*-Id`` are UTF-8 identifiers
    (contract §1, input rules). ``X-User-Roles`` is comma-separated; commas, percent signs, and
    everything other than printable ASCII in a role are percent-encoded. ``X-Documents`` has ids in
    the same form; if empty, it allows no document. Raises InvalidRequest naming the header, also
    for a repeated one: a proxy in front may have checked the other value.
    """
    by_key = dict(raw)
    if len(by_key) != len(raw):
        _refuse_repeated(raw)
    found = {
        _NAMES[key]: by_key[key].strip(b" \t")  # httptools leaves white space (RFC 9110 §5.5)
        for key in by_key.keys() & _NAMES.keys()
    }
    if not found:
        return None, NO_ASSERTION
    authorization = found.pop(AUTHORIZATION, None)
    documents = found.pop(DOCUMENTS_HEADER, None)
    assertion = NO_ASSERTION
    if found:
        is_short = sum(map(len, found.values())) <= MAX_CACHED_BYTES
        read = _assertion if is_short else _assertion.__wrapped__
        names = (TENANT_HEADER, USER_HEADER, ROLES_HEADER, AGENT_HEADER)
        assertion = read(*map(found.get, names))
    if documents is not None:  # not cached: long, and specific to one conversation
        assertion = replace(assertion, documents=_documents(documents))
    return (None if authorization is None else authorization.decode("latin-1")), assertion


def _refuse_repeated(raw: Sequence[tuple[bytes, bytes]]) -> None:
    seen = set()
    for key, _ in raw:
        if key in seen:
            raise _invalid(_NAMES[key], "is given twice; keep one")
        if key in _NAMES:
            seen.add(key)


@lru_cache(maxsize=MAX_CACHED)
def _assertion(
    tenant: bytes | None, user: bytes | None, roles: bytes | None, agent: bytes | None
) -> AssertedIdentity:
    return AssertedIdentity(
        tenant_id=_identifier(TENANT_HEADER, tenant),
        user_id=_identifier(USER_HEADER, user),
        roles=_roles(roles),
        agent=_identifier(AGENT_HEADER, agent),
    )


def _identifier(name: str, value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise _invalid(name, "is not UTF-8") from None
    if not is_identifier(text):
        raise _invalid(name, "should be 1-256 characters without control characters")
    return text


def _roles(value: bytes | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not value:
        return ()
    if value.count(b",") >= MAX_ROLES:
        raise _invalid(ROLES_HEADER, f"names over {MAX_ROLES} roles, the limit; name fewer")
    texts = _texts(ROLES_HEADER, value)
    if not all(map(is_identifier, texts)):
        raise _invalid(
            ROLES_HEADER,
            "should be roles of 1-256 characters without control characters, separated by commas",
        )
    return roles_of(texts)


def _documents(value: bytes) -> frozenset[str]:
    if not value:
        return frozenset()
    texts = _texts(DOCUMENTS_HEADER, value)
    try:
        return document_ids(texts)
    except ValueError:
        raise _invalid(DOCUMENTS_HEADER, f"{DOCUMENTS_RULE}, separated by commas") from None


def _texts(name: str, value: bytes) -> list[str]:
    try:
        return [unquote_to_bytes(part.strip(b" \t")).decode() for part in value.split(b",")]
    except UnicodeDecodeError:
        raise _invalid(name, "is not UTF-8") from None


def _invalid(name: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{name}: {problem}", details={"field": name})
