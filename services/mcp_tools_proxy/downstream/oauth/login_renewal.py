"""Tokens of people who have signed in: found in the store, renewed under a lease, revoked."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import structlog
from yarl import URL

from mcp_tools_proxy.domain.errors import LoginsUnavailable, QuotaExceeded
from mcp_tools_proxy.domain.logins import (
    EndedLogin,
    Login,
    LoginBinding,
    LoginFacts,
    LoginOwner,
)
from mcp_tools_proxy.domain.server import Grant, is_same_issuer
from mcp_tools_proxy.downstream.oauth.discovery import Discovered, Issuer, find_issuer, origins_of
from mcp_tools_proxy.downstream.oauth.oauth_web import IssuerUnavailable, OAuthRefused, OAuthWeb
from mcp_tools_proxy.downstream.oauth.token_endpoint import (
    MARGIN_S,
    AccessToken,
    IssuerClient,
    TokenEndpoint,
    refusal,
)
from mcp_tools_proxy.storage.logins.login_sealer import LoginSealer
from mcp_tools_proxy.storage.logins.login_store import LoginStore, StoredLogin

log = structlog.get_logger()

_GRANT = "refresh_token"

NO_LOGIN = "there is no login yet"
_UNREADABLE = "the login cannot be decrypted with the keys in MCP_PROXY_CREDENTIALS_KEY"
_OF_ANOTHER_ENTRY = "the url, issuer or client of the entry has changed since the sign-in"

NoticeLogin = Callable[[LoginOwner, float | None], None]
"""Called with an owner and the time of the owner's login, or None without a login."""


