"""The operator's token of the settings, accepted wherever callers' tokens are."""

import hmac

from mcp_tools_proxy.domain.identity import Principal, TokenVerifier

OPERATOR = Principal(tenant_id=None, is_admin=True, proof={"token_id": "admin_token"})


class AdminTokenVerifier:
    """Verifies the operator's ``token``, which belongs to no tenant; ``others`` verify the rest."""

    def __init__(self, token: str, others: TokenVerifier) -> None:
        self._token = token.encode()
        self._others = others

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token. Raises Unauthenticated."""
        if self._is_operators(token):
            return OPERATOR
        return await self._others.verify(token)

    def is_known(self, token: str) -> bool:
        """Return whether the token is known to be good, by one look-up."""
        return self._is_operators(token) or self._others.is_known(token)

    def may_be_good(self, token: str) -> bool:
        """Return whether an unknown token can be good, without checking a signature."""
        return self._others.may_be_good(token)

    def _is_operators(self, token: str) -> bool:
        return hmac.compare_digest(self._token, token.encode())
