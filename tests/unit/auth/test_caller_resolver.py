"""Caller identity: asserted headers, the token's claims, and requirements of the entry."""

from collections.abc import Mapping
from contextlib import suppress

import pytest

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.auth.caller_resolver import CALLER, CallerResolver, Scope
from mcp_tools_proxy.domain.caller import ANY_TENANT, NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import AgentRequired, Forbidden, Unauthenticated
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity, Principal
from tests.support.tables import each_row

GOOD = {"Authorization": "Bearer good"}
OPEN = CallerResolver(Authenticator())
"""For an entry that requires no token."""


def scope_of(headers: Mapping[str, str]) -> Scope:
    return {"headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()]}


async def resolved(
    callers: CallerResolver,
    asserted: AssertedIdentity = NO_ASSERTION,
    headers: Mapping[str, str] = GOOD,
) -> Caller:
    """Resolve the caller of a request with these headers and this assertion."""
    return await callers.resolve(scope_of(headers), asserted)


class OneToken:
    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def verify(self, token: str) -> Principal:
        if token != "good":
            raise Unauthenticated("the token is not known", token_refused=True)
        return self._principal


def resolver_for(
    *,
    tenant_id: str | None = "acme",
    user_id: str | None = None,
    roles: tuple[str, ...] = (),
    asserts_users: bool = False,
    agents: frozenset[str] | None = None,
    admits_operators: bool = False,
) -> CallerResolver:
    """Build a resolver whose only token, ``good``, has these claims."""
    principal = Principal(
        tenant_id=tenant_id,
        user_id=user_id,
        roles=roles,
        asserts_users=asserts_users,
        agents=agents,
        token_log_fields={"token_id": "t-1"},
    )
    return CallerResolver(
        Authenticator(OneToken(principal)),
        default_tenant_id="the default",
        admits_operators=admits_operators,
    )


async def test_without_a_verifier_an_asserted_identity_is_trusted() -> None:
    asserted = AssertedIdentity(tenant_id="acme", user_id="u", roles=("r",), agent="reader")
    assert await resolved(OPEN, asserted, {}) == Caller(
        tenant_id="acme", user_id="u", roles=("r",), agent="reader"
    )


async def test_identities_from_several_parts_are_merged() -> None:
    headers = {"X-Tenant-Id": "acme", "X-User-Id": "u"}
    caller = await resolved(OPEN, AssertedIdentity(tenant_id="acme", agent="reader"), headers)
    assert caller == Caller(tenant_id="acme", user_id="u", agent="reader")


@each_row(
    ("header", "asserted"),
    [
        ("X-Tenant-Id", AssertedIdentity(tenant_id="b")),
        ("X-User-Id", AssertedIdentity(user_id="b")),
        ("X-Agent-Id", AssertedIdentity(agent="b")),
    ],
)
async def test_contradicting_identities_are_forbidden(
    header: str, asserted: AssertedIdentity
) -> None:
    with pytest.raises(Forbidden):
        await resolved(OPEN, asserted, {header: "a"})


async def test_without_a_verifier_a_token_is_ignored() -> None:
    caller = await resolved(OPEN, AssertedIdentity(tenant_id="other"))
    assert caller.tenant_id == "other"


@each_row(
    "headers",
    [{}, *({"Authorization": value} for value in ("", "Bearer", "Bearer ", "Basic good", "good"))],
)
async def test_a_request_without_a_token_is_unauthenticated(headers: Mapping[str, str]) -> None:
    with pytest.raises(Unauthenticated) as caught:
        await resolved(resolver_for(), AssertedIdentity(tenant_id="acme"), headers)
    assert caught.value.token_refused is False


@each_row("value", ["Bearer good", "bearer good", "BEARER   good "])
async def test_the_scheme_in_the_header_is_case_insensitive(value: str) -> None:
    assert (await resolved(resolver_for(), headers={"Authorization": value})).tenant_id == "acme"


async def test_the_tenant_comes_from_the_token() -> None:
    assert (await resolved(resolver_for(), AssertedIdentity(tenant_id="acme"))).tenant_id == "acme"


async def test_asserting_a_tenant_other_than_the_tokens_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await resolved(resolver_for(), AssertedIdentity(tenant_id="rival"))


async def test_a_token_without_a_tenant_cannot_act_for_one() -> None:
    with pytest.raises(Forbidden):
        await resolved(resolver_for(tenant_id=None), AssertedIdentity(tenant_id="acme"))


async def test_a_token_without_a_user_accepts_the_asserted_user() -> None:
    assert (await resolved(resolver_for(), AssertedIdentity(user_id="u"))).user_id == "u"


async def test_the_user_comes_from_the_token() -> None:
    assert (await resolved(resolver_for(user_id="u"))).user_id == "u"


async def test_asserting_a_user_other_than_the_tokens_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await resolved(resolver_for(user_id="u"), AssertedIdentity(user_id="v"))


async def test_roles_come_from_the_token() -> None:
    caller = await resolved(resolver_for(roles=("a", "b")), AssertedIdentity(roles=("a",)))
    assert caller.roles == ("a", "b")


async def test_asserting_a_role_that_the_token_lacks_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await resolved(resolver_for(roles=("a",)), AssertedIdentity(roles=("a", "b")))


async def test_a_token_without_a_user_does_not_accept_asserted_roles() -> None:
    asserted = AssertedIdentity(user_id="u")
    caller = await resolved(resolver_for(roles=("a",)), asserted)
    assert (caller.user_id, caller.roles) == ("u", ("a",))
    with pytest.raises(Forbidden):
        await resolved(resolver_for(), AssertedIdentity(user_id="u", roles=("a",)))


@each_row("roles", [("a", "b"), (), None])
async def test_a_token_that_asserts_users_accepts_asserted_user_and_roles(
    roles: tuple[str, ...] | None,
) -> None:
    asserted = AssertedIdentity(tenant_id="acme", user_id="u", roles=roles)
    caller = await resolved(resolver_for(asserts_users=True), asserted)
    assert caller == Caller(tenant_id="acme", user_id="u", roles=roles or ())


async def test_a_token_that_asserts_users_is_limited_to_its_tenant() -> None:
    with pytest.raises(Forbidden):
        await resolved(resolver_for(asserts_users=True), AssertedIdentity(tenant_id="rival"))


@each_row(
    ("agents", "asserted", "agent"),
    [
        (None, None, None),
        (None, "any", "any"),
        (frozenset({"one"}), None, "one"),
        (frozenset({"one"}), "one", "one"),
        (frozenset({"one", "two"}), "two", "two"),
    ],
)
async def test_the_agent_must_be_one_of_the_tokens(
    agents: frozenset[str] | None, asserted: str | None, agent: str | None
) -> None:
    caller = await resolved(resolver_for(agents=agents), AssertedIdentity(agent=asserted))
    assert caller.agent == agent


@each_row(
    ("agents", "asserted"),
    [
        (frozenset({"one"}), "two"),
        (frozenset({"one", "two"}), "three"),
        (frozenset(), "one"),
        (frozenset(), None),
    ],
)
async def test_an_agent_that_the_token_does_not_list_is_forbidden(
    agents: frozenset[str], asserted: str | None
) -> None:
    with pytest.raises(Forbidden):
        await resolved(resolver_for(agents=agents), AssertedIdentity(agent=asserted))


async def test_a_token_for_several_agents_requires_the_request_to_name_one() -> None:
    with pytest.raises(AgentRequired):
        await resolved(resolver_for(agents=frozenset({"one", "two"})))


async def test_error_messages_do_not_reveal_the_tokens_tenant() -> None:
    with pytest.raises(Forbidden) as caught:
        await resolved(resolver_for(tenant_id="hush"), AssertedIdentity(tenant_id="rival"))
    assert "hush" not in caught.value.message


@each_row("tenant_id", ["acme", None])
async def test_a_refused_caller_is_stored_in_the_scope_too(
    tenant_id: str | None,
) -> None:
    scope = scope_of(GOOD)
    with suppress(Forbidden):
        await resolver_for(tenant_id=tenant_id).resolve(scope)
    assert (scope[CALLER].tenant_id, scope[CALLER].token_log_fields) == (
        tenant_id or "",
        {"token_id": "t-1"},
    )


async def test_a_refusal_records_the_verified_token() -> None:
    with pytest.raises(Forbidden) as caught:
        await resolved(resolver_for(), AssertedIdentity(tenant_id="rival"))
    assert caught.value.proven == {"tenant_id": "acme", "token_id": "t-1"}


async def test_without_tokens_a_caller_without_a_tenant_gets_the_default_tenant() -> None:
    callers = CallerResolver(Authenticator(), default_tenant_id=ANY_TENANT)
    assert (await resolved(callers)).tenant_id == ANY_TENANT
    assert (await resolved(OPEN)).tenant_id == NO_TENANT


async def test_an_operators_token_does_not_get_the_default_tenant() -> None:
    caller = await resolved(resolver_for(tenant_id=None, admits_operators=True))
    assert caller.tenant_id == NO_TENANT


async def test_an_operators_token_is_refused_if_the_entry_requires_a_tenant() -> None:
    with pytest.raises(Forbidden):
        await resolved(resolver_for(tenant_id=None))


async def test_revalidation_accepts_the_same_caller_only() -> None:
    callers, scope = resolver_for(user_id="u"), scope_of(GOOD)
    caller = await callers.resolve(scope)
    await callers.revalidate(scope, NO_ASSERTION, caller)
    with pytest.raises(Forbidden):
        await resolver_for(user_id="v").revalidate(scope, NO_ASSERTION, caller)
    assert scope[CALLER] is caller


@each_row(
    ("asserted", "tenant_id"),
    [(NO_ASSERTION, "the default"), (AssertedIdentity(tenant_id="acme"), "acme")],
)
def test_a_caller_named_in_the_settings_needs_no_token(
    asserted: AssertedIdentity, tenant_id: str
) -> None:
    assert resolver_for().resolve_trusted(asserted) == Caller(tenant_id=tenant_id, user_id="")
