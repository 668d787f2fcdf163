"""Sign-in of a person to one server, for the command ``login`` and for the pages."""

from collections.abc import Mapping
from contextlib import suppress

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.logins import EndedLogin, Login, LoginOwner
from mcp_tools_proxy.domain.server import ServerAuth, ServerConfig, is_same_issuer
from mcp_tools_proxy.downstream.oauth.discovery import (
    Discovery,
    Issuer,
    find_challenge,
    find_issuer,
    http_url,
    origins_of,
)
from mcp_tools_proxy.downstream.oauth.login_flow import (
    BROWSER_GRANTS,
    DEVICE_GRANTS,
    DeviceCode,
    LoginRequest,
    PendingLogin,
    begin_login,
    check_answer,
    client_at,
    exchange_code,
    login_of,
    poll_device,
    request_device,
    scopes_to_request,
)
from mcp_tools_proxy.downstream.oauth.login_renewal import WantedScopes
from mcp_tools_proxy.downstream.oauth.oauth_web import OAuthRefused
from mcp_tools_proxy.downstream.oauth.server_tokens import OAuthParts
from mcp_tools_proxy.downstream.oauth.token_endpoint import AccessToken


class SignIn:
    """Sign-in of people to the server of ``config``; finished logins are stored.

    ``metadata_url`` is the gateway's own client metadata document, if it publishes one.
    """

    def __init__(
        self,
        config: ServerConfig,
        auth: ServerAuth,
        parts: OAuthParts,
        *,
        metadata_url: str | None = None,
    ) -> None:
        self._auth = auth
        self._parts = parts
        self._server = http_url(config.url)
        self._metadata_url = metadata_url

    async def begin(
        self,
        owner: LoginOwner,
        caller: Caller | None,
        *,
        redirect_uri: str,
        scopes: tuple[str, ...] = (),
        state: str | None = None,
    ) -> PendingLogin:
        """Return a new sign-in that requests ``scopes`` in addition to those that the server wants.

        ``state`` binds the sign-in to a browser; None creates a new one. Raises IssuerUnavailable,
        OAuthRefused, CredentialsMissing.
        """
        request, issuer = await self._request(owner, caller, redirect_uri, scopes, BROWSER_GRANTS)
        return begin_login(
            request,
            issuer,
            redirect_uri=redirect_uri,
            state=state,
            needs_pkce_metadata=not self._auth.knows_pkce,
        )

    async def finish(self, pending: PendingLogin, answer: Mapping[str, str]) -> Login:
        """Store the login that an answer completes. Raises as ``begin``, and LoginsUnavailable."""
        code = check_answer(pending, answer)
        issuer = await self._issuer(pending.request.issuer)
        token = await exchange_code(self._parts.web, issuer, pending, code, self._parts.now)
        return await self._keep(pending.request, token)

    async def begin_device(
        self, owner: LoginOwner, caller: Caller | None, *, scopes: tuple[str, ...] = ()
    ) -> tuple[LoginRequest, DeviceCode]:
        """Return a sign-in that is finished on another device (RFC 8628). Raises as ``begin``."""
        request, issuer = await self._request(owner, caller, _NO_REDIRECT, scopes, DEVICE_GRANTS)
        return request, await request_device(self._parts.web, issuer, request)

    async def finish_device(self, request: LoginRequest, device: DeviceCode) -> Login:
        """Wait until the person has signed in, and store the login. Raises as ``finish``."""
        issuer = await self._issuer(request.issuer)
        token = await poll_device(self._parts.web, issuer, request, device, self._parts.now)
        return await self._keep(request, token)

    async def beyond_entry(self, owner: LoginOwner) -> tuple[str, ...]:
        """Return the scopes that the server last demanded and the entry does not allow."""
        allowed = self._auth.scopes
        demanded = (await self._wanted(owner)).demanded
        return () if allowed is None else tuple(it for it in demanded if it not in allowed)

    async def _wanted(self, owner: LoginOwner) -> WantedScopes:
        logins = self._parts.logins
        if logins is not None:
            with suppress(LoginsUnavailable):
                return await logins.wanted_scopes(owner)
        return WantedScopes((), ())

    async def sign_out(self, owner: LoginOwner, caller: Caller | None) -> EndedLogin | None:
        """Revoke and remove a login, or return None without one. Raises LoginsUnavailable."""
        logins = self._parts.logins
        stored = None if logins is None else await logins.find(owner)
        if logins is None or stored is None:
            return None
        issuer = self._auth.issuer
        fits = issuer is None or is_same_issuer(issuer, stored.binding.issuer)
        filled = await self._parts.filled(self._auth.client, caller) if fits else {}
        return await logins.revoke(stored, self._server, filled)

    async def _request(
        self,
        owner: LoginOwner,
        caller: Caller | None,
        redirect_uri: str,
        scopes: tuple[str, ...],
        grants: tuple[str, ...],
    ) -> tuple[LoginRequest, Issuer]:
        """Return the access that a person is to allow, and the issuer.

        It includes the scopes of the owner's login, and those that its server last demanded.
        """
        auth = self._auth
        wanted = await self._wanted(owner)
        scopes = tuple(dict.fromkeys((*scopes, *wanted.demanded)))
        if wanted.demanded:
            scopes = tuple(dict.fromkeys((*wanted.had, *scopes)))
        challenge = await find_challenge(self._parts.web, self._server)
        found = await Discovery(self._parts.web, self._server, auth).discover(challenge)
        client = await client_at(
            self._parts.web,
            found.issuer,
            auth.client,
            filled=await self._parts.filled(auth.client, caller),
            redirect_uri=redirect_uri,
            metadata_url=self._metadata_url,
            grants=grants,
        )
        challenged = None if challenge is None else challenge.scopes
        request = LoginRequest(
            owner=owner,
            resource=found.resource,
            issuer=found.issuer.name,
            scopes=scopes_to_request(auth.scopes, challenged, found, scopes),
            client=client,
            is_registered=auth.client.client_id is None,
        )
        return request, found.issuer

    async def _issuer(self, name: str) -> Issuer:
        configured = origins_of([self._auth.issuer] if self._auth.issuer else [])
        return await find_issuer(self._parts.web, name, server=self._server, configured=configured)

    async def _keep(self, request: LoginRequest, token: AccessToken) -> Login:
        if self._parts.logins is None:
            raise OAuthRefused(
                "logins cannot be stored without a key; set MCP_PROXY_CREDENTIALS_KEY"
            )
        login = login_of(request, token, self._parts.now())
        await self._parts.logins.keep(login)
        return login


async def sign_out(
    parts: OAuthParts, config: ServerConfig | None, owner: LoginOwner
) -> EndedLogin | None:
    """Revoke and remove a login, also of a removed server; return None without a login.

    Raises LoginsUnavailable.
    """
    if config is not None and config.auth is not None:
        named = Caller(tenant_id=owner.tenant_id, user_id=owner.user_id)
        return await SignIn(config, config.auth, parts).sign_out(owner, named)
    stored = None if parts.logins is None else await parts.logins.find(owner)
    if parts.logins is None or stored is None:
        return None
    return await parts.logins.revoke(stored, http_url(stored.binding.resource))


_NO_REDIRECT = "http://127.0.0.1/unused"
"""Registrations need a redirect, which the device flow does not use."""
