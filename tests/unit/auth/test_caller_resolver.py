"""Who calls: what a request asserts, what a token proves, and what the entry requires."""

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
"""Of an entry whose callers need no token."""


def scope_of(headers: Mapping[str, str]) -> Scope:
    """Build the ASGI scope of a request with these headers."""
    return {"headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()]}


async def resolved(
    callers: CallerResolver,
    asserted: AssertedIdentity = NO_ASSERTION,
    headers: Mapping[str, str] = GOOD,
) -> Caller:
    """Return the caller of a request with these headers, which asserts this besides."""
    return await callers.resolve(scope_of(headers), asserted)


class OneToken:
    """Knows one token, ``good``."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def verify(self, token: str) -> Principal:
        if token != "good":
            raise Unauthenticated("the token is not known", token_refused=True)
        return self._principal


def proving(
    *,
    tenant_id: str | None = "acme",
    user_id: str | None = None,
    roles: tuple[str, ...] = (),
    asserts_users: bool = False,
    agents: frozenset[str] | None = None,
    admits_operators: bool = False,
) -> CallerResolver:
    """Build a resolver for which the token ``good`` proves this."""
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


async def test_without_a_verifier_what_is_said_is_believed() -> None:
    asserted = AssertedIdentity(tenant_id="acme", user_id="u", roles=("r",), agent="reader")
    assert await resolved(OPEN, asserted, {}) == Caller(
        tenant_id="acme", user_id="u", roles=("r",), agent="reader"
    )


async def test_parts_complete_each_other() -> None:
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
async def test_two_parts_that_differ_are_forbidden(header: str, asserted: AssertedIdentity) -> None:
    with pytest.raises(Forbidden):
        await resolved(OPEN, asserted, {header: "a"})


async def test_without_a_verifier_a_token_means_nothing() -> None:
    caller = await resolved(OPEN, AssertedIdentity(tenant_id="other"))
    assert caller.tenant_id == "other"


@each_row(
    "headers",
    [{}, *({"Authorization": value} for value in ("", "Bearer", "Bearer ", "Basic good", "good"))],
)
async def test_who_sends_no_token_is_told_that_one_is_needed(headers: Mapping[str, str]) -> None:
    with pytest.raises(Unauthenticated) as caught:
        await resolved(proving(), AssertedIdentity(tenant_id="acme"), headers)
    assert caught.value.token_refused is False


@each_row("value", ["Bearer good", "bearer good", "BEARER   good "])
async def test_the_scheme_is_read_in_any_case(value: str) -> None:
    assert (await resolved(proving(), headers={"Authorization": value})).tenant_id == "acme"


async def test_the_tenant_is_the_tokens() -> None:
    assert (await resolved(proving(), AssertedIdentity(tenant_id="acme"))).tenant_id == "acme"


async def test_another_tenant_than_the_tokens_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await resolved(proving(), AssertedIdentity(tenant_id="rival"))


async def test_a_token_of_no_tenant_acts_for_none() -> None:
    with pytest.raises(Forbidden):
        await resolved(proving(tenant_id=None), AssertedIdentity(tenant_id="acme"))


async def test_a_token_without_a_user_takes_the_one_that_is_said() -> None:
    assert (await resolved(proving(), AssertedIdentity(user_id="u"))).user_id == "u"


async def test_the_tokens_user_wins() -> None:
    assert (await resolved(proving(user_id="u"))).user_id == "u"


async def test_another_user_than_the_tokens_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await resolved(proving(user_id="u"), AssertedIdentity(user_id="v"))


async def test_roles_are_the_tokens() -> None:
    caller = await resolved(proving(roles=("a", "b")), AssertedIdentity(roles=("a",)))
    assert caller.roles == ("a", "b")


async def test_a_role_beyond_the_tokens_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await resolved(proving(roles=("a",)), AssertedIdentity(roles=("a", "b")))


async def test_a_token_without_a_user_believes_no_role_that_is_said() -> None:
    asserted = AssertedIdentity(user_id="u")
    caller = await resolved(proving(roles=("a",)), asserted)
    assert (caller.user_id, caller.roles) == ("u", ("a",))
    with pytest.raises(Forbidden):
        await resolved(proving(), AssertedIdentity(user_id="u", roles=("a",)))


@each_row("roles", [("a", "b"), (), None])
async def test_a_token_that_asserts_users_believes_user_and_roles_as_they_are_said(
    roles: tuple[str, ...] | None,
) -> None:
    asserted = AssertedIdentity(tenant_id="acme", user_id="u", roles=roles)
    caller = await resolved(proving(asserts_users=True), asserted)
    assert caller == Caller(tenant_id="acme", user_id="u", roles=roles or ())


async def test_a_token_that_asserts_users_acts_for_its_own_tenant_only() -> None:
    with pytest.raises(Forbidden):
        await resolved(proving(asserts_users=True), AssertedIdentity(tenant_id="rival"))


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
async def test_the_agent_is_one_that_the_token_is_for(
    agents: frozenset[str] | None, asserted: str | None, agent: str | None
) -> None:
    caller = await resolved(proving(agents=agents), AssertedIdentity(agent=asserted))
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
async def test_an_agent_that_the_token_is_not_for_is_forbidden(
    agents: frozenset[str], asserted: str | None
) -> None:
    with pytest.raises(Forbidden):
        await resolved(proving(agents=agents), AssertedIdentity(agent=asserted))


async def test_a_token_for_several_agents_needs_one_to_be_named() -> None:
    with pytest.raises(AgentRequired):
        await resolved(proving(agents=frozenset({"one", "two"})))


async def test_no_message_names_what_the_token_stands_for() -> None:
    with pytest.raises(Forbidden) as caught:
        await resolved(proving(tenant_id="hush"), AssertedIdentity(tenant_id="rival"))
    assert "hush" not in caught.value.message


@each_row("tenant_id", ["acme", None])
async def test_the_caller_is_kept_in_the_scope_also_when_the_entry_refuses_it(
    tenant_id: str | None,
) -> None:
    scope = scope_of(GOOD)
    with suppress(Forbidden):
        await proving(tenant_id=tenant_id).resolve(scope)
    assert (scope[CALLER].tenant_id, scope[CALLER].token_log_fields) == (
        tenant_id or "",
        {"token_id": "t-1"},
    )


async def test_a_token_whose_request_is_refused_is_proven_all_the_same() -> None:
    with pytest.raises(Forbidden) as caught:
        await resolved(proving(), AssertedIdentity(tenant_id="rival"))
    assert caught.value.proven == {"tenant_id": "acme", "token_id": "t-1"}


async def test_where_no_token_is_needed_a_caller_without_a_tenant_has_the_entrys_default() -> None:
    callers = CallerResolver(Authenticator(), default_tenant_id=ANY_TENANT)
    assert (await resolved(callers)).tenant_id == ANY_TENANT
    assert (await resolved(OPEN)).tenant_id == NO_TENANT


async def test_an_operators_token_has_no_tenant_not_even_the_default() -> None:
    caller = await resolved(proving(tenant_id=None, admits_operators=True))
    assert caller.tenant_id == NO_TENANT


async def test_an_operators_token_is_refused_by_an_entry_that_needs_a_tenant() -> None:
    with pytest.raises(Forbidden):
        await resolved(proving(tenant_id=None))


async def test_the_same_caller_is_valid_again_and_another_is_not() -> None:
    callers, scope = proving(user_id="u"), scope_of(GOOD)
    caller = await callers.resolve(scope)
    await callers.revalidate(scope, NO_ASSERTION, caller)
    with pytest.raises(Forbidden):
        await proving(user_id="v").revalidate(scope, NO_ASSERTION, caller)
    assert scope[CALLER] is caller


@each_row(
    ("asserted", "tenant_id"),
    [(NO_ASSERTION, "the default"), (AssertedIdentity(tenant_id="acme"), "acme")],
)
def test_whom_the_settings_name_needs_no_token(asserted: AssertedIdentity, tenant_id: str) -> None:
    assert proving().resolve_trusted(asserted) == Caller(tenant_id=tenant_id, user_id="")
