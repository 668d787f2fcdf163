"""The admin token of the settings: the one place where it is compared."""

import hmac

from mcp_tools_proxy.domain.identity import OperatorRight, Principal, TokenVerifier

OPERATOR = Principal(
    tenant_id=None,
    rights=frozenset(OperatorRight),
    token_log_fields={"token_id": "admin_token"},
)
"""The principal of the admin token: it has every right."""


class AdminToken:
    """The admin token, which only operators know."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __repr__(self) -> str:
        return "<AdminToken>"

    def matches(self, presented: str) -> bool:
        """Return whether ``presented`` is the admin token, in constant time."""
        return hmac.compare_digest(self._token, presented.encode())


class AdminTokenVerifier:
    """Accepts the admin token wherever callers' tokens are; ``others`` verify the rest.

    The admin token belongs to no tenant.
    """

    def __init__(self, token: AdminToken, others: TokenVerifier) -> None:
        self._token = token
        self._others = others

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token. Raises Unauthenticated."""
        if self._token.matches(token):
            return OPERATOR
        return await self._others.verify(token)

    def is_known_valid(self, token: str) -> bool:
        """Return whether the token is known to be good, by one look-up."""
        return self._token.matches(token) or self._others.is_known_valid(token)

    def is_plausible(self, token: str) -> bool:
        """Return whether an unknown token can be good, without checking a signature."""
        return self._others.is_plausible(token)
