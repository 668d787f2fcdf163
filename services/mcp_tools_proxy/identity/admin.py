"""The operator's token of the settings, beside those of callers."""

import hmac

from mcp_tools_proxy.domain.principal import Principal, Verifier

OPERATOR = Principal(tenant_id=None, is_admin=True)


class AdminToken:
    """Knows the operator's ``token``, which belongs to no tenant; asks ``others`` for the rest."""

    def __init__(self, token: str, others: Verifier) -> None:
        self._token = token.encode()
        self._others = others

    async def verify(self, token: str) -> Principal:
        """Give whom the token stands for. Raises Unauthenticated."""
        if hmac.compare_digest(self._token, token.encode()):
            return OPERATOR
        return await self._others.verify(token)
