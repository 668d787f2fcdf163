"""Builds what knows whom a token stands for, as the settings say."""

from collections.abc import Mapping
from typing import Protocol

from mcp_tools_proxy.auth.admin import AdminTokenVerifier
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.identity import TokenVerifier
from mcp_tools_proxy.settings.settings import Settings


class Tokens(TokenVerifier, Protocol):
    """Knows tokens, as long as ``run`` follows where they, or their keys, are kept."""

    async def load(self) -> None:
        """Read what is quick to read."""
        ...

    async def run(self) -> None:
        """Follow until cancelled."""
        ...

    def state(self) -> Mapping[str, object]:
        """Tell how it is, for readiness."""
        ...


def build_tokens(settings: Settings) -> Tokens | None:
    """Give what ``auth_mode`` asks for, None for none. Raises ValueError for an unusable URL.

    Each part is imported where it is needed: the libraries behind JWTs take long to load.
    """
    if settings.auth_mode == "token" and settings.tokens_file is not None:
        from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier  # noqa: PLC0415 - see above

        return TokenFileVerifier(settings.tokens_file)
    if settings.auth_mode == "jwt":
        return _signed_tokens(settings)
    return None


def build_identity(settings: Settings, tokens: Tokens | None) -> Authenticator:
    """Give the identity that every entry asks; the admin token counts among ``tokens``."""
    if tokens is None or settings.admin_token is None:
        return Authenticator(tokens)
    return Authenticator(AdminTokenVerifier(settings.admin_token.get_secret_value(), tokens))


def _signed_tokens(settings: Settings) -> Tokens:
    from mcp_tools_proxy.auth.claims import ClaimNames  # noqa: PLC0415 - see build_tokens
    from mcp_tools_proxy.auth.jwks_file import JwksFile  # noqa: PLC0415
    from mcp_tools_proxy.auth.jwks_url import JwksUrl  # noqa: PLC0415
    from mcp_tools_proxy.auth.jwt_verifier import JwtRules, JwtVerifier  # noqa: PLC0415

    rules = JwtRules(
        issuer=settings.jwt_issuer or "",
        audiences=settings.jwt_audience,
        algorithms=settings.jwt_algorithms,
        leeway_s=settings.jwt_leeway_s,
        claims=ClaimNames(
            tenant=settings.jwt_tenant_claim,
            user=settings.jwt_user_claim,
            roles=settings.jwt_roles_claim,
            agents=settings.jwt_agents_claim,
            admin_role=settings.jwt_admin_role,
        ),
    )
    if settings.jwt_jwks_file is not None:
        return JwtVerifier(JwksFile(settings.jwt_jwks_file, settings.jwt_algorithms), rules)
    return JwtVerifier(JwksUrl(settings.jwt_jwks_url or "", settings.jwt_algorithms), rules)
