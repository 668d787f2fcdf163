"""The tokens of all servers, and those of one session: a ServerAccess for each entry with auth."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from anyio.abc import AsyncResource

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import LoginRequired, ProxyError
from mcp_tools_proxy.domain.networks import ANY_NETWORK, NO_PROXIES, Proxies, ServerNetworks
from mcp_tools_proxy.domain.server import LoginFor, ServerAuth, ServerConfig
from mcp_tools_proxy.downstream.connection import AUTHORIZATION, AccessRefused, SessionAccess
from mcp_tools_proxy.downstream.oauth.discovery import read_challenge
from mcp_tools_proxy.downstream.oauth.login_renewal import NoticeLogin, StoredLogins
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthWeb
from mcp_tools_proxy.downstream.oauth.server_tokens import (
    BEARER,
    FillTexts,
    OAuthParts,
    ServerAccess,
    insufficient,
    of_operator,
)
from mcp_tools_proxy.storage.logins.login_sealer import LoginSealer
from mcp_tools_proxy.storage.logins.login_store import LoginStore


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
    """Return seconds since 1970."""
    return datetime.now(UTC).timestamp()


class OAuthAccess(AsyncResource):
    """The tokens for all servers; those of a changed entry are discarded."""

    def __init__(self, parts: OAuthParts) -> None:
        self._parts = parts
        self._servers: dict[str, ServerAccess] = {}

    def __repr__(self) -> str:
        return f"<OAuthAccess {len(self._servers)} servers>"

    @property
    def parts(self) -> OAuthParts:
        """Dependencies that the tokens of all servers share."""
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
        """Return the tokens of a session of ``caller``, or of the deployment without a caller.

        A session that discovers a server as ``config.discovery_caller`` does not have a JWT.
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
    advice = 'discovery requires a token; set "discovery" in "auth" of the entry'
    if auth.grant.needs_jwt:
        return advice
    advice += ', or "discoveryCaller" in the entry'
    if auth.grant.needs_person:
        advice += ", and sign in as that caller with mcp-tools-proxy login"
    return advice


class SessionTokens:
    """The tokens of the session of ``caller``, or of the deployment without one.

    ``is_discovery`` means that the server is discovered as this caller; an operator has to sign in.
    """

    def __init__(
        self, access: ServerAccess, caller: Caller | None, *, is_discovery: bool = False
    ) -> None:
        self._access = access
        self._caller = caller
        self._is_discovery = is_discovery

    def __repr__(self) -> str:
        return f"<SessionTokens {self._access}>"

    async def header(self) -> Mapping[str, str]:
        """Return the header of a request. Raises AccessRefused."""
        try:
            return await self._access.header(self._owner(), self._caller)
        except LoginRequired as error:
            if self._is_discovery:
                error = of_operator(error, self._access.config.server_id)
            raise AccessRefused(error) from None
        except ProxyError as error:
            raise AccessRefused(error) from None

    async def renewed(
        self, sent: Mapping[str, str], status: int, challenges: Sequence[str]
    ) -> bool:
        """Return whether to repeat a refused request with another token."""
        challenge = read_challenge(challenges)
        if challenge is None:
            return False  # the refusal does not concern tokens
        self._access.note_challenge(challenge)
        access = sent.get(AUTHORIZATION, "").removeprefix(BEARER)
        if status == 401:
            self._access.drop(self._owner(), access)
            return True
        if not challenge.is_insufficient_scope:
            return False
        try:
            await self._access.widen(self._owner(), access, challenge.scopes or ())
        except ProxyError as error:
            raise AccessRefused(error) from None
        return True

    def refused(self, status: int) -> AccessRefused:
        """Return the error of a request that was refused twice."""
        return AccessRefused(
            insufficient(
                f"the server refused a new token as well (HTTP status {status}): the token may be "
                "for another resource, or lack a claim or a scope"
            )
        )

    def _owner(self) -> tuple[str, ...]:
        return () if self._caller is None else self._access.owner_of(self._caller)


class DiscoveryTokens:
    """Tokens of a session that discovers a server whose tokens belong to callers: it uses none.

    If the server requires a token, that of ``discovery`` is used, if configured.
    """

    def __init__(self, discovery: SessionAccess | None, without: ProxyError) -> None:
        self._discovery = discovery
        self._without = without
        self._is_needed = False

    def __repr__(self) -> str:
        return f"<DiscoveryTokens needed={self._is_needed}>"

    async def header(self) -> Mapping[str, str]:
        """Return the header of a request. Raises AccessRefused."""
        if not self._is_needed or self._discovery is None:
            return {}
        return await self._discovery.header()

    async def renewed(
        self, sent: Mapping[str, str], status: int, challenges: Sequence[str]
    ) -> bool:
        """Return whether to repeat a refused request with a token."""
        if read_challenge(challenges) is None or (status != 401 and not sent):
            return False
        if self._discovery is None:
            raise AccessRefused(self._without)
        if not self._is_needed:
            self._is_needed = True
            return True
        return await self._discovery.renewed(sent, status, challenges)

    def refused(self, status: int) -> AccessRefused:
        """Return the error of a request that was refused twice."""
        if self._discovery is None:
            return AccessRefused(self._without)
        return self._discovery.refused(status)
