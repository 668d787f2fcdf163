import pytest

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.auth.operator_tokens import (
    GUEST,
    OPERATOR,
    AdminToken,
    GuestTokens,
    OperatorTokens,
)
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import Principal
from tests.support.tables import each_row

TOKEN = "correct-horse-battery"
KEY = bytes(range(32))


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


async def test_the_token_of_a_guest_is_valid_until_it_expires() -> None:
    clock = Clock()
    guests = GuestTokens(KEY, clock)
    tokens = authenticator(OperatorTokens(None, guests))
    token = guests.issue(60.0)
    assert await tokens.authenticate(f"Bearer {token}") == GUEST
    clock.now = 60.0
    with pytest.raises(Unauthenticated):
        await tokens.authenticate(f"Bearer {token}")


def test_worker_processes_with_the_same_key_accept_the_token_of_a_guest() -> None:
    token = GuestTokens(KEY).issue(60.0)
    assert GuestTokens(KEY).find(token) == GUEST
    assert GuestTokens(KEY[::-1]).find(token) is None


@each_row("forged", ["", "guest.", "guest.x", "guest.x.9999999999.", "guest.\ud800.1.x"])
def test_a_forged_token_of_a_guest_is_unknown(forged: str) -> None:
    assert GuestTokens(KEY).find(forged) is None


def test_a_guest_cannot_extend_a_token() -> None:
    nonce, ends_at, digest = GuestTokens(KEY).issue(60.0).rsplit(".", 2)
    assert GuestTokens(KEY).find(f"{nonce}.{int(ends_at) + 1}.{digest}") is None
