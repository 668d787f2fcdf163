"""Signs a browser in at the issuer of callers' tokens: who opens an address must be who got it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from yarl import URL

from mcp_tools_proxy.domain.errors import Unauthenticated
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.downstream.oauth.discovery import (
    Issuer,
    find_issuer,
    http_url,
    origins_of,
)
from mcp_tools_proxy.downstream.oauth.login_flow import (
    LoginRequest,
    PendingLogin,
    begin_login,
    check_answer,
    exchange_code,
)
from mcp_tools_proxy.downstream.oauth.oauth_web import IssuerUnavailable, OAuthRefused
from mcp_tools_proxy.downstream.oauth.server_access import OAuthParts
from mcp_tools_proxy.downstream.oauth.token_endpoint import IssuerClient

Verify = Callable[[str], Awaitable[Principal | None]]
"""Returns what a caller's token proves. Raises Unauthenticated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnClient:
    """The gateway as a client of the issuer of callers' tokens."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    resource: str = ""
    """The audience that is requested (RFC 8707), empty if ours is no address."""


KEPT_S = 60.0
"""Seconds for which the issuer's metadata are kept: a sign-in begins without a token, and each one
sent the issuer up to two requests."""


class OwnIssuer:
    """Signs browsers in as users of this gateway; ``verify`` is that of every caller's token."""

    def __init__(self, client: OwnClient, parts: OAuthParts, verify: Verify) -> None:
        self._client = client
        self._parts = parts
        self._verify = verify
        self._finding = asyncio.Lock()
        self._found: Issuer | None = None
        self._kept_until = 0.0

    async def begin(self, owner: LoginOwner, *, redirect_uri: str, state: str) -> PendingLogin:
        """Return a new sign-in. Raises IssuerUnavailable, OAuthRefused."""
        client, issuer = self._client, await self._issuer()
        request = LoginRequest(
            owner=owner,
            resource=client.resource,
            issuer=issuer.name,
            scopes=client.scopes or None,
            client=IssuerClient(client_id=client.client_id, secret=client.client_secret),
        )
        return begin_login(
            request, issuer, redirect_uri=redirect_uri, state=state, needs_pkce_metadata=False
        )

    async def signed_in(
        self, login: PendingLogin, answer: Mapping[str, str]
    ) -> tuple[str, Principal | None]:
        """Return the token of who signed in, and whom it proves.

        Raises IssuerUnavailable, OAuthRefused.
        """
        code = check_answer(login, answer)
        issuer = await self._issuer()
        try:
            token = await exchange_code(self._parts.web, issuer, login, code, self._parts.now)
        except (IssuerUnavailable, OAuthRefused):
            self._found = None  # its endpoints may have moved
            raise
        try:
            return token.access, await self._verify(token.access)
        except Unauthenticated as error:
            raise OAuthRefused(f"the issuer's access token was not accepted: {error}") from None

    async def is_owner(self, login: PendingLogin, answer: Mapping[str, str]) -> bool:
        """Return whether who signed in is whom the address is for; the token is forgotten.

        Raises IssuerUnavailable, OAuthRefused.
        """
        _, principal = await self.signed_in(login, answer)
        if principal is None or principal.jwt is None:
            return False
        owner = login.request.owner
        proven = (principal.jwt[0], principal.tenant_id, principal.user_id)
        return proven == (owner.user_issuer, owner.tenant_id, owner.user_id)

    async def _issuer(self) -> Issuer:
        name = self._client.issuer
        server: URL = http_url(name)
        async with self._finding:
            if self._found is None or self._parts.now() >= self._kept_until:
                self._found = await find_issuer(
                    self._parts.web, name, server=server, configured=origins_of([name])
                )
                self._kept_until = self._parts.now() + KEPT_S
            return self._found
