import pytest

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.auth.operator_tokens import (
    MAX_LOCAL_TOKENS,
    OPERATOR,
    AdminToken,
    LocalTokens,
    OperatorTokens,
)
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.tables import each_row

TOKEN = "correct-horse-battery"
AUDITOR = Principal(tenant_id=None, rights=frozenset({OperatorRight.AUDIT}))


class NoTokens:
    async def verify(self, token: str) -> Principal:
        raise Unauthenticated("the token is not known", token_refused=True)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def authenticator(operators: OperatorTokens) -> Authenticator:
    return Authenticator(NoTokens(), operators)


async def test_the_admin_token_proves_an_operator() -> None:
    tokens = authenticator(OperatorTokens(AdminToken(TOKEN)))
    assert await tokens.authenticate(f"Bearer {TOKEN}") == OPERATOR


@each_row("token", [TOKEN[:1], TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "ключ"])
async def test_a_token_similar_to_the_admin_token_is_refused(token: str) -> None:
    tokens = authenticator(OperatorTokens(AdminToken(TOKEN)))
    with pytest.raises(Unauthenticated):
        await tokens.authenticate(f"Bearer {token}")


async def test_a_local_token_is_valid_until_it_expires() -> None:
    clock = Clock()
    local = LocalTokens(clock)
    tokens = authenticator(OperatorTokens(None, local))
    token = local.issue(AUDITOR, 60.0)
    assert await tokens.authenticate(f"Bearer {token}") == AUDITOR
    clock.now = 60.0
    with pytest.raises(Unauthenticated):
        await tokens.authenticate(f"Bearer {token}")


def test_a_revoked_local_token_is_unknown_immediately() -> None:
    local = LocalTokens()
    token, other = local.issue(AUDITOR, 60.0), local.issue(AUDITOR, 60.0)
    local.revoke(token)
    assert (local.find(token), local.find(other), local.find("")) == (None, AUDITOR, None)


def test_the_number_of_local_tokens_is_bounded() -> None:
    local = LocalTokens()
    tokens = [local.issue(AUDITOR, 60.0) for _ in range(MAX_LOCAL_TOKENS + 1)]
    found = [local.find(token) for token in tokens]
    assert found == [None, *[AUDITOR] * MAX_LOCAL_TOKENS]
