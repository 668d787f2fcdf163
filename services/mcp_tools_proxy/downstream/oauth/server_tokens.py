"""The tokens for one server: their owners, and handling of refusals.

One request at a time gets the current token of an owner, and renews it before it expires.
"""

import asyncio
import math
import shlex
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate
from mcp_tools_proxy.domain.errors import (
    CredentialsInsufficient,
    IdentityRequired,
    LoginRequired,
    LoginsUnavailable,
    ServerUnavailable,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import CallerJwt
from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.domain.server import (
    Grant,
    LoginFor,
    OAuthClient,
    ServerAuth,
    ServerConfig,
    is_same_issuer,
)
from mcp_tools_proxy.downstream.connection import AUTHORIZATION
from mcp_tools_proxy.downstream.oauth.discovery import (
    Challenge,
    Discovered,
    Discovery,
    Issuer,
    find_challenge,
    find_issuer,
    http_url,
    origins_of,
)
from mcp_tools_proxy.downstream.oauth.login_renewal import NO_LOGIN, LoginNeeded, StoredLogins
from mcp_tools_proxy.downstream.oauth.oauth_web import IssuerUnavailable, OAuthRefused, OAuthWeb
from mcp_tools_proxy.downstream.oauth.token_endpoint import (
    MARGIN_S,
    AccessToken,
    IssuerClient,
    UnattendedGrants,
)

MAX_OWNERS = 10_000
"""The least recently used owners are dropped."""

MAX_TOKENS_OF_USER = 16
"""Each set of claims in the user's JWTs has its own token."""

BEARER = "Bearer "

_NO_KEY = "MCP_PROXY_CREDENTIALS_KEY is not set, so logins cannot be stored"

Owner = tuple[str, ...]
"""The tenant, or tenant, user and issuer of the user's JWT; empty for the deployment.

If the JWT is exchanged, ``Caller.jwt_claims`` are a fourth part.
"""

FillTexts = Callable[
    [Mapping[str, str | CallerTemplate], Caller | None], Awaitable[Mapping[str, str]]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthParts:
    """Dependencies that the tokens of all servers share; ``now`` returns seconds since 1970."""

    web: OAuthWeb
    fill: FillTexts
    jwt_issuer: str | None = None
    logins: StoredLogins | None = None
    now: Callable[[], float]

    async def filled(self, client: OAuthClient, caller: Caller | None) -> Mapping[str, str]:
        """Return the ``id`` and the ``secret`` of a client, if its entry has them.

        Raises as ``fill``.
        """
        texts = {"id": client.client_id, "secret": client.client_secret}
        return await self.fill({name: it for name, it in texts.items() if it is not None}, caller)


class ServerAccess:
    """The tokens for one server, one for each owner."""

    def __init__(self, config: ServerConfig, auth: ServerAuth, parts: OAuthParts) -> None:
        self.config = config
        self._auth = auth
        self._parts = parts
        self._server = http_url(config.url)
        self._owners: dict[Owner, OwnerTokens] = {}
        self._found: Discovered | None = None
        self._callers_issuer: Issuer | None = None
        """The issuer of callers' JWTs, if it differs from the server's."""
        self._challenge: Challenge | None = None
        self._grants = UnattendedGrants(parts.web, auth, parts.now)

    def __repr__(self) -> str:
        return f"<ServerAccess {self.config.server_id} {len(self._owners)} owners>"

    def is_for(self, config: ServerConfig, auth: ServerAuth) -> bool:
        """Return whether these are the tokens of an entry."""
        if config is self.config and auth is self._auth:  # in all calls except those after a reload
            return True
        return config.url == self.config.url and auth == self._auth

    def offer(self, caller: Caller) -> Owner:
        """Keep the JWT of a request, if it is exchanged for tokens; return the owner of the tokens.

        A user without a JWT gets no session, as it would have that user's login. Raises
        IdentityRequired.
        """
        owner = self.owner_of(caller)
        if self._auth.login_for is LoginFor.USER and caller.jwt is None:
            raise IdentityRequired(
                "the server needs the user of the caller, proven by a JWT; send one that names "
                "the user",
                details={"part": CallerPart.USER_ID.value},
            )
        if self._auth.grant.needs_jwt:
            self._tokens_of(owner, caller).jwt = caller.jwt
        return owner

    def owner_of(self, caller: Caller) -> Owner:
        """Return the owner of a call's token. Raises IdentityRequired."""
        match self._auth.login_for:
            case LoginFor.DEPLOYMENT:
                return ()
            case LoginFor.TENANT:
                return (CallerPart.TENANT_ID.of(caller),)
            case LoginFor.USER:
                parts = CallerPart.TENANT_ID.of(caller), CallerPart.USER_ID.of(caller)
                owner = (*parts, self._parts.jwt_issuer or "")
                return (*owner, caller.jwt_claims) if self._auth.grant.needs_jwt else owner

    async def check_login(self, caller: Caller) -> bool:
        """Check, without sending a request, that a call would find the login that it needs.

        Return whether the call has to prove its user as well. Raises LoginRequired,
        CredentialsMissing, LoginsUnavailable.
        """
        owner = self.owner_of(caller)
        if self._auth.grant.needs_person:
            await self._check_stored(owner, caller)
        return self._auth.login_for is LoginFor.USER

    async def header_for(self, caller: Caller) -> Mapping[str, str]:
        """Return the header with the token of a call, before anything of it is sent.

        Raises IdentityRequired, and as ``header``.
        """
        return await self.header(self.offer(caller), caller)

    async def header(self, owner: Owner, caller: Caller | None) -> Mapping[str, str]:
        """Return the header with the owner's token.

        Raises CredentialsMissing, CredentialsInsufficient, LoginRequired, LoginsUnavailable,
        ServerUnavailable.
        """
        try:
            token = await self._tokens_of(owner, caller).current()
        except LoginNeeded as error:
            raise self._login_required(owner, str(error), error.scopes) from None
        except OAuthRefused as error:
            self._found = self._callers_issuer = None
            raise insufficient(str(error)) from None
        except IssuerUnavailable as error:
            raise self._unavailable(str(error)) from None
        return {AUTHORIZATION: f"{BEARER}{token.access}"}

    def drop(self, owner: Owner, access: str) -> None:
        """Discard a token that the server refused, and the discovered issuer."""
        self._found = self._callers_issuer = None
        if (tokens := self._owners.get(owner)) is not None:
            tokens.drop(access)

    def note_challenge(self, challenge: Challenge) -> None:
        """Keep the server's last statement about the tokens that it wants."""
        self._challenge = challenge

    async def widen(self, owner: Owner, access: str, scopes: tuple[str, ...]) -> None:
        """Prepare for another token with more scopes.

        The demanded scopes are stored with a login, for the next sign-in. Raises
        CredentialsInsufficient, and LoginRequired if a person has to allow it.
        """
        allowed = self._auth.scopes
        await self._note_demanded(owner, scopes)
        if allowed is not None and not set(scopes) <= set(allowed):
            beyond = ", ".join(it for it in scopes if it not in allowed)
            raise insufficient(
                f"the server requires scopes that the entry does not allow: {beyond}"
            )
        if not self._auth.grant.needs_person:
            if allowed is None:
                raise insufficient("the server requires scopes, but the entry sets none")
            self.drop(owner, access)
            return
        tokens = self._owners.get(owner)
        granted = () if tokens is None else tokens.scopes
        if set(scopes) <= set(granted):
            names = ", ".join(scopes) or "it names none"
            raise insufficient(f"the server requires scopes that the login already has: {names}")
        self._owners.pop(owner, None)  # the next call reads the login stored at that time
        union = tuple(dict.fromkeys((*granted, *scopes)))
        raise self._login_required(owner, "the server requires scopes that the login lacks", union)

    async def _note_demanded(self, owner: Owner, scopes: tuple[str, ...]) -> None:
        logins = self._parts.logins
        if logins is None or not self._auth.grant.needs_person or not scopes:
            return
        with suppress(LoginsUnavailable):  # the error of the call names the scopes as well
            await logins.note_demanded(self.login_owner(owner), scopes)

    def _login_required(
        self, owner: Owner, why: str, scopes: tuple[str, ...] = ()
    ) -> LoginRequired:
        server_id = self.config.server_id
        command = login_command(self.login_owner(owner), scopes)
        error = LoginRequired(
            f"the user has to sign in to server {server_id} first; tell the user",
            details={
                "server_id": server_id,
                "for": self._auth.login_for.value,
                **({"scopes": list(scopes)} if scopes else {}),
            },
            reason=f"{why}; sign in with: {command}",
        )
        error.command = command
        return error if self._auth.login_for is LoginFor.USER else of_operator(error, server_id)

    async def _get(self, owner: Owner, caller: Caller | None, refused: str | None) -> AccessToken:
        if self._auth.grant.needs_person:
            return await self._logged_in(owner, caller, refused)
        found = await self._discovered()
        client = await self._client(self._auth.client, caller)
        if self._auth.grant is Grant.CLIENT_CREDENTIALS:
            return await self._grants.client_credentials(found, client)
        jwt, issuer = self._jwt(owner), await self._jwt_issuer()
        if self._auth.grant is Grant.TOKEN_EXCHANGE:
            return await self._grants.exchange(found, issuer, client, jwt)
        idp_client = await self._client(self._auth.idp_client or self._auth.client, caller)
        return await self._grants.id_jag(
            found, issuer, idp_client=idp_client, client=client, jwt=jwt
        )

    async def _logged_in(
        self, owner: Owner, caller: Caller | None, refused: str | None
    ) -> AccessToken:
        logins = self._parts.logins
        if logins is None:
            raise LoginNeeded(_NO_KEY)
        stored = await logins.find(self.login_owner(owner))
        if stored is None:
            raise LoginNeeded(NO_LOGIN)  # without sending a request
        filled = await self._parts.filled(self._auth.client, caller)
        return await logins.token(stored, await self._discovered(), filled, refused)

    async def _check_stored(self, owner: Owner, caller: Caller) -> None:
        found, logins = self._found, self._parts.logins
        if logins is None:
            raise self._login_required(owner, _NO_KEY)
        filled = await self._parts.filled(self._auth.client, caller)
        try:
            await logins.check(
                self.login_owner(owner),
                issuer=self._auth.issuer if found is None else found.issuer.name,
                resource=self._auth.resource if found is None else found.resource,
                client_id=filled.get("id"),
            )
        except LoginNeeded as error:
            raise self._login_required(owner, str(error), error.scopes) from None

    def login_owner(self, owner: Owner) -> LoginOwner:
        """Return the owner in the format of stored logins."""
        tenant_id, user_id, issuer = (*owner, "", "", "")[:3]
        return LoginOwner(
            server_id=self.config.server_id,
            login_for=self._auth.login_for,
            tenant_id=tenant_id,
            user_id=user_id,
            user_issuer=issuer,
        )

    async def _discovered(self) -> Discovered:
        if self._found is None:
            if self._challenge is None and self._auth.issuer is None:
                # only the challenge may name the metadata
                self._challenge = await find_challenge(self._parts.web, self._server)
            discovery = Discovery(self._parts.web, self._server, self._auth)
            self._found = await discovery.discover(self._challenge)
        return self._found

    async def _jwt_issuer(self) -> Issuer:
        issuer = self._parts.jwt_issuer
        if issuer is None:
            raise OAuthRefused("the issuer of callers' tokens is not set; set MCP_PROXY_JWT_ISSUER")
        found = await self._discovered()
        if is_same_issuer(found.issuer.name, issuer):
            return found.issuer
        if self._callers_issuer is None:
            self._callers_issuer = await find_issuer(
                self._parts.web, issuer, server=self._server, configured=origins_of([issuer])
            )
        return self._callers_issuer

    def _jwt(self, owner: Owner) -> CallerJwt:
        jwt = self._owners[owner].jwt if owner in self._owners else None
        if jwt is None or jwt.expires_at <= self._parts.now():
            raise OAuthRefused("the user's token has expired; the user has to send a new one")
        return jwt

    async def _client(self, client: OAuthClient, caller: Caller | None) -> IssuerClient:
        filled = await self._parts.filled(client, caller)
        return IssuerClient(
            client_id=filled.get("id", ""),
            secret=filled.get("secret"),
            method=client.token_endpoint_auth_method,
        )

    def _tokens_of(self, owner: Owner, caller: Caller | None) -> "OwnerTokens":
        """Return the tokens of an owner; at a limit the least recently used ones are dropped."""
        known = self._owners.get(owner)
        if known is not None:
            return known
        for others, most in (
            (self._of_same_user(owner), MAX_TOKENS_OF_USER),
            (self._owners, MAX_OWNERS),
        ):
            if len(others) >= most:
                del self._owners[min(others, key=lambda it: self._owners[it].used_at)]
        tokens = self._owners[owner] = OwnerTokens(
            lambda refused: self._get(owner, caller, refused),
            self._parts.now,
            is_stored=self._auth.grant.needs_person,
        )
        return tokens

    def _of_same_user(self, owner: Owner) -> Collection[Owner]:
        """Return the owners that differ from this one only in the claims of the JWT."""
        if not self._auth.grant.needs_jwt:
            return ()
        return [it for it in self._owners if it[:3] == owner[:3]]

    def _unavailable(self, reason: str) -> ServerUnavailable:
        server_id = self.config.server_id
        return ServerUnavailable(
            f"server {server_id} is unavailable: a token for it cannot be obtained now; try "
            "again later",
            details={"server_id": server_id},
            reason=reason,
        )


def of_operator(error: LoginRequired, server_id: str) -> LoginRequired:
    """Return the error of a missing login that an operator, not the caller, has to provide."""
    found = LoginRequired(
        f"an operator has to sign in to server {server_id} first; tell the user",
        details=error.details,
        reason=error.reason,
    )
    found.command = error.command
    return found


def login_command(owner: LoginOwner, scopes: tuple[str, ...] = ()) -> str:
    """Return the command for an operator to sign in."""
    options = [("--tenant", owner.tenant_id), ("--user", owner.user_id)]
    options += [("--scope", scope) for scope in scopes]
    words = [word for option in options if option[1] for word in option]
    return shlex.join(["mcp-tools-proxy", "login", owner.server_id, *words])


def insufficient(reason: str) -> CredentialsInsufficient:
    """Build the error of rejected credentials; the reason is for operators only."""
    return CredentialsInsufficient(
        "the server, or its issuer, does not accept the gateway's credentials for this call; do "
        "not try again: tell the user, or an operator",
        reason=reason,
    )


LOGIN_FRESH_S = 10.0
"""Seconds until a stored login is read again, as it can be renewed or removed elsewhere."""

RETRY_S = 5.0
"""Pause before retrying an unavailable issuer while the last token is valid."""

GetToken = Callable[[str | None], Awaitable[AccessToken]]
"""Gets a token other than the given one, which the server refused; None means any.

Raises IssuerUnavailable, OAuthRefused, LoginNeeded.
"""


class OwnerTokens:
    """The token of one owner in memory.

    ``now`` returns seconds since 1970, the unit of a token's expiry; ``clock`` is monotonic.
    """

    def __init__(
        self,
        get: GetToken,
        now: Callable[[], float],
        *,
        is_stored: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._get = get
        self._now = now
        self._clock = clock
        self.jwt: CallerJwt | None = None
        """The last JWT that proved the owner, if it is exchanged for tokens."""
        self.scopes: tuple[str, ...] = ()
        self._fresh_s = LOGIN_FRESH_S if is_stored else math.inf
        self._token: AccessToken | None = None
        self._until = self._ends = 0.0
        self._refused: str | None = None
        self._lock = asyncio.Lock()
        self._attempts = 0
        self._failure: Exception | None = None
        self.used_at = clock()

    def __repr__(self) -> str:
        return f"<OwnerTokens has_token={self._token is not None}>"

    async def current(self) -> AccessToken:
        """Return a token that is valid for a while. Raises as GetToken.

        While the issuer is unavailable, the last token is used until it expires, unless the server
        refused it. Requests that waited for a failed attempt fail with its error instead of
        starting their own.
        """
        self.used_at = self._clock()
        if self._token is not None and self.used_at < self._until:
            return self._token
        seen = self._attempts
        async with self._lock:
            if self._token is not None and self._clock() < self._until:
                return self._token
            if self._attempts > seen and self._failure is not None:
                raise self._failure
            return await self._renew()

    def drop(self, access: str) -> None:
        """Discard a token that the server refused, unless it was replaced already."""
        if self._token is None or self._token.access == access:
            self._token, self._refused = None, access

    async def _renew(self) -> AccessToken:
        last, self._token = self._token, None
        begun = self._clock()
        try:
            token = await self._get(self._refused)
        except IssuerUnavailable as error:
            if last is None or self._clock() >= self._ends:
                self._failure = without_frames(error)
                raise
            self._failure, self._token = None, last
            self._until = min(self._clock() + RETRY_S, self._ends)
            return last
        except (OAuthRefused, LoginNeeded) as error:
            self._failure = without_frames(error)
            raise
        else:
            self._failure = None
        finally:
            self._attempts += 1
        self._token, self.scopes = token, token.scopes
        life_s = math.inf if token.expires_at is None else token.expires_at - self._now()
        self._ends = begun + life_s
        self._until = begun + min(_good_for_s(life_s), self._fresh_s)
        return token


def _good_for_s(life_s: float) -> float:
    """Return how many seconds to use a new token; a short-lived one for half its life."""
    return life_s - min(MARGIN_S, life_s / 2)
