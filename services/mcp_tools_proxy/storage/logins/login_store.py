"""What a store of logins promises: one for each owner, changed only by who knows its version.

With what all stores have in common: the queue for leases, and owners and bindings as text.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol
from weakref import WeakValueDictionary

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.logins import LoginBinding, LoginOwner
from mcp_tools_proxy.domain.server import Grant, LoginFor

LEASE_S = 30.0
"""Seconds after which a lease of a replica that was lost ends."""

LEASE_WAIT_S = LEASE_S + 5.0
"""Seconds that a renewal waits for another one: longer than the lease of a lost replica."""

UNREADABLE = "the login for this server cannot be used now; try again later"
"""What callers read where the store fails; the reason is for records."""

BUSY = "the login for this server is being renewed; try again in a few seconds"

POLL_S = 0.05
"""Seconds between two attempts to get a lease."""

_PURPOSE = "mcp-tools-proxy login, 1"
"""Stands first in what a login is sealed with: nothing else that is ever sealed begins so."""


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


class LeaseQueue:
    """The leases that one store waits for, by the keys of their owners.

    Within one process one waits at a time, so that few poll what replicas share.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(
        self, key: bytes, attempt: Callable[[], Awaitable[bool]], *, wait_s: float
    ) -> AsyncIterator[None]:
        """Call ``attempt`` until it returns True, for ``wait_s``; keep others of this store out.

        Raises LoginsUnavailable if it never does.
        """
        lock = self._locks.get(key)
        if lock is None:
            self._locks[key] = lock = asyncio.Lock()
        ends = asyncio.get_running_loop().time() + wait_s
        try:
            async with asyncio.timeout(wait_s):
                await lock.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            await _until(attempt, ends)
            yield
        finally:
            lock.release()


async def _until(attempt: Callable[[], Awaitable[bool]], ends: float) -> None:
    while not await attempt():
        if asyncio.get_running_loop().time() >= ends:
            raise _busy()
        await asyncio.sleep(POLL_S)


def _busy() -> LoginsUnavailable:
    return LoginsUnavailable(BUSY, reason="another renewal of the login has not finished")


def owner_text(owner: LoginOwner) -> str:
    """Return an owner as text, another one for each owner. Raises ValueError for an invalid one.

    A user without a tenant would be kept among the logins of the deployment. The text is a JSON
    list, whose UTF-8 keeps lone surrogates as they are: escaped, two of them would be the same as
    the character that they are halves of.
    """
    of_deployment = owner.login_for is LoginFor.DEPLOYMENT
    if of_deployment == bool(owner.tenant_id):
        raise ValueError("a login has a tenant if it is not the deployment's, and only then")
    if (owner.login_for is LoginFor.USER) != bool(owner.user_id):
        raise ValueError("a login has a user if it is a user's, and only then")
    return _text_of(_owner_fields(owner))


def owner_key(owner: LoginOwner) -> bytes:
    """Return the 32 bytes by which the login of an owner is found."""
    return sha256(encoded(owner_text(owner))).digest()


def binding_text(binding: LoginBinding) -> str:
    """Return a binding as text."""
    return _text_of(_binding_fields(binding))


def sealed_with(owner: LoginOwner, binding: LoginBinding) -> bytes:
    """Return what a login is sealed together with: it opens with the same only."""
    owner_text(owner)
    return encoded(_text_of([_PURPOSE, *_owner_fields(owner), *_binding_fields(binding)]))


def encoded(text: str) -> bytes:
    """Return a text as bytes, whatever characters it has."""
    return text.encode("utf-8", "surrogatepass")


def decoded(content: bytes) -> str:
    """Return the text that ``encoded`` has made bytes of. Raises ValueError."""
    return content.decode("utf-8", "surrogatepass")


def owner_of_text(text: str) -> LoginOwner:
    """Return the owner that a text stands for. Raises ValueError."""
    server_id, login_for, tenant_id, user_id, user_issuer = _fields_of(text, 5)
    return LoginOwner(
        server_id=server_id,
        login_for=LoginFor(login_for),
        tenant_id=tenant_id,
        user_id=user_id,
        user_issuer=user_issuer,
    )


def binding_of_text(text: str) -> LoginBinding:
    """Return the binding that a text stands for. Raises ValueError."""
    resource, issuer, client_id, grant = _fields_of(text, 4)
    return LoginBinding(resource=resource, issuer=issuer, client_id=client_id, grant=Grant(grant))


def _owner_fields(owner: LoginOwner) -> list[str]:
    return [
        owner.server_id,
        owner.login_for.value,
        owner.tenant_id,
        owner.user_id,
        owner.user_issuer,
    ]


def _binding_fields(binding: LoginBinding) -> list[str]:
    return [binding.resource, binding.issuer, binding.client_id, binding.grant.value]


def _text_of(fields: Sequence[str]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _fields_of(text: str, count: int) -> list[str]:
    fields = json.loads(text)
    is_list = isinstance(fields, list) and len(fields) == count
    if not is_list or not all(isinstance(it, str) for it in fields):
        raise ValueError(f"not a list of {count} texts")
    return list(fields)
