"""The operator's token of the settings, beside those of callers."""

import hmac

from mcp_tools_proxy.domain.identity import Principal, TokenVerifier

OPERATOR = Principal(tenant_id=None, is_admin=True, proof={"token_id": "admin_token"})


class AdminTokenVerifier:
    """Knows the operator's ``token``, which belongs to no tenant; asks ``others`` for the rest."""

    def __init__(self, token: str, others: TokenVerifier) -> None:
        self._token = token.encode()
        self._others = others

    async def verify(self, token: str) -> Principal:
        """Give whom the token stands for. Raises Unauthenticated."""
        if self._is_operators(token):
            return OPERATOR
        return await self._others.verify(token)

    def is_known(self, token: str) -> bool:
        """Return whether the token is known to be good."""
        return self._is_operators(token) or self._others.is_known(token)

    def may_be_good(self, token: str) -> bool:
        """Return whether an unknown token can be good."""
        return self._others.may_be_good(token)

    def _is_operators(self, token: str) -> bool:
        return hmac.compare_digest(self._token, token.encode())
