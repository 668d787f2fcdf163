"""The steps of a user's sign-in by the gateway's pages; ``PageFlow`` is a SignInPages.

``OwnIssuer`` signs a browser in at the issuer of callers' tokens: a sign-in link works only for the
user who received it. ``ConsoleFlow`` signs people in to the console there and is an OwnSignIn. It
stores no records: the browser's cookie holds the encrypted state, so a client cannot exhaust the
number of concurrent sign-ins. Pages and cookies are in ``web``.
"""

import asyncio
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field

import structlog
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import (
    LoginRequired,
    LoginsUnavailable,
    ProxyError,
    QuotaExceeded,
    Unauthenticated,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import Principal
from mcp_tools_proxy.domain.logins import (
    PENDING_S,
    BrowserRedirect,
    Closed,
    Closing,
    Confirmation,
    LoginOwner,
    OfferedSignIn,
    SignInFailed,
    SignInRefused,
    SignInUnknown,
)
from mcp_tools_proxy.domain.server import LoginFor, ServerConfig
from mcp_tools_proxy.downstream.oauth.discovery import Issuer, find_issuer, http_url, origins_of
from mcp_tools_proxy.downstream.oauth.login_flow import (
    LoginRequest,
    PendingLogin,
    begin_login,
    check_answer,
    exchange_code,
)
from mcp_tools_proxy.downstream.oauth.oauth_web import IssuerUnavailable, OAuthRefused
from mcp_tools_proxy.downstream.oauth.server_sign_in import SignIn
from mcp_tools_proxy.downstream.oauth.server_tokens import OAuthParts
from mcp_tools_proxy.downstream.oauth.session_tokens import OAuthAccess
from mcp_tools_proxy.downstream.oauth.sign_in_records import (
    BrowserSecret,
    BrowserStep,
    PendingSignIn,
    SignInRecords,
)
from mcp_tools_proxy.downstream.oauth.token_endpoint import IssuerClient
from mcp_tools_proxy.storage.record_cipher import RecordCipher

FindServer = Callable[[str], ServerConfig | None]

OpenOAuth = Callable[[], Awaitable[OAuthAccess]]

log = structlog.get_logger()

UNKNOWN = (
    "This sign-in link has expired, was already used, or is unknown. Repeat the call that needs "
    "the sign-in to get a new link."
)
OTHER_BROWSER = (
    "This sign-in was started in another browser, or it is no longer pending. Nothing was "
    "connected. Open the sign-in link again."
)
OTHER_USER = (
    "This sign-in link belongs to a different user. Nothing was connected. Do not open sign-in "
    "links that other people send you."
)
OTHER_FORM = (
    "This form is not valid in this browser. Nothing was connected. Open the sign-in link again."
)
OWN_ISSUER_FAILED = (
    "Sign-in to this gateway failed. Nothing was connected. Open the sign-in link again. If the "
    "problem persists, contact an operator."
)
SERVER_ISSUER_FAILED = (
    "Sign-in to the server failed. Nothing was connected. Repeat the call that needs it. If the "
    "problem persists, contact an operator."
)


Verify = Callable[[str], Awaitable[Principal | None]]
"""Returns the principal that a caller's token proves. Raises Unauthenticated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnClient:
    """The gateway as a client of the issuer of callers' tokens."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    resource: str = ""
    """The requested audience (RFC 8707), empty if the gateway's is not an address."""


KEPT_S = 60.0
"""How long the issuer's metadata are cached, in seconds.

Anyone can begin a sign-in, and each one sent the issuer up to two requests.
"""


class OwnIssuer:
    """Sign-in of browsers as users of this gateway; ``verify`` is the check of callers' tokens."""

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
        """Return the token of the signed-in user, and its principal.

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
        """Return whether the signed-in user is the owner of the sign-in; the token is not stored.

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


class PageFlow:
    """A browser's sign-in; both issuers send it back to ``redirect_uri``."""

    def __init__(
        self,
        records: SignInRecords,
        own_client: OwnClient,
        open_oauth: OpenOAuth,
        verify: Verify,
        find_server: FindServer,
        *,
        redirect_uri: str,
        metadata_url: str | None,
    ) -> None:
        self._records = records
        self._own_client = own_client
        self._open_oauth = open_oauth
        self._own: OwnIssuer | None = None
        self._verify = verify
        self._find_server = find_server
        self._redirect_uri = redirect_uri
        self._metadata_url = metadata_url

    async def start(self, nonce: str) -> BrowserRedirect:
        """Begin the sign-in: first the user signs in at the issuer of callers' tokens."""
        async with failing(OWN_ISSUER_FAILED):
            pending = await self._pending(nonce)
            browser = BrowserSecret.new()
            login = await (await self._own_issuer()).begin(
                pending.owner, redirect_uri=self._redirect_uri, state=browser.state
            )
            await self._records.keep_step(
                browser.state, BrowserStep(to="own", nonce=nonce, login=login)
            )
        return BrowserRedirect(url=login.url, cookie=browser.cookie)

    async def answer(self, answer: dict[str, str], cookie: str | None) -> Confirmation | Closed:
        """Return the next step after an issuer's answer; always invalidate its state."""
        state = answer.get("state", "")
        async with failing(OWN_ISSUER_FAILED):
            step = await self._records.take_step(state)
            browser = None if cookie is None else BrowserSecret(cookie)
            if browser is not None and not browser.is_of(state):
                await self._records.take_step(browser.state)
                browser = None
        if browser is None or step is None:
            raise SignInRefused(OTHER_BROWSER)
        if step.to == "own":
            return await self._own_answer(step, answer)
        return await self._server_answer(step, answer)

    async def confirm(self, nonce: str, csrf: str, cookie: str | None) -> BrowserRedirect:
        """Continue to the server's issuer, after the user's confirmation."""
        async with failing(SERVER_ISSUER_FAILED):
            pending = await self._pending(nonce)
            browser = BrowserSecret(cookie or "")
            step = await self._records.take_step(browser.confirmation)
            if step is None or not browser.allows(csrf) or step.nonce != pending.nonce:
                raise SignInRefused(OTHER_FORM)
            await self._records.keep_step(browser.state, step)
        return BrowserRedirect(url=step.login.url, cookie=browser.cookie)

    async def closing(self, cookie: str | None) -> Closing | None:
        """Return the outcome of this browser's sign-in, once."""
        if cookie is None:
            return None
        async with failing(SERVER_ISSUER_FAILED):
            return await self._records.take_closing(BrowserSecret(cookie).closing)

    async def _own_answer(self, step: BrowserStep, answer: Mapping[str, str]) -> Confirmation:
        """Return the confirmation for the user, after checking that they own the sign-in."""
        async with failing(OWN_ISSUER_FAILED, step.login.request.owner):
            is_owner = await (await self._own_issuer()).is_owner(step.login, answer)
        if not is_owner:
            log.warning("login.other_user", server_id=step.login.request.owner.server_id)
            raise SignInRefused(OTHER_USER)
        async with failing(SERVER_ISSUER_FAILED, step.login.request.owner):
            pending = await self._pending(step.nonce)
            owner, browser = pending.owner, BrowserSecret.new()
            config, sign_in = await self._sign_in(owner)
            login = await sign_in.begin(
                owner,
                Caller(tenant_id=owner.tenant_id, user_id=owner.user_id),
                redirect_uri=self._redirect_uri,
                scopes=pending.scopes,
                state=browser.state,
            )
            await self._records.keep_step(
                browser.confirmation, BrowserStep(to="server", nonce=step.nonce, login=login)
            )
        return Confirmation(
            server_id=owner.server_id,
            server_url=str(URL(config.url).with_query(None)),
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            scopes=login.request.scopes or (),
            origin=str(URL(login.url).origin()),
            issuer=login.request.issuer,
            nonce=step.nonce,
            csrf=browser.csrf,
            cookie=browser.cookie,
        )

    async def _server_answer(self, step: BrowserStep, answer: Mapping[str, str]) -> Closed:
        """Store the login, or record the problem, and redirect to the page with the outcome."""
        owner = step.login.request.owner
        problem = ""
        try:
            async with failing(SERVER_ISSUER_FAILED, owner):
                if await self._records.take_pending(step.nonce) is None:
                    raise SignInUnknown(UNKNOWN)
                _, sign_in = await self._sign_in(owner)
                await sign_in.finish(step.login, answer)
        except SignInRefused as error:
            problem = str(error)
        browser = BrowserSecret.new()
        closing = Closing(server_id=owner.server_id, problem=problem)
        async with failing(SERVER_ISSUER_FAILED, owner):
            await self._records.keep_closing(browser.closing, closing, owner)
        return Closed(owner=owner, problem=problem, cookie=browser.cookie)

    async def _pending(self, nonce: str) -> PendingSignIn:
        pending = await self._records.pending(nonce)
        if pending is None:
            raise SignInUnknown(UNKNOWN)
        return pending

    async def _own_issuer(self) -> OwnIssuer:
        parts = (await self._open_oauth()).parts
        self._own = self._own or OwnIssuer(self._own_client, parts, self._verify)
        return self._own

    async def _sign_in(self, owner: LoginOwner) -> tuple[ServerConfig, SignIn]:
        config = self._find_server(owner.server_id)
        auth = None if config is None else config.auth
        if config is None or auth is None or not auth.grant.needs_person:
            raise SignInUnknown(UNKNOWN)
        if auth.login_for is not LoginFor.USER:
            raise SignInUnknown(UNKNOWN)
        parts = (await self._open_oauth()).parts
        return config, SignIn(config, auth, parts, metadata_url=self._metadata_url)


@asynccontextmanager
async def failing(message: str, owner: LoginOwner | None = None) -> AsyncIterator[None]:
    """Raise SignInFailed with ``message`` for the user if an issuer or the store fails."""
    try:
        yield
    except (IssuerUnavailable, OAuthRefused, ProxyError) as error:
        reason = (error.reason or error.message) if isinstance(error, ProxyError) else str(error)
        log.warning(
            "login.sign_in_failed",
            server_id=None if owner is None else owner.server_id,
            reason=reason,
        )
        if isinstance(error, QuotaExceeded):
            message = f"Nothing was connected: {error.message}."
        raise SignInFailed(message) from None


START_PATH = "/oauth/start"


class PageOffers:
    """The SignInOffers of a gateway with pages below ``pages_url``."""

    def __init__(self, records: SignInRecords, pages_url: str) -> None:
        self._records = records
        self._pages_url = pages_url

    async def with_address(self, error: LoginRequired, caller: Caller) -> LoginRequired:
        """Return the error with the address where this caller can sign in, if possible."""
        details = error.details or {}
        server_id, jwt = details.get("server_id"), caller.jwt
        if details.get("for") != LoginFor.USER.value or jwt is None:
            return error
        owner = LoginOwner(
            server_id=str(server_id),
            login_for=LoginFor.USER,
            tenant_id=caller.tenant_id,
            user_id=caller.user_id,
            user_issuer=jwt.issuer,
        )
        try:
            offered = await self.offer(owner, _scopes_of(details))
        except LoginsUnavailable as failure:
            return LoginRequired(
                f"{error.message}; {failure.message}", details=details, reason=error.reason
            )
        message = (
            f"the user has to sign in to server {server_id} first; show the user the address in "
            "details.url, and call again afterwards"
        )
        more: dict[str, object] = {"url": offered.url}
        if not self._records.is_shared:
            more["replicas"] = 1
            message += (
                "; only one replica knows the address: run a single replica, or set "
                "MCP_PROXY_STATE_URL, or keep the documents in PostgreSQL"
            )
        return LoginRequired(message, details={**details, **more}, reason=error.reason)

    async def offer(self, owner: LoginOwner, scopes: tuple[str, ...]) -> OfferedSignIn:
        """Return the address of an owner's pending sign-in. Raises LoginsUnavailable."""
        pending = await self._records.offer(owner, scopes)
        return OfferedSignIn(
            url=f"{self._pages_url}{START_PATH}/{pending.nonce}",
            expires_in_s=self._records.seconds_left(pending),
        )


def _scopes_of(details: Mapping[str, object]) -> tuple[str, ...]:
    scopes = details.get("scopes")
    return tuple(map(str, scopes)) if isinstance(scopes, list) else ()


FAILED = "Sign-in failed. Try again. If the problem persists, contact an operator."
OTHER_CONSOLE_BROWSER = (
    "This sign-in was started in another browser, or it has expired. Sign in again."
)
NO_USER = "The issuer’s token does not name a user of this gateway. Contact an operator."

_NAME = b"console sign-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trip:
    """A browser's visit to the issuer; ``ends_at`` is in seconds since 1970."""

    login: PendingLogin
    ends_at: float


_TRIP = TypeAdapter(_Trip)


class ConsoleFlow:
    """A browser's sign-in to the console; the issuer sends it back to ``redirect_uri``."""

    def __init__(
        self,
        own_client: OwnClient,
        open_oauth: OpenOAuth,
        verify: Verify,
        cipher: RecordCipher,
        now: Callable[[], float],
        *,
        redirect_uri: str,
    ) -> None:
        self._own_client = own_client
        self._open_oauth = open_oauth
        self._own: OwnIssuer | None = None
        self._verify = verify
        self._cipher = cipher
        self._now = now
        self._redirect_uri = redirect_uri

    async def begin(self) -> BrowserRedirect:
        """Return the redirect to the issuer."""
        owner = LoginOwner(server_id="", login_for=LoginFor.USER)  # the user is unknown yet
        async with failing(FAILED):
            login = await (await self._issuer()).begin(
                owner, redirect_uri=self._redirect_uri, state=BrowserSecret.new().state
            )
        content = _TRIP.dump_json(_Trip(login=login, ends_at=self._now() + PENDING_S))
        sealed = urlsafe_b64encode(self._cipher.encrypt(content, _NAME)).decode().rstrip("=")
        return BrowserRedirect(url=login.url, cookie=sealed)

    async def finish(self, answer: dict[str, str], cookie: str | None) -> str:
        """Return the token that the issuer gave for its answer."""
        login = None if cookie is None else self._open(cookie)
        state = answer.get("state", "").encode("utf-8", "replace")
        if login is None or not hmac.compare_digest(login.state.encode(), state):
            raise SignInRefused(OTHER_CONSOLE_BROWSER)
        async with failing(FAILED):
            token, principal = await (await self._issuer()).signed_in(login, answer)
        if principal is None or principal.jwt is None:
            raise SignInRefused(NO_USER)
        return token

    async def _issuer(self) -> OwnIssuer:
        parts = (await self._open_oauth()).parts
        self._own = self._own or OwnIssuer(self._own_client, parts, self._verify)
        return self._own

    def _open(self, cookie: str) -> PendingLogin | None:
        try:
            sealed = urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
            content = self._cipher.decrypt(sealed, _NAME)
            trip = None if content is None else _TRIP.validate_json(content)
        except (ValueError, ValidationError):
            return None
        return None if trip is None or trip.ends_at <= self._now() else trip.login
