"""Stored logins: owners, bindings, and the sign-in pages for users."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Protocol

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import LoginRequired
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.server import Grant, LoginFor


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOwner:
    """The owner of a login to a server: deployment, tenant or user; unused fields are empty.

    A user is identified together with tenant and JWT issuer, because user ids are only unique per
    issuer.
    """

    server_id: str
    login_for: LoginFor
    tenant_id: str = ""
    user_id: str = ""
    user_issuer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginBinding:
    """The scope of a login; entries with different values must not use it."""

    resource: str
    issuer: str
    client_id: str
    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The tokens of a login, and the client that obtained them.

    Times are seconds since 1970.
    """

    owner: LoginOwner
    binding: LoginBinding
    access_token: str = field(repr=False)
    expires_at: float | None
    """None if the issuer did not specify it."""
    refresh_token: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    demanded: tuple[str, ...] = ()
    """The missing scopes from the server's last challenge."""
    client_secret: str | None = field(default=None, repr=False)
    """The secret of a client that registered itself; other secrets are in the entry."""
    token_endpoint_auth_method: str | None = None
    signed_in_at: float = 0.0
    account: str | None = None
    """The account name that the issuer reported, for lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginFacts:
    """A login in lists; ``signed_in_at`` None means that this gateway cannot decrypt it."""

    owner: LoginOwner
    signed_in_at: float | None
    is_of_first_key: bool
    """Whether the current key sealed it. An older key that seals no login can be removed."""

    @property
    def signed_in_time(self) -> str | None:
        """Sign-in time, in UTC."""
        at = self.signed_in_at
        return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

    @property
    def shown(self) -> Mapping[str, str | None]:
        """Fields for the API and the command; missing values are None."""
        owner = self.owner
        return {
            "server_id": owner.server_id,
            "for": owner.login_for.value,
            "tenant_id": owner.tenant_id or None,
            "user_id": owner.user_id or None,
            "signed_in_at": self.signed_in_time,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLogin:
    """A removed login; ``not_revoked`` is the reason why its tokens can still be valid."""

    not_revoked: str | None = None


class LoginAccess(Protocol):
    """Lists and ends stored logins. All methods raise LoginsUnavailable."""

    def is_of_users(self, server_id: str) -> bool:
        """Return whether users sign in to this server individually."""
        ...

    async def logins_of(
        self, tenant_id: str, *, user_id: str | None = None
    ) -> Sequence[LoginFacts]:
        """Return the logins of a tenant or of one user; "" means those of the deployment."""
        ...

    async def sign_out(self, owner: LoginOwner) -> bool:
        """Revoke and remove a login; return whether it existed."""
        ...


PENDING_S = 600.0
"""Lifetime of a sign-in URL in seconds."""

MAX_PENDING = 2_000
"""Maximum number of pending sign-ins, of all tenants."""


class SignInRefused(Exception):
    """The sign-in cannot continue; the message is for the user, without secrets."""

    status = 403


class SignInUnknown(SignInRefused):
    """The sign-in is unknown, expired or used."""

    status = 404


class SignInFailed(SignInRefused):
    """An issuer or the login store failed or sent an invalid response."""

    status = 502


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserRedirect:
    """The browser's next URL; ``cookie`` binds the response to this browser."""

    url: str = field(repr=False)
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The details that a user confirms before the connection is made."""

    server_id: str
    server_url: str
    tenant_id: str
    user_id: str
    scopes: tuple[str, ...]
    origin: str
    """Scheme, host and port of the next URL."""
    issuer: str
    """The issuer that receives the authorization code; its host can differ from ``origin``."""
    nonce: str = field(repr=False)
    csrf: str = field(repr=False)
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """The end of a sign-in; ``problem`` is a sentence for the user, empty after success."""

    server_id: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A sign-in that has ended; ``cookie`` gives this browser access to the result.

    ``problem`` is as in Closing.
    """

    owner: LoginOwner
    problem: str
    cookie: str = field(repr=False)


class SignInPages(Protocol):
    """The logic behind the sign-in pages.

    All methods raise SignInRefused, ``start`` and ``confirm`` also SignInUnknown. ``cookie`` is the
    browser's cookie, None if missing.
    """

    async def start(self, nonce: str) -> BrowserRedirect:
        """Begin with the user's sign-in at the issuer of callers' tokens."""
        ...

    async def confirm(self, nonce: str, csrf: str, cookie: str | None) -> BrowserRedirect:
        """Continue to the server's issuer after the user's confirmation."""
        ...

    async def answer(self, answer: dict[str, str], cookie: str | None) -> Confirmation | Closed:
        """Return the next step after an issuer's response."""
        ...

    async def closing(self, cookie: str | None) -> Closing | None:
        """Return the result of this browser's sign-in, once."""
        ...


class OwnSignIn(Protocol):
    """Signs a browser in at the issuer of callers' tokens; all methods raise SignInRefused."""

    async def begin(self) -> BrowserRedirect:
        """Return the next URL; the browser must return ``cookie``."""
        ...

    async def finish(self, answer: dict[str, str], cookie: str | None) -> str:
        """Return the token that the issuer issued for its response."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedSignIn:
    """A sign-in URL and its remaining lifetime in seconds."""

    url: str = field(repr=False)
    expires_in_s: int


class SignInOffers(Protocol):
    """Provides the URLs at which users sign in."""

    async def with_address(self, error: LoginRequired, caller: Caller) -> LoginRequired:
        """Return the error with this caller's sign-in URL, if one exists."""
        ...

    async def offer(self, owner: LoginOwner, scopes: tuple[str, ...]) -> OfferedSignIn:
        """Return the URL of the owner's pending sign-in, or of a new one.

        Raises LoginsUnavailable.
        """
        ...
