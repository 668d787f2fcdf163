"""Checks bearer tokens of callers and operators."""

from collections.abc import Mapping

from mcp_tools_proxy.auth.operator_tokens import OperatorTokens
from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import OperatorRight, Principal, TokenVerifier


class Authenticator:
    """Authenticates bearer tokens.

    Without a ``verifier`` (``auth_mode`` none), callers need no token: for trusted networks. Tokens
    of ``operators`` are valid wherever callers' tokens are.
    """

    def __init__(
        self, verifier: TokenVerifier | None = None, operators: OperatorTokens | None = None
    ) -> None:
        self.operators = OperatorTokens() if operators is None else operators
        self._verifier = verifier

    @property
    def needs_token(self) -> bool:
        """Whether callers must send a token (``auth_mode`` token or jwt)."""
        return self._verifier is not None

    async def authenticate(self, authorization: str | None) -> Principal | None:
        """Return the principal of an ``Authorization`` header's value; None if no token is needed.

        Raises Unauthenticated.
        """
        if self._verifier is None:
            return None
        token = bearer_token(authorization)
        if token is None:
            raise Unauthenticated("this service needs a token; send Authorization: Bearer <token>")
        return self.operators.find(token) or await self._verifier.verify(token)

    async def is_operator(self, authorization: str | None) -> bool:
        """Check the token if callers need one; return whether the caller can see operators'
        details.

        They are for tokens with the right PRESETS and without a tenant, since errors of servers can
        concern any tenant's calls. Every caller sees them if callers need no token. Raises
        Unauthenticated.
        """
        principal = await self.authenticate(authorization)
        if principal is None:
            return True
        return OperatorRight.PRESETS in principal.rights and principal.tenant_id is None


def proven_of(principal: Principal) -> Mapping[str, str]:
    """Return the log fields of a caller with a valid token whose request is refused."""
    tenant = {} if principal.tenant_id is None else {"tenant_id": principal.tenant_id}
    return {**tenant, **principal.token_log_fields}


def bearer_token(authorization: str | None) -> str | None:
    """Return the token of an ``Authorization`` header's value, if any."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