class LoginNeeded(Exception):
    """A person has to sign in; the message has the reason, for operators.

    ``scopes`` are those of the existing login, for a wider one.
    """

    def __init__(self, message: str, scopes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.scopes = scopes


class WantedScopes(NamedTuple):
    """The scopes of a login, and those that its server last demanded; empty without a login."""

    had: tuple[str, ...]
    demanded: tuple[str, ...]


class StoredLogins:
    """The logins of one server's owners; ``now`` returns seconds since 1970.

    A renewal holds the owner's lease, so only one replica renews a login, and the others then find
    the new token. Issuers can accept a refresh token only once. Therefore the stored login is
    marked ``refresh_sent`` before its refresh token is sent, and unmarked if the issuer cannot have
    executed the request. A renewal that finds the mark removes the login, as an answer was lost,
    and the person has to sign in again.

    ``notice`` is called after each look-up, with the owner and the time of the login.
    """

    def __init__(
        self,
        web: OAuthWeb,
        store: LoginStore,
        sealer: LoginSealer,
        now: Callable[[], float],
        notice: NoticeLogin | None = None,
    ) -> None:
        self._notice = notice
        self._web = web
        self._store = store
        self._sealer = sealer
        self._now = now

    async def keep(self, login: Login) -> None:
        """Store a new login, which replaces the owner's previous one. Raises LoginsUnavailable."""
        await self._store.put(login.owner, login.binding, self._sealer.seal(login))

    async def facts(self, tenant_id: str, *, user_id: str | None = None) -> Sequence[LoginFacts]:
        """Return the logins of a tenant, or of the deployment for "", or only those of one user.

        Logins of other users are then not read: a tenant may have many, and one may be damaged.
        """
        found = []
        for owner in await self._store.owners(tenant_id):
            if user_id not in (None, owner.user_id):
                continue
            if (stored := await self._store.find(owner)) is not None:
                found.append(self._facts_of(stored))
        return found

    async def reseal(self, tenant_id: str) -> None:
        """Encrypt the logins of a tenant, or of the deployment for "", with the key for new ones.

        It holds each owner's lease, so a renewal in progress writes its login first. Raises
        LoginsUnavailable.
        """
        for owner in await self._store.owners(tenant_id):
            async with self._store.lease(owner) as stored:
                login = None if stored is None else self.open(stored)
                if stored is None or login is None or self._is_of_first_key(stored):
                    continue
                sealed = self._sealer.seal(login)
                await self._store.replace(stored, sealed, refresh_sent=stored.refresh_sent)

    async def find(self, owner: LoginOwner) -> StoredLogin | None:
        """Return an owner's login with any binding. Raises LoginsUnavailable."""
        stored = await self._store.find(owner)
        if self._notice is not None:
            login = None if stored is None else self.open(stored)
            self._notice(owner, None if login is None else login.signed_in_at)
        return stored

    async def check(
        self, owner: LoginOwner, *, issuer: str | None, resource: str | None, client_id: str | None
    ) -> None:
        """Check, without sending a request, that an owner has a login that fits an entry.

        None matches any value. A login that needs a renewal counts, as only the renewal shows
        whether the issuer grants it. Raises LoginNeeded, LoginsUnavailable.
        """
        stored = await self._store.find(owner)
        if stored is None:
            raise LoginNeeded(NO_LOGIN)
        login = self.open(stored)
        if login is None:
            raise LoginNeeded(_UNREADABLE)
        bound = stored.binding
        pairs = ((resource, bound.resource), (client_id, bound.client_id))
        is_of_issuer = issuer is None or is_same_issuer(issuer, bound.issuer)
        if not is_of_issuer or any(wanted not in (None, it) for wanted, it in pairs):
            raise LoginNeeded(_OF_ANOTHER_ENTRY)
        can_renew = login.refresh_token is not None and not stored.refresh_sent
        if not (can_renew or self._is_good(login, None)):
            raise _ended(stored, login)

    async def token(
        self,
        stored: StoredLogin,
        found: Discovered,
        client: Mapping[str, str],
        refused: str | None = None,
    ) -> AccessToken:
        """Return a token of a login that is valid for a while.

        ``client`` has the entry's ``id`` and ``secret``, if configured; ``refused`` is a token that
        the server does not accept. Raises LoginNeeded, IssuerUnavailable, OAuthRefused,
        LoginsUnavailable.
        """
        login = await self._fitting(stored, found, client)
        if self._is_good(login, refused):
            return _token_of(login)
        return await self._renewed(stored.owner, found, client, refused)

    async def note_demanded(self, owner: LoginOwner, scopes: tuple[str, ...]) -> None:
        """Store with a login the scopes that its server demands, for the next sign-in to request.

        Raises LoginsUnavailable.
        """
        async with self._store.lease(owner) as stored:
            login = None if stored is None else self.open(stored)
            if stored is None or login is None or login.demanded == scopes:
                return
            sealed = self._sealer.seal(replace(login, demanded=scopes))
            with suppress(QuotaExceeded):  # then the next sign-in requests those of the login only
                await self._store.replace(stored, sealed, refresh_sent=stored.refresh_sent)

    async def wanted_scopes(self, owner: LoginOwner) -> WantedScopes:
        """Return a login's scopes and those that its server demands. Raises LoginsUnavailable."""
        stored = await self._store.find(owner)
        login = None if stored is None else self.open(stored)
        if login is None:
            return WantedScopes((), ())
        return WantedScopes(login.scopes, login.demanded)

    async def revoke(
        self, stored: StoredLogin, server: URL, client: Mapping[str, str] | None = None
    ) -> EndedLogin:
        """Remove a login, and revoke it at its issuer, if possible.

        ``client`` has the entry's ``id`` and ``secret``, for a login that fits the entry. Any other
        login may have another issuer, which must not see them.
        """
        login = self.open(stored)
        await self._store.remove(stored)
        if login is None:
            return EndedLogin(not_revoked=_UNREADABLE)
        try:
            issuer = await find_issuer(
                self._web,
                stored.binding.issuer,
                server=server,
                configured=origins_of([stored.binding.issuer]),
            )
            await self._revoke(issuer, login, client or {})
        except (IssuerUnavailable, OAuthRefused) as error:
            log.warning("login.not_revoked", server_id=stored.owner.server_id, reason=str(error))
            return EndedLogin(not_revoked=str(error))
        return EndedLogin()

    def open(self, stored: StoredLogin) -> Login | None:
        """Return the decrypted login, checked with its own binding; None if no key decrypts it."""
        return self._sealer.open(stored.sealed, stored.owner, stored.binding)

    def _facts_of(self, stored: StoredLogin) -> LoginFacts:
        try:
            login = self.open(stored)
        except LoginsUnavailable:  # of a newer release: the others are still shown
            login = None
        return LoginFacts(
            owner=stored.owner,
            signed_in_at=None if login is None else login.signed_in_at,
            is_of_first_key=self._is_of_first_key(stored),
        )

    def _is_of_first_key(self, stored: StoredLogin) -> bool:
        return self._sealer.is_of_first_key(stored.sealed, stored.owner, stored.binding)

    async def _fitting(
        self, stored: StoredLogin, found: Discovered, client: Mapping[str, str]
    ) -> Login:
        """Return the login, if it fits the current entry. Raises LoginNeeded.

        Otherwise it is revoked, as it would never be found again.
        """
        bound, issuer = stored.binding.issuer, found.issuer.name
        expected = LoginBinding(
            resource=found.resource,
            issuer=bound if is_same_issuer(bound, issuer) else issuer,
            client_id=client.get("id", stored.binding.client_id),
            grant=Grant.AUTHORIZATION_CODE,
        )
        if stored.binding != expected:
            await self.revoke(stored, found.issuer.server)
            raise LoginNeeded(_OF_ANOTHER_ENTRY)
        login = self._sealer.open(stored.sealed, stored.owner, expected)
        if login is None:
            log.error("login.unreadable", server_id=stored.owner.server_id)
            raise LoginNeeded(_UNREADABLE)
        return login

    def _is_good(self, login: Login, refused: str | None) -> bool:
        if login.access_token == refused:
            return False
        return login.expires_at is None or self._now() < login.expires_at - MARGIN_S

    async def _renewed(
        self, owner: LoginOwner, found: Discovered, client: Mapping[str, str], refused: str | None
    ) -> AccessToken:
        async with self._store.lease(owner) as stored:
            if stored is None:
                raise LoginNeeded(NO_LOGIN)
            login = await self._fitting(stored, found, client)
            if self._is_good(login, refused):
                return _token_of(login)
            if stored.refresh_sent:
                await self._store.remove(stored)  # its refresh token may be used up
            if login.refresh_token is None or stored.refresh_sent:
                raise _ended(stored, login)
            sent = await self._store.replace(stored, stored.sealed, refresh_sent=True)
            if sent is None:
                raise IssuerUnavailable("the login was changed at the same time")
            renewed = await self._refresh(sent, login, found.issuer, client)
            try:
                kept = await self._store.replace(sent, self._sealer.seal(renewed))
            except QuotaExceeded as error:  # its refresh token is used up: the old login is useless
                log.warning(
                    "login.over_quota", server_id=owner.server_id, tenant_id=owner.tenant_id,
                    reason=error.message,
                )  # fmt: skip
                await self._store.remove(sent)
                return _token_of(renewed)
            if kept is None:
                log.warning("login.changed_meanwhile", server_id=owner.server_id)
        return _token_of(renewed)

    async def _refresh(
        self, sent: StoredLogin, login: Login, issuer: Issuer, client: Mapping[str, str]
    ) -> Login:
        """Send the refresh token, for the only time, and return the login with the new tokens."""
        form = {
            "grant_type": _GRANT,
            "refresh_token": login.refresh_token or "",
            "resource": login.binding.resource,
        }
        endpoint = TokenEndpoint(self._web, issuer, _client_of(login, client), self._now)
        try:
            token = await endpoint.token(form)
        except IssuerUnavailable as error:
            if not error.may_have_worked:
                await self._store.replace(sent, sent.sealed)
            raise
        except OAuthRefused as error:
            if (why := _lost_for_good(error, login, client)) is not None:
                await self._store.remove(sent)
                raise LoginNeeded(why, login.scopes) from None
            if not error.may_have_worked:
                await self._store.replace(sent, sent.sealed)
            raise
        return replace(
            login,
            access_token=token.access,
            expires_at=token.expires_at,
            refresh_token=token.refresh or login.refresh_token,
        )  # its scopes stay: a renewal grants no others (RFC 6749 §6)

    async def _revoke(self, issuer: Issuer, login: Login, client: Mapping[str, str]) -> None:
        """Revoke the tokens of a login. Raises IssuerUnavailable, OAuthRefused.

        An issuer may revoke refresh tokens only (RFC 7009 §2).
        """
        endpoint = issuer.metadata.revocation_endpoint
        if endpoint is None:
            raise OAuthRefused(f"issuer {issuer.name} does not support revoking tokens")
        url = URL(str(endpoint))
        requests = TokenEndpoint(self._web, issuer, _client_of(login, client), self._now)
        for token in filter(None, (login.refresh_token, login.access_token)):
            answer = await requests.post(url, {"token": token})
            refused = refusal(answer, issuer.name)
            if answer.status != 200 and refused.error != "unsupported_token_type":
                raise refused


def _ended(stored: StoredLogin, login: Login) -> LoginNeeded:
    why = "the login has expired and has no refresh token"
    if stored.refresh_sent:
        why = "the login could not be renewed, because an answer of the issuer was lost"
    return LoginNeeded(why, login.scopes)


def _lost_for_good(error: OAuthRefused, login: Login, client: Mapping[str, str]) -> str | None:
    """Return why a refused login can never be renewed; None if it still may be.

    The issuer can have removed a registered client; the next sign-in registers another.
    """
    if error.error == "invalid_grant":
        return "the issuer refused to renew the login"
    is_document = login.binding.client_id.startswith("https://")
    if error.error == "invalid_client" and "id" not in client and not is_document:
        return "the issuer no longer knows the client that was registered for the login"
    return None


def _client_of(login: Login, filled: Mapping[str, str]) -> IssuerClient:
    return IssuerClient(
        client_id=login.binding.client_id,
        secret=filled.get("secret", login.client_secret),
        method=login.token_endpoint_auth_method,
    )


def _token_of(login: Login) -> AccessToken:
    return AccessToken(
        access=login.access_token, expires_at=login.expires_at, scopes=login.scopes, refresh=None
    )
