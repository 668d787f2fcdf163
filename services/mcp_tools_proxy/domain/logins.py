"""Stored logins: whose they are, and to what they are bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from mcp_tools_proxy.domain.server_auth import Grant, LoginFor


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
