"""Stored logins: whose they are, to what they are bound, and the pages by which users sign in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import LoginRequired
from mcp_tools_proxy.domain.server import Grant, LoginFor


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOwner:
    """In whose name somebody has signed in to a server; unused fields are empty.

    A user is one of a tenant, and of the issuer of the JWTs that prove who it is: another issuer
    may have a user of the same id.
    """

    server_id: str
    login_for: LoginFor
    tenant_id: str = ""
    user_id: str = ""
    user_issuer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginBinding:
    """What a login is good for; an entry that says otherwise must not use it."""

    resource: str
    issuer: str
    client_id: str
    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The tokens of a login, and the client that got them.

    Times are seconds since 1970.
    """

    owner: LoginOwner
    binding: LoginBinding
    access_token: str = field(repr=False)
    expires_at: float | None
    """None where the issuer did not say."""
    refresh_token: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    demanded: tuple[str, ...] = ()
    """The scopes that the server wanted last and that the login lacks."""
    client_secret: str | None = field(default=None, repr=False)
    """The secret of a client that registered itself; else the entry has it."""
    token_endpoint_auth_method: str | None = None
    signed_in_at: float = 0.0
    account: str | None = None
    """Who signed in, as the issuer calls it, for lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginFacts:
    """What a list shows of a login; a time of None is of one that this gateway cannot open."""

    owner: LoginOwner
    signed_in_at: float | None
    is_of_first_key: bool
    """Whether the key for new logins has sealed it; an older key that seals none can go."""

    @property
    def signed_in_time(self) -> str | None:
        """When it was made, in UTC."""
        at = self.signed_in_at
        return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

    @property
    def shown(self) -> Mapping[str, str | None]:
        """What the API and the command show of it, with None for what it does not have."""
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
    """A login that was forgotten; ``not_revoked`` is why its issuer may still accept its tokens."""

    not_revoked: str | None = None


class LoginAccess(Protocol):
    """The stored logins, for lists and to end them. Each method raises LoginsUnavailable."""

    def is_of_users(self, server_id: str) -> bool:
        """Return whether each user signs in to this server herself."""
        ...

    async def logins_of(
        self, tenant_id: str, *, user_id: str | None = None
    ) -> Sequence[LoginFacts]:
        """Return the logins of a tenant, of "" those of the deployment, or those of one user."""
        ...

    async def sign_out(self, owner: LoginOwner) -> bool:
        """Revoke and forget a login; return whether there was one."""
        ...


PENDING_S = 600.0
"""Seconds for which the address of a sign-in is good."""

MAX_PENDING = 2_000
"""Sign-ins that may be pending at once, of all tenants."""


class SignInRefused(Exception):
    """A page that cannot go on; the message is a sentence for the user, without a secret."""

    status = 403


class SignInUnknown(SignInRefused):
    """No such sign-in is pending: its time is over, or it was used."""

    status = 404


class SignInFailed(SignInRefused):
    """An issuer, or our own store, does not work, or says what cannot be used."""

    status = 502


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserRedirect:
    """Where the browser goes next; ``cookie`` binds what comes back to this browser."""

    url: str = field(repr=False)
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What a user is shown before anything is connected."""

    server_id: str
    server_url: str
    tenant_id: str
    user_id: str
    scopes: tuple[str, ...]
    origin: str
    """Scheme, host and port that the browser goes to next."""
    issuer: str
    """Who is given what the browser comes back with; not always of that host."""
    nonce: str = field(repr=False)
    csrf: str = field(repr=False)
    cookie: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a sign-in has ended; ``problem`` is a sentence for the user, empty if all went well."""

    server_id: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A sign-in that has ended; by ``cookie`` this browser is shown how.

    ``problem`` is as in Closing.
    """

    owner: LoginOwner
    problem: str
    cookie: str = field(repr=False)


class SignInPages(Protocol):
    """What is behind the pages. Each method raises SignInRefused, the first two SignInUnknown too.

    ``cookie`` is what the browser sent, None if it sent none.
    """

    async def start(self, nonce: str) -> BrowserRedirect:
        """Begin: the user signs in at the issuer of callers' tokens first."""
        ...

    async def confirm(self, nonce: str, csrf: str, cookie: str | None) -> BrowserRedirect:
        """Go on to the server's issuer, as the user has confirmed."""
        ...

    async def answer(self, answer: dict[str, str], cookie: str | None) -> Confirmation | Closed:
        """Return what follows an issuer's answer."""
        ...

    async def closing(self, cookie: str | None) -> Closing | None:
        """Return how the sign-in of this browser has ended, once."""
        ...


class OwnSignIn(Protocol):
    """Signs a browser in at the issuer of callers' tokens; each method raises SignInRefused."""

    async def begin(self) -> BrowserRedirect:
        """Return where the browser goes; ``cookie`` is what it has to bring back."""
        ...

    async def finish(self, answer: dict[str, str], cookie: str | None) -> str:
        """Return the token that the issuer gave for its answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedSignIn:
    """The address of a sign-in, and for how many seconds it is good."""

    url: str = field(repr=False)
    expires_in_s: int


class SignInOffers(Protocol):
    """Has the addresses at which users sign in."""

    async def with_address(self, error: LoginRequired, caller: Caller) -> LoginRequired:
        """Return the error with the address where this caller can sign in, if there is one."""
        ...

    async def offer(self, owner: LoginOwner, scopes: tuple[str, ...]) -> OfferedSignIn:
        """Return the address of an owner's pending sign-in, a new one if none is pending.

        Raises LoginsUnavailable.
        """
        ...
