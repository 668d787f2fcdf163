"""Who calls: what is said, and what a token proves."""

import pytest

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import AgentRequired, Forbidden, Unauthenticated
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity, Principal

BEARER = "Bearer good"


class OneToken:
    """Knows one token, ``good``."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    async def verify(self, token: str) -> Principal:
        if token != "good":
            raise Unauthenticated("the token is not known", token_refused=True)
        return self._principal

    def is_known(self, token: str) -> bool:
        return token == "good"

    def may_be_good(self, token: str) -> bool:
        return False


def proving(
    *,
    tenant_id: str | None = "acme",
    user_id: str | None = None,
    roles: tuple[str, ...] = (),
    agents: frozenset[str] | None = None,
) -> Authenticator:
    """Make an identity for which ``good`` stands for what is given."""
    return Authenticator(
        OneToken(Principal(tenant_id=tenant_id, user_id=user_id, roles=roles, agents=agents))
    )


async def test_without_a_verifier_what_is_said_is_believed() -> None:
    said = AssertedIdentity(tenant_id="acme", user_id="u", roles=("r",), agent="reader")
    assert await Authenticator().resolve_caller(None, said) == Caller(
        tenant_id="acme", user_id="u", roles=("r",), agent="reader"
    )


async def test_parts_complete_each_other() -> None:
    caller = await Authenticator().resolve_caller(
        None,
        AssertedIdentity(tenant_id="acme"),
        NO_ASSERTION,
        AssertedIdentity(user_id="u", tenant_id="acme"),
    )
    assert (caller.tenant_id, caller.user_id) == ("acme", "u")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (AssertedIdentity(tenant_id="a"), AssertedIdentity(tenant_id="b")),
        (AssertedIdentity(user_id="a"), AssertedIdentity(user_id="b")),
        (AssertedIdentity(agent="a"), AssertedIdentity(agent="b")),
        (AssertedIdentity(roles=("a",)), AssertedIdentity(roles=("b",))),
    ],
)
async def test_two_parts_that_differ_are_forbidden(
    one: AssertedIdentity, other: AssertedIdentity
) -> None:
    with pytest.raises(Forbidden):
        await Authenticator().resolve_caller(None, one, other)


async def test_without_a_verifier_a_token_means_nothing() -> None:
    caller = await Authenticator().resolve_caller(BEARER, AssertedIdentity(tenant_id="other"))
    assert caller.tenant_id == "other"


@pytest.mark.parametrize("value", [None, "", "Bearer", "Bearer ", "Basic good", "good"])
async def test_who_sends_no_token_is_told_that_one_is_needed(value: str | None) -> None:
    with pytest.raises(Unauthenticated) as caught:
        await proving().resolve_caller(value, AssertedIdentity(tenant_id="acme"))
    assert caught.value.token_refused is False


@pytest.mark.parametrize("value", ["Bearer good", "bearer good", "BEARER   good "])
async def test_the_scheme_is_read_in_any_case(value: str) -> None:
    assert (await proving().resolve_caller(value)).tenant_id == "acme"


async def test_the_tenant_is_the_tokens() -> None:
    assert (
        await proving().resolve_caller(BEARER, AssertedIdentity(tenant_id="acme"))
    ).tenant_id == "acme"


async def test_another_tenant_than_the_tokens_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await proving().resolve_caller(BEARER, AssertedIdentity(tenant_id="rival"))


async def test_a_token_of_no_tenant_acts_for_none() -> None:
    with pytest.raises(Forbidden):
        await proving(tenant_id=None).resolve_caller(BEARER, AssertedIdentity(tenant_id="acme"))


async def test_a_token_without_a_user_takes_the_one_that_is_said() -> None:
    assert (await proving().resolve_caller(BEARER, AssertedIdentity(user_id="u"))).user_id == "u"


async def test_the_tokens_user_wins() -> None:
    assert (await proving(user_id="u").resolve_caller(BEARER)).user_id == "u"


async def test_another_user_than_the_tokens_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await proving(user_id="u").resolve_caller(BEARER, AssertedIdentity(user_id="v"))


async def test_roles_are_the_tokens() -> None:
    caller = await proving(roles=("a", "b")).resolve_caller(BEARER, AssertedIdentity(roles=("a",)))
    assert caller.roles == ("a", "b")


async def test_a_role_beyond_the_tokens_is_forbidden() -> None:
    with pytest.raises(Forbidden):
        await proving(roles=("a",)).resolve_caller(BEARER, AssertedIdentity(roles=("a", "b")))


@pytest.mark.parametrize(
    ("agents", "said", "agent"),
    [
        (None, None, None),
        (None, "any", "any"),
        (frozenset({"one"}), None, "one"),
        (frozenset({"one"}), "one", "one"),
        (frozenset({"one", "two"}), "two", "two"),
    ],
)
async def test_the_agent_is_one_that_the_token_is_for(
    agents: frozenset[str] | None, said: str | None, agent: str | None
) -> None:
    caller = await proving(agents=agents).resolve_caller(BEARER, AssertedIdentity(agent=said))
    assert caller.agent == agent


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        (frozenset({"one"}), "two"),
        (frozenset({"one", "two"}), "three"),
        (frozenset(), "one"),
        (frozenset(), None),
    ],
)
async def test_an_agent_that_the_token_is_not_for_is_forbidden(
    agents: frozenset[str], said: str | None
) -> None:
    with pytest.raises(Forbidden):
        await proving(agents=agents).resolve_caller(BEARER, AssertedIdentity(agent=said))


async def test_a_token_for_several_agents_needs_one_to_be_named() -> None:
    with pytest.raises(AgentRequired):
        await proving(agents=frozenset({"one", "two"})).resolve_caller(BEARER)


async def test_no_message_names_what_the_token_stands_for() -> None:
    with pytest.raises(Forbidden) as caught:
        await proving(tenant_id="hush").resolve_caller(BEARER, AssertedIdentity(tenant_id="rival"))
    assert "hush" not in caught.value.message
