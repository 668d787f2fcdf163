"""The tokens for all servers: one ServerAccess for each entry with ``auth``."""

from datetime import UTC, datetime

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import LoginRequired
from mcp_tools_proxy.domain.proxies import NO_PROXIES, Proxies
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.domain.server_auth import LoginFor, ServerAuth
from mcp_tools_proxy.domain.server_networks import ANY_NETWORK, ServerNetworks
from mcp_tools_proxy.downstream.connection import SessionAccess
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthWeb
from mcp_tools_proxy.downstream.oauth.server_access import FillTexts, OAuthParts, ServerAccess
from mcp_tools_proxy.downstream.oauth.session_tokens import DiscoveryTokens, SessionTokens
from mcp_tools_proxy.downstream.oauth.stored_logins import NoticeLogin, StoredLogins
from mcp_tools_proxy.logins.login_sealer import LoginSealer
from mcp_tools_proxy.logins.login_store import LoginStore


def open_oauth(
    fill: FillTexts,
    jwt_issuer: str | None,
    logins: tuple[LoginStore, LoginSealer] | None,
    notice: NoticeLogin | None = None,
    networks: ServerNetworks = ANY_NETWORK,
    proxies: Proxies = NO_PROXIES,
) -> "OAuthAccess":
    """Return the tokens of all servers; connections are opened at their first use."""
    web = OAuthWeb(networks=networks, proxies=proxies, own_issuer=jwt_issuer)
    return OAuthAccess(
        OAuthParts(
            web=web,
            fill=fill,
            jwt_issuer=jwt_issuer,
            logins=None if logins is None else StoredLogins(web, *logins, now, notice),
            now=now,
        )
    )


def now() -> float:
    """Return seconds since 1970, in which issuers say when a token ends."""
    return datetime.now(UTC).timestamp()


class OAuthAccess:
    """Finds the tokens for a server; those of an entry that changed are forgotten."""

    def __init__(self, parts: OAuthParts) -> None:
        self._parts = parts
        self._servers: dict[str, ServerAccess] = {}

    def __repr__(self) -> str:
        return f"<OAuthAccess {len(self._servers)} servers>"

    @property
    def parts(self) -> OAuthParts:
        """What all servers' tokens have in common."""
        return self._parts

    async def aclose(self) -> None:
        """Close every connection to issuers."""
        await self._parts.web.close()

    def of(self, config: ServerConfig, auth: ServerAuth) -> ServerAccess:
        """Return the tokens for a server."""
        known = self._servers.get(config.server_id)
        if known is None or not known.is_for(config, auth):
            known = self._servers[config.server_id] = ServerAccess(config, auth, self._parts)
        return known

    def session(
        self, config: ServerConfig, auth: ServerAuth, caller: Caller | None
    ) -> SessionAccess:
        """Return the tokens of a session; ``caller`` None is for nobody.

        The session that discovers a server in the name of ``config.discovery_caller`` has no JWT.
        """
        access = self.of(config, auth)
        is_discovery = caller is None or caller is config.discovery_caller
        if not is_discovery or auth.login_for is LoginFor.DEPLOYMENT:
            return SessionTokens(access, caller)
        if caller is not None and not auth.grant.needs_jwt:
            return SessionTokens(access, caller, is_discovery=True)
        found = None
        if auth.discovery is not None:
            found = SessionTokens(ServerAccess(config, auth.discovery, self._parts), None)
        return DiscoveryTokens(
            found,
            LoginRequired(
                f"an operator has to sign in to server {config.server_id} first, or to change its "
                "entry; tell the user",
                details={"server_id": config.server_id},
                reason=_discovery_advice(auth),
            ),
        )


def _discovery_advice(auth: ServerAuth) -> str:
    """Return what an operator can do about a server that lets nobody discover it."""
    advice = 'discovery requires a token; set "discovery" in "auth" of the entry'
    if auth.grant.needs_jwt:
        return advice
    advice += ', or "discoveryCaller" in the entry'
    if auth.grant.needs_person:
        advice += ", and sign in as that caller with mcp-tools-proxy login"
    return advice
