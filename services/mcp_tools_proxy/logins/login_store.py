"""What a store of logins promises: one for each owner, changed only by who knows its version."""

import secrets
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.domain.logins import LoginBinding, LoginOwner

LEASE_S = 30.0
"""Seconds after which a lease of a replica that was lost ends."""

LEASE_WAIT_S = LEASE_S + 5.0
"""Seconds that a renewal waits for another one: longer than the lease of a lost replica."""

UNREADABLE = "the login for this server cannot be used now; try again later"
"""What callers read where the store fails; the reason is for records."""

BUSY = "the login for this server is being renewed; try again in a few seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogin:
    """A login as a store has it: sealed, and to what it is bound in the clear.

    The binding in the clear is for a login that its entry does not fit any more: it is revoked
    where it came from. ``LoginSealer`` opens the login with that very binding only.
    """

    owner: LoginOwner
    binding: LoginBinding
    sealed: bytes = field(repr=False)
    version: str
    """Another one after each write, also than those of a login that was removed."""
    refresh_sent: bool = False
    """Whether its refresh token is on the way, or was when the gateway that sent it was killed.

    It is never sent a second time: an issuer takes that for a theft, and revokes the login.
    """


class LoginStore(Protocol):
    """Logins of owners. Each method raises LoginsUnavailable while the store does not work.

    A refresh goes: ``lease``; if ``refresh_sent``, the login is lost, but for a late answer; else
    ``replace`` with ``refresh_sent`` before the token is sent; ``replace`` with the new login, or
    with the old one where the issuer certainly has not used the token.
    """

    async def find(self, owner: LoginOwner) -> StoredLogin | None:
        """Return the login of an owner, None where there is none."""

    async def put(self, owner: LoginOwner, binding: LoginBinding, sealed: bytes) -> StoredLogin:
        """Write the login of a new sign-in in place of any other one of its owner.

        Raises QuotaExceeded where the store has a quota; logins of the deployment have none.
        """

    async def replace(
        self, stored: StoredLogin, sealed: bytes, *, refresh_sent: bool = False
    ) -> StoredLogin | None:
        """Write a login in place of ``stored``; None, and nothing, if that is no longer there.

        Raises QuotaExceeded as ``put`` does, if the login is larger than before: an issuer or a
        server could let stored logins grow, 64 kB each.
        """

    async def remove(self, stored: StoredLogin) -> bool:
        """Remove a login; False, and nothing, if ``stored`` is no longer there."""

    async def owners(self, tenant_id: str, *, server_id: str | None = None) -> Sequence[LoginOwner]:
        """Return whose logins there are: of one tenant, or with "" those of the deployment."""

    def lease(
        self, owner: LoginOwner, *, wait_s: float = LEASE_WAIT_S
    ) -> AbstractAsyncContextManager[StoredLogin | None]:
        """Hold the only lease on a login, over all replicas, and return the login as it is now.

        Yields None where there is no login. Waits while another holds it; raises LoginsUnavailable
        after ``wait_s``. Nothing is locked that reads, ``put`` and ``remove`` would wait for: a
        holder that was too slow notices at its ``replace``.
        """


def is_growing(stored: StoredLogin, newer: StoredLogin) -> bool:
    """Return whether a tenant's login becomes larger by a change."""
    return bool(stored.owner.tenant_id) and len(newer.sealed) > len(stored.sealed)


def new_version() -> str:
    """Return a version that no login has had."""
    return secrets.token_hex(16)


def sorted_owners(
    owners: Iterable[LoginOwner], tenant_id: str, server_id: str | None
) -> Sequence[LoginOwner]:
    """Return those of one tenant, and of one server unless that is None, by server and user."""
    return sorted(
        (
            owner
            for owner in owners
            if owner.tenant_id == tenant_id and server_id in (None, owner.server_id)
        ),
        key=lambda owner: (owner.server_id, owner.user_issuer, owner.user_id),
    )
