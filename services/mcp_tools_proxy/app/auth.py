"""Builds the authentication that the settings select."""

from collections.abc import Callable, Mapping
from typing import Protocol

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.auth.caller_resolver import CallerResolver, Scope
from mcp_tools_proxy.auth.operator_tokens import AdminToken, GuestTokens, OperatorTokens
from mcp_tools_proxy.domain.audit import UNKNOWN_ORIGIN, Origin
from mcp_tools_proxy.domain.caller import NO_TENANT
from mcp_tools_proxy.domain.identity import TokenVerifier
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.telemetry.recorder import Recorder


class Tokens(TokenVerifier, Protocol):
    """A TokenVerifier that reloads tokens or keys while ``run`` runs."""

    @property
    def expiring(self) -> int:
        """Number of stored tokens that expire within 7 days."""
        ...

    async def load(self) -> None:
        """Load tokens or keys at the start, if that is quick."""
        ...

    async def run(self) -> None:
        """Reload tokens or keys when they change, until cancelled."""
        ...

    def state(self) -> Mapping[str, object]:
        """Return the state for readiness reports."""
        ...


def build_tokens(settings: Settings, recorder: Recorder) -> Tokens | None:
    """Build the verifier of ``auth_mode``, if any. Raises ValueError for an invalid URL.

    Modules are imported locally: the libraries for JWTs are slow to load.
    """
    if settings.auth_mode == "token" and settings.tokens_file is not None:
        from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier  # noqa: PLC0415 - see above

        return TokenFileVerifier(settings.tokens_file, recorder=recorder)
    if settings.auth_mode == "jwt":
        return _build_jwt_verifier(settings)
    return None


def build_authenticator(
    settings: Settings, tokens: Tokens | None, console_key: bytes
) -> Authenticator:
    """Build the authenticator of all entries.

    It accepts ``tokens``, the admin token, and tokens of console guests.
    """
    token = settings.admin_token
    admin = None if token is None else AdminToken(token.get_secret_value())
    return Authenticator(tokens, OperatorTokens(admin, GuestTokens(console_key)))


def mcp_callers(
    settings: Settings,
    authenticator: Authenticator,
    origin_of: Callable[[Scope], Origin] = lambda _: UNKNOWN_ORIGIN,
) -> CallerResolver:
    """Build the resolver of MCP's callers, for HTTP, stdio and the connector.

    Callers without a tenant are admitted; they are not offered document tools.
    """
    return CallerResolver(
        authenticator,
        default_tenant_id=settings.default_tenant_id or NO_TENANT,
        admits_operators=True,
        origin_of=origin_of,
    )


def _build_jwt_verifier(settings: Settings) -> Tokens:
    from mcp_tools_proxy.auth.claims import ClaimNames  # noqa: PLC0415 - see build_tokens
    from mcp_tools_proxy.auth.jwks import JwksFile  # noqa: PLC0415
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
            documents=settings.jwt_documents_claim,
            operator=settings.jwt_operator_claim,
            admin_role=settings.jwt_admin_role,
        ),
    )
    if settings.jwt_jwks_file is not None:
        return JwtVerifier(JwksFile(settings.jwt_jwks_file, settings.jwt_algorithms), rules)
    return JwtVerifier(JwksUrl(settings.jwt_jwks_url or "", settings.jwt_algorithms), rules)
