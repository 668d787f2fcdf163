"""Sign-ins of users by the gateway's own pages: what the pages are given, and what may go wrong."""

from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import LoginRequired
from mcp_tools_proxy.domain.logins import LoginOwner

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
