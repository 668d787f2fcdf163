import pytest

from mcp_tools_proxy.auth.admin_token import OPERATOR, AdminToken, AdminTokenVerifier
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import Principal

TOKEN = "correct-horse-battery"


class NoTokens:
    """Knows no token."""

    async def verify(self, token: str) -> Principal:
        raise Unauthenticated("the token is not known", token_refused=True)

    def is_known_valid(self, token: str) -> bool:
        return False

    def is_plausible(self, token: str) -> bool:
        return False


async def test_the_operators_token_is_an_operator() -> None:
    tokens = AdminTokenVerifier(AdminToken(TOKEN), NoTokens())
    assert (await tokens.verify(TOKEN), tokens.is_known_valid(TOKEN)) == (OPERATOR, True)


@pytest.mark.parametrize("token", ["", TOKEN[:1], TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "ключ"])
async def test_a_token_that_is_like_the_operators_is_another(token: str) -> None:
    tokens = AdminTokenVerifier(AdminToken(TOKEN), NoTokens())
    with pytest.raises(Unauthenticated):
        await tokens.verify(token)
    assert not tokens.is_known_valid(token)
