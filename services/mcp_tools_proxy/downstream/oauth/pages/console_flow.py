"""Signs people in to the console at the issuer of callers' tokens; ``ConsoleFlow`` is an OwnSignIn.

Nothing is kept here meanwhile: what the trip needs is sealed in the browser's cookie, so nobody can
use up the sign-ins that there may be at once.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.domain.server_auth import LoginFor
from mcp_tools_proxy.domain.sign_in_pages import PENDING_S, BrowserRedirect, SignInRefused
from mcp_tools_proxy.downstream.oauth.login_flow import PendingLogin
from mcp_tools_proxy.downstream.oauth.pages.browser_secret import BrowserSecret
from mcp_tools_proxy.downstream.oauth.pages.own_issuer import OwnClient, OwnIssuer, Verify
from mcp_tools_proxy.downstream.oauth.pages.page_flow import OpenOAuth, failing
from mcp_tools_proxy.encryption.record_cipher import RecordCipher

FAILED = "Sign-in failed. Try again. If the problem persists, contact an operator."
OTHER_BROWSER = "This sign-in was started in another browser, or it has expired. Sign in again."
NO_USER = "The issuer’s token does not name a user of this gateway. Contact an operator."

_NAME = b"console sign-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trip:
    """A trip of one browser to the issuer; ``ends_at`` is in seconds since 1970."""

    login: PendingLogin
    ends_at: float


_TRIP = TypeAdapter(_Trip)


class ConsoleFlow:
    """Leads a browser to the issuer and back; ``redirect_uri`` is where that sends it."""

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
        """Return where the browser goes."""
        owner = LoginOwner(server_id="", login_for=LoginFor.USER)  # nobody yet
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
            raise SignInRefused(OTHER_BROWSER)
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
